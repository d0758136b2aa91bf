import re
import sys
import tomllib
from pathlib import Path

import pytest

from symshare.extras import needs


@pytest.mark.parametrize("module", ["onnx", "onnx.helper"])
def test_what_is_missing_is_named_with_the_command_that_installs_it(monkeypatch, module):
    for name in [name for name in sys.modules if name.partition(".")[0] == "onnx"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    message = r'onnx is needed to write ONNX and is not .*; install it with pip install "symshare\['
    with pytest.raises(ModuleNotFoundError, match=message + r'onnx\]"') as caught:
        needs(module, "onnx", "write ONNX")
    assert caught.value.name == "onnx"


def test_every_extra_that_is_named_exists():
    root = Path(__file__).parent.parent
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    code = "".join(path.read_text() for path in (root / "src").rglob("*.py"))
    named = re.findall(r'symshare\[(\w+)\]|needs\(\s*"[\w.]+", "(\w+)"', code)
    assert {"data", "onnx"} <= {one or other for one, other in named} - {"extra"} <= set(extras)


def test_a_module_of_a_package_is_imported():
    assert needs("importlib.metadata", "data", "read").version("pytest")
