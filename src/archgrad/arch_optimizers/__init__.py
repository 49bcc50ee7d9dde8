"""Architecture optimizers: from a gradient to the next α."""

from archgrad.arch_optimizers.adam import Adam
from archgrad.arch_optimizers.base import ArchOptimizer, ArchState
from archgrad.arch_optimizers.exponentiated_gradient import ExponentiatedGradient
from archgrad.arch_optimizers.fixed import Fixed
from archgrad.arch_optimizers.geometry import GEOMETRIES, Entropy, Euclidean, Geometry
from archgrad.arch_optimizers.mirror_descent import MirrorDescent
from archgrad.arch_optimizers.xnas import XNAS
from archgrad.registry import Registry

__all__ = [
    "ARCH_OPTIMIZERS",
    "GEOMETRIES",
    "XNAS",
    "Adam",
    "ArchOptimizer",
    "ArchState",
    "Entropy",
    "Euclidean",
    "ExponentiatedGradient",
    "Fixed",
    "Geometry",
    "MirrorDescent",
]

ARCH_OPTIMIZERS = Registry[ArchOptimizer](
    "architecture optimizer",
    ArchOptimizer,
    {
        "adam": Adam,
        "mirror-descent": MirrorDescent,
        "exponentiated-gradient": ExponentiatedGradient,
        "xnas": XNAS,
        "fixed": Fixed,
    },
)
"""The names on the command line."""
