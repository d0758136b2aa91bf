"""Labelled images in three stratified parts, and the seeded transformations put on them."""

from symshare.data.copies import Copies, joined, near_copies
from symshare.data.images import LabelledImages
from symshare.data.resampling import Padding, resample
from symshare.data.sources import load
from symshare.data.splits import Splits, divide, sample, split
from symshare.data.strata import Strata, strata_of
from symshare.data.transforms import (
    TEST_SEED,
    Transform,
    freeze,
    rotate,
    scale,
    stream,
    transform,
    turns,
)

__all__ = [
    "TEST_SEED",
    "Copies",
    "LabelledImages",
    "Padding",
    "Splits",
    "Strata",
    "Transform",
    "divide",
    "freeze",
    "joined",
    "load",
    "near_copies",
    "resample",
    "rotate",
    "sample",
    "scale",
    "split",
    "strata_of",
    "stream",
    "transform",
    "turns",
]
