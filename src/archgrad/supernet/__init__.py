"""The continuous network: forward(x, mixture), pure in its weights and the mixture."""

from archgrad.supernet.cell import Edge, FixedCell, MixedCell
from archgrad.supernet.mixture import CellMixture, Mixture
from archgrad.supernet.supernet import Supernet

__all__ = ["CellMixture", "Edge", "FixedCell", "MixedCell", "Mixture", "Supernet"]
