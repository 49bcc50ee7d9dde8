"""Auxiliary skip connections (DARTS-): exact in value and derivatives, and without a trace where there are none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from varied_spaces import VARIED_SPACES

from archgrad.errors import UserError
from archgrad.operations import Identity, Operation
from archgrad.spaces import SearchSpace
from archgrad.supernet import CellMixture, Edge, MixedCell, Supernet, SupernetOptions
from archgrad.supernet import cell as cell_module
from tests.supernet import supernets
from tests.supernet.supernets import LABELS, Mixture, space_of

CLASSES = 3
Options = dict[str, Any]
BOTH: Options = {"partial": 2, "edge_weights": True}
CASES = [
    *(pytest.param(name, {}, id=name) for name in VARIED_SPACES),
    pytest.param("nasbench201", BOTH, id="nasbench201-2e"),
    pytest.param("s2", {"partial": 2}, id="s2-2"),
    pytest.param("darts", BOTH, id="darts-2e"),
    pytest.param("s1", {"edge_weights": True}, id="s1-e"),
]
every_space = pytest.mark.parametrize("name", VARIED_SPACES)
every_case = pytest.mark.parametrize(("name", "options"), CASES)


class Case(NamedTuple):
    """A space and the options of its supernet."""

    space: SearchSpace
    options: SupernetOptions

    def without(self) -> Case:
        return self._replace(options=replace(self.options, auxiliary_skip=False))


def case_of(name: str, **options: Any) -> Case:
    space = space_of(name, channels=2 * options.get("partial", 1))
    return Case(space, SupernetOptions(**{"auxiliary_skip": True, **options}))


def supernet_of(case: Case) -> Supernet:
    torch.manual_seed(0)
    return case.space.supernet(case.options, num_classes=CLASSES).double()


def pair(name: str, options: Options) -> tuple[Case, Supernet, nn.Module]:
    """Return a case, its fused supernet and the plain one with the same weights."""
    case = case_of(name, **options)
    return case, *supernets.pair(*case)


def images(size: int = 8, count: int = 4) -> Tensor:
    return supernets.images(count, size, dtype=torch.float64)


def mixture_of(case: Case, *by_image: int) -> Mixture:
    return supernets.mixture_of(case.space.searched_blocks(case.options), *by_image, dtype=torch.float64)


def derivatives(net: nn.Module, mixture: Mixture, **extra: Any) -> tuple[Tensor, Mixture, Mixture]:
    """Return the logits, the gradients by (w, p), and H·v of one random v over all of them."""
    weights = {name: value.detach().requires_grad_() for name, value in net.named_parameters()}
    inputs = {**weights, **{f"mixture {name}": value for name, value in mixture.items()}}
    logits = functional_call(net, weights, (images(4), mixture), {"seed": 3, **extra})
    first = torch.autograd.grad(
        F.cross_entropy(logits, LABELS), list(inputs.values()), create_graph=True, materialize_grads=True
    )
    gradients = dict(zip(inputs, first, strict=True))
    along = sum((value * supernets.direction(name, value)).sum() for name, value in gradients.items())
    second = torch.autograd.grad(along, list(inputs.values()), materialize_grads=True)
    plain = {name: value.detach() for name, value in gradients.items()}
    return logits.detach(), plain, dict(zip(inputs, second, strict=True))


def assert_same(actual: tuple[Tensor, Mixture, Mixture], expected: tuple[Tensor, Mixture, Mixture]) -> None:
    torch.testing.assert_close(actual[0], expected[0], rtol=1e-9, atol=1e-11)
    for found, wanted in zip(actual[1:], expected[1:], strict=True):
        scale = max(value.abs().max().item() for value in wanted.values())
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-9 * scale)


# --- what it computes ----------------------------------------------------------------------------------------------


@every_case
def test_values_gradients_and_hessian_products_are_those_of_the_plain_supernet(name: str, options: Options) -> None:
    case, fused, reference = pair(name, options)
    actual = derivatives(fused, mixture_of(case), skip=0.7)
    assert_same(actual, derivatives(reference, mixture_of(case), skip=0.7))
    reductions = [key for key in actual[1] if ".skips." in key]
    assert bool(reductions) == (not name.startswith("nasbench"))
    assert all(actual[1][key].any() for key in reductions)
    assert not torch.allclose(actual[0], fused(images(4), mixture_of(case), seed=3))


@pytest.mark.parametrize("beta", [0.25, 1.0])
def test_where_skips_are_identities_it_is_more_weight_on_the_skip_connection(beta: float) -> None:
    """NAS-Bench-201 without any auxiliary connection, at p_skip + β: an independent way to the same network."""
    case = case_of("nasbench201")
    plain = supernet_of(case.without())
    fused = supernet_of(case)
    fused.load_state_dict(plain.state_dict())
    shifted = mixture_of(case)["cell"].detach().clone()
    shifted[..., case.space.blocks[0].rows[0].choices.index("skip_connect")] += beta
    actual = derivatives(fused, mixture_of(case), skip=beta)
    assert_same(actual, derivatives(plain, {"cell": shifted.requires_grad_()}))


def test_every_edge_adds_its_source() -> None:
    """Node 2 reads both inputs, node 3 all before it; nothing is active, so that only β·x is there."""
    cell = MixedCell([Edge(s, t, (Identity(),), skip=Identity()) for t in (2, 3) for s in range(t)], inputs=2, nodes=4)
    first, second = images(3, 2).unbind()
    silent = CellMixture([[None]] * 5, (0, "cell", 0), skip=0.5)
    nodes = cell([first[None], second[None]], silent)
    third = 0.5 * (first + second)
    torch.testing.assert_close(nodes[2][0], third)
    torch.testing.assert_close(nodes[3][0], 0.5 * (first + second + third))


@every_case
def test_it_is_active_whatever_the_mixture_is(name: str, options: Options) -> None:
    case = case_of(name, **options)
    net, mixture = supernet_of(case), mixture_of(case)
    operations = [block.name for block in case.space.blocks if block.kind == "operation"]
    nothing = {key: torch.zeros(net.shapes[key], dtype=torch.bool) for key in operations}
    zero = {key: torch.zeros_like(value) if key in operations else value for key, value in mixture.items()}
    carried = net(images(), mixture, active=nothing, skip=0.5)
    torch.testing.assert_close(carried, net(images(), zero, skip=0.5))
    assert not torch.allclose(carried, net(images(), mixture, active=nothing))


@every_space
def test_no_tensor_is_added_twice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A skip among the choices carries the same tensor, which a compiled sum could not take twice."""
    original = cell_module.mix

    def watched(addends: Any, scaled: Any) -> Tensor:
        tensors = [*addends, *(term.tensor for term in scaled)]
        assert len({id(tensor) for tensor in tensors}) == len(tensors)
        return original(addends, scaled)

    monkeypatch.setattr(cell_module, "mix", watched)
    case = case_of(name)
    supernet_of(case)(images(4), mixture_of(case), skip=0.5)


