"""From a gradient to the next architecture parameters."""

from archgrad.arch_optimizers.adam import Adam
from archgrad.arch_optimizers.base import ArchOptimizer, ArchState

__all__ = ["Adam", "ArchOptimizer", "ArchState"]
