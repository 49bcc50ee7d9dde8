"""What a search is set up from: everything but its state, checked before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from archgrad import random_streams
from archgrad.alpha_budget import AlphaBudget, BudgetChoice
from archgrad.data import HALVES, ImageData, Loader, Split, measure, parse_split
from archgrad.data import split as split_data
from archgrad.discretizers import Argmax
from archgrad.errors import UserError
from archgrad.loop.description import describe
from archgrad.loop.state import SearchState
from archgrad.loop.step_batches import StepBatches
from archgrad.loop.steps import Stepper
from archgrad.method import Method
from archgrad.reactions import check_reaction, switched
from archgrad.recipes import published_arch_steps
from archgrad.schedule import Level, Moves
from archgrad.spaces import DecisionBlock, SearchSpace
from archgrad.supernet import SupernetOptions
from archgrad.tensors import Alpha
from archgrad.training import WeightTraining

__all__ = ["Setup", "fractions_of"]


@dataclass(frozen=True, eq=False)
class Setup:
    """A space, the options of its supernet, a method, how the weights are trained, and the batches of both.

    ``evaluation_loader`` has unaugmented images to evaluate architectures on: those that train the architecture, or in
    a single-level search those held out, if there are any. ``held_out_loader`` has those that measure every epoch.
    The method's learning rate of α is scaled already, as ``budget`` says.
    """

    space: SearchSpace
    options: SupernetOptions
    method: Method
    training: WeightTraining
    seed: int
    device: torch.device
    weight_loader: Loader
    arch_loader: Loader
    evaluation_loader: Loader
    held_out_loader: Loader | None
    description: dict[str, str]
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
        training: WeightTraining | None = None,
        split: tuple[float, float] | str | None = None,
        held_out: float = 0.1,
        device: torch.device | str = "cpu",
        on_collapse: str = "warn",
        alpha_budget: BudgetChoice = "published",
    ) -> Setup:
        """Check and complete what a search was given."""
        if isinstance(seed, bool) or not isinstance(seed, Integral):
            raise UserError(f"seed is {seed!r}; it must be a whole number.")
        method.check(space)
        check_reaction(on_collapse, method, space)
        options = method.supernet_options(space)
        settings = _settings(training or method.trained(space.training), epochs, batch_size)
        fractions = fractions_of(split, method.schedule.level)
        parts = split_data(data.labels, fractions, int(seed), held_out)
        _check_batch_size(batch_size, parts, fractions is None)
        device = _usable(device)
        normalisation = measure(data, parts.weights)
        unseen = len(parts.held_out) > 0
        judged = parts.held_out if unseen and fractions is None else parts.architecture

        def loader(indices: Tensor, stream: str, size: int | None = None) -> Loader:
            augmentation = data.augmentation if stream in ("weights", "architecture") else None
            return Loader(data, indices, size or settings.batch_size, normalisation, augmentation, seed, stream, device)

        setup = cls(
            space,
            options,
            method,
            settings,
            seed,
            device,
            loader(parts.weights, "weights"),
            loader(parts.architecture, "architecture"),
            loader(judged, "judge", _even(len(judged), settings.batch_size) if judged is parts.held_out else None),
            loader(parts.held_out, "held-out", _even(len(parts.held_out), settings.batch_size)) if unseen else None,
            {},
            AlphaBudget("off", 0, 0, 1.0),
            "",
            on_collapse,
        )
        _check_length(setup)
        _check_heads(options, setup.weight_loader)
        published = published_arch_steps(method, space)
        budget = AlphaBudget.of(alpha_budget, method.arch_optimizer, published, setup.arch_steps)
        optimizer = method.arch_optimizer if budget.factor == 1 else method.arch_optimizer.scaled(budget.factor)
        scaled = replace(method, arch_optimizer=optimizer)
        description = describe(space, options, method, data, settings, seed, fractions, held_out)
        return replace(
            setup,
            method=scaled,
            budget=budget,
            budget_line=budget.describe(method.arch_optimizer, scaled.arch_optimizer),
            description=description | {"on_collapse": on_collapse, "alpha_budget": str(budget.factor)},
        )

    @cached_property
    def blocks(self) -> tuple[DecisionBlock, ...]:
        """All blocks that have architecture parameters."""
        return self.space.searched_blocks(self.options)

    @property
    def steps(self) -> int:
        """The weight steps of an epoch: T for each batch of a pass over the images that train the weights."""
        return self.weight_loader.steps * self.method.schedule.inner_steps

    def step_batches(self, index: int) -> StepBatches:
        """Return the batches of a step."""
        return StepBatches(self.weight_loader, self.arch_loader, index, self.method.schedule.inner_steps)

    def moves(self, index: int) -> Moves:
        """Return what step ``index`` of the search moves."""
        if not self.method.arch_optimizer.moves:
            return Moves(weights=True, architecture=False)
        return self.method.schedule.moves(index, self.steps, self.seed)

    @cached_property
    def arch_steps(self) -> int:
        """How often the architecture moves in the whole search."""
        return sum(self.moves(index).architecture for index in range(self.training.epochs * self.steps))

    def first_alpha(self) -> Alpha:
        """Return the architecture parameters that the search begins with."""
        first = self.method.relaxation.init(self.blocks, random_streams.generator(self.seed, "alpha"))
        return Alpha({name: value.to(self.device) for name, value in first.items()})

    def is_unmoved(self, alpha: Alpha) -> bool:
        """Tell whether α is where the search began and will yet move, as in a warm-up: then it has chosen nothing."""
        first = self.first_alpha()
        return self.method.arch_optimizer.moves and all(torch.equal(alpha[name], first[name]) for name in first)

    @cached_property
    def train_chance(self) -> float:
        """The accuracy, in per cent, of always naming the most common class of the images that train the weights."""
        counts = self.weight_loader.data.labels[self.weight_loader.indices].bincount()
        return 100 * counts.max().item() / int(counts.sum())

    def initial_state(self) -> SearchState:
        """Return the state before the first step; the weights come from the global generator."""
        method, training, blocks = self.method, self.training, self.blocks
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
        """Return what takes the steps of this search, by the method that its state has switched to if it has."""
        method = self.method if state.switched is None else switched(self.method)
        return Stepper.of(self.space, self.options, method, self.training, self.seed, state.supernet, compile_)


def fractions_of(split: tuple[float, float] | str | None, level: Level) -> tuple[float, float] | None:
    """Return how the data is divided: as asked for, or as the level of the search needs it.

    >>> fractions_of(None, "bilevel"), fractions_of("0.1:0.025", "bilevel"), fractions_of(None, "single")
    ((0.5, 0.5), (0.1, 0.025), None)
    """
    if split is None:
        return HALVES if level == "bilevel" else None
    fractions = parse_split(split) if isinstance(split, str) else split
    if fractions is None and level == "bilevel":
        raise UserError(
            "the split is none, but a bilevel search trains the architecture on images of its own; "
            "give two fractions such as 0.5:0.5, or set schedule.level=single."
        )
    if fractions is not None and level == "single":
        raise UserError(
            f"the split is {fractions[0]:g}:{fractions[1]:g}, but a single-level search trains weights and "
            f"architecture on all the data; leave it out, or set schedule.level=bilevel."
        )
    return fractions


def _settings(training: WeightTraining, epochs: int | None, batch_size: int | None) -> WeightTraining:
    given: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size}
    return replace(training, **{name: value for name, value in given.items() if value is not None})


def _check_batch_size(batch_size: int | None, parts: Split, single: bool) -> None:
    """Refuse a wish that cannot be met; a space's own batch size is cut to small data silently."""
    kept = f"; {len(parts.held_out)} are held out (held_out)" if single and len(parts.held_out) else ""
    for name, part in (("weights", parts.weights), ("architecture", parts.architecture)):
        if batch_size is not None and batch_size > len(part):
            raise UserError(
                f"batch_size is {batch_size}, but only {len(part)} images train the {name}{kept}; "
                f"it must be at most {min(len(parts.weights), len(parts.architecture))}, or give more data."
            )


