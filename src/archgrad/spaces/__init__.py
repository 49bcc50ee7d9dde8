"""What can be built: decision blocks, genotypes, and one file per search space."""

from archgrad.spaces.block import DecisionBlock, Row, edges_of
from archgrad.spaces.genotype import CellGenotype, Decision, Genotype

__all__ = ["CellGenotype", "Decision", "DecisionBlock", "Genotype", "Row", "edges_of"]
