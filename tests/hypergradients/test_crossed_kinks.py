"""The differences of the papers cross the kinks of ReLUs: w ± 0.01/‖v‖·v, nothing frozen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from seeded import randn
from torch import Tensor

from archgrad.autodiff.products import products_of
from archgrad.bilevel.descent import Descent
from archgrad.bilevel.problem import BilevelProblem
from archgrad.errors import UserError
from archgrad.hypergradients import T1T2, Amended, EvaluationPoint, Neumann, SecondOrder, Unrolled, evaluate_at

Tensors = dict[str, Tensor]
WEIGHTS = {"in": 0.05 * randn(6, 40, seed=0), "out": randn(40, 3, seed=1)}
ALPHA = {"a": randn(40, seed=2), "b": randn(3, seed=3)}
INNER, OUTER = randn(200, 6, seed=4), randn(200, 6, seed=5)
LR, ETA, EPS = 0.05, 0.1, 0.01


def loss(w: Tensors, a: Tensors, x: Tensor) -> Tensor:
    """A network with a hidden layer of ReLUs, in float64; its kinks lie close enough that differences cross some."""
    return ((F.relu(x @ w["in"]) * a["a"].sigmoid()) @ w["out"] * a["b"].sigmoid() - 1).square().mean()


def gradient(of: str, w: Tensors, x: Tensor) -> list[Tensor]:
    w, a = ({name: value.detach().requires_grad_() for name, value in one.items()} for one in (w, ALPHA))
    return list(torch.autograd.grad(loss(w, a, x), list((w if of == "w" else a).values())))


def moved(w: Tensors, v: list[Tensor], scale: float) -> Tensors:
    return {name: value + scale * own for (name, value), own in zip(w.items(), v, strict=True)}


def by_hand(of: str, v: list[Tensor]) -> list[Tensor]:
    """[∂L1(w + εv) − ∂L1(w − εv)] / 2ε with ε = 0.01/‖v‖, of ∂/∂w or ∂/∂α."""
    eps = EPS / torch.cat([one.flatten() for one in v]).norm().item()
    ahead, behind = (gradient(of, moved(WEIGHTS, v, sign * eps), INNER) for sign in (1, -1))
    return [(x - y) / (2 * eps) for x, y in zip(ahead, behind, strict=True)]


def exact_hessian(v: list[Tensor]) -> list[Tensor]:
    w = {name: value.detach().requires_grad_() for name, value in WEIGHTS.items()}
    found = torch.autograd.grad(loss(w, ALPHA, INNER), list(w.values()), create_graph=True)
    return list(torch.autograd.grad(found, list(w.values()), v))


def unrolled() -> list[Tensor]:
    """DARTS, Section 2.3: both gradients of L2 at w', the difference of ∂L1/∂α at w."""
    ahead = moved(WEIGHTS, gradient("w", WEIGHTS, INNER), -LR)
    return minus(gradient("a", ahead, OUTER), by_hand("a", gradient("w", ahead, OUTER)), LR)


def neumann() -> list[Tensor]:
    """iDARTS, Eq. 45 to 47: V_k = V_{k−1}(I − γH) by autograd, then the difference of ∂L1/∂α along their sum."""
    v = total = gradient("w", WEIGHTS, OUTER)
    for _ in range(2):
        v = minus(v, exact_hessian(v), LR)
        total = minus(total, v, -1.0)
    return minus(gradient("a", WEIGHTS, OUTER), by_hand("a", total), LR)


def amended() -> list[Tensor]:
    """Amended-DARTS, A.2: Hv from ∇w L1 at w ± ε·∇w L2, then M·(Hv) from ∇α L1 at w ± ε·Hv."""
    of_weights = by_hand("w", gradient("w", WEIGHTS, OUTER))
    return minus(gradient("a", WEIGHTS, OUTER), by_hand("a", of_weights), ETA)


def minus(x: list[Tensor], y: list[Tensor], scale: float) -> list[Tensor]:
    return [one - scale * other for one, other in zip(x, y, strict=True)]


def estimate(member: SecondOrder) -> list[Tensor]:
    return list(member(BilevelProblem(loss, loss), WEIGHTS, ALPHA, INNER, OUTER, descent=Descent(LR)).values())


PAPERS: dict[str, tuple[SecondOrder, Callable[[], list[Tensor]]]] = {
    "darts": (Unrolled(products="finite", kinks="crossed"), unrolled),
    "idarts": (Neumann(2, products="exact-hessian", kinks="crossed"), neumann),
    "amended": (Amended(ETA, products="finite", kinks="crossed"), amended),
}


@pytest.mark.parametrize("name", PAPERS)
def test_crossed_differences_are_those_of_the_paper(name: str) -> None:
    member, expected = PAPERS[name]
    found = estimate(member)
    torch.testing.assert_close(found, expected(), rtol=1e-9, atol=1e-12)
    frozen = estimate(replace(member, kinks="frozen"))
    exact = estimate(replace(member, products="exact", kinks="frozen"))
    away = [sum((x - y).norm().item() for x, y in zip(one, exact, strict=True)) for one in (found, frozen)]
    assert away[0] > 10 * away[1]  # crossed differences count units that switch; frozen ones do not


def test_products_cross_the_kinks_or_not() -> None:
    v = dict(zip(WEIGHTS, gradient("w", WEIGHTS, OUTER), strict=True))

    def of_batch(w: Tensors, a: Tensors) -> Tensor:
        return loss(w, a, INNER)

    hessian, mixed = products_of("finite", of_batch, WEIGHTS, ALPHA, "crossed").both(v)
    torch.testing.assert_close(list(hessian.values()), by_hand("w", list(v.values())), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(list(mixed.values()), by_hand("a", list(v.values())), rtol=1e-9, atol=1e-12)
    both = products_of("exact-hessian", of_batch, WEIGHTS, ALPHA, "crossed")
    torch.testing.assert_close(list(both.hessian(v).values()), exact_hessian(list(v.values())), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(both.mixed(v), mixed, rtol=0, atol=0)


@pytest.mark.parametrize("mislead", [False, True])
def test_whoever_asks_for_crossed_kinks_gets_them_where_kinks_cannot_be_frozen(mislead: bool) -> None:
    def at(member: SecondOrder) -> list[Tensor]:
        problem = BilevelProblem(loss, loss)
        with evaluate_at(problem, WEIGHTS, ALPHA, INNER, OUTER, Descent(LR), mislead) as point:
            assert isinstance(point, EvaluationPoint)
            return list(member.estimate_once(point).values())

    exact = at(T1T2())
    crossed, frozen = (at(T1T2(products="finite", kinks=kinks)) for kinks in ("crossed", "frozen"))
    torch.testing.assert_close(crossed, estimate(T1T2(products="finite", kinks="crossed")), rtol=0, atol=0)
    assert all(map(torch.equal, frozen, exact)) == mislead
    assert T1T2(products="finite", kinks="crossed").difference is None  # nothing to compare with exact products
    assert T1T2(products="finite").difference == "finite"


@pytest.mark.parametrize("member", [Unrolled, Neumann, Amended])
def test_exact_products_cross_nothing(member: Callable[..., SecondOrder]) -> None:
    with pytest.raises(
        UserError, match=r"kinks is 'crossed', but exact products .* set hypergradient.products to finite"
    ):
        member(kinks="crossed")
