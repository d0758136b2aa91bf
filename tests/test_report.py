import base64
import io
import itertools
import json
import re
import shutil
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.special import stdtrit

from symshare import groups
from symshare.records import Accuracy, VerdictRecord
from symshare.report import charts, pictures, sentences, write_report
from symshare.report.folder import Run
from symshare.report.networks import _known

from .synthetic_run import CASES, write_run

WIDTHS = (1280, 390)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE localhost , EXCLUDE 127.0.0.1",
]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, dict[str, Any]]]:
    """One report of every kind, written once, with the verdict it was made from."""
    made = {}
    for kind in CASES:
        folder = tmp_path_factory.mktemp(kind)
        verdict = write_run(folder, kind)
        made[kind] = (write_report(folder), verdict)
    return made


def pixels(picture: pictures.Picture) -> torch.Tensor:
    """The picture as [C, H, W], decoded by another library than the one that encoded it."""
    image_module = pytest.importorskip("PIL.Image")
    numpy = pytest.importorskip("numpy")
    data = base64.b64decode(picture.uri.removeprefix("data:image/png;base64,"))
    array = torch.tensor(numpy.array(image_module.open(io.BytesIO(data))))
    return array.unsqueeze(0) if array.ndim == 2 else array.permute(2, 0, 1)


@pytest.mark.parametrize("kind", CASES)
def test_the_page_stands_alone(reports: dict[str, tuple[Path, dict[str, Any]]], kind: str) -> None:
    page = reports[kind][0].read_text(encoding="utf-8")
    links = re.findall(r"""(?:src|href|action|data|poster)\s*=\s*["']([^"']*)""", page)
    assert links
    assert all(link.startswith(("data:", "#")) for link in links)
    assert not re.search(r"@import|url\(|<script|https?://|None\b|nan\b|Undefined", page)
    assert len(page) < 1_000_000


def test_what_was_learned_from_the_images_is_shown_layer_by_layer(
    reports: dict[str, tuple[Path, dict[str, Any]]],
) -> None:
    page = reports["group"][0].read_text(encoding="utf-8")
    section = page.partition('<section id="learned">')[2].partition("</section>")[0]
    assert 'data-layer="lifting" data-elements="4"' in section
    assert "4 elements; ratio 0.80 to 1.10; nearest 2e-09; 4.2 s" in section
    assert "an element at steps 0, 40, 90 and the last of its search" in section
    assert "Left as it was: its stack was learned before." in section
    strips = re.findall(r'class="way" src="([^"]*)" alt="([^"]*)" width="(\d+)"', section)
    assert [alt for _, alt, _ in strips] == [
        f"element {i} of lifting, step by step" for i in (1, 2, 3)
    ]
    drawn = pixels(pictures.Picture(strips[0][0], "", 0, 0))[3]
    # Nine matrices of 3 x 3 positions, of which a ninth is opaque, and gaps between them.
    assert drawn.shape[1] == int(strips[0][2])
    assert (drawn > 0).float().mean() == pytest.approx(1 / 9 * 72 / 78, abs=0.01)
    assert '<section id="learned">' not in reports["none"][0].read_text(encoding="utf-8")


def test_a_damaged_record_of_what_was_learned_is_named(tmp_path: Path) -> None:
    write_run(tmp_path, "group")
    path = tmp_path / "runs" / "sinkhorn-seed0" / "learned.json"
    for content in ("{", '{"layers": [{"nome": "lifting"}], "steps": []}', '{"layers": []}'):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=r"learned\.json is damaged"):
            write_report(tmp_path)


def test_the_same_files_give_the_same_page_and_nothing_else(tmp_path: Path) -> None:
    write_run(tmp_path, "group")
    first = write_report(tmp_path).read_bytes()
    before = sorted(tmp_path.iterdir())
    assert write_report(tmp_path).read_bytes() == first
    assert sorted(tmp_path.iterdir()) == before


