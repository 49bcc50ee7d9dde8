"""What ``fit`` will do: sizes and times, chosen from the images, the time and this machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from archgrad.config import SearchConfig
from archgrad.data import Data
from archgrad.errors import UserError
from archgrad.fields import Count, check_fields
from archgrad.spaces import Genotype, SearchSpace, named_space
from archgrad.workflows.limits import Limits, widest_within
from archgrad.workflows.search_sizes import fit_sizes
from archgrad.workflows.time_plan import MOST_EPOCHS, epoch_seconds
from archgrad.workflows.training_config import training_config

__all__ = ["REST", "SEARCH_SHARE", "SPACE", "FitPlan", "chosen_image_size", "plan_fit", "training_epochs"]

SPACE, METHOD = "nasbench201", "gaea-simultaneous"
_CONV = "nor_conv_3x3"
HEAVIEST = Genotype.parse(f"|{_CONV}~0|+|{_CONV}~0|{_CONV}~1|+|{_CONV}~0|{_CONV}~1|{_CONV}~2|")
"""The cell with the most parameters and multiply-adds."""
SEARCH_SHARE = 0.35
"""The share of the time that the searches take."""
REST = 0.95
"""What is left after loading, testing and exporting."""
_SIZES = ((8, 1), (16, 1), (16, 2), (24, 2), (32, 2), (32, 3), (48, 3), (64, 5))
"""Widths and cells per stage of the network, from small to large."""
_ENOUGH_EPOCHS = 30
"""A larger network is chosen only if there is time for so many epochs."""
_TWO_SEARCHES = 120.0
"""With so many seconds, two searches make two candidates."""
_SMALL_IMAGE, _LARGE_IMAGE, _LONG = 32, 64, 7200.0


@dataclass(frozen=True)
class FitPlan:
    """The sizes of a fit. ``train_epochs`` None: chosen after the searches, by the time that is left.

    The searches train ``search_limit`` images (None: all) for ``search_epochs`` epochs each. ``search_channels`` and
    ``search_cells`` are the size of the supernet, ``channels`` and ``cells`` that of the network.
    """

    image_size: Count
    searches: Count = 2
    search_channels: Count = 8
    search_cells: Count = 1
    search_epochs: Count = 10
    search_batch_size: Count = 64
    search_limit: Count | None = None
    channels: Count = 16
    cells: Count = 1
    train_epochs: Count | None = None

    def __post_init__(self) -> None:
        check_fields(self, "{} of the plan")

    def search_config(self, seed: int, options: dict[str, Any]) -> SearchConfig:
        """Return the configuration of a search; ``none`` is not among the operations."""
        return SearchConfig(
            space=SPACE, method=METHOD, seed=seed, channels=self.search_channels, cells=self.search_cells,
            epochs=self.search_epochs, batch_size=self.search_batch_size, settings={"space.exclude": "none"},
            oracle="none", **options,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def chosen_image_size(data: Data, seconds: float) -> int:
    """Return the side of the images to work with: their own, but at most 32 pixels, or 64 with two hours."""
    return min(data.image_size, _LARGE_IMAGE if seconds >= _LONG else _SMALL_IMAGE)


def plan_fit(
    data: Data, seconds: float, limits: Limits, options: dict[str, Any], tell: Callable[[str], None]
) -> FitPlan:
    """Measure this machine, and choose sizes for these images, which have their final size."""
    searches = 2 if seconds >= _TWO_SEARCHES else 1
    minutes = SEARCH_SHARE * seconds / searches / 60
    search = SearchConfig(
        space=SPACE, method=METHOD, data=data, time_limit=minutes, settings={"space.exclude": "none"}, oracle="none",
        **options,
    )  # fmt: skip
    sizes = fit_sizes(search, data, tell).config
    tell("measuring a few steps of a network")
    left = seconds * REST - 60 * searches * minutes
    channels, cells = _network_size(data, left, limits, options)
    return FitPlan(
        data.image_size, searches, sizes.channels or 8, sizes.cells or 1, sizes.epochs or 1, sizes.batch_size or 64,
        sizes.limit, channels, cells,
    )  # fmt: skip


def _network_size(data: Data, seconds: float, limits: Limits, options: dict[str, Any]) -> tuple[int, int]:
    """Return the largest width and depth with time for enough epochs, at which the heaviest cell keeps the limits."""
    shape = {"num_classes": data.num_classes, "input_channels": data.channels, "image_size": data.image_size}

    def sized(size: tuple[int, int]) -> SearchSpace:
        return replace(named_space(SPACE), channels=size[0], cells_per_stage=size[1])  # type: ignore[call-arg]

    smallest = _SIZES[0]
    config = training_config(sized(smallest), HEAVIEST, data, epochs=1, **options)
    measured, least = epoch_seconds(config, data), sized(smallest).cost(HEAVIEST, **shape).multiply_adds
    chosen = smallest
    for size in _SIZES[1:]:
        epoch = measured * sized(size).cost(HEAVIEST, **shape).multiply_adds / least
        if seconds / trainings(2) / epoch < _ENOUGH_EPOCHS:
            break
        chosen = size
    if limits:
        problem = limits.exceeded(replace(sized((1, chosen[1]))), HEAVIEST, shape)
        if problem is not None:
            chosen = (chosen[0], 1)
        widest_within(limits, sized(chosen), HEAVIEST, shape)  # rejects limits that no width keeps
    return chosen


def trainings(candidates: int) -> float:
    """Return how many whole trainings the rounds, the last training and the baseline are worth.

    >>> trainings(1), trainings(2), trainings(3)
    (2.0, 3.0, 3.75)
    """
    rounds = math.ceil(math.log2(candidates)) if candidates > 1 else 0
    left, worth = candidates, 2.0
    for number in range(1, rounds + 1):
        worth += left / 2 ** (rounds - number + 1)
        left = math.ceil(left / 2)
    return worth


def training_epochs(config: SearchConfig, data: Data, candidates: int, seconds: float) -> int:
    """Return the epochs of the last training, so that all trainings together take about so many seconds."""
    epochs = int(seconds / trainings(candidates) / epoch_seconds(config, data))
    if epochs < 1:
        raise UserError(
            f"{seconds:.0f} seconds are left for {trainings(candidates):g} trainings, and one epoch takes longer; give "
            f"a larger budget (--budget), smaller images (--image-size) or fewer (--limit)."
        )
    return min(epochs, MOST_EPOCHS)
