"""One suite that every discretizer passes; a new one is one row of MEMBERS."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from varied_spaces import VARIED_SPACES

from archgrad.discretizers import (
    Argmax,
    BestSampled,
    Discretizer,
    Evolved,
    Largest,
    LimitedSkips,
    Perturbation,
    SupernetEvaluation,
    Threshold,
    strongest_choices,
)
from archgrad.spaces import DARTS, SPACES, DecisionBlock, NASBench201, Row, SearchSpace

MEMBERS: dict[str, Discretizer] = {
    "argmax": Argmax(),
    "largest": Largest(),
    "threshold": Threshold(),
    "best_sampled": BestSampled(samples=3),
    "evolved": Evolved(population=4, rounds=2, parents=2),
    "perturbation": Perturbation(),
    "limited_skips": LimitedSkips(Argmax(), 2),
}
PAIRS = [
    pytest.param(member, name, id=f"{label}-{name}") for label, member in MEMBERS.items() for name in VARIED_SPACES
]


def probabilities_of(space: SearchSpace, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = {block.name: torch.randn(block.shape, generator=generator) for block in space.blocks}
    return {b.name: logits[b.name].masked_fill(~b.mask, -torch.inf).softmax(-1) for b in space.blocks}


def evaluation() -> SupernetEvaluation:
    """Return an evaluation for which all architectures are the same."""
    return SupernetEvaluation(
        lambda mixture, batch: 50.0, torch.Generator().manual_seed(0), tune=lambda tuning: tuning.weights
    )


@pytest.mark.parametrize(("member", "name"), PAIRS)
def test_genotypes_belong_to_their_space(member: Discretizer, name: str) -> None:
    space = SPACES.constructor(name)()
    member.check(space)
    for seed in range(2):
        probabilities = probabilities_of(space, seed)
        copies = {key: value.clone() for key, value in probabilities.items()}
        genotype = member.select(space, probabilities, evaluation())
        space.check(genotype)
        assert genotype == member.select(space, probabilities, evaluation())
        space.check(member.interim(space, probabilities, evaluation()))
        assert all(torch.equal(value, copies[key]) for key, value in probabilities.items())
        assert not any(decision.choice in block.excluded for block in space.blocks for decision in genotype[block.name])


@pytest.mark.parametrize(("member", "name"), PAIRS)
def test_a_decided_search_gives_what_it_decided(member: Discretizer, name: str) -> None:
    space = SPACES.constructor(name)()
    wanted = member.select(space, probabilities_of(space, 3), evaluation())
    decided = {key: value[0] for key, value in space.one_hot(wanted).items()}
    assert member.select(space, decided, evaluation()) == wanted


BY_RANK = [
    pair
    for pair in PAIRS
    if pair.values[0] not in [MEMBERS[name] for name in ("largest", "best_sampled", "evolved", "limited_skips")]
]


@pytest.mark.parametrize(("member", "name"), BY_RANK)
def test_ties_are_broken_the_same_way(member: Discretizer, name: str) -> None:
    space = SPACES.constructor(name)()
    even = {b.name: b.mask / b.mask.sum(-1, keepdim=True) for b in space.blocks}
    genotype = member.select(space, even, evaluation())
    for block in space.blocks:
        for decision in genotype[block.name]:
            row = next(r for r in block.rows if (r.target, r.source) == (decision.target, decision.source))
            assert decision.choice in [choice for choice in row.choices if choice not in block.excluded][: row.picks]


def test_argmax_takes_the_best_of_every_edge() -> None:
    weights = torch.full((6, 5), 0.1)
    for row, choice in enumerate([3, 0, 1, 4, 2, 3]):
        weights[row, choice] = 0.6
    genotype = Argmax().select(NASBench201(), {"cell": weights})
    assert str(genotype) == "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|avg_pool_3x3~0|nor_conv_1x1~1|nor_conv_3x3~2|"


# One node of a cell like those of DARTS, with three edges and `none`.
NODE = DecisionBlock(
    "normal", 1, tuple(Row(3, source, ("none", "skip", "conv")) for source in range(3)), 2, frozenset({"none"}), (3,)
)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[0.1, 0.5, 0.4], [0.1, 0.2, 0.7], [0.1, 0.6, 0.3]], [(1, 2), (2, 1)]),  # the two strongest, in order
        ([[0.9, 0.06, 0.04], [0.0, 0.5, 0.5], [0.2, 0.3, 0.5]], [(1, 1), (2, 2)]),  # `none` lends no strength
        (
            [[0.98, 0.01, 0.01], [0.98, 0.01, 0.01], [0.98, 0.01, 0.01]],
            [(0, 1), (1, 1)],
        ),  # ties: first row, first choice
        ([[0.0, 0.4, 0.6], [0.0, 0.4, 0.6], [0.0, 0.3, 0.7]], [(0, 2), (2, 2)]),
        ([[0.5, 0.1, 0.4], [0.5, 0.2, 0.3], [0.5, 0.25, 0.25]], [(0, 2), (1, 2)]),
    ],
)
def test_two_edges_are_kept_by_their_best_operation(rows: list[list[float]], expected: list[tuple[int, int]]) -> None:
    assert strongest_choices(NODE, torch.tensor(rows), keep=2) == expected


def test_any_number_of_edges_may_be_kept() -> None:
    weights = torch.tensor([[0.1, 0.5, 0.4], [0.1, 0.2, 0.7], [0.1, 0.6, 0.3]])
    assert strongest_choices(NODE, weights, keep=1) == [(1, 2)]
    assert (
        strongest_choices(NODE, weights, keep=None)
        == strongest_choices(NODE, weights, keep=9)
        == [(0, 1), (1, 2), (2, 1)]
    )


def test_padding_is_never_chosen() -> None:
    block = DecisionBlock("cell", 1, (Row(1, 0, ("a",)), Row(2, 0, ("a", "b", "c"))))
    assert strongest_choices(block, torch.tensor([[0.1, 0.9, 0.9], [0.2, 0.3, 0.5]]), None) == [(0, 0), (1, 2)]


def test_none_is_never_picked_in_darts() -> None:
    space = DARTS()
    certain = {block.name: torch.eye(8)[0].expand(14, 8) for block in space.blocks}
    assert Argmax().select(space, certain).count("none") == 0