def test_a_failure_leaves_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path, "undecided")
    old = write_report(tmp_path).read_bytes()

    def full_disk(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.raises(OSError, match="No space"):
        write_report(tmp_path)
    assert (tmp_path / "report.html").read_bytes() == old
    assert not list(tmp_path.glob(".report*"))


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        pytest.param(None, FileNotFoundError, "run `symshare discover", id="missing"),
        pytest.param('{"schema": 2, ', ValueError, "is damaged; delete it", id="truncated"),
        pytest.param('{"schema": 3}', ValueError, "expected schema 2 .* got 3", id="newer"),
        pytest.param('{"schema": 1}', ValueError, "expected schema 2 .* got 1", id="older"),
        pytest.param("[]", ValueError, "is damaged; delete it", id="no object"),
        pytest.param('{"schema": 2}', ValueError, "VerdictRecord has no symshare", id="empty"),
    ],
)
def test_unreadable_verdict(
    tmp_path: Path, text: str | None, error: type[Exception], match: str
) -> None:
    if text is not None:
        (tmp_path / "verdict.json").write_text(text, encoding="utf-8")
    with pytest.raises(error, match=match):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_missing_parts_are_explained(tmp_path: Path) -> None:
    write_run(tmp_path, "undecided")
    verdict = VerdictRecord.read(tmp_path / "verdict.json")
    elements = tuple(
        replace(e, kernel_permutation=None, kernel_shape=None) for e in verdict.elements
    )
    replace(verdict, elements=elements).write(tmp_path / "verdict.json")
    for name in ("examples.safetensors", "config.yaml"):
        (tmp_path / name).unlink()
    page = write_report(tmp_path).read_text(encoding="utf-8")
    for sentence in (
        "No example images were kept",
        "it has no map of kernels",
        "No network was trained in this run",
        "there are no kernels to show",
        "there is no stack to show",
        "No network with a learned measure",
        "there is no curve to draw",
        "No config.yaml",
    ):
        assert sentence in page


def test_unfinished_and_diverged_runs_are_shown_as_such(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    write_run(tmp_path, "group")
    (tmp_path / "runs" / "cnn-seed2" / "result.json").unlink()
    (tmp_path / "runs" / "something else").mkdir()
    path = tmp_path / "runs" / "sinkhorn-seed0" / "representations.safetensors"
    tensors = load_file(path)
    tensors["lift.R"][1, 0, 0] = float("nan")
    save_file(tensors, path, metadata={"names": "[]"})
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "not finished" in page
    assert "not finite are drawn as 0" in page


def test_names_from_the_data_are_escaped(tmp_path: Path) -> None:
    verdict = write_run(tmp_path, "undecided")
    verdict["classes"] = ['<img src="x" onerror="alert(1)">'] * 10
    verdict["sentence"] = "<b>bold</b> & more"
    (tmp_path / "verdict.json").write_text(json.dumps(verdict), encoding="utf-8")
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert 'src="x"' not in page
    assert "&lt;b&gt;bold&lt;/b&gt; &amp; more" in page


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_png_survives_another_decoder(channels: int) -> None:
    values = torch.randint(0, 256, (7, 5, channels), dtype=torch.uint8)
    uri = "data:image/png;base64," + base64.b64encode(pictures.png(values)).decode()
    torch.testing.assert_close(
        pixels(pictures.Picture(uri, "", 5, 7)), values.permute(2, 0, 1), rtol=0, atol=0
    )


@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_is_drawn_as_it_is(channels: int) -> None:
    values = torch.randint(0, 256, (channels, 6, 6)).float()
    drawn = pixels(pictures.image(values, (0.0, 255.0), "an image"))
    torch.testing.assert_close(drawn.float(), values, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        pytest.param((1, 8, 8), (64, 64), id="square"),
        pytest.param((3, 20, 60), (64, 21), id="oblong"),
        pytest.param((1, 300, 200), (43, 64), id="large"),
        pytest.param((1, 9, 9, 9), (64, 64), id="volume"),
        pytest.param((1, 200, 2), (12, 64), id="sliver"),
    ],
)
def test_pictures_keep_their_proportions(shape: tuple[int, ...], size: tuple[int, int]) -> None:
    picture = pictures.image(torch.rand(shape), (0.0, 1.0), "noise")
    assert (picture.width, picture.height) == size
    assert max(pixels(picture).shape[1:]) <= 64


