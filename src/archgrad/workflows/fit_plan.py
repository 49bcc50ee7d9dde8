"""What ``fit`` will do: sizes and times, chosen from the images, the time and this machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from archgrad.config import SearchConfig
from archgrad.config.images import check_data
from archgrad.data import Data
from archgrad.data import split as split_data
from archgrad.errors import ImageSizeError, UserError
from archgrad.loop.sizes import fit_sizes
from archgrad.parts.fields import Count, check_fields
from archgrad.spaces import Genotype, SearchSpace, named_space
from archgrad.workflows.limits import Limits, cost_of, widest_within
from archgrad.workflows.test_images import find_test_images
from archgrad.workflows.training import MOST_EPOCHS, Training, epoch_seconds

__all__ = [
    "REST",
    "SEARCH_SHARE",
    "FitPlan",
    "check_limits",
    "chosen_image_size",
    "load_images",
    "network_space",
    "network_training",
    "plan_fit",
    "shape_of",
    "sized_space",
    "training_epochs",
    "trainings",
]

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
_MEASURING_SHARE = 0.02
"""The share of the time that one measurement may take after its first steps."""
_SMALL_IMAGE, _LARGE_IMAGE, _LONG = 32, 64, 7200.0
_TEST_SHARE = 0.2
"""The share of the images that only tests the model, where the data has no test images."""
_LEAST_TESTS = 10


@dataclass(frozen=True)
class FitPlan:
    """The sizes of a fit.

    The searches train ``search_limit`` images (None: all) for ``search_epochs`` epochs each. ``search_channels`` and
    ``search_cells`` are the size of the supernet, ``channels`` and ``cells`` that of the network. ``train_epochs`` are
    those of the network, and ``baseline_epochs`` those of the residual network. None: chosen on the way, by the
    architectures that are found and the time that is left.
    """

    image_size: Count
    searches: Count = 2
    search_channels: Count = 8
    search_cells: Count = 1
    search_epochs: Count = 10
    search_batch_size: Count = 64
    search_limit: Count | None = None
    channels: Count | None = None
    cells: Count | None = None
    train_epochs: Count | None = None
    baseline_epochs: Count | None = None

    def __post_init__(self) -> None:
        check_fields(self, "{} of the plan")

    def search_config(self, seed: int, options: dict[str, Any]) -> SearchConfig:
        """Return the configuration of a search."""
        return _search_config(
            seed=seed, channels=self.search_channels, cells=self.search_cells, epochs=self.search_epochs,
            batch_size=self.search_batch_size, **options,
        )  # fmt: skip


def _search_config(**options: Any) -> SearchConfig:
    """Return the configuration of a search; ``none`` is not among the operations."""
    return SearchConfig(space=SPACE, method=METHOD, settings={"space.exclude": "none"}, oracle="none", **options)


def network_training(space: SearchSpace, genotype: Genotype, data: Data, **options: Any) -> Training:
    """Describe the training of a network at the size of its space."""
    return Training.of(
        space, genotype, data, channels=space.channels, cells=getattr(space, space.depth_knob), **options
    )


def chosen_image_size(sides: int | None, seconds: float) -> int:
    """Return the side of the images to work with: their own, but at most 32 pixels, or 64 with two hours.

    None stands for images of different sizes.

    >>> chosen_image_size(8, 60.0), chosen_image_size(224, 60.0), chosen_image_size(None, 7200.0)
    (8, 32, 64)
    """
    most = _LARGE_IMAGE if seconds >= _LONG else _SMALL_IMAGE
    return most if sides is None else min(sides, most)


def plan_fit(
    data: Data, seconds: float, options: dict[str, Any], tell: Callable[[str], None] = lambda text: None
) -> FitPlan:
    """Measure this machine, and choose the searches of these images, which have their final size.

    Raise a UserError if the time is too short even for the smallest network.
    """
    searches = 2 if seconds >= _TWO_SEARCHES else 1
    minutes = SEARCH_SHARE * seconds / searches / 60
    try:
        sizes = fit_sizes(_search_config(data=data, time_limit=minutes, **options), data, tell).config
    except UserError as error:
        raise UserError(f"the budget of {seconds:g} seconds is too short for a search ({error})") from error
    tell("measuring a few steps of a network")
    smallest = network_training(sized_space(*_SIZES[0]), HEAVIEST, data, epochs=1, **options)
    epoch = epoch_seconds(smallest.config, data, _MEASURING_SHARE * seconds)
    needed = [trainings(candidates) * epoch / (REST - SEARCH_SHARE) for candidates in (1, 2)]
    if needed[searches - 1] > seconds:
        enough = needed[max(needed) >= _TWO_SEARCHES]
        raise UserError(
            f"the budget is {seconds:g} seconds, but one epoch of the smallest network takes {epoch:.2g}; give at "
            f"least --budget {math.ceil(enough)}s, smaller images (--image-size) or fewer (--limit)."
        )
    return FitPlan(
        data.image_size, searches, sizes.channels or 8, sizes.cells or 1, sizes.epochs or 1, sizes.batch_size or 64,
        sizes.limit,
    )  # fmt: skip


def shape_of(data: Data) -> dict[str, Any]:
    """Return what a network needs to know of its images."""
    return {"num_classes": data.num_classes, "input_channels": data.channels, "image_size": data.image_size}


def sized_space(channels: int, cells: int) -> SearchSpace:
    """Return the space of the networks at a width and a number of cells per stage."""
    return replace(named_space(SPACE), channels=channels, cells_per_stage=cells)  # type: ignore[call-arg]


def check_limits(limits: Limits, plan: FitPlan, shape: dict[str, Any]) -> None:
    """Reject limits that the heaviest cell keeps at no width, before anything is trained."""
    if limits:
        widest_within(limits, sized_space(1, plan.cells or 1), HEAVIEST, shape)


def network_space(
    plan: FitPlan,
    genotypes: Sequence[Genotype],
    data: Data,
    seconds: float,
    limits: Limits,
    options: dict[str, Any],
) -> SearchSpace:
    """Return the space at the size of the networks: that of the plan, or the largest with time for enough epochs.

    At this size the networks of all genotypes keep the limits.
    """
    shape = shape_of(data)
    channels, cells = plan.channels, plan.cells
    if channels is None or cells is None:
        timed = _timed_size(genotypes, data, seconds, options)
        channels, cells = channels or timed[0], cells or timed[1]
    if limits and plan.cells is None and any(limits.exceeded(sized_space(1, cells), one, shape) for one in genotypes):
        cells = 1  # as check_limits has it
    space = sized_space(channels, cells)
    for genotype in genotypes:  # the narrowest width that all of them need
        space = widest_within(limits, space, genotype, shape)
    return space


def _timed_size(genotypes: Sequence[Genotype], data: Data, seconds: float, options: dict[str, Any]) -> tuple[int, int]:
    """Return the largest width and depth with time for enough epochs of the heaviest of the networks."""
    shape, smallest = shape_of(data), sized_space(*_SIZES[0])
    heaviest = max(genotypes, key=lambda one: cost_of(smallest, one, shape).multiply_adds)
    training = network_training(smallest, heaviest, data, epochs=1, **options)
    measured = epoch_seconds(training.config, data, _MEASURING_SHARE * seconds)
    least, chosen = cost_of(smallest, heaviest, shape).multiply_adds, _SIZES[0]
    for size in _SIZES[1:]:
        epoch = measured * cost_of(sized_space(*size), heaviest, shape).multiply_adds / least
        if seconds / trainings(len(genotypes)) / epoch < _ENOUGH_EPOCHS:
            break
        chosen = size
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
    """Return the epochs of the last training, so that all trainings together take about so many seconds; at least 1."""
    epochs = int(seconds / trainings(candidates) / epoch_seconds(config, data, _MEASURING_SHARE * seconds))
    return min(max(epochs, 1), MOST_EPOCHS)


def load_images(config: SearchConfig, test: Any, seconds: float, plan: FitPlan | None) -> tuple[Data, Data]:
    """Return the images that train and those that test, both at their final size.

    That size is the configuration's, the plan's, or chosen for so many ``seconds``. The test images are those of
    ``test``, those of the data's own source, or a fifth of the images.
    """
    if plan is not None:
        if config.image_size not in (None, plan.image_size):
            raise UserError(f"image_size is {config.image_size}, but that of the plan is {plan.image_size}; give one.")
        config = replace(config, image_size=plan.image_size)
    check_data(config)
    config, images = _load(config, seconds)
    tests = find_test_images(config, images, test)
    if tests is None:
        parts = split_data(images.targets, None, config.seed, _TEST_SHARE, images.classes)
        tests, images = images.select(parts.held_out), images.select(parts.weights)
    if len(tests) < _LEAST_TESTS:
        raise UserError(f"there are {len(tests)} images to test the model; give at least {_LEAST_TESTS} (more data).")
    return images, tests


def _load(config: SearchConfig, seconds: float) -> tuple[SearchConfig, Data]:
    """Load the images at their final size, and return the configuration with that size."""
    try:
        images = config.load_data()
        size = config.image_size or chosen_image_size(images.image_size, seconds)
    except ImageSizeError:
        size = config.image_size or chosen_image_size(None, seconds)
        images = replace(config, image_size=size).load_data()
    if not images.classes:
        raise UserError(f"the targets of {images.name!r} are no classes, which fit needs; use search and train.")
    config = replace(config, image_size=size)
    if images.shape[1:] != (size, size):
        images = config.load_data() if images.lazy else images.resized(size, config.resize)
    return config, images
