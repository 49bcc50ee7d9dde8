"""The gradient of first order with every image's share clipped.

It is no row of the suite in tests/parts: that suite's problems are any two losses of (w, α, batch), while this
estimate needs a batch of labeled images and a loss that is their mean and takes an α for each.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from seeded import randn
from torch import Tensor
from torch.func import functional_call

from archgrad.bilevel.problem import BilevelProblem
from archgrad.errors import UserError
from archgrad.hypergradients import FirstOrder, PerExample
from archgrad.relaxations import Softmax
from archgrad.spaces import NASBench201

Tensors = dict[str, Tensor]
IMAGES = 6


class Labeled(NamedTuple):
    inputs: Tensor
    targets: Tensor


def outer(w: Tensors, a: Tensors, batch: Labeled) -> Tensor:
    """The mean loss of a model that mixes three scalings of its input, by one α for all images or one for each."""
    mixed = torch.einsum("nf,...nrc->nfrc", batch.inputs, a["mix"].softmax(-1).expand(len(batch.targets), -1, -1))
    logits = torch.einsum("nfrc,frcl->nl", mixed, w["w"]) + a["shift"].sum(-1, keepdim=True).reshape(-1, 1)
    return F.cross_entropy(logits * torch.tensor([1.0, 2.0, 3.0]), batch.targets)


def unread(w: Tensors, a: Tensors, batch: Labeled) -> Tensor:
    raise AssertionError("the inner loss was evaluated")


PROBLEM = BilevelProblem(unread, outer)
WEIGHTS = {"w": randn(4, 2, 3, 3, seed=0)}
ALPHA = {"mix": randn(2, 3, seed=1), "shift": randn(1, 2, seed=2)}
BATCH = Labeled(3 * randn(IMAGES, 4, seed=3), torch.tensor([0, 1, 2, 0, 1, 2]))


def image_by_image(alpha: Tensors, batch: Labeled) -> list[Tensors]:
    """Return ∂ℓ_n/∂α of each image alone."""
    single = (Labeled(batch.inputs[n : n + 1], batch.targets[n : n + 1]) for n in range(len(batch.targets)))
    return [FirstOrder()(PROBLEM, WEIGHTS, alpha, None, one) for one in single]


def estimate(bound: float, batch: Labeled = BATCH, alpha: Tensors = ALPHA) -> Tensors:
    return PerExample(bound)(PROBLEM, WEIGHTS, alpha, None, batch)


@pytest.mark.parametrize("bound", [1e-3, 0.05, 0.3, 1.0, 1e9])
@pytest.mark.parametrize("seed", range(3))
def test_each_image_is_clipped_before_the_mean(bound: float, seed: int) -> None:
    batch = Labeled(3 * randn(IMAGES, 4, seed=10 + seed), BATCH.targets)
    shares = image_by_image(ALPHA, batch)
    found = estimate(bound, batch)
    assert list(found) == list(ALPHA)
    for name, value in found.items():
        expected = torch.stack([share[name].clamp(-bound, bound) for share in shares]).mean(0)
        torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-12)
        assert (value.abs() <= bound).all()


def test_nothing_is_changed_and_no_inner_batch_is_read() -> None:
    weights = {name: value.clone().requires_grad_() for name, value in WEIGHTS.items()}
    alpha, state = {name: value.clone() for name, value in ALPHA.items()}, torch.get_rng_state()
    member = PerExample(0.2)
    with torch.inference_mode():
        found = member(PROBLEM, weights, alpha, None, BATCH)
    assert member.inner_batches == 0
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, ALPHA[name]) and value.grad is None for name, value in alpha.items())
    assert all(torch.equal(value, WEIGHTS[name]) and value.grad is None for name, value in weights.items())
    assert all(torch.equal(value, estimate(0.2)[name]) and not value.requires_grad for name, value in found.items())


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: PerExample(0.0), "hypergradient.bound is 0.0; it must be a number greater than 0"),
        (lambda: PerExample(float("nan")), "hypergradient.bound is nan"),
        (lambda: estimate(1.0, BATCH.inputs), "but Tensor has no targets; give a batch with targets"),
        (lambda: estimate(1.0, Labeled(BATCH.inputs[:0], BATCH.targets[:0])), "but it has 0; give at least one"),
    ],
)
def test_what_per_example_cannot_do_is_explained(make, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        make()


def test_on_a_supernet_the_images_share_add_up_to_first_order() -> None:
    """Batch norm lets an image's α reach the others' losses; its share is all of what it causes."""
    space = NASBench201(channels=2, cells_per_stage=1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = space.supernet(num_classes=3).double()
    start = Softmax(init_scale=0.5).init(space.searched_blocks(), torch.Generator().manual_seed(1))
    alpha = {name: value.double() for name, value in start.items()}
    batch = Labeled(randn(4, 3, 8, 8, seed=2), torch.tensor([0, 1, 2, 0]))

    def loss(weights: Tensors, alpha: Tensors, batch: Labeled) -> Tensor:
        mixture = Softmax().relax(space.searched_blocks(), alpha, None, 0.0).mixture
        return F.cross_entropy(functional_call(net, weights, (batch.inputs, mixture)), batch.targets)

    problem, weights = BilevelProblem(unread, loss), dict(net.named_parameters())
    whole = FirstOrder()(problem, weights, alpha, None, batch)
    for name, value in PerExample(1e9)(problem, weights, alpha, None, batch).items():
        torch.testing.assert_close(value, whole[name], rtol=1e-9, atol=1e-12)
    clipped = PerExample(1e-3)(problem, weights, alpha, None, batch)
    assert all((value.abs() <= 1e-3).all() for value in clipped.values())
