"""Several processes that train together, while the first of them alone does everything else."""

import logging
import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch.nn.parallel import DistributedDataParallel

from symshare.train.settings import Hardware

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = ["start", "together"]

T = TypeVar("T")

_PATIENCE = timedelta(days=30)
"""How long a process waits for the others. The first one reads, proposes and judges meanwhile, for
hours if need be; a process that has died is noticed by its closed connection, not by this."""

_inside = ContextVar("inside", default=False)
"""Whether this is the work of the first of several processes."""


@dataclass(frozen=True)
class _End:
    """The last thing that the others hear; what they hear before are trainings, to be run."""

    failed: bool
    result: Any = None


@cache
def start(hardware: Hardware) -> "Fabric":
    """The devices, with all processes connected; those that nobody else starts are started.

    Raises:
        ValueError: where this machine has no such hardware.
    """
    from lightning_fabric import Fabric
    from lightning_fabric.strategies import DDPStrategy
    from lightning_fabric.utilities.exceptions import MisconfigurationException

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    strategy: str | DDPStrategy = "auto"
    if hardware.processes > 1:
        # Buffers are the same everywhere: projections start alike, and norms see all processes.
        newer = "forward_sync_buffers" in signature(DistributedDataParallel).parameters
        buffers: dict[str, Any] = {"forward_sync_buffers" if newer else "broadcast_buffers": False}
        strategy = DDPStrategy(timeout=_PATIENCE, **buffers)
    try:
        fabric = Fabric(
            accelerator=hardware.accelerator,
            strategy=strategy,
            devices=hardware.devices,
            num_nodes=hardware.nodes,
            precision=hardware.precision,
        )
    except (MisconfigurationException, RuntimeError) as error:
        raise ValueError(f"{hardware} is not to be had on this machine: {error}") from error
    fabric.launch()
    return fabric


def together(hardware: Hardware, work: Callable[[], T]) -> T:
    """Do the work in the first process; the others take part in each training that it starts.

    Processes that are started here begin anew with the command or script of the first, and join
    it here. Work may itself call this: that is done in the first process, too.

    Args:
        hardware: how many processes there are.
        work: reads, decides and writes. Other processes never call it.

    Returns:
        What the work returns, in every process.
    """
    if hardware.processes == 1 or _inside.get():
        return work()
    fabric = start(hardware)
    if fabric.is_global_zero:
        outside = _inside.set(True)
        try:
            result = work()
        except BaseException:
            # After a training that was cut short nobody listens any more.
            if torch.distributed.is_initialized():
                fabric.broadcast(_End(failed=True))
            raise
        finally:
            _inside.reset(outside)
        fabric.broadcast(_End(failed=False, result=result))
        return result
    try:
        while not isinstance(message := fabric.broadcast(cast(Any, None)), _End):
            message.run(fabric)
    except KeyboardInterrupt:
        sys.exit(130)  # the first process says so
    if message.failed:
        sys.exit(1)  # the first process says why
    return message.result
