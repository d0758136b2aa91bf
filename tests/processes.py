"""Several processes that compute together, and what each of them got."""

import os
from pathlib import Path

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


def step(network: nn.Module, batches: list[torch.Tensor], folder: Path) -> list[dict]:
    """One training pass of a network over each process's batch, and the sum of its outputs.

    Returns:
        Of each process: the output, the gradients summed over all processes, and the buffers.
    """
    torch.save((network, batches), folder / "task.pt")
    multiprocessing.spawn(_step, (folder, len(batches)), nprocs=len(batches))
    return [torch.load(folder / f"{rank}.pt") for rank in range(len(batches))]


def _step(rank: int, folder: Path, world: int) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world
    )
    network, batches = torch.load(folder / "task.pt", weights_only=False)
    parallel = DistributedDataParallel(network)  # averages gradients for as long as it lives
    y = parallel(batches[rank])
    weighted(y).backward()
    gradients = {name: world * p.grad for name, p in network.named_parameters()}
    result = {"y": y.detach(), "gradients": gradients, "buffers": dict(network.named_buffers())}
    torch.save(result, folder / f"{rank}.pt")
    distributed.destroy_process_group()


def weighted(y: torch.Tensor) -> torch.Tensor:
    """A sum over samples whose gradient differs from entry to entry and from sample to sample."""
    return (y * y.detach().sin()).sum()