def test_a_signal_is_drawn_as_a_trace_for_each_channel() -> None:
    rising = torch.stack([torch.linspace(0, 1, 5), torch.zeros(5)])
    drawn = pictures.image(rising.flip(1), (0.0, 1.0), "back to front")
    svg = base64.b64decode(drawn.uri.removeprefix("data:image/svg+xml;base64,")).decode()
    first, second = (
        [float(point.split(",")[1]) for point in line.split()]
        for line in re.findall('points="([^"]*)"', svg)
    )
    assert first == sorted(first), "y grows downwards, so the reversed signal falls"
    assert len(set(second)) == 1
    assert pictures.TRACES[1] in svg


def test_a_volume_is_drawn_as_slices_through_its_middle() -> None:
    volume = torch.arange(27.0).reshape(1, 3, 3, 3)
    drawn = pixels(pictures.image(volume, (0.0, 26.0), "slices"))[0].float() * 26 / 255
    torch.testing.assert_close(drawn[:3, :3], volume[0, 1], atol=0.1, rtol=0)
    torch.testing.assert_close(drawn[4:, :3], volume[0, :, 1], atol=0.1, rtol=0)
    torch.testing.assert_close(drawn[:3, 4:], volume[0, :, :, 1].T, atol=0.1, rtol=0)


def test_zero_is_transparent_and_sign_is_colour() -> None:
    kernels = torch.tensor([-1.0, 0.0, 0.5, 1.0]).reshape(1, 1, 2, 2)
    [(name, strip)] = pictures.kernel_rows(kernels, ["id"], cell=1)
    drawn = pixels(strip)
    assert name == "id"
    assert drawn[3].flatten().tolist() == [255, 0, 128, 255]
    assert tuple(drawn[:3, 0, 0].tolist()) == pictures.NEGATIVE
    assert tuple(drawn[:3, 1, 1].tolist()) == pictures.POSITIVE


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([-0.01, 0.02, 4.0], id="usual"),
        pytest.param([], id="nothing measured"),
        pytest.param([-3.0, 900.0], id="wide"),
        pytest.param([0.001], id="narrow"),
    ],
)
def test_loss_axis_is_monotone_and_its_ticks_do_not_collide(values: list[float]) -> None:
    axis = charts.loss_axis(values, 0.05)
    positions = [axis.at(x) for x in sorted({*values, 0.0, 0.05})]
    assert positions == sorted(positions)
    assert 0 < positions[0] < positions[-1] < 100
    at = [position for position, _ in axis.ticks]
    assert all(later - earlier >= 11 for earlier, later in itertools.pairwise(at))


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([0.01, 0.95], id="usual"),
        pytest.param([], id="nothing measured"),
        pytest.param([-0.7, 1.4], id="few images"),
    ],
)
def test_scale_of_changes_is_even_and_reaches_every_value(values: list[float]) -> None:
    scale = charts.change_scale(values, 0.05, 0.1, "images")
    at = scale.axis.at
    assert scale.axis.low <= min([-0.1, *values])
    assert scale.axis.high >= max([1.0, *values])
    assert at(0.5) - at(0.25) == pytest.approx(at(0.75) - at(0.5), abs=0.02)
    assert (scale.bound_at, scale.looser_at) == (at(0.05), at(0.1))
    positions = [position for position, _ in scale.axis.ticks]
    assert all(later - earlier >= 11 for earlier, later in itertools.pairwise(positions))


