"""How learned stacks and networks are scored: the metrics of the tables."""

from experiments.scores.axioms import GroupAxioms, group_axioms
from experiments.scores.birkhoff import Decomposition, birkhoff_decomposition
from experiments.scores.cayley import (
    associativity_defect,
    cayley_table,
    group_table,
    isomorphism,
    latin_square_defect,
)
from experiments.scores.collapse import coverage, distinct, least_distance
from experiments.scores.features import FeatureError, feature_error, up_to
from experiments.scores.functional import FunctionalMatch, functional_match
from experiments.scores.hidden import Alignment, align
from experiments.scores.metrics import sharpness, stack_metrics
from experiments.scores.predictions import PredictionChange, prediction_changes
from experiments.scores.simplex import SimplexFit, distinct_elements, simplex_fit
from experiments.scores.support import SupportScores, support_scores

__all__ = [
    "Alignment",
    "Decomposition",
    "FeatureError",
    "FunctionalMatch",
    "GroupAxioms",
    "PredictionChange",
    "SimplexFit",
    "SupportScores",
    "align",
    "associativity_defect",
    "birkhoff_decomposition",
    "cayley_table",
    "coverage",
    "distinct",
    "distinct_elements",
    "feature_error",
    "functional_match",
    "group_axioms",
    "group_table",
    "isomorphism",
    "latin_square_defect",
    "least_distance",
    "prediction_changes",
    "sharpness",
    "simplex_fit",
    "stack_metrics",
    "support_scores",
    "up_to",
]
