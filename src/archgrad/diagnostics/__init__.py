"""What is measured while a search runs: named numbers for its log."""

from collections.abc import Iterator, Sequence

from archgrad.diagnostics.arch_curvature import ArchCurvature
from archgrad.diagnostics.architecture import entropy, movement, operations, skip_connections
from archgrad.diagnostics.curvature import Curvature
from archgrad.diagnostics.diagnosis import Diagnosis, cures_of, diagnose
from archgrad.diagnostics.discretisation import discretisation, measure_discretisation
from archgrad.diagnostics.estimates import Comparison, Reference, average, compare, reference_at
from archgrad.diagnostics.layers import Agreement, LayerMeasure
from archgrad.diagnostics.similarity import StageSimilarity, average_similarity, layer_similarity
from archgrad.diagnostics.snapshot import Diagnostic, Probe, Snapshot
from archgrad.diagnostics.stationarity import Stationarity, bregman_stationarity
from archgrad.diagnostics.thresholds import Thresholds
from archgrad.hypergradients import Neumann
from archgrad.method import Method
from archgrad.stopping import EigenvalueStop

__all__ = [
    "Agreement",
    "ArchCurvature",
    "Comparison",
    "Curvature",
    "Diagnosis",
    "Diagnostic",
    "LayerMeasure",
    "Probe",
    "Reference",
    "Snapshot",
    "StageSimilarity",
    "Stationarity",
    "Thresholds",
    "average",
    "average_similarity",
    "bregman_stationarity",
    "compare",
    "cures_of",
    "diagnose",
    "discretisation",
    "entropy",
    "layer_similarity",
    "measure_discretisation",
    "movement",
    "operations",
    "reference_at",
    "skip_connections",
    "standard",
    "with_doctor",
    "with_stop",
]


def standard(method: Method | None = None) -> tuple[Diagnostic | Probe | LayerMeasure, ...]:
    """Return what every search measures, and what one by this method should."""
    probes = () if method is None else _probes(method)
    return (entropy, operations, skip_connections, movement, discretisation, Agreement(), *probes)


def with_stop(
    watched: Sequence[Diagnostic | Probe | LayerMeasure], method: Method
) -> tuple[Diagnostic | Probe | LayerMeasure, ...]:
    """Return what is watched, and before it what the method's early stop has to know.

    Its eigenvalue takes the place of any other, with which it would be averaged.
    """
    if method.stop is None:
        return tuple(watched)
    return (_sharpness(method.stop), *(one for one in watched if not isinstance(one, ArchCurvature)))


def with_doctor(
    watched: Sequence[Diagnostic | Probe | LayerMeasure],
) -> tuple[Diagnostic | Probe | LayerMeasure, ...]:
    """Return what is watched, and before it what a diagnosis cannot do without.

    Without the movement a warm-up would look like a search, and without entropy an undecided one like a decided one.
    """
    return (*(one for one in (entropy, skip_connections, movement) if one not in watched), *watched)


def _sharpness(stop: EigenvalueStop) -> ArchCurvature:
    return ArchCurvature(stop.steps, minimum=1)


def _probes(method: Method) -> Iterator[Probe]:
    if method.stop is not None:
        yield _sharpness(method.stop)
    elif method.arch_optimizer.moves and not method.relaxation.sampled:
        yield ArchCurvature()
    if isinstance(method.hypergradient, Neumann):
        yield Curvature(method.hypergradient)
