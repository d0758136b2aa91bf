"""Learned matrices moved to the nearest permutations: the lossy step, on request."""

from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from symshare.analysis import nearest_permutation
from symshare.representations import Measure, Projection, Stack
from symshare.representations.birkhoff import Coefficients

__all__ = ["snap"]

_SOURCES = (Projection, Coefficients)

# exp(-1e4) is zero in every precision, and half precision holds the number itself.
_FAR = 1e4


def snap(model: nn.Module) -> None:
    """Move what representations learn to permutations, in place.

    This happens at the source: logits behind a projection become those of the permutations
    nearest to its matrices, and convex coefficients those of their largest. So all that share a
    source go on sharing it, R need not be formed, and what is computed from a source follows it.
    Known stacks and measures stay as they are.

    Args:
        model: in eval mode, so that matrices are projected to convergence.

    Raises:
        ValueError: if a representation learns in another way; then it may be near no permutation.
            If logits are parametrised, as only what they are computed from can be moved.
    """
    for module in model.modules():
        if isinstance(module, Stack):
            _check(module)
        elif isinstance(module, _SOURCES) and is_parametrized(module):
            raise ValueError(
                f"bake: hard=True cannot move the parametrised logits of {type(module).__name__}; "
                "call torch.nn.utils.parametrize.remove_parametrizations on them first, or leave "
                "hard out"
            )
    for module in model.modules():
        if isinstance(module, Projection) and len(module.logits):
            _settle(module.logits, nearest_permutation(module()))
        elif isinstance(module, Coefficients):
            _settle(module.logits, module.logits.argmax(-1))


def _check(stack: Stack) -> None:
    sources = (m for m in stack.modules() if isinstance(m, (*_SOURCES, Measure)))
    known = {p for source in sources for p in source.parameters()}
    others = [name for name, p in stack.named_parameters() if p not in known]
    if others:
        raise ValueError(
            "bake: hard=True knows the permutations near what Sinkhorn, Kronecker and Birkhoff "
            f"learn, but not near the {', '.join(others)} of {type(stack).__name__}: its "
            f"matrices are {stack.membership}; leave hard out"
        )


def _settle(logits: Tensor, chosen: Tensor) -> None:
    """All of each distribution in the last axis on the entry that is chosen for it."""
    logits.fill_(-_FAR).scatter_(-1, chosen.unsqueeze(-1), 0.0)
