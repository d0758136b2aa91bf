"""Which batch norms may be folded into the convolution before them."""

import copy
import inspect
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

from torch import fx, nn

from symshare.convert.modules import held, observed, uncompiled, writes
from symshare.convert.plain import LAYERS, fixed_norm
from symshare.layers.convolution import Convolution


def foldable(model: nn.Module) -> dict[nn.Module, nn.Module]:
    """The batch norm after each convolution whose output goes there and nowhere else.

    The forward pass is traced symbolically, which shows where every output goes on one way
    through it. Where there may be another way, which a trace does not see, the pass does not
    count:

    - it has optional arguments: whether they are None is decided in silence;
    - it writes to its module, which may change the next pass, or is read from there later;
    - modules that it goes through have hooks, which see values too.

    Nor does it where it decides by the values of tensors, which cannot be traced. Then only
    neighbours in an `nn.Sequential` count that is the model, or lies in such a sequence: other
    code could take it apart. A convolution or a norm with hooks of its own is left alone.

    Assumed is that the model is used by calling it, with tensors for all required arguments and
    in eval mode, and that what its pass decides by else (attributes, global variables) stays
    what it is now.
    """
    model = uncompiled(model)
    graph = _traced(model)
    candidates = _neighbours(model) if graph is None else _single_uses(model, graph)
    return {
        convolution: norm
        for convolution, norm in candidates
        if isinstance(convolution, Convolution)
        and fixed_norm(norm, convolution.out_channels) is not None
        and not observed(convolution)
    }


class _Tracer(fx.Tracer):
    """A tracer that does not look into our layers."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str = "") -> bool:
        return isinstance(m, LAYERS) or super().is_leaf_module(m, module_qualified_name)


def _traced(model: nn.Module) -> fx.Graph | None:
    """The forward pass, or None where a trace may not be all of it."""
    tracer = _Tracer()
    entered = (module for module in model.modules() if not tracer.is_leaf_module(module))
    if _has_options(model) or any(observed(module) for module in entered):
        return None
    twin = copy.deepcopy(model)
    try:
        before = held(twin)  # kept alive, so that nothing new gets the identity of one of these
        versions = [(id(x), writes(x)) for x in before]
        graph = tracer.trace(twin)
        unchanged = versions == [(id(x), writes(x)) for x in held(twin)]
    except Exception:  # the user's code can raise anything when it gets no tensors
        return None
    return graph if unchanged else None


def _has_options(model: nn.Module) -> bool:
    """Whether calls of the model can differ in more than the values of tensors."""
    if "forward" in vars(model):  # not the one that is traced
        return True
    _, *arguments = inspect.signature(type(model).forward).parameters.values()
    return any(
        x.kind in (x.VAR_POSITIONAL, x.VAR_KEYWORD)
        or x.default is not x.empty
        or any(word in str(x.annotation) for word in ("None", "Optional"))
        for x in arguments
    )


def _single_uses(model: nn.Module, graph: fx.Graph) -> Iterable[tuple[nn.Module, nn.Module]]:
    """Pairs of modules called once each, the first feeding the second only."""
    calls = Counter(node.target for node in graph.nodes if node.op == "call_module")
    # Parameters that the pass reads by itself, for instance weights of a norm.
    calls.update(node.target.rpartition(".")[0] for node in graph.nodes if node.op == "get_attr")
    once = [n for n in graph.nodes if n.op == "call_module" and calls[n.target] == 1]
    for node in once:
        users = list(node.users)
        if len(users) == 1 and users[0] in once:
            yield model.get_submodule(node.target), model.get_submodule(users[0].target)


def _neighbours(model: nn.Module) -> Iterable[tuple[nn.Module, nn.Module]]:
    """Pairs in a sequence, neither of them used anywhere else."""
    uses = Counter(module for _, module in model.named_modules(remove_duplicate=False))
    for sequence in _sequences(model):
        for first, second in pairwise(sequence):
            if uses[first] == uses[second] == 1:
                yield first, second


def _sequences(module: nn.Module) -> Iterator[nn.Sequential]:
    """The module and the sequences in it that only sequences hold."""
    if type(module) is nn.Sequential:
        yield module
        for child in module:
            yield from _sequences(child)
