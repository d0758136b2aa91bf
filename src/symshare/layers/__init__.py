"""Layers whose kernels are transformed copies of base kernels: a stack R, then a convolution."""

from symshare.layers.batch_norm import GroupBatchNorm, synchronise
from symshare.layers.group import GroupConv1d, GroupConv2d, GroupConv3d
from symshare.layers.lifting import LiftConv1d, LiftConv2d, LiftConv3d
from symshare.layers.linear import GroupLinear
from symshare.layers.norms import GroupInstanceNorm, GroupLayerNorm
from symshare.layers.pooling import GroupMaxPool, GroupPool, SpatialAvgPool, SpatialMaxPool
from symshare.layers.transposed import (
    GroupConvTranspose1d,
    GroupConvTranspose2d,
    GroupConvTranspose3d,
    LiftConvTranspose1d,
    LiftConvTranspose2d,
    LiftConvTranspose3d,
)

__all__ = [
    "GroupBatchNorm",
    "GroupConv1d",
    "GroupConv2d",
    "GroupConv3d",
    "GroupConvTranspose1d",
    "GroupConvTranspose2d",
    "GroupConvTranspose3d",
    "GroupInstanceNorm",
    "GroupLayerNorm",
    "GroupLinear",
    "GroupMaxPool",
    "GroupPool",
    "LiftConv1d",
    "LiftConv2d",
    "LiftConv3d",
    "LiftConvTranspose1d",
    "LiftConvTranspose2d",
    "LiftConvTranspose3d",
    "SpatialAvgPool",
    "SpatialMaxPool",
    "synchronise",
]