def test_a_bound_that_lies_outside_is_not_drawn() -> None:
    assert charts.loss_scale([], 0.0, 0.0).looser_at is None
    assert charts.change_scale([0.3], 0.05, 1.2, "images").looser_at is None


def test_curves_fall_back_to_epochs() -> None:
    rows = [{"epoch": str(e), "step": "", "val_accuracy": str(0.5 + e / 10)} for e in range(4)]
    rows.insert(2, {"epoch": "1", "step": "", "val_accuracy": ""})
    drawn = charts.curves([Run("cnn", 0, None, "", rows, {}, (), None, {})])
    assert drawn is not None
    assert drawn.horizontal == "epoch"
    points = [tuple(map(float, point.split(","))) for point in drawn.lines[0].path.split()]
    assert len(points) == 4
    assert points == sorted(points)
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)


def test_welch_by_its_defining_equations() -> None:
    found, cnn = [0.91, 0.93, 0.92, 0.94], [0.85, 0.90, 0.86]
    parts = [statistics.variance(values) / len(values) for values in (found, cnn)]
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 3 + parts[1] ** 2 / 2)
    reach = float(stdtrit(freedom, 0.975)) * sum(parts) ** 0.5
    difference = statistics.fmean(found) - statistics.fmean(cnn)
    assert sentences.welch(found, cnn) == pytest.approx((difference - reach, difference + reach))


def test_welch_where_one_network_always_scores_alike() -> None:
    low, high = sentences.welch([0.9, 0.9, 0.9], [0.8, 0.82, 0.81])
    reach = float(stdtrit(2, 0.975)) * statistics.stdev([0.8, 0.82, 0.81]) / 3**0.5
    assert (low, high) == pytest.approx((0.09 - reach, 0.09 + reach))


@pytest.fixture
def verdict(tmp_path: Path) -> VerdictRecord:
    """A record in which C4 was found."""
    write_run(tmp_path, "group")
    return VerdictRecord.read(tmp_path / "verdict.json")


def _accuracy(values: tuple[float, ...]) -> Accuracy:
    return Accuracy(statistics.fmean(values), None, len(values), values, 5, 0)


@pytest.mark.parametrize(
    ("found", "cnn", "answer", "part"),
    [
        pytest.param((0.93, 0.94, 0.92), (0.85, 0.86, 0.84), "Yes", "+8.0 percentage", id="yes"),
        pytest.param((0.85, 0.86, 0.84), (0.93, 0.94, 0.92), "No, it costs", "more err", id="no"),
        pytest.param((0.85, 0.95, 0.90), (0.84, 0.94, 0.89), "Not clearly", "Welch", id="unclear"),
        pytest.param((0.9,), (0.8,), "Not clear from a single", "50\xa0% fewer", id="one seed"),
        pytest.param(None, (0.8, 0.9), "Not measured", "not both trained", id="not trained"),
        pytest.param((0.9, 0.9), (0.8, 0.8), "Not clear from seeds", "+10.0", id="no spread"),
        pytest.param((0.9, 0.8), (1.0, 1.0), "Not clearly", "points (95", id="nothing to mend"),
    ],
)
def test_does_it_help(
    verdict: VerdictRecord,
    found: tuple[float, ...] | None,
    cnn: tuple[float, ...],
    answer: str,
    part: str,
) -> None:
    accuracy = {"cnn": _accuracy(cnn), "found": _accuracy(found) if found else None}
    short, long = sentences.help_answer(replace(verdict, accuracy=accuracy))
    assert short.startswith(answer)
    assert part in long


