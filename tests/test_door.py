"""`from symshare import ...`: every public name is there, with its type, and costs no import."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import symshare

ROOT = Path(__file__).parent.parent
REFUSED = {
    'Sinkhorn(4, positions="nine")': "not assignable to parameter `positions` with type `int`",
    "found: int = discover([], []).found": "`tuple[str, ...]` is not assignable to `int`",
    "gain: str = discover([], []).record.power.gain": "`float` is not assignable to `str`",
    "name: int = symshare.groups.dihedral(4).name": "not assignable to `int`",
    "symshare.nothing": "No attribute `nothing`",
}
"""Lines with a fault of types, and what a type checker says of each."""


@pytest.mark.parametrize("name", symshare.__all__)
def test_every_public_name_is_there(name):
    assert getattr(symshare, name) is getattr(symshare, name)


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="module 'symshare' has no attribute 'nothing'"):
        symshare.nothing  # noqa: B018


def test_a_type_checker_knows_the_public_names(tmp_path):
    lines = ["import symshare", "from symshare import Sinkhorn, discover", *REFUSED]
    lines.append('Sinkhorn(4, positions=9); assert discover([], []).found == ("rot90",)')
    file = tmp_path / "user.py"
    file.write_text("\n".join(lines))
    command = [
        sys.executable, "-m", "pyrefly", "check", str(file), "--output-format", "min-text",
        "--config", str(ROOT / "pyproject.toml"), "--search-path", str(ROOT / "src"),
        "--python-interpreter-path", sys.executable,
    ]  # fmt: skip
    said = subprocess.run(command, capture_output=True, text=True).stdout
    faults = dict(re.findall(r"^ERROR .*user\.py:(\d+):\S* (.*)$", said, re.M))
    assert faults.keys() == {str(i) for i in range(3, 3 + len(REFUSED))}, said
    for fault, words in zip(faults.values(), REFUSED.values(), strict=True):
        assert words in fault


@pytest.mark.parametrize("code", ["import symshare", "from symshare.cli import main; main()"])
def test_neither_the_package_nor_its_help_imports_anything_heavy(code):
    code = (
        f"import sys; sys.argv = ['symshare', '--help']\ntry: {code}\nfinally: print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert done.returncode == 0, done.stderr
    assert "symshare" in loaded
    assert not loaded & {"torch", "numpy", "scipy", "rich", "pytorch_lightning", "sklearn"}
