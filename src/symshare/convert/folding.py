"""Which batch norms may be folded into the convolution before them."""

import copy
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from torch import fx, nn

from symshare.convert.norms import is_batch_norm
from symshare.convert.plain import LAYERS
from symshare.layers.convolution import Convolution

__all__ = ["foldable"]


def foldable(model: nn.Module) -> dict[nn.Module, nn.Module]:
    """The batch norm after each convolution whose output goes there and nowhere else.

    The forward pass is traced symbolically, which shows where every output goes. Where that
    fails, for instance since the pass depends on values, only neighbours in an `nn.Sequential`
    count. Modules with hooks are left alone: somebody looks at what they return.

    Args:
        model: in eval mode.
    """
    try:
        # Tracing runs the user's code, which may write to the module.
        graph = _Tracer().trace(copy.deepcopy(model))
    except Exception:  # the user's code can raise anything when it gets no tensors
        candidates = _neighbours(model)
    else:
        candidates = _single_uses(model, graph)
    return {
        convolution: norm
        for convolution, norm in candidates
        if isinstance(convolution, Convolution)
        and is_batch_norm(norm, convolution.out_channels)
        and not _observed(convolution)
        and not _observed(norm)
    }


class _Tracer(fx.Tracer):
    """A tracer that does not look into our layers."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, LAYERS) or super().is_leaf_module(m, module_qualified_name)


def _single_uses(model: nn.Module, graph: fx.Graph) -> Iterable[tuple[nn.Module, nn.Module]]:
    """Pairs of modules called once each, the first feeding the second only."""
    calls = Counter(node.target for node in graph.nodes if node.op == "call_module")
    for node in graph.nodes:
        users = list(node.users)
        if node.op != "call_module" or len(users) != 1:
            continue
        (user,) = users
        if user.op == "call_module" and calls[node.target] == calls[user.target] == 1:
            yield model.get_submodule(node.target), model.get_submodule(user.target)


def _neighbours(model: nn.Module) -> Iterable[tuple[nn.Module, nn.Module]]:
    """Pairs in a sequence, neither of them used anywhere else."""
    uses = Counter(module for _, module in model.named_modules(remove_duplicate=False))
    for sequence in model.modules():
        if type(sequence) is nn.Sequential:
            for first, second in pairwise(sequence):
                if uses[first] == uses[second] == 1:
                    yield first, second


def _observed(module: Any) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)
