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
from symshare.analysis.equivariance import equivariance_error
from symshare.analysis.features import FeatureError, feature_error, up_to
from symshare.analysis.permutations import (
    Match,
    match,
    nearest_permutation,
    normalized_entropy,
    vertex_gap,
)
from symshare.analysis.predictions import PredictionChange, prediction_changes

__all__ = [
    "Decomposition",
    "FeatureError",
    "GroupAxioms",
    "Match",
    "PredictionChange",
    "associativity_defect",
    "birkhoff_decomposition",
    "cayley_table",
    "equivariance_error",
    "feature_error",
    "group_axioms",
    "group_table",
    "isomorphism",
    "latin_square_defect",
    "match",
    "nearest_permutation",
    "normalized_entropy",
    "prediction_changes",
    "up_to",
    "vertex_gap",
]
