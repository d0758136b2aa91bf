"""What is installed, what it needs, and what it imports."""

import re
import tarfile
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from fresh_python import fresh_python

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LABORATORY = {"experiments", "benchmarks", "examples", "tests", "docs"}
HEAVY = ("matplotlib", "pyarrow", "datasets", "pandas")

CODE = {
    "import": "import symshare",
    "every public name": """
import symshare
for name in symshare.__all__:
    getattr(symshare, name)
""",
    "layers": """
import torch
from symshare import Fixed, GroupConv2d, LiftConv2d, bake, groups
c4 = Fixed(groups.rotations(4))
network = torch.nn.Sequential(LiftConv2d(1, 2, 3, c4), GroupConv2d(2, 2, 3, c4))
bake(network)(torch.rand(1, 1, 7, 7))
""",
    "discover": """
import torch
import symshare
from symshare.discovery.config import BUDGETS, Budget
BUDGETS["quick"] = Budget(judge_images=200, judge_steps=20, fit_steps=2, fit_seeds=1)
labels = torch.arange(200) % 2
images = torch.rand(200, 7, 7)
images[labels == 1, :3] += 2
symshare.discover(images, labels, budget="quick", out="run")
""",
}


def test_few_packages_are_required():
    names = [re.match(r"[\w-]+", line)[0] for line in PROJECT["project"]["dependencies"]]
    assert len(names) == len(set(names)) <= 11
    assert not set(HEAVY) & set(names)


@pytest.mark.parametrize("case", CODE)
def test_extras_stay_unimported(case, tmp_path):
    loaded = f"import sys; print(*sorted(sys.modules.keys() & {set(HEAVY)}))"
    assert fresh_python(tmp_path, "-c", f"{CODE[case]}\n{loaded}").split() == []


def test_the_wheel_is_the_library_alone():
    targets = PROJECT["tool"]["hatch"]["build"]["targets"]
    assert targets["wheel"] == {"packages": ["src/symshare"]}
    held = {path.name for path in (ROOT / "src").iterdir() if any(path.rglob("*.py"))}
    assert held == {"symshare"}
    assert set(targets["sdist"]["include"]) >= {"src", "README.md", "LICENSE", *LABORATORY}


@pytest.mark.slow
def test_what_is_built_holds_what_it_should(tmp_path):
    backend = pytest.importorskip("hatchling.builders.wheel")
    sdist = pytest.importorskip("hatchling.builders.sdist")
    [wheel] = backend.WheelBuilder(str(ROOT)).build(directory=str(tmp_path))
    [archive] = sdist.SdistBuilder(str(ROOT)).build(directory=str(tmp_path))
    installed = zipfile.ZipFile(wheel).namelist()
    assert "symshare/py.typed" in installed
    assert all(fnmatch(name, "symshare/*") or ".dist-info/" in name for name in installed)
    with tarfile.open(archive) as file:
        held = {name.split("/")[1] for name in file.getnames()}
    assert {"src", "pyproject.toml", "README.md", *LABORATORY} <= held
