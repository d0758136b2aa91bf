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
