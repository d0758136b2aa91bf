"""Families of moves with a size, and the sizes that the labels bear."""

from symshare.ranges.curves import examine
from symshare.ranges.families import Family, families_of

__all__ = ["Family", "examine", "families_of"]
