"""A network with shared weights, written out as a plain one."""

import copy
from dataclasses import dataclass
from typing import overload

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from symshare.analysis import nearest_permutation
from symshare.convert.constants import Frozen
from symshare.convert.folding import foldable
from symshare.convert.modules import copied, settle
from symshare.convert.plain import LAYERS, is_known_network, plain, plain_network
from symshare.representations import Measure, Projection, Representation, Stack
from symshare.representations.birkhoff import Coefficients

_SHARING = (*LAYERS, Representation, Measure)
_SOURCES = (Projection, Coefficients)

# exp(-1e4) is zero in every precision, and half precision holds the number itself.
_FAR = 1e4


@dataclass(frozen=True)
class BakeReport:
    """What baking did to the accuracy.

    Attributes:
        accuracy_before: share of samples the network classifies rightly in eval mode.
        accuracy_after: the same of the baked network.
        samples: number of samples.
    """

    accuracy_before: float
    accuracy_after: float
    samples: int


@overload
def bake(model: nn.Module, *, hard: bool = False, data: None = None) -> nn.Module: ...
@overload
def bake(
    model: nn.Module, *, hard: bool = False, data: tuple[Tensor, Tensor]
) -> tuple[nn.Module, BakeReport]: ...
def bake(
    model: nn.Module,
    *,
    hard: bool = False,
    data: tuple[Float[Tensor, "N ..."], Int[Tensor, " N"]] | None = None,
) -> nn.Module | tuple[nn.Module, BakeReport]:
    """A copy of a network in which every layer of symshare is a plain one of `torch.nn`.

    The expanded kernels R theta become ordinary weights, so the copy costs what a plain network
    of its width costs, and computes what the network computes in eval mode, up to rounding.
    Shapes between the layers stay [B, C, G, ...], so user code around them runs unchanged. There
    `GroupBatchNorm`, `SpatialMaxPool` and `SpatialAvgPool` stand for `nn.BatchNorm2d`,
    `nn.MaxPool2d` and `nn.AvgPool2d`, which know no group axis.
    A batch norm that alone reads a convolution is folded into it where the forward pass shows
    that: the pass has no optional arguments, decides nothing by the values of tensors, and writes
    nothing to its module. What else it decides by, such as an attribute, is taken to stay what it
    is. Norms and means over the group that `torch.nn` does not have become small constant modules
    of `symshare.convert`. A whole `GroupCNN` becomes one `nn.Sequential`.

    Args:
        model: any module that holds layers of symshare; it is left as it is.
        hard: first move what `Sinkhorn` and `Kronecker` learn to the nearest permutations, and
            each slot of `Birkhoff` to the element of its largest coefficient. An element action
            by transport follows its spatial action: it is one of permutations where that is a
            group. This changes what the network computes; `data` shows by how much.
        data: samples x and their classes y, to measure the accuracy before and after; the
            largest logit counts.

    Returns:
        The copy, in eval mode and sharing no memory with the model; with `data`, the copy and a
        :class:`BakeReport`. A stack or measure that other modules hold becomes a module that
        returns the tensor a call of it returned. All weights require gradients.

    Raises:
        TypeError: if the model is no module.
        ValueError: if there is nothing to bake, if `hard` meets a representation that learns
            in another way, or if a layer has forward hooks other than those of torch that
            compute weights, or a subclass of one a forward pass of its own.

    >>> from symshare import Fixed, LiftConv2d, groups
    >>> bake(nn.Sequential(LiftConv2d(1, 2, 3, Fixed(groups.rotations(4))), nn.ReLU()))
    Sequential(
      (0): Sequential(
        (0): Conv2d(1, 8, kernel_size=(3, 3), stride=(1, 1))
        (1): Unflatten(dim=1, unflattened_size=(2, 4))
      )
      (1): ReLU()
    )
    """
    if is_plain(model):
        raise ValueError(
            f"bake: nothing to bake: {type(model).__name__} holds no layer or representation of "
            "symshare; is it baked already?"
        )
    if data is not None and not (len(data) == 2 and len(data[0]) == len(data[1]) > 0):
        shapes = ", ".join(str(tuple(part.shape)) for part in data)
        raise ValueError(
            "bake: data is a pair of as many samples as classes and at least one, got tensors of "
            f"shapes {shapes}; pass data=(x, y)"
        )
    with torch.inference_mode(False), torch.no_grad():
        settled = copied(model)
        settled.eval()  # where a learned R is projected to convergence
        before = None if data is None else _accuracy(settled, *data)
        for layer in (m for m in settled.modules() if isinstance(m, _SHARING)):
            for part in layer.modules():
                settle(part)
        if hard:
            _snap(settled)
        baked = _written_out(settled)
        if data is None or before is None:
            return baked
        return baked, BakeReport(before, _accuracy(baked, *data), len(data[0]))


def is_plain(model: nn.Module) -> bool:
    """Whether a network holds no layer, representation or measure of symshare.

    >>> is_plain(nn.ReLU())
    True
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"bake: expected a torch.nn.Module, got {type(model).__name__}; give the network "
            "itself: load a state dict into it first, put a list of layers into nn.Sequential"
        )
    return not any(isinstance(module, _SHARING) for module in model.modules())


def _written_out(model: nn.Module) -> nn.Module:
    """A copy with every layer replaced, wherever it is referred to."""
    folded = foldable(model)
    replaced = _constants(model)
    for module in model.modules():
        if is_known_network(module):
            replaced[module] = plain_network(module, folded)
        elif isinstance(module, LAYERS):
            replaced[module] = plain(module, folded.get(module))
    replaced.update((norm, nn.Identity()) for norm in folded.values())
    baked = copy.deepcopy(model, {id(old): new for old, new in replaced.items()})
    baked.eval()
    return baked


def _constants(model: nn.Module) -> dict[nn.Module, nn.Module]:
    """What representations and measures return, where the user's modules hold them."""
    users = (m for m in model.modules() if not isinstance(m, (*LAYERS, Representation)))
    held = {model, *(child for user in users for child in user.children())}
    constants: dict[nn.Module, nn.Module] = {}
    for module in held:
        if isinstance(module, (Measure, Stack)):
            constants[module] = Frozen(module().clone())
        elif isinstance(module, Representation):
            constants[module] = nn.Identity()
    return constants


def _accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Share of samples whose largest logit is that of their class."""
    device = next((p.device for p in model.parameters()), x.device)
    right = sum(
        int((model(some.to(device)).argmax(-1) == classes.to(device)).sum())
        for some, classes in zip(x.split(256), y.split(256), strict=True)
    )
    return right / len(x)


def _snap(model: nn.Module) -> None:
    """Move what representations learn to permutations, in place.

    This happens at the source: logits behind a projection become those of the permutations
    nearest to its matrices, and convex coefficients those of their largest. So all that share a
    source go on sharing it, R need not be formed, and what is computed from a source follows it.
    Known stacks and measures stay as they are. Refused is a representation that learns in another
    way, as it may be near no permutation, and parametrised logits, as only what they are computed
    from can be moved.
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
