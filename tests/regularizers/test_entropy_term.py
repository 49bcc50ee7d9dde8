from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from archgrad.regularizers.base import OuterStep
from archgrad.regularizers.entropy import EntropyTerm
from archgrad.relaxations import Softmax
from archgrad.spaces import DecisionBlock, Row

BLOCKS = (
    DecisionBlock("normal", 2, (Row(1, 0, ("a", "b", "c")), Row(2, 0, ("a", "b")))),
    DecisionBlock("reduce", 1, (Row(1, 0, ("a", "b")),)),
)


def step_of(alpha: dict[str, Tensor], probabilities: dict[str, Tensor]) -> OuterStep:
    mixture = {block.name: probabilities[block.name].expand(block.cells, -1, -1) for block in BLOCKS}
    return OuterStep(BLOCKS, alpha, probabilities, mixture, 0.5)


def softmax_step(seed: int) -> tuple[dict[str, Tensor], OuterStep]:
    alpha = Softmax(init_scale=1.0).init(BLOCKS, torch.Generator().manual_seed(seed))
    alpha = {name: value.double().requires_grad_() for name, value in alpha.items()}
    return alpha, step_of(alpha, Softmax().probabilities(BLOCKS, alpha))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weight", [0.3, -2.0, 0])
def test_it_is_the_mean_entropy_of_all_rows(seed: int, weight: float) -> None:
    _, step = softmax_step(seed)
    rows = [
        -sum(p * math.log(p) for p in row.tolist() if p > 0) for value in step.probabilities.values() for row in value
    ]
    assert len(rows) == 3
    assert EntropyTerm(weight).outer_term(step).item() == pytest.approx(weight * sum(rows) / 3)


@pytest.mark.parametrize("seed", range(3))
def test_its_gradient_is_right_and_padding_has_none(seed: int) -> None:
    alpha, step = softmax_step(seed)
    found = torch.autograd.grad(EntropyTerm(0.7).outer_term(step), list(alpha.values()))
    for (name, value), slope, block in zip(alpha.items(), found, BLOCKS, strict=True):
        p = step.probabilities[name].detach()
        logs = torch.where(p > 0, p, 1.0).log()
        mean = (p * logs).sum(-1, keepdim=True)
        torch.testing.assert_close(slope, -0.7 / 3 * p * (logs - mean), rtol=1e-10, atol=1e-14)
        assert (slope[~block.mask] == 0).all()
        assert value.shape == slope.shape


def test_decided_rows_give_no_nan() -> None:
    theta = {
        "normal": torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.5, 0.0]], requires_grad=True),
        "reduce": torch.tensor([[1.0, 0.0]], requires_grad=True),
    }
    term = EntropyTerm(3.0).outer_term(step_of(theta, theta))
    assert term.item() == pytest.approx(math.log(2))
    for slope in torch.autograd.grad(term, list(theta.values())):
        assert slope.isfinite().all()


def test_an_alpha_for_each_image_gives_the_mean_over_images() -> None:
    alpha, _ = softmax_step(3)
    many = {name: torch.stack([value.detach(), 2 * value.detach()]) for name, value in alpha.items()}
    each = [{name: value[n] for name, value in many.items()} for n in range(2)]
    single = [EntropyTerm(1.0).outer_term(step_of(one, Softmax().probabilities(BLOCKS, one))).item() for one in each]
    wide = OuterStep(BLOCKS, many, Softmax().probabilities(BLOCKS, many), {}, 0.5)
    assert EntropyTerm(1.0).outer_term(wide).item() == pytest.approx(sum(single) / 2)
