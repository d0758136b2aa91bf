"""What symshare costs on an accelerator: JSON lines on stdout, the summary last.

    python benchmarks/device.py > device.jsonl

It needs torch, numpy and scipy, and the sources of symshare beside it; nothing has to be
installed. On one GPU it takes less than six minutes. `--smoke` runs every part on tiny sizes,
also on a CPU, to see that the script works.
"""

import argparse
import importlib
import json
import sys
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

TOGETHER = "weight sharing, projected together before the graph"
SOURCES = Path(__file__).resolve().parent.parent / "src"


class _Unchecked:
    """In the place of a jaxtyping annotation: `Float[Tensor, "B D"]` is Tensor."""

    def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
        return item[0]


class _Absent(types.ModuleType):
    """In the place of a package that is not installed and not used here."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Unchecked


def make_importable() -> None:
    """Let `symshare` be imported from its sources, without packages it does not need here."""
    sys.path.insert(0, str(SOURCES))
    for name in ("jaxtyping", "yaml"):
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = _Absent(name)
    try:
        importlib.import_module("symshare")
    except ImportError:  # it asks for its version, which only an installed package has
        package = types.ModuleType("symshare")
        package.__path__ = [str(SOURCES / "symshare")]
        sys.modules["symshare"] = package


def main() -> int:
    """Run every part; one that fails is reported, and the others still run."""
    parser = argparse.ArgumentParser(description="Measure symshare on an accelerator.")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, any device")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    make_importable()
    start = time.perf_counter()
    summary: dict[str, Any] = {"summary": True}
    failed = False
    for name, part in PARTS.items():
        try:
            for row in part(options.device, options.smoke):
                if "summary" in row:
                    summary[name] = {k: v for k, v in row.items() if k != "summary"}
                else:
                    print(json.dumps(row), flush=True)
        except Exception as error:
            failed = True
            print(
                json.dumps({"bench": name, "error": f"{type(error).__name__}: {error}"}), flush=True
            )
    summary["seconds"] = time.perf_counter() - start
    print(json.dumps(summary), flush=True)
    return int(failed)


def sinkhorn(device: str, smoke: bool) -> Iterator[dict[str, Any]]:
    """The projection beside the published way."""
    from symshare.bench import sinkhorn
    from symshare.bench.config import BenchConfig

    if smoke:
        yield from sinkhorn.rows(BenchConfig(2, 1.0, device=device), [(2, 9)], [9], [(2, 9)], 5)
    else:
        yield from sinkhorn.rows(BenchConfig(60, 3.0, device=device))


def step(device: str, smoke: bool) -> Iterator[dict[str, Any]]:
    """Training step and baked inference beside a plain CNN, not compiled."""
    from symshare.bench import step
    from symshare.bench.config import BenchConfig
    from symshare.models import Architecture

    if smoke:
        tiny = Architecture(blocks=2, kernel_size=3)
        yield from step.rows(
            BenchConfig(2, 1.0, device=device), True, True, tiny, 8, 2, [2], [1, 2]
        )
    else:
        yield from step.rows(BenchConfig(50, 8.0, device=device), True, True)


def layer(device: str, smoke: bool) -> Iterator[dict[str, Any]]:
    """A lifting layer beside a loop over the elements."""
    from symshare.bench import layer
    from symshare.bench.config import BenchConfig

    if smoke:
        config = BenchConfig(2, 1.0, device=device)
        yield from layer.rows(config, [1, 8], [3], (2, 3, 12, 12), 2)
    else:
        yield from layer.rows(BenchConfig(20, 2.0, device=device))


def compiled(device: str, smoke: bool) -> Iterator[dict[str, Any]]:
    """The training step of `step` at batch 64, both networks compiled.

    Stacks are projected in the compiled graph, each in its layer, or all together before it.
    """
    from symshare.bench.config import BenchConfig
    from symshare.bench.rows import Recorder, ratios
    from symshare.bench.step import OURS, PLAIN, training_step
    from symshare.bench.timing import Contender, interleaved, session

    config = BenchConfig(2 if smoke else 100, 10.0, device=device)
    with session(config) as where:
        recorder = Recorder("compiled", where)
        backend = "eager" if smoke else "inductor"
        steps = {}
        for name, network, x, y in networks(where, smoke):
            forward = torch.compile(network, backend=backend)
            steps[name] = training_step(network, x, y, forward, together=False)
        _, network, x, y = next(networks(where, smoke))
        forward = torch.compile(network, backend=backend)
        steps[TOGETHER] = training_step(network, x, y, forward)
        times = interleaved({name: Contender(run) for name, run in steps.items()}, config, where)
        what, case = "training step, compiled", f"batch {len(x)}"
        for name, seconds in times.items():
            yield recorder.row(what, case, name, "s", seconds)
        summary: dict[str, Any] = {"summary": True}
        for key, name in (("train_ratio", OURS), ("train_ratio_together", TOGETHER)):
            values = ratios(times[name], times[PLAIN])
            row = recorder.row(
                f"{what}, ratio within rounds", case, f"{name} / {PLAIN}", "1", values
            )
            summary[key] = row["median"]
            yield row
        yield summary


def synchronisation(device: str, smoke: bool) -> Iterator[dict[str, Any]]:
    """Whether a training step, not compiled, ever waits for the device."""
    from symshare.bench.config import BenchConfig
    from symshare.bench.rows import Recorder
    from symshare.bench.step import training_step
    from symshare.bench.timing import session

    with session(BenchConfig(1, 1.0, device=device)) as where:
        _, network, x, y = next(networks(where, smoke))
        run = training_step(network, x, y)
        for _ in range(3):
            run()
        waited = ""
        try:
            with refusing_to_wait(where):
                run()
        except RuntimeError as error:
            waited = str(error)
        row = Recorder("synchronisation", where).row(
            "training step waits for the device", "one step", "weight sharing", "1", [bool(waited)]
        )
        checked = where.type == "cuda"
        yield {**row, "checked": checked, "message": waited}
        yield {"summary": True, "waits": bool(waited) if checked else None}


@contextmanager
def refusing_to_wait(device: torch.device) -> Iterator[None]:
    """An error on CUDA where the host waits for the device; elsewhere nothing to wait for."""
    if device.type != "cuda":
        yield
        return
    torch.cuda.synchronize(device)
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def networks(
    device: torch.device, smoke: bool
) -> Iterator[tuple[str, torch.nn.Module, torch.Tensor, torch.Tensor]]:
    """Name, network, images and classes: the network with shared weights, then the plain CNN."""
    from symshare.bench.step import OURS, PLAIN, PlainCNN
    from symshare.models import MNIST, Architecture, GroupCNN, wscnn

    shape, size = (Architecture(2, 3), 8) if smoke else (MNIST, 28)
    channels, batch = (2, 2) if smoke else (32, 64)
    x = torch.randn(batch, 1, size, size).to(device)
    y = torch.randint(10, (batch,)).to(device)
    ours = GroupCNN(shape, 1, 10, channels, wscnn(shape, 4), (size, size))
    yield OURS, ours.to(device), x, y
    yield PLAIN, PlainCNN(shape, 4 * channels).to(device), x, y


PARTS = {
    "sinkhorn": sinkhorn,
    "step": step,
    "layer": layer,
    "synchronisation": synchronisation,
    "compiled": compiled,  # the longest, so the last
}

if __name__ == "__main__":
    sys.exit(main())