def test_says_that_a_network_cannot_be_built(verdict: VerdictRecord) -> None:
    accuracy = {"cnn": _accuracy((0.9,)), "found": None}
    alone = replace(verdict, planned=("cnn",), accuracy=accuracy)
    short, long = sentences.help_answer(alone)
    assert (short, "takes up where it stopped" in long) == ("Not measured", False)
    assert sentences.missing_accuracy(alone, "found") == "no such network exists here"


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        pytest.param("group", "G-CNN with the elements that were found", id="group"),
        pytest.param("approximate", "G-CNN with the approximate group", id="approximate"),
        pytest.param("partial", "G-CNN with the clearest partial element", id="partial"),
    ],
)
def test_only_what_was_found_is_called_found(
    reports: dict[str, tuple[Path, dict[str, Any]]], kind: str, label: str
) -> None:
    page = reports[kind][0].read_text(encoding="utf-8")
    assert label in page
    assert ("</span><b>Found</b>" in page) == (kind == "group")


def test_says_what_may_be_larger_than_what_was_shown(
    reports: dict[str, tuple[Path, dict[str, Any]]],
) -> None:
    texts = {
        kind: re.sub(r"<[^>]*>", " ", path.read_text(encoding="utf-8"))
        for kind, (path, _) in reports.items()
    }
    words = {kind: " ".join(text.split()) for kind, text in texts.items()}
    assert "symmetry group C4 found" in words["group"]
    assert "symmetry group contains Z36 found" in words["many"]
    assert "symmetry group C2, approximately not excluded C2xC2" in words["approximate"]
    assert "not excluded C4" in words["too few"]
    assert "independent samples 203" in words["too few"]
    assert "independent samples" not in words["group"]


def test_names_the_classes_that_break_and_those_left_open(verdict: VerdictRecord) -> None:
    some, letters = tuple(range(9)), "abcdefghijklmnop"
    assert sentences.broken_classes(some, letters) == "a, b, c, d, e, f, g, h, i"
    assert sentences.broken_classes(range(14), letters).endswith(", k, l and 2 more")
    assert sentences.broken_classes((), letters) == ""
    assert sentences.open_classes(some, letters) == "9 of 16"
    assert sentences.open_classes(some[:8], letters) == "a, b, c, d, e, f, g, h"
    assert "each of the 10 classes" in sentences.told_apart(verdict)
    blind = replace(verdict, power=replace(verdict.power, told_apart=(0, *range(2, 9))))
    assert "tells 8 of 10 classes" in sentences.told_apart(blind)
    assert "other class: 1, 9." in sentences.told_apart(blind)
    blind = replace(verdict, power=replace(verdict.power, told_apart=()))
    assert "tells none of the 10 classes" in sentences.told_apart(blind)


@pytest.mark.parametrize("side", [3, 5, 7])
def test_knows_candidates_in_stacks_of_every_size(verdict: VerdictRecord, side: int) -> None:
    square = groups.dihedral(4)
    some = verdict.elements[0]
    elements = [
        replace(some, name=name, kernel_permutation=tuple(permutation))
        for name, permutation in zip(square.names, square.permutation(3).tolist(), strict=True)
    ]
    named = [_known(elements, p) for p in square.permutation(side).tolist()]
    assert named == list(square.names)
    shifted = torch.arange(side**2).roll(1).tolist()
    assert _known(elements, shifted) is None
    assert _known(elements[:2], square.permutation(side)[2].tolist()) is None


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("chromium is not installed; `apt-get install chromium fonts-dejavu-core`")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=executable, headless=True, args=FLAGS)
        yield opened
        opened.close()


# Text that its box cuts off, boxes wider than their place, and anything outside the window.
CLIPPED = """
() => {
  const wrong = [];
  const scrolls = element => element.closest('.scroll') !== null;
  for (const element of document.querySelectorAll('body *')) {
    if (element.closest('svg') || scrolls(element) || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    const what = element.tagName + '.' + element.className + ' ' + element.textContent.slice(0, 40);
    if (box.left < -0.5 || box.right > innerWidth + 0.5) wrong.push('outside: ' + what);
    if (style.display === 'inline') continue;
    if (element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0)
      wrong.push('too wide: ' + what);
    if (style.overflowY === 'hidden' && element.scrollHeight > element.clientHeight + 1)
      wrong.push('cut off: ' + what);
  }
  for (const text of document.querySelectorAll('svg text')) {
    if (!text.checkVisibility()) continue;
    const box = text.getBoundingClientRect();
    const home = text.closest('section').getBoundingClientRect();
    if (box.left < home.left || box.right > home.right || box.bottom > home.bottom)
      wrong.push('label outside: ' + text.textContent);
  }
  return wrong;
}
"""

