import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

_scratch = tempfile.TemporaryDirectory(prefix="symshare-tests-")
os.environ.update(
    MPLCONFIGDIR=_scratch.name,
    MPLBACKEND="Agg",
    HF_HOME=_scratch.name,
    HF_HUB_OFFLINE="1",
    XDG_CACHE_HOME=_scratch.name,
)

import jaxtyping  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from torch.optim.optimizer import register_optimizer_step_pre_hook  # noqa: E402

# Small networks gain nothing by a second thread, and lose much where other work wants the core.
torch.set_num_threads(1)

LOCAL = {"localhost", "127.0.0.1", "::1"}


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)
    np.random.seed(0)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def local_only(self: socket.socket, address: object) -> None:
        if isinstance(address, tuple) and address[0] not in LOCAL:
            raise RuntimeError(f"a test tried to reach {address[0]}; tests run without a network")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local_only)


@pytest.fixture
def no_training() -> Iterator[None]:
    """Fails where an optimiser takes a step."""

    def refuse(*_: object) -> None:
        raise AssertionError("a network was trained")

    hook = register_optimizer_step_pre_hook(refuse)
    yield
    hook.remove()


@pytest.fixture
def unchecked():
    """Without the shape checks of the test run, so that the library's own errors are seen."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="module")
def unwrapped():
    """The library, imported once more without the shape checks.

    They wrap every function, and a compiler cannot look through the wrappers.
    """
    checks = [f for f in sys.meta_path if type(f).__module__.startswith("jaxtyping")]
    checked = {n: m for n, m in sys.modules.items() if n.partition(".")[0] == "symshare"}
    for name in checked:
        del sys.modules[name]
    for finder in checks:
        sys.meta_path.remove(finder)
    yield import_module("symshare")
    for name in [n for n in sys.modules if n.partition(".")[0] == "symshare"]:
        del sys.modules[name]
    sys.modules.update(checked)
    sys.meta_path[:0] = checks


def _golden(name):
    with np.load(Path(__file__).parent / "data" / f"{name}.npz") as archive:
        return {key: torch.from_numpy(archive[key]) for key in archive.files}


@pytest.fixture(scope="session")
def published():
    """Tensors of the published layers: `published(regime, layer)["R"]`."""
    tensors = _golden("published_layers")

    def at(regime, layer):
        prefix = f"{regime}_{layer}_"
        return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

    return at


@pytest.fixture(scope="session")
def e2cnn():
    """Tensors of e2cnn's layers: `e2cnn(group, k)["lift_y"]`."""
    tensors = _golden("fixed_groups_e2cnn")

    def at(group, k):
        prefix = f"{group}_k{k}_"
        return {n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)}

    return at
