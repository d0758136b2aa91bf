import sys

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


def test_a_module_of_a_package_is_imported():
    assert needs("importlib.metadata", "data", "read").version("pytest")