# Labels of one chart that lie on one another.
COLLISIONS = """
() => [...document.querySelectorAll('svg')].flatMap(svg => {
  const texts = [...svg.querySelectorAll(':scope > text')].filter(t => t.checkVisibility());
  const boxes = texts.map(t => t.getBoundingClientRect());
  return texts.flatMap((t, i) => texts.slice(i + 1).filter((_, j) => {
    const a = boxes[i], b = boxes[i + 1 + j];
    const across = a.left < b.right - 1 && b.left < a.right - 1;
    return across && a.top < b.bottom - 2 && b.top < a.bottom - 2;
  }).map(u => t.textContent + ' on ' + u.textContent));
})
"""

UNLABELLED = """
() => [...document.querySelectorAll('img, svg')].filter(picture => {
  if (picture.tagName === 'IMG') return !picture.alt || !picture.complete || !picture.naturalWidth;
  return !picture.parentElement.closest('svg') && !picture.getAttribute('aria-label');
}).map(picture => picture.outerHTML.slice(0, 80))
"""

# Every text on its background, by the contrast formula of WCAG 2.
FAINT = """
() => {
  const parse = c => (c.match(/[\\d.]+/g) || []).map(Number);
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const rgb = layers => {
    canvas.clearRect(0, 0, 1, 1);
    for (const layer of layers) { canvas.fillStyle = layer; canvas.fillRect(0, 0, 1, 1); }
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const light = c => [0.2126, 0.7152, 0.0722].reduce((sum, w, i) => {
    const v = c[i] / 255;
    return sum + w * (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  }, 0);
  const faint = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || element.closest('svg') || !element.checkVisibility()) continue;
    const backgrounds = [];
    for (let at = element; at; at = at.parentElement)
      backgrounds.unshift(getComputedStyle(at).backgroundColor);
    const behind = rgb(backgrounds), front = rgb([...backgrounds, getComputedStyle(element).color]);
    const [high, low] = [light(behind), light(front)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) faint.push(ratio.toFixed(2) + ' ' + element.textContent.slice(0, 30));
  }
  return faint;
}
"""


@pytest.mark.parametrize("kind", CASES)
def test_in_a_browser(
    reports: dict[str, tuple[Path, dict[str, Any]]], browser: Any, kind: str
) -> None:
    path, verdict = reports[kind]
    trouble: list[str] = []
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("requestfailed", lambda request: trouble.append(request.url))
    page.goto(path.as_uri())
    for opened in (False, True):
        if opened:
            page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 844})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(CLIPPED) == []
            assert page.evaluate(COLLISIONS) == []
    assert page.evaluate(UNLABELLED) == []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(FAINT) == []
    _check_numbers(page, verdict)
    context.close()
    assert trouble == []


# What acts on images and kernels is drawn; names and statuses are no JSON.
NOT_ON_CARDS = {
    *("name", "status", "source"),
    *("permutation", "shape", "kernel_permutation", "kernel_shape", "channels", "signs"),
}
ON_BODY = (
    *("group", "possible", "capped", "delta", "delta_approximate", "change"),
    *("change_approximate", "samples", "independent", "copies", "looks"),
)


def _key(attribute: str) -> str:
    """The field whose name a browser made into that of a data attribute."""
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", attribute)


