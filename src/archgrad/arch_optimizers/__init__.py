"""Architecture optimizers: from a gradient to the next α."""

from archgrad.arch_optimizers.adam import Adam
from archgrad.arch_optimizers.base import ArchOptimizer, ArchState
from archgrad.arch_optimizers.exponentiated_gradient import ExponentiatedGradient
from archgrad.arch_optimizers.fixed import Fixed
from archgrad.arch_optimizers.geometry import GEOMETRIES, Entropy, Euclidean, Geometry
from archgrad.arch_optimizers.mirror_descent import MirrorDescent
from archgrad.arch_optimizers.torch_optimizer import TorchOptimizer
from archgrad.arch_optimizers.wrappers import Annealed, Clipped
from archgrad.arch_optimizers.xnas import XNAS
from archgrad.parts.registry import Registry

__all__ = [
    "ARCH_OPTIMIZERS",
    "GEOMETRIES",
    "XNAS",
    "Adam",
    "Annealed",
    "ArchOptimizer",
    "ArchState",
    "Clipped",
    "Entropy",
    "Euclidean",
    "ExponentiatedGradient",
    "Fixed",
    "Geometry",
    "MirrorDescent",
    "TorchOptimizer",
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
        "torch": TorchOptimizer,
    },
)
"""The names on the command line."""
