"""From a gradient to the next architecture parameters."""

from archgrad.arch_optimizers.adam import Adam
from archgrad.arch_optimizers.base import ArchOptimizer, ArchState
from archgrad.arch_optimizers.exponentiated_gradient import ExponentiatedGradient
from archgrad.arch_optimizers.fixed import Fixed
from archgrad.arch_optimizers.geometry import GEOMETRIES, Entropy, Euclidean, Geometry
from archgrad.arch_optimizers.mirror_descent import MirrorDescent
from archgrad.arch_optimizers.xnas import XNAS

__all__ = [
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
