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
from archgrad.diagnostics.estimates import Comparison, Reference, average, compare, reference_at
from archgrad.diagnostics.layers import layer_gradients
from archgrad.diagnostics.similarity import StageSimilarity, average_similarity, layer_similarity
from archgrad.diagnostics.stationarity import bregman_stationarity
from archgrad.diagnostics.thresholds import Thresholds

__all__ = [
    "Comparison",
    "Diagnosis",
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
