"""The two paired held-out tests of every candidate symmetry, and the verdict on them together."""

from symshare.judge.evidence import Evidence, divisions, gather
from symshare.judge.verdict import Verdict, decide, is_settled

__all__ = ["Evidence", "Verdict", "decide", "divisions", "gather", "is_settled"]