def _check_power(page: Any, power: dict[str, Any]) -> None:
    """Every number of the power gate is the verdict's."""
    shown = page.eval_on_selector(".power", "element => ({...element.dataset})")
    assert {_key(name): json.loads(text) for name, text in shown.items()} == {
        name: value
        for name, value in power.items()
        if name not in ("reasons", "random_permutations")
    }
    rows = page.eval_on_selector_all(".random", "rows => rows.map(row => ({...row.dataset}))")
    assert [{_key(name): json.loads(text) for name, text in row.items()} for row in rows] == power[
        "random_permutations"
    ]
    for place, mean, bounds in (
        ("#random-losses", "excess_loss", "interval"),
        ("#random-changes", "change", "change_interval"),
    ):
        assert page.inner_text(place) == " · ".join(
            f"{sentences.decimals(r[mean])} {sentences.interval((r[bounds][0], r[bounds][1]))}"
            for r in power["random_permutations"]
        )
    half = " and ".join(sentences.decimals(change) for change in power["half_permutations"])
    assert page.inner_text("#half-changes") == half
    text = page.inner_text(".power")
    assert f"of {sentences.decimals(power['label_entropy'])}" in text
    assert sentences.decimals(power["knowable"]) in text
    assert sentences.percent(power["label_noise"]) in text


def _check_numbers(page: Any, verdict: dict[str, Any]) -> None:
    """Every number of the page, as data and as text, is the verdict's."""
    assert page.inner_text("h1") == verdict["sentence"]
    body = page.inner_text("body")
    assert all(caveat in body for caveat in verdict["caveats"])
    shown = page.eval_on_selector_all(
        ".card",
        """cards => cards.map(card => ({
            ...card.dataset,
            texts: Object.fromEntries(['loss', 'change'].map(test => [test, {
                mean: card.querySelector(`.${test} .mean`).innerText,
                bounds: card.querySelector(`.${test} .bounds`).innerText,
            }])),
            broken: card.querySelector('.broken-classes')?.innerText ?? '',
            open: card.querySelector('.open-classes')?.innerText ?? '',
        }))""",
    )
    by_name = {card["element"]: card for card in shown}
    assert len(shown) == len(verdict["elements"])
    for entry in verdict["elements"]:
        card = by_name[entry["name"]]
        assert card["status"] == entry["status"]
        data = {_key(name): value for name, value in card.items()}
        for field in entry.keys() - NOT_ON_CARDS:
            assert json.loads(data[field]) == entry[field]
        for test, mean, bounds in (
            ("loss", "excess_loss", "interval"),
            ("change", "change", "change_interval"),
        ):
            assert card["texts"][test] == {
                "mean": sentences.decimals(entry[mean]),
                "bounds": sentences.interval((entry[bounds][0], entry[bounds][1])),
            }
        classes = tuple(verdict["classes"])
        broken, left_open = tuple(entry["classes_broken"]), tuple(entry["classes_open"])
        assert card["broken"] == sentences.broken_classes(broken, classes)
        assert card["open"] == sentences.open_classes(left_open, classes)
    shared = page.eval_on_selector("body", "element => ({...element.dataset})")
    assert shared.pop("verdict") == verdict["verdict"]
    assert {_key(name): json.loads(text) for name, text in shared.items()} == {
        name: verdict[name] for name in ON_BODY
    }
    _check_power(page, verdict["power"])
    rows = page.eval_on_selector_all(
        "tr[data-model]",
        "rows => rows.map(row => ({...row.dataset, text: row.querySelector('.mean')?.innerText}))",
    )
    trained = {model: entry for model, entry in verdict["accuracy"].items() if entry}
    assert {row["model"] for row in rows if row["mean"] != "null"} == set(trained)
    for row in rows:
        if (entry := trained.get(row["model"])) is None:
            continue
        for field in ("mean", "std", "n", "values", "parameters"):
            assert json.loads(row[field]) == entry[field]
        assert row["text"] == sentences.percent(entry["mean"])
