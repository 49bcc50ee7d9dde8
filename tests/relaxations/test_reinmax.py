"""ReinMax against its formula, and its mean against the exact gradient of an expectation, by enumeration."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from archgrad.relaxations import GumbelHard, ReinMax
from archgrad.spaces import DecisionBlock, Row

CHOICES = 4
BLOCK = DecisionBlock("cell", 1, (Row(1, 0, ("a", "b", "c", "d")),))
LOGITS = torch.tensor([[0.3, -0.8, 1.1, 0.2]], dtype=torch.float64)
PULL = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
BEND = torch.tensor(
    [[2.0, 0.3, -1.0, 0.0], [0.3, -1.0, 0.7, 0.4], [-1.0, 0.7, 1.5, 2.0], [0.0, 0.4, 2.0, 0.6]]
).double()


def quadratic(z: Tensor) -> Tensor:
    return PULL @ z + z @ BEND @ z / 2


def cubic(z: Tensor) -> Tensor:
    return quadratic(z) + z @ torch.arange(4.0).double() * (z @ PULL).square()


def drawing(choice: int) -> dict[str, Tensor]:
    """Return noise with which a choice is drawn."""
    return {"cell": torch.eye(CHOICES, dtype=torch.float64)[choice].mul(100)[None, None]}


def slope(member: ReinMax | GumbelHard, choice: int, loss: object = quadratic) -> Tensor:
    """Return the gradient of the logits that a member gives where a choice is drawn."""
    logits = LOGITS.clone().requires_grad_()
    mixture = member.relax([BLOCK], {"cell": logits}, drawing(choice), 0.0).mixture["cell"]
    assert torch.equal(mixture[0, 0], torch.eye(CHOICES, dtype=torch.float64)[choice])
    (found,) = torch.autograd.grad(loss(mixture[0, 0]), logits)  # type: ignore[operator]
    return found[0]


def exact(loss: object) -> Tensor:
    """Return the gradient of Σ p[o]·L(one-hot o)."""
    logits = LOGITS.clone().requires_grad_()
    values = torch.stack([loss(one) for one in torch.eye(CHOICES, dtype=torch.float64)])  # type: ignore[operator]
    (found,) = torch.autograd.grad((logits.softmax(-1)[0] * values).sum(), logits)
    return found[0]


def expected(member: ReinMax, loss: object) -> Tensor:
    """Return the mean of a member's gradient over what it draws."""
    chances = LOGITS.softmax(-1)[0]
    return sum(chances[choice] * slope(member, choice, loss) for choice in range(CHOICES))  # type: ignore[return-value]


def straight_through(loss: object) -> Tensor:
    """Return the mean of J(p)ᵀ·∂L/∂z, the estimate of first order."""
    p, total = LOGITS.softmax(-1)[0], torch.zeros(CHOICES, dtype=torch.float64)
    for choice in range(CHOICES):
        z = torch.eye(CHOICES, dtype=torch.float64)[choice].requires_grad_()
        (v,) = torch.autograd.grad(loss(z), z)  # type: ignore[operator]
        total += p[choice] * (p * v - p * (p @ v))
    return total


@pytest.mark.parametrize("tau", [1.0, 1.7])
@pytest.mark.parametrize("choice", range(CHOICES))
def test_the_gradient_is_that_of_the_paper(choice: int, tau: float) -> None:
    drawn = torch.eye(CHOICES, dtype=torch.float64)[choice]
    v = PULL + BEND @ drawn
    first, second = LOGITS.softmax(-1)[0], (drawn + (LOGITS / tau).softmax(-1)[0]) / 2
    jacobians = [torch.diag(pi) - torch.outer(pi, pi) for pi in (first, second)]
    torch.testing.assert_close(slope(ReinMax(tau=(tau, tau)), choice), 2 * jacobians[1] @ v - jacobians[0] @ v / 2)


def test_its_mean_is_exact_for_a_quadratic_loss_and_that_of_first_order_is_not() -> None:
    torch.testing.assert_close(expected(ReinMax(), quadratic), exact(quadratic), rtol=1e-12, atol=1e-12)
    assert (straight_through(quadratic) - exact(quadratic)).norm() > 0.1 * exact(quadratic).norm()


def test_its_error_is_of_third_order() -> None:
    """At a tenth of the size of z, the error of its mean is a thousandth, that of first order a hundredth."""

    def errors(size: float) -> tuple[float, float]:
        def loss(z: Tensor) -> Tensor:
            return cubic(size * z)

        wanted = exact(loss)
        return (expected(ReinMax(), loss) - wanted).norm().item(), (straight_through(loss) - wanted).norm().item()

    large, small = errors(0.1), errors(0.01)
    assert small[0] == pytest.approx(large[0] / 1000, rel=1e-5)
    assert large[1] / 200 < small[1] < large[1] / 80


def test_all_operations_are_computed_because_each_has_a_part_in_the_gradient() -> None:
    assert not ReinMax().sparse
    assert ReinMax().relax([BLOCK], {"cell": LOGITS}, drawing(1), 0.0).active is None
