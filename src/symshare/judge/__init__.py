"""The paired held-out test of every candidate symmetry, and the verdict on them together."""

from symshare.judge.evidence import Evidence, gather
from symshare.judge.verdict import Judgement, Power, Verdict, decide

__all__ = ["Evidence", "Judgement", "Power", "Verdict", "decide", "gather"]
