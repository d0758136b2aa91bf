"""The paired held-out test of every candidate symmetry, and the verdict on them together."""

from symshare.judge.evidence import Evidence, gather
from symshare.judge.judgement import Judgement
from symshare.judge.power import Power
from symshare.judge.verdict import Verdict, decide

__all__ = ["Evidence", "Judgement", "Power", "Verdict", "decide", "gather"]
