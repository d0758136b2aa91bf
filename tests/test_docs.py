"""What the documents say about versions, commands, files and constants is what the code does."""

import re
import shlex
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from jsonargparse import capture_parser

import test_judge
from symshare import cli
from symshare.judge import Evidence, thresholds
from symshare.judge.answers import NumberEvidence
from symshare.propose import Candidates, propose
from symshare.train.loop import COLUMNS

ROOT = Path(__file__).parent.parent
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/design.md", "docs/schema.md")


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def commands():
    """Command lines, in fences and in backticks; a sentence about a flag is not one."""
    found = set()
    for name in DOCUMENTS:
        lines = re.findall(r"^symshare (?:discover|fit|advice) .*$", text(name), re.M)
        inline = re.findall(r"`(symshare (?:discover|fit|advice) [^`]+)`", text(name))
        found.update(line.partition("#")[0].strip() for line in [*lines, *inline])
    return sorted(found)


@pytest.fixture(scope="module")
def parser():
    return capture_parser(cli.main)


@pytest.fixture(scope="module")
def tables():
    """First column of every table in docs/schema.md, by the heading above it."""
    names, heading = {}, ""
    for line in text("docs/schema.md").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ").partition(",")[0]
        elif row := re.match(r"\| `([^`]+)` \|", line):
            names.setdefault(heading, []).append(row[1])
    return names


@pytest.fixture(scope="module")
def candidates():
    return propose(torch.rand(64, 1, 3, 2, generator=torch.Generator().manual_seed(0)))


@pytest.fixture(scope="module")
def question(candidates):
    count = len(candidates) - 1
    return test_judge.evidence([0.0] * count)


def test_the_version_has_a_heading_in_the_changelog():
    version = tomllib.loads(text("pyproject.toml"))["project"]["version"]
    assert re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", text("CHANGELOG.md"), re.M
    )


def test_there_are_commands():
    assert any(line.startswith("symshare discover") for line in commands())
    assert any(line.startswith("symshare fit") for line in commands())


@pytest.mark.parametrize("line", commands())
def test_every_command_parses(parser, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line)[1:]
    if "--config" in words:
        file = Path(words[words.index("--config") + 1])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("seed: 0\n")
    parser.parse_args(words)


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z]+):", text("Makefile"), re.M))
    named = {
        target
        for name in DOCUMENTS
        for target in re.findall(r"(?:^|`)make ([a-z]+)\b", text(name), re.M)
    }
    assert {"run", "test"} <= named <= targets


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name):
    for link in re.findall(r"\]\(([^)#]+)", text(name)):
        assert link.startswith("https://") or (ROOT / name).parent.joinpath(link).exists(), link


def test_the_candidates_are_documented(tables, candidates):
    content = candidates.to_json()
    assert set(tables["candidates.json"]) == {*content, "seconds"}
    assert all(set(element) == set(tables["candidate"]) for element in content["elements"])
    assert Candidates.from_json(content) == candidates


def test_the_evidence_is_documented(tables, question):
    of_numbers = {f.name for f in fields(NumberEvidence)} - {f.name for f in fields(Evidence)}
    assert set(tables["evidence.safetensors"]) == set(question.tensors()) | of_numbers


def test_the_metrics_are_documented(tables):
    assert tuple(tables["metrics.csv"]) == COLUMNS


def test_the_constants_are_documented():
    rows = re.findall(r"^\| `([A-Z_]+)` \| ([\d.]+) \|", text("docs/design.md"), re.M)
    assert rows
    assert {name: float(value) for name, value in rows} == {
        name: getattr(thresholds, name) for name, _ in rows
    }
    for name, value in re.findall(
        r"`(FLOOR|RANDOM_PERMUTATIONS)` = ([\d.]+)", text("docs/design.md")
    ):
        assert getattr(thresholds, name) == float(value)


def test_the_layers_are_documented():
    contracts = tomllib.loads(text("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    expected = [set(re.findall(r"\w+", layer)) for layer in reversed(layers)]
    line = next(
        line for line in text("docs/design.md").splitlines() if line.startswith("`sinkhorn |")
    )
    assert [set(re.findall(r"\w+", layer)) for layer in line.split(" < ")] == expected
