"""The JSON files that other programs read, as typed records: importing them imports no torch.

`VerdictRecord.read(Path("verdict.json")).found` is a tuple of names. `verdict.schema.json` and
`result.schema.json`, beside this file, are made from the classes by `python -m symshare.records`.
"""

from symshare.records.ranges import Advice, AdviceKind, ExaminedSize, Range, Ranges, Reach
from symshare.records.verdict import (
    NETWORKS,
    Accuracy,
    Element,
    Judgement,
    LabelNames,
    Metric,
    NetworkName,
    Power,
    RandomPermutation,
    ResultRecord,
    Seconds,
    Seeds,
    Status,
    VerdictRecord,
    Word,
)

__all__ = [
    "NETWORKS",
    "Accuracy",
    "Advice",
    "AdviceKind",
    "Element",
    "ExaminedSize",
    "Judgement",
    "LabelNames",
    "Metric",
    "NetworkName",
    "Power",
    "RandomPermutation",
    "Range",
    "Ranges",
    "Reach",
    "ResultRecord",
    "Seconds",
    "Seeds",
    "Status",
    "VerdictRecord",
    "Word",
]
