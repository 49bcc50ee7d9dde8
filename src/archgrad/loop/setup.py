"""What a search is set up from: everything but its state, checked before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral

import torch

from archgrad import randomness
from archgrad.data import HALVES, ImageData, Loader, Split, measure, parse_split
from archgrad.data import split as split_data
from archgrad.errors import UserError
from archgrad.loop.description import describe
from archgrad.loop.state import SearchState
from archgrad.loop.steps import Stepper
from archgrad.method import Method
from archgrad.spaces import SearchSpace
from archgrad.training import WeightTraining

__all__ = ["Setup"]


@dataclass(frozen=True, eq=False)
class Setup:
    """A space sized for the data, a method, how the weights are trained, and the batches of both."""

    space: SearchSpace
    method: Method
    training: WeightTraining
    seed: int
    device: torch.device
    weight_loader: Loader
    arch_loader: Loader
    description: dict[str, str]

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
        split: tuple[float, float] | str | None = HALVES,
        device: torch.device | str = "cpu",
    ) -> Setup:
        """Check and complete what a search was given."""
        if isinstance(seed, bool) or not isinstance(seed, Integral):
            raise UserError(f"seed is {seed!r}; it must be a whole number.")
        method.check(space)
        space = replace(space, input_channels=data.channels, num_classes=data.num_classes, image_size=data.image_size)
        settings = _settings(space, training, epochs, batch_size)
        split = parse_split(split) if isinstance(split, str) else split
        parts = split_data(data.labels, split, int(seed))
        _check_batch_size(batch_size, parts)
        device = _usable(device)
        normalisation = measure(data, parts.weights)
        weight_loader, arch_loader = (
            Loader(data, indices, settings.batch_size, normalisation, data.augmentation, seed, stream, device)
            for indices, stream in ((parts.weights, "weights"), (parts.architecture, "architecture"))
        )
        _check_length(settings.epochs * weight_loader.steps, method)
        _check_heads(space, weight_loader)
        description = describe(space, method, data, settings, seed, split)
        return cls(space, method, settings, seed, device, weight_loader, arch_loader, description)

    def initial_state(self) -> SearchState:
        """Return the state before the first step; the weights come from the global generator."""
        method, training, blocks = self.method, self.training, self.space.blocks
        supernet = self.space.supernet().to(self.device)
        first = method.relaxation.init(blocks, randomness.generator(self.seed, "alpha"))
        alpha = {name: value.to(self.device) for name, value in first.items()}
        optimizer = torch.optim.SGD(
            supernet.parameters(),
            lr=training.lr,
            momentum=training.momentum,
            weight_decay=training.weight_decay,
            nesterov=training.nesterov,
        )
        genotype = method.discretizer.select(self.space, method.relaxation.probabilities(blocks, alpha))
        arch_state, steps = method.arch_optimizer.init(alpha), self.weight_loader.steps
        return SearchState(supernet, alpha, arch_state, optimizer, training.epochs, steps, genotype)

    def stepper(self, state: SearchState, compile_: bool = False) -> Stepper:
        """Return what takes the steps of this search."""
        return Stepper.of(self.space, self.method, self.training, self.seed, state.supernet, compile_)


def _settings(
    space: SearchSpace, training: WeightTraining | None, epochs: int | None, batch_size: int | None
) -> WeightTraining:
    settings = training or space.training
    if epochs is not None:
        settings = replace(settings, epochs=epochs)
    return settings if batch_size is None else replace(settings, batch_size=batch_size)


def _check_batch_size(batch_size: int | None, parts: Split) -> None:
    """Refuse a wish that cannot be met; a space's own batch size is cut to small data silently."""
    for name, part in (("weights", parts.weights), ("architecture", parts.architecture)):
        if batch_size is not None and batch_size > len(part):
            raise UserError(
                f"batch_size is {batch_size}, but only {len(part)} images train the {name}; "
                f"it must be at most {min(len(parts.weights), len(parts.architecture))}, or give more data."
            )


def _check_length(steps: int, method: Method) -> None:
    """Refuse a search that would end before its architecture has moved."""
    if not any(map(method.schedule.moves_architecture, range(steps))):
        raise UserError(
            f"the architecture moves once for every {method.schedule.inner_steps} steps of the weights "
            f"(schedule.inner_steps), but the search has only {steps}; give more epochs or data, or fewer inner steps."
        )


def _check_heads(space: SearchSpace, loader: Loader) -> None:
    if space.auxiliary and loader.batch_size < 2:
        raise UserError(
            "the auxiliary head normalises single pixels and needs at least 2 images in a batch, but there is 1; "
            "raise batch_size or set space.auxiliary=0."
        )


def _usable(device: torch.device | str) -> torch.device:
    """Return a device that computes; refuse one that is unknown or not there."""
    try:
        torch.zeros(1, device=device).item()
        return torch.device(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise UserError(f"the device {str(device)!r} cannot be used ({reason}); try 'cpu'.") from error
