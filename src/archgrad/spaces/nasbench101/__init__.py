"""NAS-Bench-101 (Ying et al., 2019): modules with operations at their vertices, their hash and their network."""

from archgrad.spaces.nasbench101.conversion import genotype_of, module_of, pruned_genotype
from archgrad.spaces.nasbench101.module import (
    CONV1X1,
    CONV3X3,
    INPUT,
    MAXPOOL3X3,
    MOST_EDGES,
    MOST_VERTICES,
    OPERATIONS,
    OUTPUT,
    Module,
    canonical_hash,
)
from archgrad.spaces.nasbench101.network import NASBench101Net, vertex_channels

__all__ = [
    "CONV1X1",
    "CONV3X3",
    "INPUT",
    "MAXPOOL3X3",
    "MOST_EDGES",
    "MOST_VERTICES",
    "OPERATIONS",
    "OUTPUT",
    "Module",
    "NASBench101Net",
    "canonical_hash",
    "genotype_of",
    "module_of",
    "pruned_genotype",
    "vertex_channels",
]
