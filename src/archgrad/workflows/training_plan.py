"""What to train: a configuration, the seeds, and the test images."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from archgrad.config import SearchConfig
from archgrad.config.resolve import method_of, space_of, training_of
from archgrad.data import Data
from archgrad.data.catalog import absolute_name
from archgrad.errors import UserError, shortened
from archgrad.spaces import Genotype
from archgrad.workflows.presets import PRESETS
from archgrad.workflows.test_images import find_test_images
from archgrad.workflows.training_config import with_epochs, with_published_cutout, with_top5

__all__ = ["IN_PYTHON", "NO_TEST", "TrainingPlan", "seeds_of"]

IN_PYTHON = "given in Python"
"""Stands in a file for test images that it cannot name."""
NO_TEST = "none"
"""Stands for no test images, even if the data has some."""
_MOST_SEEDS = 1000


@dataclass(frozen=True)
class TrainingPlan:
    """A configuration, its preset, the seeds, and the test images: their name, an object, or None.

    With ``trains_on_all``, no images are held out if there are test images and the preset says so.
    """

    config: SearchConfig
    preset: str
    seeds: tuple[int, ...]
    test: Any = None
    trains_on_all: bool = False

    def complete(self, data: Data | None = None) -> tuple[TrainingPlan, Data, Data | None]:
        """Load the images, and choose what is left open: cutout, metrics, epochs, and whether images are held out.

        Return the complete plan, the training images, and the test images, None if there are none.
        """
        config = replace(self.config, seed=self.seeds[0])  # it chooses the images, if their number is limited
        data = config.load_data() if data is None else data
        if data.shape[1] != data.shape[2]:
            raise UserError(
                f"the images have {data.shape[1]}×{data.shape[2]} pixels, but a trained model takes square ones; give "
                f"image_size (--image-size)."
            )
        tests = None if self.test == NO_TEST else find_test_images(config, data, self.test)
        if tests is not None and self.trains_on_all and PRESETS[self.preset].trains_on_all:
            config = replace(config, held_out=0.0)
        data = with_published_cutout(data, self.preset, config.settings)
        config = with_epochs(with_top5(config, data, self.preset), data, self.preset)
        return replace(self, config=config), data, tests

    def with_changes(
        self,
        genotype: Genotype,
        epochs: int,
        seeds: tuple[int, ...],
        tested: bool = True,
        held_out: float | None = None,
    ) -> TrainingPlan:
        """Return a complete plan with another genotype, other epochs and seeds, and test images only if ``tested``.

        The warm-up of the learning rate is at most a fifth of the epochs. ``held_out`` is the share of images that
        train nothing, None: as it is.
        """
        space = space_of(self.config)
        changed = replace(space, architecture=str(genotype))  # type: ignore[call-arg]
        settings = {path: one for path, one in self.config.settings.items() if not path.startswith("space.")}
        weights = training_of(self.config, space, method_of(self.config))
        settings["weights.lr_warmup_epochs"] = min(weights.lr_warmup_epochs, epochs // 5)
        share = self.config.held_out if held_out is None else held_out
        config = replace(self.config, space=changed, epochs=epochs, settings=settings, held_out=share)
        return replace(self, config=config, seeds=seeds, test=self.test if tested else NO_TEST)

    def with_workers(self, workers: int | None) -> TrainingPlan:
        """Return the plan with other processes that read the data; None leaves them."""
        return self if workers is None else replace(self, config=replace(self.config, workers=workers))

    def to_text(self) -> str:
        """Return the content of ``training.json``: what a configuration does not say."""
        test = None if self.test is None else IN_PYTHON
        if isinstance(self.test, str):
            test = self.test if self.test == NO_TEST else absolute_name(self.test)
        return json.dumps({"preset": self.preset, "seeds": list(self.seeds), "test": test}, indent=2) + "\n"


def seeds_of(given: int | Sequence[int], first: int) -> tuple[int, ...]:
    """Return the seeds: so many from ``first`` on, or the given ones.

    >>> seeds_of(3, 10), seeds_of([4, 2], 0)
    ((10, 11, 12), (4, 2))
    """
    if isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= _MOST_SEEDS:
        return tuple(range(first, first + given))
    listed = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else ()
    if not 1 <= len(listed) <= _MOST_SEEDS or not all(type(one) is int for one in listed):
        raise UserError(
            f"seeds is {shortened(given)}; give a number of trainings from 1 to {_MOST_SEEDS}, or a list of seeds."
        )
    if len({*listed}) < len(listed):
        raise UserError(f"seeds is {shortened(given)}; each seed may be there once.")
    return listed
