"""The paired held-out test of every candidate symmetry, and the verdict on them together."""

from symshare.judge.evidence import Evidence, gather
from symshare.judge.verdict import Verdict, decide

__all__ = ["Evidence", "Verdict", "decide", "gather"]
