"""Search spaces: decision blocks, genotypes, and one file per space."""

from collections.abc import Callable, Mapping
from functools import partial

from archgrad.parts.registry import Registry
from archgrad.spaces.amended import AmendedA1, AmendedA2
from archgrad.spaces.bench_suite import BENCH_SUITE_SKIPS, DARTSDeep, DARTSSingle, DARTSWide
from archgrad.spaces.block import DecisionBlock, Row, edge_rows
from archgrad.spaces.build import CellPlan, CellViews, build_edges
from archgrad.spaces.chain import Chain
from archgrad.spaces.cost import Cost, cost
from archgrad.spaces.darts import DARTS
from archgrad.spaces.genotype import SKIP, CellGenotype, Decision, Genotype
from archgrad.spaces.known import KnownCell, known_cells
from archgrad.spaces.macro import Macro
from archgrad.spaces.mobile import MOBILENET, Mobile, MobileNet
from archgrad.spaces.nasbench1shot1 import NASBench1Shot1
from archgrad.spaces.nasbench201 import NASBench201
from archgrad.spaces.nasnet import NASNet
from archgrad.spaces.reduced import S1, S2, S3, S4
from archgrad.spaces.resnet import RESNET, ResNet
from archgrad.spaces.space import SearchSpace
from archgrad.spaces.staged import StagedNet, StagedSpace

__all__ = [
    "DARTS",
    "KNOWN_NETWORKS",
    "MOBILENET",
    "PLAIN_SPACES",
    "RESNET",
    "S1",
    "S2",
    "S3",
    "S4",
    "SKIP",
    "SPACES",
    "AmendedA1",
    "AmendedA2",
    "CellGenotype",
    "CellPlan",
    "CellViews",
    "Chain",
    "Cost",
    "DARTSDeep",
    "DARTSSingle",
    "DARTSWide",
    "Decision",
    "DecisionBlock",
    "Genotype",
    "KnownCell",
    "Macro",
    "Mobile",
    "MobileNet",
    "NASBench1Shot1",
    "NASBench201",
    "NASNet",
    "ResNet",
    "Row",
    "SearchSpace",
    "StagedNet",
    "StagedSpace",
    "build_edges",
    "cost",
    "edge_rows",
    "known_cells",
    "known_genotype",
    "named_space",
]

SPACES = Registry[SearchSpace](
    "space",
    SearchSpace,
    {
        **{space.name: space for space in (NASBench201, DARTS, S1, S2, S3, S4, AmendedA1, AmendedA2)},
        **{f"nasbench1shot1-{number}": partial(NASBench1Shot1, number=number) for number in (1, 2, 3)},
        **{space.name: space for space in (Macro, Mobile)},
        **{
            space(skips=skips).name: partial(space, skips=skips)
            for space in (DARTSWide, DARTSDeep, DARTSSingle)
            for skips in BENCH_SUITE_SKIPS
        },
    },
)
"""The names on the command line."""


PLAIN_SPACES: Mapping[str, Callable[..., SearchSpace]] = {space.name: space for space in (NASNet, ResNet, MobileNet)}
"""Spaces for plain networks, which have no supernet."""


KNOWN_NETWORKS: Mapping[str, Genotype] = {ResNet.name: RESNET, MobileNet.name: MOBILENET}
"""Networks that are a space of one genotype, by its name."""


def known_genotype(name: str) -> Genotype | None:
    """Return the genotype of a well-known cell or network; None for any other text.

    >>> known_genotype("darts-v2") == known_cells()["darts-v2"].genotype, known_genotype("darts-v9")
    (True, None)
    """
    return known_cells()[name].genotype if name in known_cells() else KNOWN_NETWORKS.get(name)


def named_space(name: str) -> SearchSpace:
    """Return a space by its name, at its default size; also those that cannot be searched.

    >>> named_space("resnet").channels
    16
    """
    return PLAIN_SPACES[name]() if name in PLAIN_SPACES else SPACES.create(name)
