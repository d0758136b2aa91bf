"""The files of a discovery: what is written is read back, what is damaged is refused."""

import copy
import json
import subprocess
import sys
from dataclasses import replace

import jsonschema
import pytest

import symshare.records
from symshare.records import ResultRecord, VerdictRecord
from synthetic_run import CASES, write_run

KINDS = {"verdict": VerdictRecord, "result": ResultRecord}


def shipped(name):
    """The schema that is installed with the package."""
    folder = symshare.records.__path__[0]
    with open(f"{folder}/{name}.schema.json", encoding="utf-8") as file:
        return json.load(file)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One file of each kind, as written by version 0.1.0."""
    folder = tmp_path_factory.mktemp("group")
    write_run(folder, "group")
    whole = VerdictRecord.read(folder / "verdict.json")
    replace(whole, elements=whole.elements[:2]).write(folder / "verdict.json")
    return {
        "verdict": folder / "verdict.json",
        "result": folder / "runs" / "gated-seed0" / "result.json",
    }


@pytest.mark.parametrize("name", KINDS)
def test_the_shipped_schema_is_that_of_the_class(name):
    assert shipped(name) == KINDS[name].json_schema(), "run python -m symshare.records"
    jsonschema.Draft202012Validator.check_schema(shipped(name))


@pytest.mark.parametrize("kind", CASES)
def test_every_verdict_validates_and_is_written_as_it_was_read(tmp_path, kind):
    write_run(tmp_path, kind)
    content = json.loads((tmp_path / "verdict.json").read_text())
    jsonschema.validate(content, shipped("verdict"))
    record = VerdictRecord.read(tmp_path / "verdict.json")
    assert json.loads(record.to_json()) == content
    record.write(tmp_path / "again.json")
    assert VerdictRecord.read(tmp_path / "again.json") == record


LATER = {"error", "metric", "numbers", "strata", "target_map", "test_error"}
"""Keys that files of earlier versions lack."""


def damages(content, remove=True):
    """Documents in which one value is replaced, or one key is missing; of lists, at the ends."""
    keys = list(content) if isinstance(content, dict) else sorted({0, len(content) - 1})
    for key in keys:
        changed = copy.copy(content)
        changed[key] = [{}]
        yield changed
        if isinstance(content, dict) and remove and key not in LATER:
            yield {name: value for name, value in content.items() if name != key}
        if content[key] and isinstance(content[key], dict | list):
            # Versions are those of whatever packages the numbers depend on.
            for inner in damages(content[key], remove=key != "versions"):
                changed = copy.copy(content)
                changed[key] = inner
                yield changed


@pytest.mark.parametrize("name", KINDS)
def test_whatever_is_damaged_is_refused_by_reader_and_schema(files, tmp_path, name):
    content = json.loads(files[name].read_text())
    validator = jsonschema.Draft202012Validator(shipped(name))
    path = tmp_path / "damaged.json"
    for damaged in damages(content):
        path.write_text(json.dumps(damaged))
        assert not validator.is_valid(damaged)
        with pytest.raises(ValueError, match=r"damaged\.json"):
            KINDS[name].read(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": "0"}, r"is damaged; delete it .*\(ResultRecord.seed: expected int, got '0'\)"),
        ({"seed": True}, "expected int, got True"),
        ({"test_loss": float("nan")}, "expected float, got nan"),
        ({"test_loss": 10**400}, "expected float, got 1000"),
        ({"model": "gccn"}, "expected .*'gcnn'.*, got 'gccn'"),
    ],
)
def test_says_what_is_wrong_with_a_value(files, tmp_path, change, said):
    content = json.loads(files["result"].read_text()) | change
    path = tmp_path / "result.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=said):
        ResultRecord.read(path)


def test_nesting_without_end_is_damage(tmp_path):
    path = tmp_path / "result.json"
    path.write_text('{"seed": ' + 100_000 * "[" + 100_000 * "]" + "}")
    with pytest.raises(ValueError, match=r"result\.json is damaged"):
        ResultRecord.read(path)


def test_a_newer_schema_is_refused_by_its_number(files, tmp_path):
    path = tmp_path / "verdict.json"
    path.write_text(files["verdict"].read_text().replace('"schema": 2', '"schema": 3'))
    with pytest.raises(ValueError, match=r"expected schema 2 in .*, got 3; read it with the vers"):
        VerdictRecord.read(path)


def test_further_keys_and_whole_numbers_are_read(files, tmp_path):
    content = json.loads(files["result"].read_text()) | {"seconds": 3, "added_later": []}
    path = tmp_path / "result.json"
    path.write_text(json.dumps(content))
    jsonschema.validate(content, shipped("result"))
    assert ResultRecord.read(path) == replace(ResultRecord.read(files["result"]), seconds=3.0)


def without(content, names):
    """The same document, and what it holds, without some keys."""
    if isinstance(content, dict):
        return {k: without(v, names) for k, v in content.items() if k not in names}
    return [without(v, names) for v in content] if isinstance(content, list) else content


@pytest.mark.parametrize("name", KINDS)
def test_files_of_earlier_versions_are_read_with_what_came_later(files, tmp_path, name):
    content = without(json.loads(files[name].read_text()), LATER)
    path = tmp_path / "earlier.json"
    path.write_text(json.dumps(content))
    jsonschema.validate(content, shipped(name))
    assert KINDS[name].read(path) == KINDS[name].read(files[name])


def test_a_record_without_a_number_is_not_written(files, tmp_path):
    record = replace(ResultRecord.read(files["result"]), test_loss=float("inf"))
    with pytest.raises(ValueError, match="not JSON compliant"):
        record.write(tmp_path / "result.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("module", ["symshare.records", "symshare.terminal", "symshare.cli"])
def test_what_a_person_waits_for_imports_nothing_heavy(module):
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert module in loaded
    assert not loaded & {"torch", "numpy", "scipy", "pytorch_lightning", "sklearn", "jinja2"}
