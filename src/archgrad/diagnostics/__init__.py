"""What is measured while a search runs: named numbers for its log."""

from archgrad.diagnostics.architecture import entropy, skip_connections
from archgrad.diagnostics.base import Diagnostic, Probe, Snapshot
from archgrad.diagnostics.curvature import Curvature
from archgrad.diagnostics.discretisation import discretisation, measure_discretisation
from archgrad.diagnostics.estimates import Comparison, Reference, average, compare, reference_at
from archgrad.diagnostics.stationarity import Stationarity, bregman_stationarity
from archgrad.hypergradients import Hypergradient, Neumann

__all__ = [
    "Comparison",
    "Curvature",
    "Diagnostic",
    "Probe",
    "Reference",
    "Snapshot",
    "Stationarity",
    "average",
    "bregman_stationarity",
    "compare",
    "discretisation",
    "entropy",
    "measure_discretisation",
    "reference_at",
    "skip_connections",
    "standard",
]


def standard(hypergradient: Hypergradient | None = None) -> tuple[Diagnostic | Probe, ...]:
    """Return what every search measures, and what one with this hypergradient should."""
    series = (Curvature(hypergradient),) if isinstance(hypergradient, Neumann) else ()
    return (entropy, skip_connections, discretisation, *series)
