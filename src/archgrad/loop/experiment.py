"""An experiment: everything that a search needs but its state, resolved and checked before anything is trained."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from archgrad.arch_optimizers import Annealed
from archgrad.autodiff.gradients import constants, split_trained
from archgrad.autodiff.tensors import Alpha, Probabilities, Weights
from archgrad.config import SearchConfig, config_to_toml
from archgrad.config.naming import named_config
from archgrad.config.resolve import ResolvedSearch
from archgrad.data import Data, Loader
from archgrad.discretizers import Argmax
from archgrad.distributed.processes import from_first, own_device, processes
from archgrad.errors import UserError
from archgrad.loop.checkpoint import Checkpoints, RunIdentity
from archgrad.loop.checks import check_before_training, check_norms
from archgrad.loop.loaders import StepBatches, loaders_of
from archgrad.loop.losses import SupernetLosses, forward_of
from archgrad.loop.precision import check_precision
from archgrad.loop.state import SearchState, WeightAverage
from archgrad.loop.step_checks import check_instance, check_like, check_sums
from archgrad.loop.steps import Stepper
from archgrad.method.alpha_budget import AlphaBudget, BudgetChoice
from archgrad.method.bundle import Method
from archgrad.method.reactions import switched
from archgrad.recipes import published_arch_steps
from archgrad.regularizers import Regularizer
from archgrad.relaxations import expand_to_cells
from archgrad.spaces import DecisionBlock, SearchSpace
from archgrad.spaces.cost_model import NetworkShape
from archgrad.supernet import Supernet, SupernetOptions, recompute_cells
from archgrad.system import random_streams
from archgrad.system.devices import usable_device
from archgrad.tasks import BaseTask, Classification
from archgrad.training.schedule import Moves
from archgrad.training.weight_training import WeightTraining

__all__ = ["Experiment"]

_MEASURED = "measured"
"""The part of an identity that holds what regularizers have measured on the machine."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """Everything that a search needs but its state: its parts, its data in batches, and how far α may move.

    ``parts`` are as the configuration describes them. ``method`` has the learning rate of α that ``budget`` says, a
    warm-up in epochs, and regularizers that know the networks. The loaders are those of
    :func:`archgrad.loop.loaders.loaders_of`. ``described`` is what the identity of the search consists of. ``tables``
    names the accuracy tables that callbacks look up.
    """

    parts: ResolvedSearch
    method: Method
    options: SupernetOptions
    device: torch.device
    weight_loader: Loader
    arch_loader: Loader
    evaluation_loader: Loader
    held_out_loader: Loader | None
    described: Mapping[str, Any]
    budget: AlphaBudget = AlphaBudget("off", 0, 0, 1.0)  # noqa: RUF009 - it is frozen
    budget_line: str = ""
    tables: str = ""

    @classmethod
    def of(cls, parts: ResolvedSearch, data: Data, begun: Path | None = None) -> Experiment:
        """Join the parts of a search, or of one of its stages, with its images, and check them together.

        ``begun`` is the folder of a run to continue. The factor on α's rate is then the one that the run began with;
        this version may choose another.
        """
        config, space, method, settings, task = parts.config, parts.space, parts.method, parts.training, parts.task
        method.hypergradient.check_optimizer(settings)
        options, fractions = method.supernet_options(space), config.split_fractions(method.schedule.level)
        task.check(data)
        device = usable_device(own_device(config.device))
        check_precision(config.precision, device)
        loaders = loaders_of(parts, data, device)
        described = {
            "space": space, "supernet": options, "method": replace(method, weights={}), "weights": settings,
            "data": _about(data), "split": fractions, "augmentation": data.augmentation, **config.compared,
            **({} if task == Classification() else {"task": task.described}),
        }  # fmt: skip
        method = replace(method, schedule=method.schedule.within(settings.epochs))
        experiment = cls(parts, method, options, device, *loaders, described)
        check_before_training(experiment)
        kept = {} if begun is None else from_first(partial(_kept_numbers, begun))
        return experiment._with_bound_parts(kept.get(_MEASURED))._with_budget(config.budget, kept.get("alpha_budget"))

    @property
    def config(self) -> SearchConfig:
        """The configuration behind the parts; it also says how to compute: precision, what is computed again."""
        return self.parts.config

    @property
    def space(self) -> SearchSpace:
        """The space."""
        return self.parts.space

    @cached_property
    def task(self) -> BaseTask:
        """The task, suited to the data."""
        return self.parts.task.suited_to(self.data)

    @property
    def weights(self) -> WeightTraining:
        """How the weights are trained."""
        return self.parts.training

    @property
    def seed(self) -> int:
        """The seed of all random streams."""
        return int(self.config.seed)

    @property
    def data(self) -> Data:
        """All images, before they are split."""
        return self.weight_loader.data

    def describe(self) -> str:
        """Return ``config.toml``, from which anybody can repeat the search."""
        return config_to_toml(named_config(self.parts, self.data))

    def _with_bound_parts(self, kept: object) -> Experiment:
        """Return the experiment with regularizers that know the networks.

        ``kept`` is what they measured when the run began. Only the first of several processes measures.
        """
        shape = NetworkShape(**self.network_shape, image_size=self.data.shape[1:])

        def bind(measured: object) -> dict[str, Regularizer]:
            known, parts = measured if isinstance(measured, Mapping) else {}, self.method.regularizers
            names = [f"{place} {type(part).__name__}" for place, part in enumerate(parts)]
            return {
                name: part.bound(self.space, shape, known.get(name)) for name, part in zip(names, parts, strict=True)
            }

        bound = {} if processes().rank else bind(kept)
        found = from_first(lambda: {name: part.measured for name, part in bound.items() if part.measured is not None})
        bound = bind(found) if processes().rank else bound
        return replace(
            self,
            method=replace(self.method, regularizers=tuple(bound.values())),
            described={**self.described, **({_MEASURED: found} if found else {})},
        )

    def _with_budget(self, choice: BudgetChoice, kept_factor: object) -> Experiment:
        """Return the experiment with the learning rate of α scaled to its budget."""
        method, optimizer = self.method, self.method.arch_optimizer
        steps = published_arch_steps(self.parts.method, self.space), self.arch_steps
        budget = AlphaBudget.of(choice, optimizer, *steps, given=self.config.sets_rate(method))
        if choice in ("published", "always") and isinstance(kept_factor, float) and 0 < kept_factor < math.inf:
            budget = replace(budget, factor=kept_factor)
        scaled = optimizer if budget.factor == 1 else optimizer.scaled(budget.factor)
        anneals = method.schedule.anneal and optimizer.moves
        return replace(
            self,
            method=replace(method, arch_optimizer=Annealed(scaled.scaled(2.0)) if anneals else scaled),
            budget=budget,
            budget_line=budget.describe(optimizer, scaled) if self.blocks else "",
            described={**self.described, "alpha_budget": budget.factor},
        )

    @cached_property
    def blocks(self) -> tuple[DecisionBlock, ...]:
        """All blocks that have architecture parameters."""
        return self.space.searched_blocks(self.options)

    @cached_property
    def identity(self) -> RunIdentity:
        """What distinguishes this search from others, for its checkpoints."""
        return RunIdentity.of(**self.described)

    @cached_property
    def outputs(self) -> int:
        """The number of outputs of the network."""
        return self.task.outputs(self.data)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """End the processes that read the data when the block ends."""
        try:
            yield
        finally:
            for loader in (self.weight_loader, self.arch_loader, self.evaluation_loader, self.held_out_loader):
                if loader is not None:
                    loader.close()

    @property
    def steps(self) -> int:
        """The weight steps of an epoch: T (``schedule.inner_steps``) for each batch of its images."""
        loader, images = self.weight_loader, self.weights.epoch_images
        batches = loader.steps if images is None else min(max(round(images / loader.batch_size), 1), loader.steps)
        return batches * self.method.schedule.inner_steps

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
        schedule, steps = self.method.schedule, self.weights.epochs * self.steps
        if schedule.updates == "random":
            return sum(self.moves(index).architecture for index in range(steps))
        moving = max(steps - schedule.warmup_epochs * self.steps, 0) if self.method.arch_optimizer.moves else 0
        return moving // schedule.inner_steps

    def first_alpha(self) -> Alpha:
        """Return the initial architecture parameters."""
        first = self.method.relaxation.init(self.blocks, random_streams.generator(self.seed, "alpha"))
        check_like(self.method.relaxation, "init", first, self._rows, finite=True)
        return Alpha({name: value.to(self.device) for name, value in first.items()})

    @property
    def _rows(self) -> dict[str, Tensor]:
        return {block.name: block.mask for block in self.blocks}

    def is_unmoved(self, alpha: Alpha) -> bool:
        """Tell whether α still has its initial value, as in a warm-up, and so has chosen nothing yet."""
        first = self.first_alpha()
        return self.method.arch_optimizer.moves and all(torch.equal(alpha[name], first[name]) for name in first)

    def probabilities(self, alpha: Alpha) -> Probabilities:
        """Return the probabilities ``{block: [rows, choices]}`` of α."""
        return self.method.relaxation.probabilities(self.blocks, alpha)

    def present_probabilities(self, state: SearchState) -> Probabilities:
        """Return the probabilities of a state: those of its α, with the decided rows in their places."""
        return state.decided.inserted(self.probabilities(state.alpha))

    def mixture(self, state: SearchState) -> dict[str, Tensor]:
        """Return the input of the supernet, ``{block: [cells, rows, choices]}``."""
        return expand_to_cells(self.blocks, self.present_probabilities(state))

    @cached_property
    def train_chance(self) -> float | None:
        """The main metric of the best constant prediction on the training images; None if it is unknown."""
        return self.task.chance(self.data.targets[self.weight_loader.indices])

    @property
    def network_shape(self) -> dict[str, int]:
        """The arguments that fit a network of the space to the data."""
        return {"num_classes": self.outputs, "input_channels": self.data.channels}

    def initial_state(self) -> SearchState:
        """Return the state before the first step; the global generator draws the weights."""
        method, training = self.method, self.weights
        supernet = self.space.supernet(self.options, **self.network_shape)
        check_instance(self.space, "supernet", supernet, torch.nn.Module)
        supernet = supernet.to(self.device)
        if self.config.checkpoint_cells:
            self._recompute_cells(supernet)
        method.hypergradient.check(sum(weight.numel() for weight in supernet.parameters()))
        check_norms(self, supernet)
        alpha = self.first_alpha()
        optimizer = training.make_optimizer(supernet.parameters())
        probabilities = self.probabilities(alpha)
        check_like(method.relaxation, "probabilities", probabilities, self._rows, finite=True)
        check_sums(method.relaxation, probabilities)
        genotype = Argmax().select(self.space, probabilities)
        arch_state = method.arch_optimizer.init(alpha, self.arch_steps)
        check_instance(method.arch_optimizer, "init", arch_state, dict)
        trained, _ = split_trained(Weights(dict(supernet.named_parameters())))
        hypergradient_state = method.hypergradient.init(constants(trained), alpha)
        check_instance(method.hypergradient, "init", hypergradient_state, dict)
        state = SearchState(
            supernet, alpha, arch_state, optimizer, training.epochs, self.steps, genotype,
            average=WeightAverage.of(supernet, training.ema_decay) if training.ema_decay else None,
            warmup_epochs=method.schedule.warmup_epochs, budget_line=self.budget_line,
            metric=self.task.main_metric.info, hypergradient_state=hypergradient_state,
        )  # fmt: skip
        self._begin_to_watch(state)
        return state

    def _begin_to_watch(self, state: SearchState) -> None:
        """Give the state what the regularizers that watch operations begin with."""
        for part in [part for part in self.method.regularizers if part.watches]:
            name = type(part).__name__
            if not state.operations:
                raise UserError(
                    f"{name} watches the weights of operations, but the supernet of the space {self.space.name!r} has "
                    f"none in a MixedCell; build its cells from MixedCell, or leave {name} out."
                )
            if state.hypergradient_state:
                raise UserError(
                    f"{name} stops the training of some weights, but {type(self.method.hypergradient).__name__} keeps "
                    f"a state for each of them; choose another hypergradient, or leave {name} out."
                )
            state.watched[name] = part.init(tuple(state.operations))

    def _recompute_cells(self, supernet: Supernet) -> None:
        if not recompute_cells(supernet):
            raise UserError(
                f"checkpoint_cells is on, but the supernet of the space {self.space.name!r} has no MixedCell; build "
                f"its cells from MixedCell, or switch checkpoint_cells off."
            )

    @property
    def local_batch_norm(self) -> bool:
        """Whether each of several processes normalizes by its own images."""
        return self.config.local_batch_norm and processes().size > 1

    def least_rows(self, loader: Loader) -> int:
        """Return the least number of images over which a batch norm normalizes."""
        return loader.batch_size // processes().size if self.local_batch_norm else loader.batch_size

    def stepper(self, state: SearchState, compile_: bool = False) -> Stepper:
        """Return the stepper of this search, with the method that the state has switched to, if it has."""
        method = self.method if state.switched is None else switched(self.method)
        supernet, local, precision = state.supernet, self.local_batch_norm, self.config.precision
        plain = forward_of(supernet, False, local, precision)
        forward = forward_of(supernet, True, local, precision) if compile_ else plain
        full = None if precision == "32" else forward_of(supernet, False, local)
        parts = self.space, self.options, method, self.seed
        return Stepper(SupernetLosses(*parts, forward, plain, self.task, self.outputs, full), self.weights)


def _about(data: Data) -> dict[str, Any]:
    return {"name": data.name, "images": len(data), "classes": data.num_classes, "digest": data.digest()}


def _kept_numbers(folder: Path) -> dict[str, Any]:
    """Return the numbers that the run in a folder began with: the factor on α's rate, and what it measured."""
    saved = Checkpoints(folder).saved_identity()
    return {name: saved[name] for name in ("alpha_budget", _MEASURED) if name in saved}
