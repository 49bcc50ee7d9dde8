"""Modifiers: what a search changes in a supernet's forward pass. Each file holds the mathematics and the schedule."""

from archgrad.supernet.modifiers.auxiliary_loss import AuxiliaryLoss
from archgrad.supernet.modifiers.base import Modifier, Purpose, SearchTime, merge_arguments
from archgrad.supernet.modifiers.drop_path import DropPath
from archgrad.supernet.modifiers.edge_weights import EdgeWeights
from archgrad.supernet.modifiers.partial_channels import PartialSource
from archgrad.supernet.modifiers.skip_dropout import SkipDropout

__all__ = [
    "AuxiliaryLoss",
    "DropPath",
    "EdgeWeights",
    "Modifier",
    "PartialSource",
    "Purpose",
    "SearchTime",
    "SkipDropout",
    "merge_arguments",
]
