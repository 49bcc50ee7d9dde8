"""A step on an accelerator waits for no number: it runs on the device "meta", whose tensors hold none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from spying import spied
from tiny_space import Tiny
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from varied_spaces import small_space

import archgrad as ag
from archgrad.autodiff.tensors import Alpha
from archgrad.config import SearchConfig
from archgrad.config.resolve import resolve
from archgrad.data import Batch
from archgrad.errors import DivergedError
from archgrad.loop.experiment import Experiment
from archgrad.loop.loaders import StepBatches
from archgrad.loop.state import SearchState
from archgrad.loop.step_checks import check_state, reads_are_due
from archgrad.loop.steps import Stepper
from archgrad.system import devices

DATA = ag.data.digits(limit=60)
META = torch.device("meta")
METHODS = ("darts", "darts-2nd", "idarts", "amended", "gaea", "gaea-simultaneous", "lambda-darts", "pc-darts")


class NoTransfer(TorchDispatchMode):
    """Raises where a number leaves the device; counts the copies to it."""

    def __init__(self) -> None:
        super().__init__()
        self.copied: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.aten._local_scalar_dense.default and args[0].device == META:
            pytest.fail(f"a number of shape {list(args[0].shape)} was read")
        if func in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default):
            source = args[-1] if func is torch.ops.aten.copy_.default else args[0]
            target = kwargs.get("device") or args[0].device
            assert not (source.device == META and torch.device(target).type == "cpu"), "a tensor was read"
            if source.device.type == "cpu" and torch.device(target) == META:
                self.copied.append(tuple(source.shape))
        return func(*args, **kwargs)


def setup_of(method: str) -> Experiment:
    space: Any = Tiny(channels=2, cells_per_stage=1)
    if method == "pc-darts":
        space = replace(ag.spaces.SPACES.create("s2"), channels=4, cells=3)
    config = SearchConfig(
        space=space, method=method, data=DATA, epochs=2, batch_size=12, held_out=0.0,
        settings={"schedule.warmup_epochs": 0},
    )  # fmt: skip
    return Experiment.of(resolve(config), DATA)


def moved(setup: Experiment, state: SearchState, device: torch.device) -> SearchState:
    """Return a state on a device, as a search there has it; counters stay on the CPU."""
    supernet = state.supernet.to(device)
    alpha = Alpha({name: value.to(device) for name, value in state.alpha.items()})
    arch_state = {
        name: {block: value.to(device) if value.dim() else value for block, value in values.items()}
        for name, values in state.arch_state.items()
    }
    optimizer = setup.weights.make_optimizer(supernet.parameters())
    return replace(state, supernet=supernet, alpha=alpha, arch_state=arch_state, optimizer=optimizer, step=1, steps=9)


def batches_on(setup: Experiment, device: torch.device, index: int = 1) -> StepBatches:
    class Moved(StepBatches):
        def inner(self, place: int) -> Batch:
            return Batch(*(tensor.to(device) for tensor in super().inner(place)))

        def outer(self) -> Batch:
            return Batch(*(tensor.to(device) for tensor in super().outer()))

    return Moved(setup.weight_loader, setup.arch_loader, index, setup.method.schedule.inner_steps)


def take(stepper: Stepper, state: SearchState, batches: StepBatches) -> list[tuple[int, ...]]:
    method, inner = stepper.method, batches.inner(0)
    outer, inners = batches.outer(), [batches.inner(place) for place in range(method.hypergradient.inner_batches)]
    ready = type("Ready", (), {"inner": lambda self, place: inners[place], "outer": lambda self: outer})()
    with NoTransfer() as transfers:
        if method.schedule.updates == "simultaneous":
            stepper.joint_step(state, inner)
        else:
            stepper.architecture_step(state, ready)
            stepper.weight_step(state, inner)
    return transfers.copied


@pytest.mark.parametrize("method", METHODS)
def test_a_step_reads_no_number_of_the_device(method: str) -> None:
    setup = setup_of(method)
    state = moved(setup, setup.initial_state(), META)
    stepper = setup.stepper(state)
    take(stepper, state, batches_on(setup, META))
    if method in ("lambda-darts", "pc-darts"):  # masks and indices are copied in the first step, and stay
        assert take(stepper, state, batches_on(setup, META)) == []
    assert all(weight.device == META for weight in state.weights.values())


@contextmanager
def like_an_accelerator() -> Iterator[None]:
    """Take the branches of an accelerator on the CPU."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("archgrad.system.devices", "archgrad.autodiff.vectors", "archgrad.loop.step_checks"):
            patch.setattr(f"{module}.reads_are_free", lambda device: False)
        yield


