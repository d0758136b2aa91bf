"""What symshare costs on an accelerator: JSON lines on stdout, the summary last.

    python benchmarks/device.py > device.jsonl
    python benchmarks/device.py --parts table1 --data DIR --rows rotated-cnn rotated-sinkhorn

It needs torch, numpy and scipy, and the sources of symshare beside it; nothing has to be
installed. On one GPU it takes less than six minutes. The part `table1` runs only when it is named:
it trains rows of Table 1 at full size on the files of MNIST in DIR. `--smoke` runs every part on
tiny sizes, also on a CPU, to see that the script works.
"""

import argparse
import importlib
import json
import sys
import time
import types
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

TABLE1: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "rotated-cnn": ({"kind": "cnn"}, {}),
    "rotated-gcnn-16": ({"kind": "gcnn", "width": 32}, {}),
    "rotated-gcnn-32": ({"kind": "gcnn"}, {}),
    "rotated-wscnn-norm": (
        {"kind": "sinkhorn", "init": "paper", "iterations": 20},
        {"norm": 0.1},
    ),
    "rotated-sinkhorn": ({"kind": "sinkhorn"}, {}),
    "rotated-gated": (
        {"kind": "gated", "group": "D4"},
        {"representation_lr": 0.3, "measure": 0.005},
    ),
    "rotated-kronecker": ({"kind": "kronecker"}, {}),
}
"""Rows of the study `table1` with what is set of the network and of the optimiser.

`rotated-kronecker` starts from C4, which is what discover finds there."""

STEPS = 100 * 762
"""100 epochs, as at the budget `paper` of `python -m experiments`."""

LAW = "rotate:360"
TEST_SEED = 7919
"""Test images are turned once, as by `python -m experiments`."""

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
    try:
        importlib.import_module("jaxtyping")
    except ImportError:
        sys.modules["jaxtyping"] = _Absent("jaxtyping")
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
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), help="by default all but table1")
    parser.add_argument("--data", help="folder of the files of MNIST, for table1")
    parser.add_argument("--rows", nargs="+", choices=list(TABLE1), default=list(TABLE1))
    parser.add_argument("--steps", type=int, default=STEPS, help="of each row of table1")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each row of table1")
    options = parser.parse_args()
    chosen = options.parts or [name for name in PARTS if options.smoke or name != "table1"]
    if "table1" not in chosen:
        for name in ("data", "rows", "steps", "seeds"):
            if getattr(options, name) != parser.get_default(name):
                parser.error(f"--{name} is of table1; add --parts table1")
    make_importable()
    start = time.perf_counter()
    summary: dict[str, Any] = {"summary": True}
    failed = False
    for name in chosen:
        own = {}
        if name == "table1":
            own = {key: getattr(options, key) for key in ("rows", "steps", "seeds", "data")}
        try:
            for row in PARTS[name](options.device, options.smoke, **own):
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
    from benchmarks import sinkhorn
    from benchmarks.options import BenchConfig

    if smoke:
        yield from sinkhorn.rows(BenchConfig(2, 1.0, device=device), [(2, 9)], [9], [(2, 9)], 5)
    else:
        yield from sinkhorn.rows(BenchConfig(60, 3.0, device=device))


def step(device: str, smoke: bool) -> Iterator[dict[str, Any]]:
    """Training step and baked inference beside a plain CNN, not compiled."""
    from benchmarks import step
    from benchmarks.options import BenchConfig
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
    from benchmarks import layer
    from benchmarks.options import BenchConfig

    if smoke:
        config = BenchConfig(2, 1.0, device=device)
        yield from layer.rows(config, [1, 8], [3], (2, 3, 12, 12), 2)
    else:
        yield from layer.rows(BenchConfig(20, 2.0, device=device))


