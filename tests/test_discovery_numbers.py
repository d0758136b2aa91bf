"""The main job on labels that are numbers, from arrays to the page."""

import json

import jsonschema
import numpy as np
import pytest
import torch

import symshare
from symshare import groups
from symshare.cli import main
from symshare.discovery import config as budgets
from symshare.discovery.config import Budget, DiscoveryConfig
from symshare.names import Storage
from symshare.records import VerdictRecord
from test_judge_numbers import NATURAL, blobs


@pytest.fixture(scope="module", autouse=True)
def small():
    """A budget that ends in seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(budgets.BUDGETS, "quick", Budget(1500, 400, 40, 1))
        yield


def test_signals_whose_slope_changes_its_sign_back_to_front(tmp_path):
    generator = torch.Generator().manual_seed(0)
    slope = torch.randn(1500, generator=generator)
    signals = slope[:, None] * torch.linspace(-1, 1, 16)
    signals = signals + 0.3 * torch.randn(signals.shape, generator=generator)
    found = symshare.discover(
        signals, slope, layout="NL", target="numbers", numbers=["slope"], budget="quick",
        out=tmp_path / "run",
    )  # fmt: skip
    # A slope changes its sign with the signal too, and stays where both are done.
    both = ("reverse", "negate", "reverse*negate")
    assert (found.verdict, found.group, found.found) == ("group", "C2xC2", both)
    assert found.record.sentence.startswith(
        "Moved by reverse with slope becoming -slope, all signs changed with slope becoming -slope "
        "or reverse with all signs changed, these signals mean the same: the symmetry group is "
        "C2xC2."
    )
    made = [element.target_map for element in found.record.elements]
    assert made == [((-1.0, 0.0),), ((-1.0, 0.0),), ((1.0, 0.0),)]
    record = VerdictRecord.read(found.out / "verdict.json")
    assert record == found.record
    jsonschema.validate(json.loads(record.to_json()), VerdictRecord.json_schema())
    assert (record.metric, record.numbers, len(record.strata)) == (
        "explained variance",
        ("slope",),
        5,
    )
    assert record.commands[0].startswith(
        "symshare.discover(images, labels, layout=layout, numbers=numbers, budget='quick'"
    )
    assert "target='numbers'" in record.commands[0]
    settings = (found.out / "runs/found-seed0/config.yaml").read_text()
    assert "target_map:\n  - - - -1.0\n      - 0.0\n" in settings
    assert all(entry.error for entry in record.accuracy.values() if entry)
    page = found.report.read_text()
    for words in (
        "with slope becoming −slope",
        "explained after, by stratum [%]",
        "one per stratum",
        "explained variance, held out",
        "gain over the normal law of the labels",
        "The network explains some of the variance of slope.",
        "error ",
    ):
        assert words in page
    assert "class" not in _text(page)
    again = symshare.discover(
        signals, slope, layout="NL", target="numbers", numbers=["slope"], budget="quick",
        out=tmp_path / "run",
    )  # fmt: skip
    assert again.record == found.record


def _text(page):
    """What a person reads of a page: no tags, no styles."""
    import re

    body = page[page.index("<main>") : page.index("</main>")]
    return re.sub(r"<[^>]*>", " ", re.sub(r"(?s)<pre>.*?</pre>", " ", body))


@pytest.mark.slow
def test_a_target_that_turns_with_the_image(tmp_path, capsys):
    """The place of a blob turns with all of D4, by the matrices of the moves themselves."""
    images, place = blobs(1500, size=12)
    np.savez(
        tmp_path / "places.npz", images=images.numpy(), targets=place.numpy(),
        numbers=np.array(["row", "column"]),
    )  # fmt: skip
    main(["discover", str(tmp_path / "places.npz"), "--budget", "quick",
          "--out", str(tmp_path / "run")])  # fmt: skip
    record = VerdictRecord.read(tmp_path / "run/verdict.json")
    assert (record.verdict, record.group) == ("group", "D4")
    made = {e.name: torch.tensor(e.target_map) for e in record.elements}
    for name, matrix in zip(groups.dihedral(4).names[1:], NATURAL[1:], strict=True):
        torch.testing.assert_close(made[name][:, :2], matrix)
        # The true centre is 0; what is fitted on a fifth of the images is off by less than noise.
        assert made[name][:, 2].abs().max() < 0.1
    assert "with row and column moved alike" in record.sentence
    said = " ".join(capsys.readouterr().out.split())
    assert "labels of row, column" in said
    assert "of the variance of the labels explained on" in said
    assert "error of row" in said
    assert record.accuracy["found"].mean > 0.9
    assert record.accuracy["gated"] is None
    page = (tmp_path / "run/report.html").read_text()
    assert "(row, column) becoming (−column, row)" in page


def test_what_is_said_at_the_terminal_where_labels_are_floats(tmp_path, capsys, unchecked):
    np.savez(tmp_path / "a.npz", images=np.random.rand(60, 8, 8), labels=np.random.rand(60))
    with pytest.raises(SystemExit):
        main(["discover", str(tmp_path / "a.npz"), "--out", str(tmp_path / "run")])
    error = capsys.readouterr().err
    assert "--data.target numbers" in error
    assert error.count("\n") == 1


def test_the_command_names_columns_of_numbers():
    config = DiscoveryConfig("a.csv", data=Storage(target_columns=("row", "column")))
    assert config.command() == "symshare discover a.csv --data.target_columns '[row,column]'"
    assert config.to_dict()["data"]["target_columns"] == ["row", "column"]
