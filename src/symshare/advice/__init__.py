"""What to do with what was found: in words with the evidence, and as code to paste."""

from symshare.advice.code import augmentation, libraries_of, network
from symshare.advice.lines import FAMILIES, advise, at_least, interval, sized

__all__ = [
    "FAMILIES",
    "advise",
    "at_least",
    "augmentation",
    "interval",
    "libraries_of",
    "network",
    "sized",
]
