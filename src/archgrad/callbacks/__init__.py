"""Callbacks: everything that watches a search, registered by name like other parts."""

from collections.abc import Iterable

from archgrad.callbacks.arch_curvature import ArchCurvature, EigenvalueStop, largest_eigenvalue
from archgrad.callbacks.architecture import ArchitectureMeasures, DiscretizationGap
from archgrad.callbacks.base import Callback, DecisionProgress, Measures, StageStart, Stop
from archgrad.callbacks.doctor import Doctor
from archgrad.callbacks.inner_curvature import InnerCurvature
from archgrad.callbacks.layer_agreement import LayerAgreement
from archgrad.callbacks.mixture import MixtureFile
from archgrad.callbacks.search import Record, SearchView
from archgrad.callbacks.sinks import CSVFile, Sink, TensorBoard, WandB
from archgrad.callbacks.stationarity import Stationarity
from archgrad.parts.registry import Registry

__all__ = [
    "CALLBACKS",
    "ArchCurvature",
    "ArchitectureMeasures",
    "CSVFile",
    "Callback",
    "DecisionProgress",
    "DiscretizationGap",
    "Doctor",
    "EigenvalueStop",
    "InnerCurvature",
    "LayerAgreement",
    "Measures",
    "MixtureFile",
    "Record",
    "SearchView",
    "Sink",
    "StageStart",
    "Stationarity",
    "Stop",
    "TensorBoard",
    "WandB",
    "join_callbacks",
    "largest_eigenvalue",
    "standard",
]

CALLBACKS = Registry[Callback](
    "callback",
    Callback,
    {
        "architecture": ArchitectureMeasures,
        "discretization-gap": DiscretizationGap,
        "layer-agreement": LayerAgreement,
        "architecture-curvature": ArchCurvature,
        "inner-curvature": InnerCurvature,
        "stationarity": Stationarity,
        "eigenvalue-stop": EigenvalueStop,
        "doctor": Doctor,
        "mixture": MixtureFile,
        "csv": CSVFile,
        "tensorboard": TensorBoard,
        "wandb": WandB,
    },
)
"""The names on the command line."""


def standard() -> tuple[Callback, ...]:
    """Return the callbacks that measure every search."""
    return (ArchitectureMeasures(), DiscretizationGap(), LayerAgreement(), MixtureFile())


def join_callbacks(
    standard: Iterable[Callback], given: Iterable[Callback], settled: Iterable[Callback] = ()
) -> tuple[Callback, ...]:
    """Return the callbacks of a search in the order of their calls.

    There is one of each kind: a ``given`` callback replaces a ``standard`` one. A ``settled`` one, from the method's
    stop rule or from ``on_collapse``, replaces both. Required callbacks that are missing are added in front.

    >>> [type(one).__name__ for one in join_callbacks([ArchCurvature()], [ArchCurvature(minimum=8)], [Doctor()])]
    ['ArchitectureMeasures', 'ArchCurvature', 'Doctor']
    """
    settled = tuple(settled)
    given = tuple(_of_other_kinds(given, settled))
    found = (*_of_other_kinds(standard, (*given, *settled)), *given, *settled)
    required = dict.fromkeys(kind for one in found for kind in one.requires)
    missing = required.keys() - {one.kind for one in found}
    return (*(CALLBACKS.create(kind) for kind in required if kind in missing), *found)


def _of_other_kinds(callbacks: Iterable[Callback], taken: Iterable[Callback]) -> list[Callback]:
    """Leave out callbacks whose kinds are taken; a callback without a kind always stays."""
    kinds = {one.kind for one in taken} - {""}
    return [one for one in callbacks if one.kind not in kinds]
