"""Layers whose kernels are transformed copies of base kernels: a stack R, then a convolution."""

from symshare.layers.batch_norm import GroupBatchNorm, synchronise
from symshare.layers.convolution import (
    GroupConv1d,
    GroupConv2d,
    GroupConv3d,
    GroupConvTranspose1d,
    GroupConvTranspose2d,
    GroupConvTranspose3d,
    LiftConv1d,
    LiftConv2d,
    LiftConv3d,
    LiftConvTranspose1d,
    LiftConvTranspose2d,
    LiftConvTranspose3d,
)
from symshare.layers.head import GroupHead
from symshare.layers.linear import GroupLinear
from symshare.layers.norms import GroupInstanceNorm, GroupLayerNorm
from symshare.layers.places import GroupPlaces
from symshare.layers.pooling import GroupMaxPool, GroupPool, SpatialAvgPool, SpatialMaxPool
from symshare.layers.restriction import cosets, restrict

__all__ = [
    "GroupBatchNorm",
    "GroupConv1d",
    "GroupConv2d",
    "GroupConv3d",
    "GroupConvTranspose1d",
    "GroupConvTranspose2d",
    "GroupConvTranspose3d",
    "GroupHead",
    "GroupInstanceNorm",
    "GroupLayerNorm",
    "GroupLinear",
    "GroupMaxPool",
    "GroupPlaces",
    "GroupPool",
    "LiftConv1d",
    "LiftConv2d",
    "LiftConv3d",
    "LiftConvTranspose1d",
    "LiftConvTranspose2d",
    "LiftConvTranspose3d",
    "SpatialAvgPool",
    "SpatialMaxPool",
    "cosets",
    "restrict",
    "synchronise",
]
