"""Figures: the same bytes for the same input, readable text, and the numbers that were given."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from experiments import figures
from experiments.figures import style
from symshare import groups
from symshare.sinkhorn import project

C4, RING, CUBE = groups.rotations(4), groups.cyclic_shifts(12), groups.cube()
WORDS, _ = groups.cube_words()
GENERATOR = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


def learned(truth):
    """Doubly stochastic matrices that lean towards the true ones."""
    return project(5 * truth + normal(*truth.shape)).R


def share(count, known):
    c = normal(count, known).exp() ** 2
    return c / c.sum(1, keepdim=True)


def bench_rows():
    """Rows of `python -m benchmarks layer`, invented: 1 ms and 1 MiB for each element and side."""
    rows = [{"summary": True, "time_ratio_median": 1.0}]
    for G in (1, 4, 16):
        for k in (3, 5):
            for i, name in enumerate(("ours", "ours, baked", "loop over elements", "plain")):
                row = {"contender": name, "group_size": G, "kernel_size": k, "iqr": 2e-3, "n": 7}
                row |= {"device": "cpu: EPYC", "threads": 2}
                rows.append(row | {"measures": "time", "median": G * k * (i + 1) / 1e3})
                rows.append(row | {"measures": "memory", "median": G * k * 2.0**20})
                rows.append(row | {"measures": "time, ratio", "median": 1e9})
    return rows


ROWS = bench_rows()
R4, R12, T4 = learned(C4.lift(5)), learned(RING.lift(12)), C4.regular(3)
LEARNED4, CUBES = learned(T4), normal(24, 1, 27)
LINE, IMAGES, VOXELS = normal(7, 12), normal(12, 81).abs(), normal(5, 27)
MEASURE = torch.tensor([1 / 6] * 6 + [0.0] * 6)
SERIES = {
    "CNN": ([100, 1000, 60000], [0.7, 0.8, 0.9], [0.05, 0.02, 0.01]),
    "learned $C_4": (np.array([100, 1000]), torch.tensor([0.8, 0.9]), np.zeros(2)),
}
C_WORDS, C_CUBE, C_RING, C_LIFT = share(16, 64), share(16, 24), share(6, 12), share(4, 4)
KERNELS = normal(3, 4, 5, 5)
SEEN = [i for i, word in enumerate(WORDS) if word.endswith("z0")]

# Each figure: how it is drawn, and words that have to stand in it.
CASES = {
    "method": (
        lambda: figures.method(KERNELS[0, 0].flatten(), R4, (5, 5)),
        ["base kernel", "representations", "kernel stack", "g = 4"],
    ),
    "method of many": (
        lambda: figures.method(LINE[0], R12, (12,)),
        ["flattened", "g = 4", "\N{MIDLINE HORIZONTAL ELLIPSIS}"],
    ),
    "kernels": (lambda: figures.kernels(KERNELS, C4.names), ["channel", "1", "3", *C4.names]),
    "representations": (
        lambda: figures.representations(R4, C4.lift(5), C4.names),
        ["learned", "truth", *C4.names],
    ),
    "shift_twist": (
        lambda: figures.shift_twist(T4, [LEARNED4, T4], C4.names),
        ["truth", "layer 1", "layer 2", *C4.names],
    ),
    "samples on a line": (
        lambda: figures.samples(LINE, (12,), list("abcdefg"), "Invariant task"),
        ["Invariant task", *"abcdefg"],
    ),
    "samples in a plane": (
        lambda: figures.samples(IMAGES, (9, 9), [f"a long label, {i}" for i in range(12)]),
        ["value", "a long label, 7"],
    ),
    "samples in space": (
        lambda: figures.samples(VOXELS, (3, 3, 3), [0, 1, 2, 3, 4]),
        ["value", *"01234"],
    ),
    "matrices": (lambda: figures.matrices(R12, RING.names), ["entry", *RING.names]),
    "matrices and truth": (
        lambda: figures.matrices(R12, RING.names, RING.lift(12)),
        ["learned", "truth", *RING.names],
    ),
    "matrices with long names": (
        lambda: figures.matrices(
            R12[:2], ["a name that is longer than a tile", "another that is wider than a tile"]
        ),
        ["a name that is longer than a tile", "another that is wider than a tile"],
    ),
    "stack on a line": (
        lambda: figures.stack(LINE[:, None].expand(7, 2, 12), (12,), [*"abcdef", "price in $"]),
        ["kernel 1", "kernel 2", *"abcdef", "price in $"],
    ),
    "stack in space": (
        lambda: figures.stack(CUBES, (3, 3, 3), CUBE.names),
        ["weight", *CUBE.names],
    ),
    "coefficients of words": (
        lambda: figures.coefficients(C_WORDS, WORDS, SEEN, "64 words"),
        ["64 words", "in the data", "not in the data", "mean coefficient", *WORDS],
    ),
    "coefficients of the cube": (
        lambda: figures.coefficients(C_CUBE, CUBE.names, range(16)),
        ["known element", *CUBE.names],
    ),
    "coefficients and shares": (
        lambda: figures.coefficients(C_RING, RING.names, MEASURE, "Half of the shifts"),
        ["Half of the shifts", "share in the data", *RING.names],
    ),
    "coefficients of a layer": (
        lambda: figures.coefficients(C_LIFT, C4.names, {0, 1, 2, 3}),
        ["largest coefficient", *C4.names],
    ),
    "cost": (
        lambda: figures.cost(ROWS),
        [
            "Inference; 3 channels in, 16 out for each element; batch of 32, 100×100",
            "cpu: EPYC, 2 threads",
            "time: median and interquartile range of 7 rounds",
            "time at k = 5",
            "memory at |G| = 16",
            "loop over elements",
        ],
    ),
    "curves": (
        lambda: figures.curves(SERIES, "training images", "test accuracy", log=True),
        ["CNN", "learned $C_4", "training images", "test accuracy", "1000", "60000"],
    ),
}
ONE_OF_EACH = (
    "method of many",
    "kernels",
    "representations",
    "shift_twist",
    "samples in space",
    "matrices",
    "stack on a line",
    "coefficients and shares",
    "cost",
    "curves",
)
MAGIC = {"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}


@pytest.fixture(scope="module")
def drawn():
    """Each figure, drawn once."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = CASES[name][0]()
        return made[name]

    return get


