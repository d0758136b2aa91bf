"""Networks with shared weights as plain networks, and as files that other programs run."""

from symshare.convert.baking import BakeReport, bake
from symshare.convert.exporting import export, load_tensors

__all__ = ["BakeReport", "bake", "export", "load_tensors"]
