"""From plain tensors to numbers: what a stack has learned, and how equivariant a network is."""

from symshare.analysis.axioms import GroupAxioms, group_axioms
from symshare.analysis.birkhoff import Decomposition, birkhoff_decomposition
from symshare.analysis.cayley import (
    associativity_defect,
    cayley_table,
    group_table,
    isomorphism,
    latin_square_defect,
)
from symshare.analysis.collapse import coverage, distinct, least_distance
from symshare.analysis.equivariance import equivariance_error
from symshare.analysis.features import FeatureError, feature_error, up_to
from symshare.analysis.functional import FunctionalMatch, functional_match
from symshare.analysis.hidden import Alignment, align
from symshare.analysis.metrics import sharpness, stack_metrics
from symshare.analysis.permutations import (
    Match,
    match,
    nearest_permutation,
    normalized_entropy,
    vertex_gap,
)
from symshare.analysis.predictions import PredictionChange, prediction_changes
from symshare.analysis.simplex import SimplexFit, distinct_elements, simplex_fit
from symshare.analysis.support import SupportScores, support_scores

__all__ = [
    "Alignment",
    "Decomposition",
    "FeatureError",
    "FunctionalMatch",
    "GroupAxioms",
    "Match",
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
    "equivariance_error",
    "feature_error",
    "functional_match",
    "group_axioms",
    "group_table",
    "isomorphism",
    "latin_square_defect",
    "least_distance",
    "match",
    "nearest_permutation",
    "normalized_entropy",
    "prediction_changes",
    "sharpness",
    "simplex_fit",
    "stack_metrics",
    "support_scores",
    "up_to",
    "vertex_gap",
]
