"""The auxiliary head of supernets of DARTS cells."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.errors import UserError
from archgrad.operations import Site
from archgrad.spaces import DARTS, S2, S4, AmendedA1, AmendedA2, NASBench201, SearchSpace
from archgrad.spaces.skeleton import AuxiliaryHead, average_corners
from archgrad.supernet import SupernetOptions
from tests.supernet import supernets

LABELS = torch.tensor([0, 1, 2, 0, 1])


def images(size: int = 8, count: int = 5, channels: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, channels, size, size, generator=generator, dtype=torch.float64)


def mixture_of(space: SearchSpace) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(2)
    blocks = {b.name: torch.randn(b.cells, *b.shape, generator=generator, dtype=torch.float64) for b in space.blocks}
    return {name: logits.softmax(-1).requires_grad_() for name, logits in blocks.items()}


HEAD = SupernetOptions(auxiliary_head=0.4)
SPACES = {
    "s4": S4(channels=2, cells=3),
    "a1": AmendedA1(channels=3, cells=3),
    "a2": AmendedA2(channels=2, cells=5),
}


def loss_and_gradients(net: nn.Module, x: Tensor, mixture: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    logits, auxiliary = net(x, mixture, seed=3, auxiliary=True)
    loss = F.cross_entropy(logits, LABELS) + 0.4 * F.cross_entropy(auxiliary, LABELS)
    return loss.detach(), supernets.gradients_of(loss, supernets.inputs_of(net, mixture))


@pytest.mark.parametrize(("name", "size"), [("s4", 8), ("a1", 8), ("a2", 4), ("a2", 8), ("a2", 20)])
def test_loss_and_gradients_are_those_of_the_plain_supernet(name: str, size: int) -> None:
    space = SPACES[name]
    fused, reference = supernets.pair(space, HEAD)
    loss, gradients = loss_and_gradients(fused, images(size), mixture_of(space))
    expected, wanted = loss_and_gradients(reference, images(size), mixture_of(space))
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(gradients, wanted, rtol=1e-7, atol=1e-10)
    assert all(value.any() for key, value in gradients.items() if key.startswith("body.auxiliary"))


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_the_head_is_run_only_when_asked_for(space: SearchSpace) -> None:
    torch.manual_seed(0)
    net, mixture = space.supernet(HEAD, num_classes=3).double(), mixture_of(space)
    calls: list[int] = []
    net.body.auxiliary.register_forward_hook(lambda *_: calls.append(1))
    logits = net(images(), mixture)
    assert not calls
    both = net(images(), mixture, auxiliary=True)
    assert len(calls) == 1
    assert torch.equal(both[0], logits)
    assert both[1].shape == logits.shape == (5, 3)


def test_the_rest_of_the_network_starts_as_it_would_without_the_head() -> None:
    torch.manual_seed(0)
    without = DARTS(channels=2, cells=3).supernet(num_classes=3).state_dict()
    torch.manual_seed(0)
    with_head = DARTS(channels=2, cells=3).supernet(HEAD, num_classes=3).state_dict()
    assert list(with_head)[: len(without)] == list(without)
    assert all(torch.equal(value, with_head[key]) for key, value in without.items())
    assert all(key.startswith("body.auxiliary.") for key in list(with_head)[len(without) :])


def test_cells_behind_the_second_reduction_do_not_reach_the_head() -> None:
    space = AmendedA2(channels=2, cells=4)
    torch.manual_seed(0)
    net, mixture = space.supernet(num_classes=3).double(), mixture_of(space)
    auxiliary = net(images(), mixture, auxiliary=True)[1]
    gradients = torch.autograd.grad(auxiliary.square().sum(), list(mixture.values()), allow_unused=True)
    assert space.reductions == (1, 2)
    assert [gradient is not None for gradient in gradients] == [True, True, True, False]


@pytest.mark.parametrize(
    "space",
    [
        DARTS(channels=2, cells=3),
        S2(channels=2, cells=3),
        NASBench201(channels=2, cells_per_stage=1),
        AmendedA1(channels=2, cells=3),
    ],
)
def test_a_supernet_without_the_head_says_so(space: SearchSpace) -> None:
    none = SupernetOptions(auxiliary_head=0.0)
    net, mixture = space.supernet(none, num_classes=3).double(), mixture_of(space)
    assert not any("auxiliary" in name for name, _ in net.named_modules())
    with pytest.raises(UserError, match=r"no auxiliary head; build it with .*auxiliary_head=0.4.* such as DARTS\("):
        net(images(), mixture, auxiliary=True)


def test_a_space_without_such_a_head_refuses_it() -> None:
    with pytest.raises(UserError, match=r"auxiliary_head is 0\.4, but supernets of the space 'nasbench201' have no"):
        NASBench201().supernet(HEAD)


# --- the head alone ------------------------------------------------------------------------------------------------


def test_at_its_published_size_the_pooling_is_that_of_darts() -> None:
    x = images(8)
    torch.testing.assert_close(average_corners(x), F.avg_pool2d(x, 5, 3, count_include_pad=False))


@pytest.mark.parametrize("size", range(1, 12))
def test_every_pixel_is_pooled(size: int) -> None:
    x = images(size).requires_grad_()
    pooled = average_corners(x)
    assert pooled.shape == (5, 3, 2, 2)
    torch.testing.assert_close(average_corners(torch.ones(1, 1, size, size)), torch.ones(1, 1, 2, 2))
    (gradient,) = torch.autograd.grad(pooled.sum(), x)
    assert (gradient > 0).all()


def test_the_head_is_that_of_darts() -> None:
    head = AuxiliaryHead(6, Site(6), 10)
    shapes = [tuple(value.shape) for value in head.parameters()]
    assert shapes == [(128, 6, 1, 1), (768, 128, 2, 2), (10, 768), (10,)]
    assert not list(head.buffers())
