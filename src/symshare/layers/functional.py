"""The layers as pure functions of tensors: R and theta to a kernel, then a convolution.

Every function works under `torch.func`, `torch.compile` and `torch.export`. The number of spatial
axes is the length of `kernel_size`; where that is one number for all axes, f says how many there
are. The layers are these functions with parameters of their own.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from symshare.layers.geometry import Geometry, Options, Size, TransposedOptions
from symshare.representations.base import expand

__all__ = [
    "contract",
    "convolve",
    "expand",
    "group_conv",
    "group_conv_transpose",
    "group_linear",
    "lift_conv",
    "lift_conv_transpose",
    "weight",
]

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_CONV_TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def weight(
    W: Float[Tensor, "O G I D"], geometry: Geometry, measure: Float[Tensor, " K"] | None = None
) -> Float[Tensor, "A C *k"]:
    """Expanded weights in the layout of torch's convolutions, the measure multiplied in.

    Args:
        W: expanded weights [O, G, I/groups, D], D = K * P with P fast (K = 1 when lifting).
        geometry: options of the convolution.
        measure: weights of the K input elements; None means all ones.

    Returns:
        [O*G, I/groups*K, *kernel_size], or [I*K, O/groups*G, *kernel_size] when transposed; the
        group indices are the fast ones.

    >>> weight(torch.ones(8, 4, 3, 9), Geometry.read("doc", 2, kernel_size=3)).shape
    torch.Size([32, 3, 3, 3])
    """
    W = W.unflatten(-1, (-1, *geometry.kernel_size))
    if measure is not None:
        W = (W * measure.reshape(-1, *(1,) * geometry.dims)).to(W.dtype)
    if not geometry.transposed:
        return W.flatten(0, 1).flatten(1, 2)
    W = W.unflatten(0, (geometry.groups, -1))
    return W.movedim((3, 4), (1, 2)).flatten(0, 2).flatten(1, 2)


def convolve(
    f: Float[Tensor, "B I *space"],
    W: Float[Tensor, "O G J D"],
    bias: Float[Tensor, " O"] | None,
    geometry: Geometry,
    measure: Float[Tensor, " K"] | None = None,
) -> Float[Tensor, "B O G *out"]:
    """Convolve with expanded weights; every convolution of the library ends here.

    Args:
        f: images [B, I, *space], or maps [B, I, K, *space].
        W: expanded weights [O, G, I/groups, D].
        bias: one number for each output channel, shared over G.
        geometry: options of the convolution.
        measure: weights of the K input elements.
    """
    O, G = W.shape[:2]
    if f.ndim > 2 + geometry.dims:
        f = f.flatten(1, 2)
    kernel = weight(W, geometry, measure)
    bias = None if bias is None else bias.repeat_interleave(G)
    padding = [before for before, _ in geometry.margins]
    stride, dilation, groups = geometry.stride, geometry.dilation, geometry.groups
    if geometry.transposed:
        transpose, extra = _CONV_TRANSPOSE[geometry.dims], geometry.output_padding
        y = transpose(f, kernel, bias, stride, padding, extra, groups, dilation)
    else:
        if geometry.padding_mode != "zeros" or not geometry.centred:
            # F.pad counts from the last axis.
            margins = [n for pair in reversed(geometry.margins) for n in pair]
            mode = geometry.padding_mode
            f = F.pad(f, margins, "constant" if mode == "zeros" else mode)
            padding = 0
        y = _CONV[geometry.dims](f, kernel, bias, stride, padding, dilation, groups)
    return y.unflatten(1, (O, G))


def contract(
    x: Float[Tensor, "B I D"], W: Float[Tensor, "O G I D"], bias: Float[Tensor, " O"] | None = None
) -> Float[Tensor, "B O G"]:
    """Apply expanded weights to inputs over D positions."""
    y = torch.einsum("ogid,bid->bog", W, x)
    return y if bias is None else y + bias[:, None].to(y.dtype)


def lift_conv(
    f: Float[Tensor, "B I *space"],
    theta: Float[Tensor, "O J P"],
    R: Float[Tensor, "G P P"],
    bias: Float[Tensor, " O"] | None = None,
    *,
    kernel_size: Size,
    **options: Unpack[Options],
) -> Float[Tensor, "B O G *out"]:
    """Lifting convolution, from images to maps on G elements: Eq. (4) of arXiv:2412.04594.

    `f` are images [B, I, *space], `theta` base weights [O, I/groups, P], `R` is a stack [G, P, P]
    on the P kernel positions, and `bias` [O] is shared over G. P is the product of `kernel_size`,
    one length or one for each spatial axis. Where elements move channels too, theta is
    [O, 1, I/groups * P] and R acts on as many numbers, channels slow. The options (`stride`,
    `padding`, `padding_mode`, `dilation`, `groups`), and the equation, are those of
    :class:`~symshare.layers.LiftConv2d`.

    Raises:
        ValueError: if shapes or options do not fit.

    >>> f, theta, R = torch.ones(2, 3, 9, 9), torch.ones(8, 3, 25), torch.ones(4, 25, 25)
    >>> lift_conv(f, theta, R, kernel_size=(5, 5)).shape
    torch.Size([2, 8, 4, 5, 5])
    """
    return _conv("lift_conv", f, theta, R, bias, kernel_size, options)


def group_conv(
    f: Float[Tensor, "B I K *space"],
    theta: Float[Tensor, "O J D"],
    R: Float[Tensor, "G D D"],
    bias: Float[Tensor, " O"] | None = None,
    *,
    kernel_size: Size,
    measure: Float[Tensor, " K"] | None = None,
    **options: Unpack[Options],
) -> Float[Tensor, "B O G *out"]:
    """Group convolution, from maps on K to maps on G elements: Eq. (2) of arXiv:2412.04594.

    Arguments and errors are those of :func:`lift_conv`, for maps f [B, I, K, *space] on K
    elements, with theta [O, I/groups, K*P], P fast, and R [G, K*P, K*P]. `measure` [K] has a
    weight for each input element; None means all ones. The equation is that of
    :class:`~symshare.layers.GroupConv2d`.

    >>> f, theta, R = torch.ones(2, 3, 4, 9), torch.ones(8, 3, 12), torch.ones(4, 12, 12)
    >>> group_conv(f, theta, R, kernel_size=(3,), padding=1).shape
    torch.Size([2, 8, 4, 9])
    """
    return _conv("group_conv", f, theta, R, bias, kernel_size, options, True, measure)


def lift_conv_transpose(
    f: Float[Tensor, "B I *space"],
    theta: Float[Tensor, "O J P"],
    R: Float[Tensor, "G P P"],
    bias: Float[Tensor, " O"] | None = None,
    *,
    kernel_size: Size,
    **options: Unpack[TransposedOptions],
) -> Float[Tensor, "B O G *out"]:
    """Transposed lifting convolution: every pixel x' of f stamps the kernels R_g theta.

    Tensors and errors are those of :func:`lift_conv`, options those of `torch.nn.ConvTranspose2d`:
    `stride` is the distance of the stamped kernels, `padding` is cut off on both sides of the
    output, and `output_padding` added on one. The equation is that of
    :class:`~symshare.layers.LiftConvTranspose2d`.

    >>> f, theta, R = torch.ones(2, 3, 5, 5), torch.ones(8, 3, 4), torch.ones(4, 4, 4)
    >>> lift_conv_transpose(f, theta, R, kernel_size=(2, 2), stride=2).shape
    torch.Size([2, 8, 4, 10, 10])
    """
    return _conv("lift_conv_transpose", f, theta, R, bias, kernel_size, options)


def group_conv_transpose(
    f: Float[Tensor, "B I K *space"],
    theta: Float[Tensor, "O J D"],
    R: Float[Tensor, "G D D"],
    bias: Float[Tensor, " O"] | None = None,
    *,
    kernel_size: Size,
    measure: Float[Tensor, " K"] | None = None,
    **options: Unpack[TransposedOptions],
) -> Float[Tensor, "B O G *out"]:
    """Transposed group convolution, from maps on K elements to maps on G elements.

    The tensors are those of :func:`group_conv`, the options those of :func:`lift_conv_transpose`,
    and the equation is that of :class:`~symshare.layers.GroupConvTranspose2d`.

    >>> f, theta, R = torch.ones(2, 3, 4, 5), torch.ones(8, 3, 8), torch.ones(4, 8, 8)
    >>> group_conv_transpose(f, theta, R, kernel_size=(2,), stride=2).shape
    torch.Size([2, 8, 4, 10])
    """
    return _conv("group_conv_transpose", f, theta, R, bias, kernel_size, options, True, measure)


def group_linear(
    x: Float[Tensor, "B I D"],
    theta: Float[Tensor, "O I D"],
    R: Float[Tensor, "G D D"],
    bias: Float[Tensor, " O"] | None = None,
) -> Float[Tensor, "B O G"]:
    """Linear layer W = R theta, the function of :class:`~symshare.layers.GroupLinear`.

    Raises:
        ValueError: if shapes do not fit.

    >>> group_linear(torch.ones(2, 1, 6), torch.ones(3, 1, 6), torch.ones(4, 6, 6)).shape
    torch.Size([2, 3, 4])
    """
    _check_bias("group_linear", theta, bias)
    check_vectors("group_linear", x, *theta.shape[1:])
    return contract(x, expand(R, theta), bias)


def check_vectors(who: str, x: Tensor, channels: int, positions: int) -> None:
    """Refuse a tensor that is no [B, channels, positions]."""
    if x.ndim != 3 or x.shape[1:] != (channels, positions):
        raise ValueError(
            f"{who}: expected an input [B, {channels}, {positions}] (channels, then positions), "
            f"got {tuple(x.shape)}; move the channels to axis 1, or change the layer"
        )


def _check_bias(who: str, theta: Tensor, bias: Tensor | None) -> None:
    """Refuse a bias that does not fit base weights [O, I, D]."""
    if bias is not None and bias.shape != theta.shape[:1]:
        raise ValueError(
            f"{who}: expected a bias [{len(theta)}], got {tuple(bias.shape)}; all G copies of a "
            "channel share one number"
        )


def _conv(
    who: str,
    f: Tensor,
    theta: Tensor,
    R: Tensor,
    bias: Tensor | None,
    kernel_size: Size,
    options: Mapping[str, Any],
    elements: bool = False,
    measure: Tensor | None = None,
) -> Tensor:
    """Read the options, check all, and convolve; f has elements or has not."""
    axes = "B, I, K" if elements else "B, I"
    dims = f.ndim - (3 if elements else 2)
    if isinstance(kernel_size, Sequence):
        dims = len(kernel_size)
    elif dims not in _CONV:
        raise ValueError(
            f"{who}: expected f [{axes}, *space] with 1, 2 or 3 spatial axes, got "
            f"{tuple(f.shape)}; reshape f, or give one length for each axis of the kernel"
        )
    transposed = who.endswith("transpose")
    geometry = Geometry.read(who, dims, kernel_size, transposed=transposed, **options)
    K, rest = divmod(theta.shape[-1], geometry.taps)
    mixed = not elements and K > 1 and theta.shape[1] == 1
    if rest or not (elements or K == 1 or mixed):
        raise ValueError(
            f"{who}: theta {tuple(theta.shape)} has D={theta.shape[-1]} positions, "
            f"{'no multiple of' if elements else 'not'} the {geometry.taps} taps of a kernel of "
            f"size {geometry.kernel_size}; the last axis of theta is D, and f is [{axes}, *space], "
            f"here {tuple(f.shape)}"
        )
    if measure is not None and measure.shape != (K,):
        raise ValueError(
            f"{who}: expected a measure on {K} input elements, got {tuple(measure.shape)}; "
            "give one number for each"
        )
    _check_bias(who, theta, bias)
    channels = theta.shape[1] * geometry.groups * (K if mixed else 1)
    geometry.check_channels(who, channels, theta.shape[0])
    geometry.check_input(who, f, channels, K if elements else None)
    return convolve(f, expand(R, theta), bias, geometry, measure)
