"""Functions that measure an architecture, a point of a search, or the records of a finished one."""

from archgrad.diagnostics.architecture import (
    Snapshot,
    entropy,
    measure_discretization,
    movement,
    operations,
    skip_connections,
)
from archgrad.diagnostics.diagnosis import Diagnosis, diagnose
from archgrad.diagnostics.estimates import EstimateComparison, Reference, average, compare, reference_at
from archgrad.diagnostics.layers import StageSimilarity, average_similarity, layer_gradients, layer_similarity
from archgrad.diagnostics.rules import Thresholds
from archgrad.diagnostics.stationarity import bregman_stationarity

__all__ = [
    "Diagnosis",
    "EstimateComparison",
    "Reference",
    "Snapshot",
    "StageSimilarity",
    "Thresholds",
    "average",
    "average_similarity",
    "bregman_stationarity",
    "compare",
    "diagnose",
    "entropy",
    "layer_gradients",
    "layer_similarity",
    "measure_discretization",
    "movement",
    "operations",
    "reference_at",
    "skip_connections",
]