def _check_length(setup: Setup) -> None:
    """Refuse a search that would end before its architecture has moved."""
    schedule, epochs = setup.method.schedule, setup.training.epochs
    steps = epochs * setup.steps
    if schedule.updates == "random" and not 0 < setup.arch_steps < steps:
        raise UserError(
            f"the search has {steps} steps, and by its seed each of them would move "
            f"{'the architecture' if setup.arch_steps else 'the weights'}; give more epochs or data, or another seed."
        )
    if setup.arch_steps or not setup.method.arch_optimizer.moves:
        return
    raise UserError(
        f"the architecture stays where it is for {schedule.warmup_epochs} epochs (schedule.warmup_epochs), but the "
        f"search has only {epochs}; give more epochs, or set fewer to warm up."
    )


def _even(count: int, most: int) -> int:
    """Return the size of batches that divide so many images evenly, none of them larger than ``most``.

    >>> _even(180, 64)
    60
    """
    return max(count // -(-count // most), 1)


def _check_heads(options: SupernetOptions, loader: Loader) -> None:
    if options.auxiliary_head and loader.batch_size < 2:
        raise UserError(
            "the auxiliary head normalises single pixels and needs at least 2 images in a batch, but there is 1; "
            "raise batch_size or set supernet.auxiliary_head=0."
        )


def _usable(device: torch.device | str) -> torch.device:
    """Return a device that computes; refuse one that is unknown or not there."""
    try:
        torch.zeros(1, device=device).item()
        return torch.device(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise UserError(f"the device {str(device)!r} cannot be used ({reason}); try 'cpu'.") from error
