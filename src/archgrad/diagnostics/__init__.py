"""What is measured while a search runs: named numbers for its log."""

from archgrad.diagnostics.architecture import entropy, skip_connections
from archgrad.diagnostics.base import Diagnostic, Probe, Snapshot
from archgrad.diagnostics.curvature import Curvature
from archgrad.diagnostics.estimates import Comparison, Reference, average, compare, reference_at
from archgrad.hypergradients import Hypergradient, Neumann

__all__ = [
    "Comparison",
    "Curvature",
    "Diagnostic",
    "Probe",
    "Reference",
    "Snapshot",
    "average",
    "compare",
    "entropy",
    "reference_at",
    "skip_connections",
    "standard",
]


def standard(hypergradient: Hypergradient | None = None) -> tuple[Diagnostic | Probe, ...]:
    """Return what every search measures, and what one with this hypergradient should."""
    series = (Curvature(hypergradient),) if isinstance(hypergradient, Neumann) else ()
    return (entropy, skip_connections, *series)
