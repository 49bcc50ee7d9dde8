"""What the search of a paper is: its sizes, its length, its images and the rate of α."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from archgrad.arch_optimizers import ArchOptimizer
from archgrad.method.bundle import Method
from archgrad.parts.fields import checked
from archgrad.recipes.build import listed
from archgrad.recipes.methods import RECIPES, named
from archgrad.recipes.settings import FAMILIES, OURS, PUBLISHED_IN, SETTINGS, declared, family_of, sized
from archgrad.spaces import SearchSpace
from archgrad.training.schedule import Level

__all__ = ["PublishedRun", "published_arch_steps", "published_run"]

_KNOBS = {"cells_per_stage": "cells per stage"}


@dataclass(frozen=True)
class PublishedRun:
    """The published search with a recipe in a space; ``depths`` and ``arch_steps`` are those of each stage.

    ``families`` are the families of spaces that the recipe was published in. ``ours`` are the settings that no paper
    and no code gives.
    """

    recipe: str
    space: SearchSpace
    channels: int
    depths: tuple[int, ...]
    epochs: int
    batch_size: int
    images: int
    held_out: float
    level: Level
    optimizer: ArchOptimizer
    weight_steps: int
    arch_steps: int
    families: tuple[str, ...]
    ours: tuple[str, ...]

    def describe(self) -> str:
        """Say in one line what is searched, for how long, on which images and at which rate."""
        stages = f" in each of {len(self.depths)} stages" if len(self.depths) > 1 else ""
        depth = f"{', '.join(map(str, self.depths))} {_KNOBS.get(self.space.depth_knob, 'cells')}"
        left_out = f" without `{'`, `'.join(self.space.exclude)}`" if self.space.exclude else ""
        half = self.images // 2
        shared = f"all {self.images:,} images train weights and α"
        parts = shared if self.level == "single" else f"{half:,} images train the weights and {half:,} others α"
        held = f"{self.held_out:g} of them held out" if self.held_out else "none is held out"
        return (
            f"{self.channels} channels, {depth}{left_out}, {self.epochs} epochs{stages}, batches of {self.batch_size}; "
            f"{parts}, {held}; {self._alpha(stages)}"
        )

    def _alpha(self, stages: str) -> str:
        if not self.optimizer.moves:
            return "α does not move"
        rate = getattr(self.optimizer, "lr", None)
        return f"α's rate {'is its own' if rate is None else f'{rate:g}'}, {self.arch_steps:,} α steps{stages}"

    def departures(self) -> list[str]:
        """Say in lines what is not published of it."""
        here = FAMILIES.get(family_of(self.space), f"the space {self.space.name!r}")
        if not self.families:
            nobody = f"no paper has published {self.recipe}"
            elsewhere = f"{self.recipe} was published in none of our spaces"
            return [f"{elsewhere if self.recipe in PUBLISHED_IN else nobody}: its settings in {here} are ours"]
        if family_of(self.space) not in self.families:
            known = ", ".join(FAMILIES[family] for family in self.families)
            return [f"{self.recipe} was published in {known}: its settings in {here} are ours"]
        return [f"these settings of {self.recipe} are ours (docs/recipes.md): {', '.join(self.ours)}"] * bool(self.ours)


@checked
def published_run(recipe: str, space: SearchSpace) -> PublishedRun:
    """Return the published search with a recipe in a space, whatever the size of the space.

    >>> from archgrad import spaces
    >>> print(published_run("gaea", spaces.NASBench201()).describe())
    16 channels, 5 cells per stage without `none`, 25 epochs, batches of 64; all 50,000 images train weights and α, \
none is held out; α's rate 0.1, 19,525 α steps
    """
    space = replace(space, **sized(recipe, space))
    method, settings = named(recipe, space), declared(recipe, space)
    training, plan, level = method.trained(space.weights), method.progressive, method.schedule.level
    own: Any = getattr(space, space.depth_knob)
    depths = (own,) if plan is None else tuple(stage.cells or own for stage in plan.stages)
    images = int(settings["data.images"].value)
    batches = (images if level == "single" else images // 2) // training.batch_size
    ours = tuple(one.path for one in listed(method, space) if one.source.startswith(OURS))
    return PublishedRun(
        recipe, space, space.channels, depths, training.epochs, training.batch_size, images,
        float(settings["data.held_out"].value), level, method.arch_optimizer,
        training.epochs * batches * method.schedule.inner_steps, published_arch_steps(method, space),
        _families(recipe), ours,
    )  # fmt: skip


def _families(recipe: str) -> tuple[str, ...]:
    """Return the families of spaces for which a recipe, or a setting of its own, is published."""
    own = SETTINGS.get(recipe, {})
    sources = {family: [source for _, source in own.get(family, {}).values()] for family in FAMILIES}
    return tuple(
        family
        for family in FAMILIES
        if family in PUBLISHED_IN.get(recipe, ()) or any(not source.startswith(OURS) for source in sources[family])
    )


@checked
def published_arch_steps(method: Method, space: SearchSpace) -> int:
    """Return how many architecture steps the published search with a method takes in a space; a stage, if it has some.

    That is (epochs − warm-up) · ⌊images / batch size⌋, with the 25,000 images of CIFAR-10 that train α in a bilevel
    search, or all 50,000 in a single-level one; half of it where each step draws what it moves. A share of the epochs
    in which α waits does not count: the search moves α as far in fewer steps. A method that is no
    recipe, by its name, counts as if it were published with the space's own settings.

    >>> from archgrad import spaces
    >>> published_arch_steps(named("darts", "nasbench201"), spaces.NASBench201())
    19500
    """
    recipe = named(method.name, space) if method.name in RECIPES else method
    training, schedule = recipe.trained(space.weights), recipe.schedule
    everything = int(declared(method.name if method.name in RECIPES else "darts", space)["data.images"].value)
    images = everything if schedule.level == "single" else everything // 2
    epochs = max(training.epochs - schedule.warmup_epochs, 0)
    steps = epochs * (images // training.batch_size)
    return steps // 2 if schedule.updates == "random" else steps
