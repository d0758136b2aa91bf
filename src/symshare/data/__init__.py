"""Labelled images in three stratified parts, and the seeded transformations put on them."""

from symshare.data.images import LabelledImages
from symshare.data.seeds import stream
from symshare.data.sources import load
from symshare.data.splits import Splits, halves, sample, split
from symshare.data.transforms import Transform, rotate, scale, transform

__all__ = [
    "LabelledImages",
    "Splits",
    "Transform",
    "halves",
    "load",
    "rotate",
    "sample",
    "scale",
    "split",
    "stream",
    "transform",
]