def compiled(device: str, smoke: bool) -> Iterator[dict[str, Any]]:
    """The training step of `step` at batch 64, both networks compiled.

    Stacks are projected in the compiled graph, each in its layer, or all together before it.
    """
    from benchmarks.options import BenchConfig
    from benchmarks.recording import Recorder, ratios
    from benchmarks.step import OURS, PLAIN, training_step
    from benchmarks.timing import Contender, interleaved, session

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
    from benchmarks.options import BenchConfig
    from benchmarks.recording import Recorder
    from benchmarks.step import training_step
    from benchmarks.timing import session

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
def refusing_to_wait(device: torch.device) -> Generator[None]:
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
    from benchmarks.step import OURS, PLAIN, PlainCNN
    from symshare.models import MNIST, Architecture, GroupCNN, wscnn

    shape, size = (Architecture(2, 3), 8) if smoke else (MNIST, 28)
    channels, batch = (2, 2) if smoke else (32, 64)
    x = torch.randn(batch, 1, size, size).to(device)
    y = torch.randint(10, (batch,)).to(device)
    ours = GroupCNN(shape, 1, 10, channels, wscnn(shape, 4), (size, size))
    yield OURS, ours.to(device), x, y
    yield PLAIN, PlainCNN(shape, 4 * channels).to(device), x, y


def table1(
    device: str, smoke: bool, rows: Sequence[str], steps: int, seeds: int, data: str | None
) -> Iterator[dict[str, Any]]:
    """Rows of Table 1, trained on rotated MNIST: one protocol for all, that of tier A.

    In bfloat16 where autocast has it so, compiled where that works, all images on the device.
    """
    from benchmarks.options import BenchConfig
    from benchmarks.recording import Recorder
    from benchmarks.timing import session

    with session(BenchConfig(1, 1.0, device=device)) as where:
        recorder = Recorder("table1", where)
        accuracies: dict[str, list[float]] = {name: [] for name in rows}
        for seed in range(seeds):
            images = digits(data, seed, where, smoke)
            for name in rows:
                found = trained(name, images, 2 if smoke else steps, seed, smoke)
                values, seconds = [found.pop("accuracy")], found.pop("seconds")
                case = f"rotated MNIST, {len(images.y)} images, {found['steps']} steps"
                yield recorder.row("test accuracy", case, name, "1", values, seed=seed, **found)
                yield recorder.row("training", case, name, "s", [seconds], seed=seed)
                accuracies[name] += values
        yield {"summary": True} | {name: sum(x) / len(x) for name, x in accuracies.items()}


class Images(NamedTuple):
    """Training images with their classes, and test images turned once, all on the device."""

    x: torch.Tensor
    y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor


def digits(data: str | None, seed: int, where: torch.device, smoke: bool) -> Images:
    """MNIST in the parts of a seed; noise in its place where the script is only tried."""
    from symshare.data import load, transform

    if smoke:
        x, y = torch.rand(96, 1, 28, 28), torch.arange(96) % 10
        parts = (x[:64], y[:64], x[64:], y[64:])
    elif data is None:
        raise ValueError("table1: give the folder of the files of MNIST as --data")
    else:
        splits = load("mnist", root=Path(data), seed=seed)
        train, test = splits.train, splits.test
        parts = (train.images, train.labels, test.images, test.labels)
    x, y, test_x, test_y = parts
    turned = transform(LAW)(test_x, torch.Generator().manual_seed(TEST_SEED))
    return Images(*(tensor.to(where) for tensor in (x, y, turned, test_y)))


