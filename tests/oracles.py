"""Slow, independent versions of what the library computes: explicit loops, no shared code."""

import numpy as np
import torch
from torch import Tensor


def sinkhorn(logits: np.ndarray, iterations: int) -> np.ndarray:
    """Row and column normalisation of one matrix, in the exponential domain."""
    R = np.exp(logits.astype(np.float64))
    for _ in range(iterations):
        R = R / R.sum(axis=1, keepdims=True)
        R = R / R.sum(axis=0, keepdims=True)
    return R


def expand(R: Tensor, theta: Tensor) -> Tensor:
    """W[o, g, i, d] = sum_e R[g, d, e] theta[o, i, e], one number at a time."""
    G, D, _ = R.shape
    O, I, _ = theta.shape
    W = torch.zeros(O, G, I, D, dtype=theta.dtype)
    for o in range(O):
        for g in range(G):
            for i in range(I):
                for d in range(D):
                    W[o, g, i, d] = sum(R[g, d, e] * theta[o, i, e] for e in range(D))
    return W


def p4_lift(f: Tensor, theta: Tensor, bias: Tensor) -> Tensor:
    """C4 lifting convolution: one correlation for each turned kernel. theta [O, I, k, k]."""
    outputs = [
        torch.nn.functional.conv2d(f, torch.rot90(theta, g, (-2, -1)), bias) for g in range(4)
    ]
    return torch.stack(outputs, 2)


def p4_conv(f: Tensor, theta: Tensor, bias: Tensor) -> Tensor:
    """C4 group convolution: turned and rolled kernels. f [B, I, 4, H, W], theta [O, I, 4, k, k]."""
    outputs = []
    for g in range(4):
        kernel = torch.roll(torch.rot90(theta, g, (-2, -1)), g, dims=2)
        y = sum(torch.nn.functional.conv2d(f[:, :, h], kernel[:, :, h]) for h in range(4))
        outputs.append(y + bias[:, None, None])
    return torch.stack(outputs, 2)


def convolution(
    f: Tensor,
    theta: Tensor,
    R: Tensor,
    bias: Tensor | None,
    kernel_size: tuple[int, ...],
    measure: Tensor | None = None,
    groups: int = 1,
    transposed: bool = False,
    **options: object,
) -> Tensor:
    """One of torch's convolution modules for each element; f [B, I, K, *space], K = 1 for images.

    The kernels are filled by loops. `groups` are the blocks of a dense kernel that is zero
    elsewhere, and all other options are left to torch's modules.
    """
    I, K = f.shape[1:3]
    O, P = theta.shape[0], R.shape[-1] // K
    dims = len(kernel_size)
    modules = torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d, torch.nn.ConvTranspose3d
    if not transposed:
        modules = torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d
    outputs = []
    for matrix in R:
        weight = torch.zeros(O, I * K, P, dtype=f.dtype)
        for o in range(O):
            block = o // (O // groups)
            for j in range(I // groups):
                moved = matrix @ theta[o, j]
                for h in range(K):
                    share = 1 if measure is None else measure[h]
                    channel = (block * (I // groups) + j) * K + h
                    weight[o, channel] = share * moved[h * P : (h + 1) * P]
        weight = weight.unflatten(-1, kernel_size)
        module = modules[dims - 1](I * K, O, kernel_size, bias=bias is not None, **options)
        with torch.no_grad():
            module.weight = torch.nn.Parameter(weight.transpose(0, 1) if transposed else weight)
            if bias is not None:
                module.bias = torch.nn.Parameter(bias.clone())
            outputs.append(module(f.flatten(1, 2)))
    return torch.stack(outputs, 2)
