"""The setup of a search: everything but its state, checked before anything is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import torch

from archgrad import random_streams
from archgrad.alpha_budget import AlphaBudget, BudgetChoice
from archgrad.data import ImageData, Loader, split_fractions
from archgrad.data import split as split_data
from archgrad.discretizers import Argmax
from archgrad.errors import UserError
from archgrad.loop.identity import Identity
from archgrad.loop.loaders import Loaders, check_batch_size
from archgrad.loop.size_check import check_steps, check_supernet_memory
from archgrad.loop.state import SearchState
from archgrad.loop.step_batches import StepBatches
from archgrad.loop.steps import Stepper
from archgrad.loop.supernet_losses import SupernetLosses
from archgrad.method import Method
from archgrad.reactions import check_reaction, switched
from archgrad.recipes import published_arch_steps
from archgrad.schedule import Moves
from archgrad.spaces import DecisionBlock, SearchSpace
from archgrad.supernet import SupernetOptions
from archgrad.tensors import Alpha
from archgrad.training import WeightTraining

__all__ = ["Setup"]


@dataclass(frozen=True, eq=False)
class Setup:
    """Everything that a search needs but its state: space, method, training of the weights, loaders.

    The loaders are those of :class:`archgrad.loop.loaders.Loaders`. The method's learning rate of α is scaled already,
    as ``budget`` says. ``described`` is what the identity of the search consists of.
    """

    space: SearchSpace
    options: SupernetOptions
    method: Method
    weights: WeightTraining
    seed: int
    device: torch.device
    weight_loader: Loader
    arch_loader: Loader
    evaluation_loader: Loader
    held_out_loader: Loader | None
    described: Mapping[str, Any]
    budget: AlphaBudget
    budget_line: str
    on_collapse: str = "warn"

    @classmethod
    def of(
        cls,
        space: SearchSpace,
        method: Method,
        data: ImageData,
        *,
        epochs: int | None = None,
        seed: int = 0,
        batch_size: int | None = None,
        weights: WeightTraining | None = None,
        split: tuple[float, float] | str | None = None,
        held_out: float = 0.1,
        device: torch.device | str = "cpu",
        on_collapse: str = "warn",
        alpha_budget: BudgetChoice = "published",
        kept_factor: float | None = None,
    ) -> Setup:
        """Check and complete what a search was given.

        ``kept_factor`` is the factor on α's rate that a resumed run began with; this version may choose another.
        """
        _check_seed(seed)
        method.check(space)
        check_reaction(on_collapse, method, space)
        options = method.supernet_options(space)
        settings = _with_sizes(weights or method.trained(space.weights), epochs, batch_size)
        fractions = split_fractions(split, method.schedule.level)
        parts = split_data(data.labels, fractions, int(seed), held_out)
        check_batch_size(batch_size, parts, fractions is None)
        device = _usable(device)
        loaders = Loaders.of(data, parts, fractions is None, settings.batch_size, seed, device)
        described = {
            "space": space, "supernet": options, "method": replace(method, weights={}), "weights": settings,
            "data": _about(data), "augmentation": data.augmentation, "split": fractions, "seed": int(seed),
            "held_out": float(held_out), "on_collapse": on_collapse,
        }  # fmt: skip
        off = AlphaBudget("off", 0, 0, 1.0)
        setup = cls(space, options, method, settings, seed, device, *loaders, described, off, "", on_collapse)
        check_steps(settings.epochs, setup.steps)
        check_supernet_memory(space, method, data, setup.weight_loader.batch_size, device)
        _check_length(setup)
        _check_heads(options, setup.weight_loader)
        return setup._with_budget(alpha_budget, kept_factor)

    def _with_budget(self, choice: BudgetChoice, kept_factor: float | None) -> Setup:
        """Return the setup with the learning rate of α scaled to its budget."""
        method, optimizer = self.method, self.method.arch_optimizer
        budget = AlphaBudget.of(choice, optimizer, published_arch_steps(method, self.space), self.arch_steps)
        if choice == "published" and kept_factor is not None:
            budget = replace(budget, factor=kept_factor)
        scaled = optimizer if budget.factor == 1 else optimizer.scaled(budget.factor)
        return replace(
            self,
            method=replace(method, arch_optimizer=scaled),
            budget=budget,
            budget_line=budget.describe(optimizer, scaled),
            described={**self.described, "alpha_budget": budget.factor},
        )

    @cached_property
    def blocks(self) -> tuple[DecisionBlock, ...]:
        """All blocks that have architecture parameters."""
        return self.space.searched_blocks(self.options)

    @cached_property
    def identity(self) -> Identity:
        """What distinguishes this search from others, for its checkpoints."""
        return Identity.of(**self.described)

    @property
    def steps(self) -> int:
        """The weight steps of an epoch: T (``schedule.inner_steps``) for each batch of training images."""
        return self.weight_loader.steps * self.method.schedule.inner_steps

    def step_batches(self, index: int) -> StepBatches:
        """Return the batches of a step."""
        return StepBatches(self.weight_loader, self.arch_loader, index, self.method.schedule.inner_steps)

    def moves(self, index: int) -> Moves:
        """Return whether step ``index`` moves the weights, the architecture or both."""
        if not self.method.arch_optimizer.moves:
            return Moves(weights=True, architecture=False)
        return self.method.schedule.moves(index, self.steps, self.seed)

    @cached_property
    def arch_steps(self) -> int:
        """The number of architecture steps in the whole search."""
        schedule = self.method.schedule
        if schedule.updates != "random" and self.method.arch_optimizer.moves:
            return max(self.weights.epochs - schedule.warmup_epochs, 0) * self.steps // schedule.inner_steps
        return sum(self.moves(index).architecture for index in range(self.weights.epochs * self.steps))

    def first_alpha(self) -> Alpha:
        """Return the initial architecture parameters."""
        first = self.method.relaxation.init(self.blocks, random_streams.generator(self.seed, "alpha"))
        return Alpha({name: value.to(self.device) for name, value in first.items()})

    def is_unmoved(self, alpha: Alpha) -> bool:
        """Tell whether α still has its initial value, as in a warm-up, and so has chosen nothing yet."""
        first = self.first_alpha()
        return self.method.arch_optimizer.moves and all(torch.equal(alpha[name], first[name]) for name in first)

    @cached_property
    def train_chance(self) -> float:
        """The accuracy in per cent of always naming the most common class of the training images."""
        counts = self.weight_loader.data.labels[self.weight_loader.indices].bincount()
        return 100 * counts.max().item() / int(counts.sum())

    def initial_state(self) -> SearchState:
        """Return the state before the first step; the global generator draws the weights."""
        method, training, blocks = self.method, self.weights, self.blocks
        data = self.weight_loader.data
        shape = {"num_classes": data.num_classes, "input_channels": data.channels}
        supernet = self.space.supernet(self.options, **shape).to(self.device)
        method.hypergradient.check(sum(weight.numel() for weight in supernet.parameters()))
        alpha = self.first_alpha()
        optimizer = torch.optim.SGD(
            supernet.parameters(),
            lr=training.lr,
            momentum=training.momentum,
            weight_decay=training.weight_decay,
            nesterov=training.nesterov,
        )
        genotype = Argmax().select(self.space, method.relaxation.probabilities(blocks, alpha))
        arch_state = method.arch_optimizer.init(alpha, self.arch_steps)
        return SearchState(
            supernet, alpha, arch_state, optimizer, training.epochs, self.steps, genotype,
            warmup_epochs=method.schedule.warmup_epochs, budget_line=self.budget_line,
        )  # fmt: skip

    def stepper(self, state: SearchState, compile_: bool = False) -> Stepper:
        """Return the stepper of this search, with the method that the state has switched to, if it has."""
        method = self.method if state.switched is None else switched(self.method)
        losses = SupernetLosses.of(self.space, self.options, method, self.seed, state.supernet, compile_)
        return Stepper(losses, self.weights)


def _check_seed(seed: object) -> None:
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise UserError(f"seed is {seed!r}; it must be a whole number.")


def _about(data: ImageData) -> dict[str, Any]:
    return {"name": data.name, "images": len(data), "classes": data.num_classes, "digest": data.digest()}


def _with_sizes(training: WeightTraining, epochs: int | None, batch_size: int | None) -> WeightTraining:
    given: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size}
    return replace(training, **{name: value for name, value in given.items() if value is not None})


def _check_length(setup: Setup) -> None:
    """Reject a search that would end before its architecture has moved."""
    schedule, epochs = setup.method.schedule, setup.weights.epochs
    steps = epochs * setup.steps
    if schedule.updates == "random" and not 0 < setup.arch_steps < steps:
        raise UserError(
            f"the search has {steps} steps, and with this seed all of them would move "
            f"{'the architecture' if setup.arch_steps else 'the weights'}; give more epochs or data, or another seed."
        )
    if setup.arch_steps or not setup.method.arch_optimizer.moves:
        return
    raise UserError(
        f"the architecture does not move in the first {schedule.warmup_epochs} epochs (schedule.warmup_epochs), but "
        f"the search has only {epochs}; give more epochs, or set schedule.warmup_epochs lower."
    )


def _check_heads(options: SupernetOptions, loader: Loader) -> None:
    if options.auxiliary_head and loader.batch_size < 2:
        raise UserError(
            "the auxiliary head normalizes single pixels and needs at least 2 images in a batch, but there is 1; "
            "raise batch_size or set supernet.auxiliary_head=0."
        )


def _usable(device: torch.device | str) -> torch.device:
    """Return the device; reject one that is unknown or missing."""
    try:
        torch.zeros(1, device=device).item()
        return torch.device(device)
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise UserError(f"the device {str(device)!r} cannot be used ({reason}); try 'cpu'.") from error