def trained(name: str, images: Images, steps: int, seed: int, smoke: bool) -> dict[str, Any]:
    """Train a row and test it. Nothing is read back from the device before the last step."""
    from symshare.data import transform
    from symshare.models import build_network, representation_parameters
    from symshare.representations import shared
    from symshare.settings import NetworkConfig
    from symshare.train.settings import OptimConfig

    chosen, penalties = TABLE1[name]
    settings: dict[str, Any] = {**chosen, **({"width": 4} if smoke else {})}
    config = NetworkConfig(**settings)
    optim = OptimConfig(steps=steps, batch_size=16 if smoke else 64, **penalties)
    where = images.x.device
    torch.manual_seed(seed)
    net = build_network(config, (1, 28, 28), 10).to(where).train()
    mean, std = images.x.mean(), images.x.std()
    law, generator = transform(LAW), torch.Generator(where).manual_seed(seed)

    learned = representation_parameters(net)
    known = {id(p) for p in learned}
    weights = [p for p in net.parameters() if id(p) not in known]
    parts = [{"params": weights, "lr": optim.lr, "weight_decay": optim.weight_decay}]
    parts += [{"params": learned, "lr": optim.representation_lr, "weight_decay": 0.0}]
    parts = [part for part in parts if part["params"]]
    optimizer = torch.optim.AdamW(parts, fused=where.type == "cuda")
    rates = [part["lr"] for part in parts]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates, total_steps=steps)

    B = optim.batch_size
    forward, is_compiled = net, False
    if not smoke or name == "rotated-cnn":  # tracing takes seconds
        forward, is_compiled = compiled_where_possible(net, images.x[:B] - mean, smoke)
    batches = len(images.x) // B
    order = torch.empty(0)
    start = time.perf_counter()
    for step in range(steps):
        at = step % batches
        if at == 0:
            order = torch.randperm(len(images.x), generator=generator, device=where)
        batch = order[at * B : (at + 1) * B]
        x = (law(images.x[batch], generator) - mean) / std
        optimizer.zero_grad()
        with shared(net):
            with torch.autocast(where.type, torch.bfloat16):
                logits = forward(x)
            loss = torch.nn.functional.cross_entropy(logits.float(), images.y[batch])
            loss = loss + penalty(net, optim.norm, optim.measure)
        loss.backward()
        optimizer.step()
        schedule.step()
    if where.type == "cuda":
        torch.cuda.synchronize(where)
    seconds = time.perf_counter() - start
    return {
        "accuracy": accuracy(net.eval(), (images.test_x - mean) / std, images.test_y),
        "seconds": seconds,
        "steps": steps,
        "parameters": net.free_parameters(),
        "representation_parameters": net.representation_parameters(),
        "precision": "bfloat16 autocast",
        "compiled": is_compiled,
    }


def compiled_where_possible(
    net: torch.nn.Module, x: torch.Tensor, smoke: bool
) -> tuple[Callable[[torch.Tensor], torch.Tensor], bool]:
    """The network compiled, once a forward and a backward pass have worked, or else as it is."""
    from symshare.representations import shared

    forward = torch.compile(net, backend="eager" if smoke else "inductor")
    try:
        with shared(net):
            with torch.autocast(x.device.type, torch.bfloat16):
                logits = forward(x)
            logits.float().sum().backward()
    except Exception as error:
        print(f"table1: not compiled: {type(error).__name__}: {error}", file=sys.stderr)
        return net, False
    return forward, True


def penalty(net: torch.nn.Module, norm: float, measure: float) -> torch.Tensor | float:
    """The penalties that these rows have: on the logits of stacks, and the sum of a measure."""
    from symshare.representations import Measure, Representation

    total: torch.Tensor | float = 0.0
    learned: dict[Any, None] = {}
    for module in net.modules():
        if isinstance(module, Measure):
            total = total + measure * module()[1:].sum()
        if isinstance(module, Representation):
            learned.update(dict.fromkeys(module.learned_parts()))
    if norm:
        total = total + norm * sum(part.norm() for part in learned)
    return total


@torch.no_grad()
def accuracy(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """Share of images that are classed right, in float32."""
    pairs = zip(x.split(1000), y.split(1000), strict=True)
    return float(sum((net(part).argmax(-1) == known).sum() for part, known in pairs) / len(y))


PARTS = {
    "sinkhorn": sinkhorn,
    "step": step,
    "layer": layer,
    "synchronisation": synchronisation,
    "compiled": compiled,  # the longest of those that always run
    "table1": table1,
}

if __name__ == "__main__":
    sys.exit(main())
