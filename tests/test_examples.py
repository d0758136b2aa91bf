"""The examples are short, use what is public, and print what their first lines promise."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest
from PIL import Image

from fresh_python import fresh_python

ROOT = Path(__file__).parent.parent
EXAMPLES = {path.stem: path for path in sorted((ROOT / "examples").glob("*.py"))}


def run(name, folder):
    return fresh_python(folder, str(EXAMPLES[name]))


def numbers(pattern, text):
    """The groups of a pattern as numbers, a row for each time it occurs."""
    rows = [tuple(map(float, found.groups())) for found in re.finditer(pattern, text)]
    assert rows, f"{pattern!r} does not occur in\n{text}"
    return rows


def imported(tree):
    """Module and name of everything that is imported from the library."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)


def test_there_are_examples():
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_short_and_uses_public_names_alone(name):
    source = EXAMPLES[name].read_text(encoding="utf-8")
    tree = ast.parse(source)
    compile(tree, name, "exec")
    assert len(source.splitlines()) <= 60
    assert re.search(r"\bPrinted\b", ast.get_docstring(tree) or "")
    names = [pair for pair in imported(tree) if pair[0].partition(".")[0] == "symshare"]
    assert names
    for module, member in names:
        assert module.count(".") <= 1, f"{module} is no package that a user imports from"
        assert member is None or member in import_module(module).__all__


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_code_imports_an_example(name):
    folders = ("src", "experiments", "benchmarks", "tests", "examples")
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        names = {module for module, _ in imported(ast.parse(path.read_text(encoding="utf-8")))}
        assert not names & {name, "examples", f"examples.{name}"}, path


@pytest.mark.slow
def test_own_loop(tmp_path):
    plain, shared = numbers(
        r"(\d+) parameters  accuracy ([\d.]+)%  error (\S+)", run("own_loop", tmp_path)
    )
    assert abs(plain[0] - shared[0]) < 0.05 * plain[0]
    assert 70 < plain[1] < shared[1] <= 100
    assert shared[2] < 1e-5 < 1e-2 < plain[2]


@pytest.mark.slow
def test_learned_stack(tmp_path):
    printed = run("learned_stack", tmp_path)
    mass = numbers(r"nearest permutations ([\d.]+)", printed)
    assert mass[0][0] < 0.5 < 0.95 < mass[-1][0]
    assert "recovered 100% of the shifts; picture runs/learned_stack.png" in printed
    with Image.open(tmp_path / "runs" / "learned_stack.png") as picture:
        width, height = picture.size
        low, high = picture.getextrema()
    assert 3 < width / height < 5  # 12 matrices across, 3 rows
    assert low < 20
    assert high > 235


@pytest.mark.slow
def test_stacks_from_images(tmp_path):
    printed = run("stacks_from_images", tmp_path)
    assert numbers(r"layer (\d): 4 elements", printed) == [(0,), (1,)]
    [(error,)] = numbers(r"change under a quarter turn (\S+);", printed)
    assert error < 1e-5
    with Image.open(tmp_path / "runs" / "stacks_from_images.png") as picture:
        width, height = picture.size
        low, high = picture.getextrema()
    assert width == 6 * 148
    assert height % 148 == 0
    assert low < 20
    assert high > 235


@pytest.mark.slow
def test_discover_arrays(tmp_path):
    printed = run("discover_arrays", tmp_path)
    assert "verdict group, group C2, found flipW" in printed
    costs = dict(re.findall(r"(\w+) +costs +(-?[\d.]+)", printed))
    delta = 0.05  # of what the networks know, less than one nat
    assert abs(float(costs.pop("flipW"))) < delta
    assert len(costs) == 6
    assert all(float(cost) > 10 * delta for cost in costs.values())
    accuracies = numbers(r"accuracy ([\d.]+)%", printed)
    assert len(accuracies) == 4
    assert all(80 < accuracy <= 100 for (accuracy,) in accuracies)
    assert (tmp_path / re.search(r"report  (.*)", printed)[1]).is_file()


@pytest.mark.slow
def test_bake_and_export(tmp_path):
    printed = run("bake_and_export", tmp_path)
    [(loss, difference, ratio)] = numbers(
        r"loss ([\d.]+), outputs differ by (\S+), baked is ([\d.]+) times", printed
    )
    assert loss < 0.5
    assert difference < 1e-4
    assert ratio > 0
    folder = tmp_path / "runs" / "baked"
    assert {"digits.safetensors", "digits.pt2"} <= {file.name for file in folder.iterdir()}
    assert (folder / "digits.onnx").is_file() or 'pip install "symshare[onnx]"' in printed
    answers, truth = re.search(r"answers \[(.*)\] to the digits \[(.*)\]", printed).groups()
    assert sum(a == t for a, t in zip(answers.split(", "), truth.split(", "), strict=True)) >= 3


@pytest.mark.slow
def test_large_group(tmp_path):
    printed = run("large_group", tmp_path)
    [(whole, factors)] = numbers(r"R ([\d.]+) MB, its factors ([\d.]+) MB", printed)
    assert whole > 100 * factors > 0
    [(right, shown)] = numbers(r"(\d+) of (\d+) named rightly", printed)
    assert shown == 7 * 24
    assert right > 0.8 * shown
    [(error,)] = numbers(r"equivariance error (\S+)", printed)
    assert 0 < error < 1e-5


@pytest.mark.slow
def test_discover_leads(tmp_path):
    printed = run("discover_leads", tmp_path)
    words = "left arm and right arm exchanged, left leg and right leg exchanged and the sign of"
    assert f"Moved by {words} across changed, these signals mean the same" in printed
    [(error,)] = numbers(r"its two elements, to (\S+)", printed)
    assert error < 1e-5
    assert (tmp_path / re.search(r"report  (.*)", printed)[1]).is_file()


@pytest.mark.slow
def test_discover_folder(tmp_path):
    printed = run("discover_folder", tmp_path)
    assert "flipW with left and right exchanged" in printed
    assert "the symmetry group is C2xC2" in printed
    assert re.search(r"augment +turns from -[\d.]+ to [\d.]+ degrees", printed)
    assert "augment = v2.Compose([" in printed
