"""How often the published search moved its architecture parameters."""

from __future__ import annotations

from archgrad.method.bundle import Method
from archgrad.parts.fields import checked
from archgrad.recipes.methods import RECIPES, named
from archgrad.recipes.settings import declared
from archgrad.spaces import SearchSpace

__all__ = ["published_arch_steps"]


@checked
def published_arch_steps(method: Method, space: SearchSpace) -> int:
    """Return how many architecture steps the published search with a method takes in a space; a stage, if it has some.

    That is (epochs − warm-up) · ⌊images / batch size⌋, with the 25,000 images of CIFAR-10 that train α in a bilevel
    search, or all 50,000 in a single-level one; half of it where each step draws what it moves. A method that is no
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
