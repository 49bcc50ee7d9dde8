"""What can be built: decision blocks, genotypes, and one file per search space."""

from collections.abc import Callable
from functools import partial

from archgrad.errors import chosen
from archgrad.spaces.amended import amended
from archgrad.spaces.block import DecisionBlock, Row, edges_of
from archgrad.spaces.cost import Cost, cost
from archgrad.spaces.darts import darts
from archgrad.spaces.genotype import SKIP, CellGenotype, Decision, Genotype
from archgrad.spaces.nasbench1shot1 import nasbench1shot1
from archgrad.spaces.nasbench201 import nasbench201
from archgrad.spaces.progressive import Progressive, Stage
from archgrad.spaces.reduced import reduced
from archgrad.spaces.space import CellPlan, CellViews, SearchSpace, build_edges
from archgrad.spaces.staged import StagedNet, StagedSpace

__all__ = [
    "SKIP",
    "SPACES",
    "CellGenotype",
    "CellPlan",
    "CellViews",
    "Cost",
    "Decision",
    "DecisionBlock",
    "Genotype",
    "Progressive",
    "Row",
    "SearchSpace",
    "Stage",
    "StagedNet",
    "StagedSpace",
    "amended",
    "build_edges",
    "cost",
    "darts",
    "edges_of",
    "named",
    "nasbench1shot1",
    "nasbench201",
    "reduced",
]

SPACES: dict[str, Callable[..., SearchSpace]] = {
    "nasbench201": nasbench201,
    "darts": darts,
    **{name: partial(reduced, name) for name in ("s1", "s2", "s3", "s4")},
    **{f"amended-{which}": partial(amended, which) for which in ("a1", "a2")},
    **{f"nasbench1shot1-{which}": partial(nasbench1shot1, which) for which in (1, 2, 3)},
}
"""The names on the command line."""


def named(name: str) -> Callable[..., SearchSpace]:
    """Return the constructor of a space by its name.

    >>> named("s3")(channels=4).name
    's3'
    """
    return chosen("space", name, SPACES)
