"""How a learned stack compares with a truth that is known: the metrics of the tables."""

from experiments.scores.collapse import coverage, distinct, least_distance
from experiments.scores.functional import FunctionalMatch, functional_match
from experiments.scores.hidden import Alignment, align
from experiments.scores.metrics import sharpness, stack_metrics
from experiments.scores.simplex import SimplexFit, distinct_elements, simplex_fit
from experiments.scores.support import SupportScores, support_scores

__all__ = [
    "Alignment",
    "FunctionalMatch",
    "SimplexFit",
    "SupportScores",
    "align",
    "coverage",
    "distinct",
    "distinct_elements",
    "functional_match",
    "least_distance",
    "sharpness",
    "simplex_fit",
    "stack_metrics",
    "support_scores",
]