def after(method: str) -> dict[str, Tensor]:
    setup = setup_of(method)
    torch.manual_seed(0)
    state = setup.initial_state()
    for index in range(3):
        batches, stepper = setup.step_batches(index), setup.stepper(state)
        if setup.method.schedule.updates == "simultaneous":
            stepper.joint_step(state, batches.inner(0))
        else:
            stepper.architecture_step(state, batches)
            stepper.weight_step(state, batches.inner(0))
        state.step += 1
    return {**state.alpha, **state.weights}


@pytest.mark.parametrize("method", ["darts", "darts-2nd", "idarts", "amended", "gaea", "lambda-darts"])
def test_the_branches_for_accelerators_compute_the_same(method: str) -> None:
    usual = after(method)
    with like_an_accelerator():
        for name, value in after(method).items():
            torch.testing.assert_close(value, usual[name], rtol=1e-5, atol=1e-7)


def test_numbers_are_checked_once_in_a_while() -> None:
    setup = setup_of("darts")
    state = setup.initial_state()
    state.steps = 50

    def due() -> list[int]:
        return [index for index in range(50) if reads_are_due(replace(state, step=index))]

    assert due() == list(range(50))
    with like_an_accelerator():
        assert due() == [0, 20, 40, 49]
    state.alpha = Alpha({name: torch.full_like(value, torch.nan) for name, value in state.alpha.items()})
    with pytest.raises(DivergedError, match="the architecture parameters 'cell' became not finite"):
        check_state(state)


def test_without_float64_the_simplex_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on mps."""
    usual = {method: after(method) for method in ("gaea", "gdas", "lambda-darts", "xnas")}
    monkeypatch.setattr(devices, "wide_type", lambda device: torch.float32)
    monkeypatch.setattr("archgrad.relaxations.gumbel.wide_type", lambda device: torch.float32)
    for method, expected in usual.items():
        found = after(method)
        assert all(value.isfinite().all() and value.dtype == torch.float32 for value in found.values())
        if method != "gdas":  # whose noise is drawn in another type
            for name in found:
                torch.testing.assert_close(found[name], expected[name], rtol=1e-3, atol=1e-4)


SPACES = [name for name in ag.spaces.SPACES if name != "nasbench101"]


@pytest.mark.parametrize("name", SPACES)
def test_every_supernet_runs_and_differentiates_on_meta(name: str) -> None:
    supernet = small_space(name).supernet().to(META)
    mixture = {key: torch.full(shape, 0.5, device=META, requires_grad=True) for key, shape in supernet.shapes.items()}
    logits = supernet(torch.zeros(2, 3, 16, 16, device=META), mixture)
    weights = list(supernet.parameters())
    found = torch.autograd.grad(logits.sum(), [*weights, *mixture.values()], allow_unused=True)
    assert logits.shape[0] == 2
    assert sum(one is not None for one in found[: len(weights)]) > len(weights) // 2


def test_a_sampled_mixture_is_read_once_in_a_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    space = replace(ag.spaces.SPACES.create("s2"), channels=4, cells=3)
    supernet, reads = space.supernet(), spied(monkeypatch, Tensor, "tolist", lambda self: 1)
    mixture = {name: torch.full(shape, 0.5) for name, shape in supernet.shapes.items()}
    active = {name: torch.ones(shape, dtype=torch.bool) for name, shape in supernet.shapes.items()}
    for given, expected in ((active, 1), (None, 1)):
        supernet(torch.zeros(2, 3, 16, 16), mixture, active=given)
        assert len(reads) == expected
