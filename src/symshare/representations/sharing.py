"""One projection a step for a whole network."""

from collections.abc import Generator
from contextlib import contextmanager

from torch import nn

from symshare.representations.projection import Projection, project_together


@contextmanager
def shared(module: nn.Module) -> Generator[None]:
    """Project all stacks below `module` on entry, those of one size in one call.

    Inside, forward passes and penalties see the same R, and gradients go back through one
    projection. Without it every use of a stack projects anew, to the same R. Element actions that
    `Kronecker` computes from its spatial action are not logits, and each layer computes its own.

    A block is for one backward pass, which frees the projection: open one for each batch whose
    gradients are accumulated. Leave it before the optimiser step, and keep `backward` inside it
    where activation checkpointing recomputes the forward pass.

    Raises:
        RuntimeError: if logits change inside the block and R is asked for again.

    >>> from symshare import Sinkhorn
    >>> stack = Sinkhorn(4, 9)
    >>> with shared(stack):
    ...     stack.projection() is stack.projection()
    True
    """
    todo = [m for m in module.modules() if isinstance(m, Projection) and m._given is None]
    try:
        alike: dict[tuple, list[Projection]] = {}
        for projection in todo:
            alike.setdefault(projection.kind, []).append(projection)
        for projections in alike.values():
            project_together(projections)
        yield
    finally:
        for projection in todo:
            projection.unshare()
