"""Times of contenders taken in turns, and the memory that they ask for."""

import gc
import os
import time
import weakref
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks import allocator
from benchmarks.options import BenchConfig
from benchmarks.threads import limited

__all__ = ["Contender", "interleaved", "peak_bytes", "saved_bytes", "session"]

WARM_UP = 5
"""Rounds before the first that counts."""


@dataclass(frozen=True)
class Contender:
    """One way to do the work of a case.

    Attributes:
        run: what is timed.
        prepare: what goes before it each time, outside the timing.
    """

    run: Callable[[], object]
    prepare: Callable[[], object] = lambda: None


@contextmanager
def session(config: BenchConfig) -> Generator[torch.device]:
    """The device of a bench, with its seed, its number of threads and memory that it keeps.

    Raises:
        ValueError: if the device is not to be had.
    """
    try:
        device = torch.device(config.device)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"device {config.device} cannot be used here: {reason}") from error
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be cpu or cuda, got {config.device}: others are not timed")
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices), limited(config.threads), allocator.kept():
        torch.manual_seed(config.seed)
        yield device


def interleaved(
    contenders: Mapping[str, Contender], config: BenchConfig, device: torch.device
) -> dict[str, list[float]]:
    """Seconds of every contender in every round, one after the other within a round.

    Whatever else the machine does then falls on all of them alike, so that the ratio of two
    contenders within a round is worth more than the ratio of their medians.

    Returns:
        As many numbers for each contender, in the order of the rounds [s].
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(WARM_UP):
        for contender in contenders.values():
            contender.prepare()
            contender.run()
    with _no_collection():
        start = time.perf_counter()
        for round in range(config.rounds):
            if round and time.perf_counter() - start > config.seconds:
                break
            for name, contender in contenders.items():
                contender.prepare()
                times[name].append(_seconds(contender.run, device))
    return times


@contextmanager
def _no_collection() -> Generator[None]:
    """Garbage is collected before or after, not within what is measured."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _seconds(run: Callable[[], object], device: torch.device) -> float:
    """Time of one call; on CUDA from the first to the last kernel, waits for launches included."""
    if device.type == "cuda":
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(device)
        before.record()
        run()
        after.record()
        torch.cuda.synchronize(device)
        return before.elapsed_time(after) / 1000
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def saved_bytes(run: Callable[[], object], beside: tuple[Tensor, ...] = ()) -> int:
    """Bytes that autograd keeps for the backward pass of `run`, each storage counted once.

    Args:
        run: a forward pass, without its backward pass; what it returns keeps its graph alive.
        beside: tensors that exist anyway, such as parameters and inputs.

    >>> x = torch.zeros(100, requires_grad=True)
    >>> saved_bytes(lambda: x.exp().square().sum(), beside=(x,))
    400
    """
    kept: weakref.WeakSet[_Kept] = weakref.WeakSet()

    def pack(tensor: Tensor) -> _Kept:
        holder = _Kept(tensor.detach())  # or an output would hold its own node
        kept.add(holder)
        return holder

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda holder: holder.tensor):
        result = run()
    storages = [holder.tensor.untyped_storage() for holder in kept]
    sizes = {storage.data_ptr(): storage.nbytes() for storage in storages}
    del result
    known = {tensor.untyped_storage().data_ptr() for tensor in beside}
    return sum(size for pointer, size in sizes.items() if pointer not in known)


class _Kept:
    """A tensor that a node of the graph keeps: it goes when the node goes."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor


def peak_bytes(run: Callable[[], object], device: torch.device) -> int:
    """Most bytes that `run` holds at a time beyond what was there before it, its result included.

    On CUDA this is the peak of PyTorch's allocator. On the CPU it is the largest running sum of
    the allocations and releases that `torch.profiler` records, which are those of PyTorch's
    allocator: all tensors, also those inside an operator, but not the scratch memory that a
    library such as oneDNN takes from the system by itself.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler writes to stderr
    cpu = torch.profiler.ProfilerActivity.CPU
    with (
        _no_collection(),
        torch.profiler.profile(activities=[cpu], profile_memory=True) as profile,
    ):
        run()
    profiler: Any = profile.profiler
    events = [e for e in profiler.kineto_results.events() if e.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak
