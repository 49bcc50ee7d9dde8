"""The continuous network: forward(x, mixture), pure in its weights and the mixture."""

from archgrad.supernet.cell import Edge, FixedCell, MixedCell
from archgrad.supernet.drop_path import check_drop_path
from archgrad.supernet.mixture import CellMixture, EdgeWeights, Mixture
from archgrad.supernet.shuffle import shuffle
from archgrad.supernet.supernet import Supernet

__all__ = [
    "CellMixture",
    "Edge",
    "EdgeWeights",
    "FixedCell",
    "MixedCell",
    "Mixture",
    "Supernet",
    "check_drop_path",
    "shuffle",
]