def written(figure, path):
    figures.save(figure, path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def saved(drawn, tmp_path_factory):
    """Content of the file of a figure, saved once."""
    folder = tmp_path_factory.mktemp("figures")
    made = {}

    def get(name, form):
        if (name, form) not in made:
            made[name, form] = written(drawn(name), folder / f"figure.{form}")
        return made[name, form]

    return get


def texts(figure):
    """Words that are drawn and the boxes they fill [pixels]."""
    with style.applied():
        renderer = FigureCanvasAgg(figure).get_renderer()
        figure.draw(renderer)
        found = list(figure.texts) + [t for legend in figure.legends for t in legend.get_texts()]
        found += [figure._suptitle] if figure._suptitle else []
        for axes in figure.axes:
            found += axes.texts
            if axes.axison:
                found += [axes.title, axes.xaxis.label, axes.yaxis.label]
                for axis in (axes.xaxis, axes.yaxis):
                    low, high = sorted(axis.get_view_interval())
                    ticks = [t for t in axis.get_major_ticks() if low <= t.get_loc() <= high]
                    found += [label for t in ticks for label in (t.label1, t.label2)]
        found = dict.fromkeys(t for t in found if t.get_visible() and t.get_text().strip())
        return [(text, text.get_window_extent(renderer)) for text in found]


@pytest.mark.parametrize("name", CASES)
def test_text_is_large_enough_inside_the_figure_and_apart(drawn, name):
    figure = drawn(name)
    found = texts(figure)
    assert found
    width, height = figure.bbox.width, figure.bbox.height
    for text, box in found:
        assert text.get_fontsize() >= 8, text
        assert -1 <= box.x0 < box.x1 <= width + 1, text
        assert -1 <= box.y0 < box.y1 <= height + 1, text
    for (one, a), (other, b) in combinations(found, 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        down = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= 1 or down <= 1, (one, other)


@pytest.mark.parametrize("name", CASES)
def test_figures_are_as_wide_as_a_column_or_a_page_at_most(drawn, name):
    assert drawn(name).get_size_inches()[0] <= style.PAGE + 1e-9


@pytest.mark.parametrize("name", CASES)
def test_svg_holds_the_words(saved, name):
    root = ET.fromstring(saved(name, "svg"))
    words = {"".join(e.itertext()).strip() for e in root.iter() if e.tag.endswith("}text")}
    assert set(CASES[name][1]) <= words


@pytest.mark.parametrize("form", MAGIC)
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_every_figure_in_every_form_without_date_or_version(saved, name, form):
    content = saved(name, form)
    assert content.startswith(MAGIC[form])
    assert not re.search(rb"Date|Creator|Producer|Software|Matplotlib v", content)


@pytest.mark.parametrize(
    ("name", "form"),
    [(name, "svg") for name in ONE_OF_EACH]
    + [(name, form) for name in ("curves", "samples in space") for form in ("pdf", "png")],
)
def test_same_input_same_bytes_whatever_the_users_settings(saved, name, form, tmp_path):
    mine = {"font.size": 20, "axes.labelpad": 20, "svg.fonttype": "path", "image.origin": "lower"}
    expected = saved(name, form)
    with matplotlib.rc_context(mine):
        before = dict(matplotlib.rcParams)
        assert written(CASES[name][0](), tmp_path / f"again.{form}") == expected
        assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("name", ["curves", "coefficients and shares", "kernels"])
def test_one_figure_saved_again_has_the_same_bytes(drawn, saved, name, tmp_path):
    drawn(name).savefig(tmp_path / "by hand.png")
    assert written(drawn(name), tmp_path / "again.svg") == saved(name, "svg")


def test_other_input_other_bytes(saved, tmp_path):
    changed = figures.kernels(-KERNELS, C4.names)
    assert written(changed, tmp_path / "a.svg") != saved("kernels", "svg")


def test_figures_do_not_touch_pyplot(drawn):
    assert all(isinstance(drawn(name), Figure) for name in CASES)
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or not pyplot.get_fignums()


@pytest.mark.parametrize("suffix", [".jpg", ""])
def test_other_suffixes_are_refused(drawn, tmp_path, suffix):
    path = tmp_path / f"figure{suffix}"
    with pytest.raises(ValueError, match=r"save: expected a file name that ends in \.svg, \.pdf"):
        figures.save(drawn("kernels"), path)
    assert not path.exists()


def test_a_failed_save_leaves_the_old_file(drawn, tmp_path, monkeypatch):
    path = tmp_path / "figure.svg"
    before = written(drawn("kernels"), path)
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        figures.save(drawn("kernels"), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def tiles(figure):
    """Values of the tiles in a plane, in reading order."""
    at = {}
    for image in figure.axes[0].images:
        left, _, _, top = image.get_extent()
        at[round(top, 3), round(left, 3)] = np.asarray(image.get_array())
    return [at[key] for key in sorted(at)]


def test_matrices_are_drawn_learned_above_truth(drawn):
    expected = [*R12[:6], *RING.lift(12)[:6], *R12[6:], *RING.lift(12)[6:]]
    for tile, matrix in zip(tiles(drawn("matrices and truth")), expected, strict=True):
        np.testing.assert_allclose(tile, matrix)


def test_representations_have_one_row_learned_and_one_true(drawn):
    expected = [*R4, *C4.lift(5)]
    for tile, matrix in zip(tiles(drawn("representations")), expected, strict=True):
        np.testing.assert_allclose(tile, matrix)


def test_shift_twist_marks_off_the_blocks():
    figure = figures.shift_twist(T4, [])
    images = figure.axes[0].images
    assert len(images) == 4
    left, right, bottom, top = images[0].get_extent()
    segments = figure.axes[0].collections[0].get_segments()
    across = sorted({s[0][0] for s in segments if s[0][0] == s[1][0]})
    np.testing.assert_allclose((np.array(across) - left) / (right - left), [0.25, 0.5, 0.75])
    assert len(segments) == 6
    assert top < bottom


def test_kernels_are_elements_by_channels_each_channel_on_its_own_scale(drawn):
    found = tiles(drawn("kernels"))
    for g in range(4):
        for c in range(3):
            expected = KERNELS[c, g] / KERNELS[c].abs().max()
            np.testing.assert_allclose(found[3 * g + c], expected)


def test_of_many_channels_the_strongest_are_shown_in_order():
    W = torch.zeros(20, 1, 3, 3) + torch.arange(20).reshape(-1, 1, 1, 1)
    figure = figures.kernels(W, ["id"])
    words = [text.get_text() for text in figure.axes[0].texts]
    assert "channel (the 16 of 20 with the largest norm)" in words
    assert [w for w in words if w.isdecimal()] == [str(i) for i in range(5, 21)]


def test_the_method_multiplies_the_base_kernel(drawn):
    images = [np.asarray(image.get_array()) for image in drawn("method").axes[0].images]
    theta = KERNELS[0, 0].flatten()
    stacks = [image for image in images[2:] if image.shape == (5, 5)]
    np.testing.assert_allclose(images[0].ravel(), theta)
    for found, g in zip(stacks, range(4), strict=True):
        np.testing.assert_allclose(found.ravel(), R4[g] @ theta)


def polygons(figure):
    return [np.stack([p.vertices[:4] for p in c.get_paths()]) for c in figure.axes[0].collections]


def test_bars_of_a_signal_have_its_heights():
    figure = figures.samples(torch.tensor([[1.0, -2.0, 0.5]]), (3,), ["x"])
    bars = polygons(figure)[0]
    # y runs downwards: the first corner is on the line of zeros, the second at the value.
    rise = bars[:, 0, 1] - bars[:, 1, 1]
    np.testing.assert_allclose(rise / rise[0], [1, -2, 0.5])


def test_slices_of_a_volume_have_its_colours():
    values = torch.arange(27.0).reshape(1, 27)
    figure = figures.samples(values, (3, 3, 3), ["x"])
    cells = figure.axes[0].collections[0]
    darkness = -cells.get_facecolor()[:, :3].sum(1)
    assert (np.diff(darkness) > 0).all()
    y = polygons(figure)[0][:, :, 1].mean(1).reshape(3, 9)
    assert all(upper.max() < lower.min() for upper, lower in pairwise(y))


def bars(figure):
    return [patch for axes in figure.axes for patch in axes.patches]


def test_coefficients_are_the_largest_and_the_mean(drawn):
    figure = drawn("coefficients of words")
    heights = [bar.get_height() for bar in bars(figure)]
    np.testing.assert_allclose(heights, C_WORDS.amax(0))
    dashes = [s[0][1] for axes in figure.axes for s in axes.collections[0].get_segments()]
    np.testing.assert_allclose(dashes, C_WORDS.mean(0))


def test_true_elements_have_their_own_colour(drawn):
    colours = [to_hex(bar.get_facecolor()) for bar in bars(drawn("coefficients of words"))]
    true = {colours[i] for i in SEEN}
    others = {colours[i] for i in range(64) if i not in SEEN}
    assert len(true) == len(others) == 1
    assert true != others


def test_shares_are_marked_where_elements_occur(drawn):
    line = drawn("coefficients and shares").axes[0].lines[0]
    assert line.get_xdata().tolist() == list(range(6))
    np.testing.assert_allclose(line.get_ydata(), MEASURE[:6])


def test_legend_names_only_what_is_there(drawn):
    words = [text.get_text() for text in drawn("coefficients of a layer").legends[0].get_texts()]
    assert words == ["in the data", "mean coefficient"]


def test_cost_has_four_panels_in_milliseconds_and_mebibytes(drawn):
    axes = drawn("cost").axes
    against = [(16 * np.array([3, 5]), [3, 5]), (5 * np.array([1, 4, 16]), [1, 4, 16])]
    for panel, scale in zip(axes, ("time", "time", "memory", "memory"), strict=True):
        values, x = against[panel.get_xlabel() == "|G|"]
        assert panel.get_ylim()[0] == 0
        assert len(panel.containers) == 4
        for i, container in enumerate(panel.containers):
            line, _, _ = container
            assert list(line.get_xdata()) == x
            expected = values * (i + 1 if scale == "time" else 1)
            np.testing.assert_allclose(line.get_ydata().astype(float), expected)
            assert max(line.get_ydata()) <= panel.get_ylim()[1]


def test_curves_have_means_and_bands(drawn):
    axes = drawn("curves").axes[0]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), SERIES["CNN"][1])
    corners = axes.collections[0].get_paths()[0].vertices
    low, high = corners[np.isclose(corners[:, 0], 100)][:, 1].min(), corners[:, 1].max()
    np.testing.assert_allclose([low, high], [0.65, 0.91])


def test_curves_of_small_values_keep_the_axis_that_is_asked_for():
    small = {"a": ([0, 1], [0.01, 0.02], [0, 0])}
    low, high = figures.curves(small, "step", "measure", ylim=(0, 1)).axes[0].get_ylim()
    assert -0.1 < low < 0
    assert 1 < high < 1.1


def test_ticks_of_a_logarithmic_axis_keep_apart():
    x = list(range(100, 1100, 20))
    figure = figures.curves({"a": (x, x, x)}, "x", "y", log=True)
    ticks = figure.axes[0].get_xticks().tolist()
    assert ticks[0] == 100
    assert 3 <= len(ticks) < 12
    assert set(ticks) <= set(x)
    assert figure.axes[0].lines[0].get_marker() == ""


ERRORS = {
    "kernels: W must be [C, G, k, k]": lambda: figures.kernels(normal(2, 4, 3), C4.names),
    "[C, G, k, k] without empty axes, got [2, 4, 3, 5]": lambda: figures.kernels(
        normal(2, 4, 3, 5), C4.names
    ),
    "got [0, 4, 3, 3]": lambda: figures.kernels(normal(0, 4, 3, 3), C4.names),
    "kernels: expected 4 names, one for each element, got 2": lambda: figures.kernels(
        KERNELS, ["a", "b"]
    ),
    "kernels: W must be finite": lambda: figures.kernels(KERNELS / 0, C4.names),
    "representations: truth must be [G, D, D] without empty axes and with G = 4, D = 25": (
        lambda: figures.representations(R4, C4.lift(3), C4.names)
    ),
    "matrices: truth must be [G, D, D]": lambda: figures.matrices(R12, RING.names, R12[:3]),
    "matrices: expected 12 names": lambda: figures.matrices(R12, "ab"),
    "shift_twist: R must be [G, D, D]": lambda: figures.shift_twist(T4, [R4]),
    "shift_twist: D must be a multiple of the number of elements, got D = 25, G = 4": (
        lambda: figures.shift_twist(R4, [])
    ),
    "shift_twist: expected 1 names, one for each layer, got 2": lambda: figures.shift_twist(
        T4, [T4], C4.names, ["a", "b"]
    ),
    "samples: size must be one to three lengths with the product 12": lambda: figures.samples(
        LINE, (3, 3), "abcdefg"
    ),
    "the number of positions; got (1, 1, 3, 4)": lambda: figures.samples(
        LINE, (1, 1, 3, 4), "abcdefg"
    ),
    "samples: expected 7 names, one for each sample, got 1": lambda: figures.samples(
        LINE, (12,), "a"
    ),
    "stack: kernels must be [G, O, D]": lambda: figures.stack(LINE, (12,), "abcdefg"),
    "stack: size must be": lambda: figures.stack(LINE[:, None], (11,), "abcdefg"),
    "method: R must be [G, P, P] without empty axes and with P = 12, got [4, 25, 25]": (
        lambda: figures.method(LINE[0], R4, (12,))
    ),
    "method: size must be": lambda: figures.method(LINE[0], R12, (5,)),
    "coefficients: expected 12 names": lambda: figures.coefficients(C_RING, "ab", {0}),
    "coefficients: true must hold indices from 0 to 11, got [-1, 12]": (
        lambda: figures.coefficients(C_RING, RING.names, {0, 12, -1})
    ),
    "coefficients: true must be [K] without empty axes and with K = 12": (
        lambda: figures.coefficients(C_RING, RING.names, MEASURE[:5])
    ),
    "cost: expected rows that measure 'memory', got none among 3 rows": (
        lambda: figures.cost([r for r in ROWS if r.get("measures") == "time"][:3])
    ),
    "curves: expected at least one series": lambda: figures.curves({}, "x", "y"),
    "curves of 'a': mean must be [N] without empty axes and with N = 2, got [3]": (
        lambda: figures.curves({"a": ([1, 2], [1, 2, 3], [0, 0])}, "x", "y")
    ),
    "curves: x must be positive on a logarithmic axis, got 0": (
        lambda: figures.curves({"a": ([0, 2], [1, 2], [0, 0])}, "x", "y", log=True)
    ),
}


@pytest.mark.parametrize("message", ERRORS)
def test_what_does_not_fit_is_refused(unchecked, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ERRORS[message]()


def test_all_zero_values_are_drawn():
    zeros = torch.zeros(2, 3)
    assert figures.samples(zeros, (3,), "ab")
    assert figures.kernels(zeros.reshape(2, 3, 1, 1), "abc")
    assert figures.coefficients(zeros, "abc", set())


def test_matplotlib_is_imported_with_the_first_figure():
    code = """
import sys
import symshare, symshare.report
from experiments import figures
assert set(figures.__all__) == set(dir(figures))
assert "matplotlib" not in sys.modules, "too early"
for name in figures.__all__:
    assert callable(getattr(figures, name)), name
assert "matplotlib" in sys.modules
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_other_names_are_no_attributes():
    with pytest.raises(AttributeError, match="has no attribute 'histogram'"):
        _ = figures.histogram
