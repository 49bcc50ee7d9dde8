"""BestSampled: what it draws, what it measures, what it keeps."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from archgrad.discretizers import BestSampled, SupernetEvaluation
from archgrad.discretizers.best_sampled import sample_genotype
from archgrad.errors import UserError
from archgrad.spaces import DARTS, Genotype, NASBench201, SearchSpace
from archgrad.supernet import SupernetOptions

DRAWS = 4000
BEST = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|avg_pool_3x3~0|nor_conv_1x1~1|nor_conv_3x3~2|"


def even(space: SearchSpace, options: SupernetOptions | None = None) -> dict[str, Tensor]:
    return {block.name: block.mask / block.mask.sum(-1, keepdim=True) for block in space.searched_blocks(options)}


def likeness(space: SearchSpace, wanted: Genotype, seed: int = 0) -> SupernetEvaluation:
    """Return an evaluation that counts in how many entries an architecture is another one."""
    target = space.one_hot(wanted)

    def accuracy(mixture: Mapping[str, Tensor], batch: int) -> float:
        return float(sum((mixture[name] * target[name]).sum() for name in target))

    return SupernetEvaluation(accuracy, torch.Generator().manual_seed(seed))


def test_the_best_of_what_was_drawn_is_kept() -> None:
    space = NASBench201(cells_per_stage=1)
    wanted = Genotype.parse(BEST)
    evaluation = likeness(space, wanted)
    found = BestSampled(samples=50).select(space, even(space), evaluation)
    generator = torch.Generator().manual_seed(0)
    drawn = [sample_genotype(space, even(space), generator) for _ in range(50)]
    agreement = [sum(a == b for a, b in zip(each["cell"], wanted["cell"], strict=True)) for each in drawn]
    assert found == drawn[agreement.index(max(agreement))]  # the first of equals
    assert max(agreement) > sum(agreement) / 50 + 1


def test_every_sample_is_measured_on_the_same_batches() -> None:
    space = NASBench201(cells_per_stage=1)
    asked: list[int] = []

    def accuracy(mixture: Mapping[str, Tensor], batch: int) -> float:
        assert {name: tuple(value.shape) for name, value in mixture.items()} == {
            "cell": (3, 6, 5),
            "cell.edges": (3, 3, 3),
        }
        asked.append(batch)
        return float(mixture["cell"][0, 0, 3]) * [0.0, 60.0, 0.0][batch] + float(mixture["cell"][0, 0, 1]) * 10.0

    found = BestSampled(samples=30, batches=3).select(
        space,
        even(space, SupernetOptions(edge_weights=True)),
        SupernetEvaluation(accuracy, torch.Generator().manual_seed(0)),
    )
    assert asked == [0, 1, 2] * (len(asked) // 3)
    assert len(asked) <= 90
    assert found["cell"].decisions[0].choice == "nor_conv_3x3"  # a mean of 20 beats a mean of 10


def close(counts: Counter[str], expected: dict[str, float]) -> bool:
    """Say whether frequencies are within 4.5 standard deviations of their probabilities."""
    total = sum(counts.values())
    return set(counts) <= set(expected) and all(
        abs(counts[key] / total - p) <= 4.5 * (p * (1 - p) / total) ** 0.5 for key, p in expected.items()
    )


def test_operations_are_drawn_by_their_probabilities() -> None:
    space = NASBench201(cells_per_stage=1)
    probabilities = {"cell": torch.tensor([[0.4, 0.3, 0.2, 0.1, 0.0]] * 5 + [[0.0, 0.0, 0.0, 0.0, 1.0]])}
    generator = torch.Generator().manual_seed(0)
    drawn = [sample_genotype(space, probabilities, generator)["cell"].decisions for _ in range(DRAWS)]
    expected = dict(zip(space.choices, [0.4, 0.3, 0.2, 0.1, 0.0], strict=True))
    for row in range(5):
        assert close(Counter(decisions[row].choice for decisions in drawn), expected)
    assert {decisions[5].choice for decisions in drawn} == {"avg_pool_3x3"}
    both = Counter(f"{decisions[0].choice} {decisions[1].choice}" for decisions in drawn)
    assert close(both, {f"{a} {b}": expected[a] * expected[b] for a, b in itertools.product(expected, expected)})


def test_excluded_operations_lend_their_share_to_the_others() -> None:
    space = DARTS(cells=3)
    row = torch.tensor([0.5, 0.25, 0.125, 0.125, 0.0, 0.0, 0.0, 0.0])
    generator = torch.Generator().manual_seed(0)
    counts: Counter[str] = Counter()
    for _ in range(300):
        genotype = sample_genotype(space, {"normal": row.expand(14, 8), "reduce": row.expand(14, 8)}, generator)
        counts.update(decision.choice for decision in genotype.decisions)
    assert close(counts, {"max_pool_3x3": 0.5, "avg_pool_3x3": 0.25, "skip_connect": 0.25})


def edges_into(node: int, space: SearchSpace, probabilities: dict[str, Tensor]) -> Counter[str]:
    generator = torch.Generator().manual_seed(1)
    counts: Counter[str] = Counter()
    for _ in range(DRAWS // 4):
        genotype = sample_genotype(space, probabilities, generator)
        space.check(genotype)
        counts[" ".join(str(decision.source) for decision in genotype["normal"].inputs_of(node))] += 1
    return counts


def test_edges_are_drawn_uniformly() -> None:
    space = DARTS(cells=3)
    pairs = [f"{a} {b}" for a, b in itertools.combinations(range(4), 2)]
    assert close(edges_into(4, space, even(space)), dict.fromkeys(pairs, 1 / 6))


def test_edges_are_drawn_by_their_weights() -> None:
    space = DARTS(cells=3)
    probabilities = even(space, SupernetOptions(edge_weights=True))
    probabilities["normal.edges"] = probabilities["normal.edges"].clone()
    probabilities["normal.edges"][1] = torch.tensor([0.5, 0.3, 0.2, 0.0, 0.0])
    p = {"0": 0.5, "1": 0.3, "2": 0.2}
    pairs = {f"{a} {b}": p[a] * p[b] / (1 - p[a]) + p[b] * p[a] / (1 - p[b]) for a, b in ("01", "02", "12")}
    assert sum(pairs.values()) == pytest.approx(1)
    assert close(edges_into(3, space, probabilities), pairs)


def test_what_has_no_probability_is_drawn_only_when_nothing_else_is_left() -> None:
    space = DARTS(cells=3)
    probabilities = even(space, SupernetOptions(edge_weights=True))
    probabilities["normal"] = torch.eye(8)[0].expand(14, 8)  # only `none`, which no genotype contains
    probabilities["normal.edges"] = torch.eye(5)[:1].expand(4, 5)
    generator, choices = torch.Generator().manual_seed(0), set()
    for _ in range(40):
        genotype = sample_genotype(space, probabilities, generator)
        assert all(genotype["normal"].inputs_of(node)[0].source == 0 for node in range(2, 6))
        choices |= {decision.choice for decision in genotype["normal"]}
    assert len(choices) == 7


def test_without_a_judge_it_says_what_it_needs() -> None:
    space = NASBench201()
    with pytest.raises(
        UserError, match=r"BestSampled measures .* give select\(\) an evaluation, or use discretizers.Argmax\(\)"
    ):
        BestSampled().select(space, even(space))