def test_it_is_never_dropped() -> None:
    """The operation is halved or gone by drop-path, and a skip among the choices by its dropout: β·x remains."""

    class Nothing(Operation):
        def forward(self, x: Tensor) -> Tensor:
            return 0 * x

    cell = MixedCell([Edge(0, 1, (Nothing(),), skip=Identity())], inputs=1, nodes=2)
    one = torch.ones((), dtype=torch.float64)
    node = cell([images()], CellMixture([[one]], (0, "cell", 0), 0.5, skip=0.3, skip_dropout=0.5))[1]
    torch.testing.assert_close(node, 0.3 * images())


# --- no trace of it ------------------------------------------------------------------------------------------------


@every_case
def test_without_weight_it_leaves_no_trace(name: str, options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(name, **options)
    net, plain = supernet_of(case), supernet_of(case.without())
    weights = {key: value for key, value in net.state_dict().items() if ".skips." not in key}
    assert list(weights) == list(plain.state_dict())
    plain.load_state_dict(weights)
    for module in net.modules():
        for skip in module.skips if isinstance(module, MixedCell) else ():
            monkeypatch.setattr(skip, "mixed", None)  # nothing of it is computed
    mixture = mixture_of(case)
    assert torch.equal(net(images(), mixture, seed=3, skip=0.0), plain(images(), mixture, seed=3))


# --- what is refused -----------------------------------------------------------------------------------------------


def test_a_weight_needs_connections() -> None:
    case = case_of("nasbench201", auxiliary_skip=False)
    with pytest.raises(UserError, match=r"skip is 0\.5, but this supernet has no auxiliary skip .*auxiliary_skip=True"):
        supernet_of(case)(images(), mixture_of(case), skip=0.5)
