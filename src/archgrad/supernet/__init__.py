"""The continuous network: forward(x, mixture), pure in its weights and the mixture."""

from archgrad.supernet.cell import Edge, FixedCell, MixedCell, operation_weights, set_drop_path
from archgrad.supernet.chain import FixedLayer, MixedLayer
from archgrad.supernet.mixture import CellMixture, Mixture
from archgrad.supernet.modifiers import EdgeWeights, Modifier, Purpose, SearchTime, merge_arguments
from archgrad.supernet.modifiers.partial_channels import shuffle
from archgrad.supernet.node_cell import MixedNodeCell, NodeMixture
from archgrad.supernet.options import PLAIN, SupernetOptions
from archgrad.supernet.plain_network import PlainNetwork, TrainingMode
from archgrad.supernet.recomputation import recompute_cells
from archgrad.supernet.supernet import Supernet

__all__ = [
    "PLAIN",
    "CellMixture",
    "Edge",
    "EdgeWeights",
    "FixedCell",
    "FixedLayer",
    "MixedCell",
    "MixedLayer",
    "MixedNodeCell",
    "Mixture",
    "Modifier",
    "NodeMixture",
    "PlainNetwork",
    "Purpose",
    "SearchTime",
    "Supernet",
    "SupernetOptions",
    "TrainingMode",
    "merge_arguments",
    "operation_weights",
    "recompute_cells",
    "set_drop_path",
    "shuffle",
]
