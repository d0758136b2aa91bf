"""The two paired held-out tests of every candidate symmetry, and the verdict on them together."""

from symshare.judge.answers import Evidence
from symshare.judge.evidence import divisions, gather
from symshare.judge.verdict import Verdict, decide, is_settled
from symshare.judge.witness import Function

__all__ = ["Evidence", "Function", "Verdict", "decide", "divisions", "gather", "is_settled"]
