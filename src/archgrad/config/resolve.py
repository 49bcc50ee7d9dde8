"""From a configuration to its parts, once: space, method, task, training of the weights and callbacks, all checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from archgrad import recipes
from archgrad.arch_optimizers import ARCH_OPTIMIZERS
from archgrad.callbacks import CALLBACKS, Callback, join_callbacks, standard
from archgrad.config.checks import PAPER, SETTABLE
from archgrad.config.images import check_data
from archgrad.config.search_config import SearchConfig
from archgrad.discretizers import DISCRETIZERS
from archgrad.distributed.processes import processes
from archgrad.errors import UserError, shortened
from archgrad.hypergradients import HYPERGRADIENTS
from archgrad.method.bundle import Method
from archgrad.method.progressive import Progressive
from archgrad.method.reactions import Reaction, check_reaction, doctors
from archgrad.parts.fields import read_value
from archgrad.parts.knobs import OPTIONAL_PARTS, PARTS, with_settings
from archgrad.parts.registry import Registry
from archgrad.regularizers import REGULARIZERS, Regularizer
from archgrad.relaxations import RELAXATIONS
from archgrad.spaces import SPACES, SearchSpace
from archgrad.tasks import TASKS, BaseTask
from archgrad.training.weight_training import WeightTraining

__all__ = [
    "FAMILIES",
    "ResolvedSearch",
    "method_of",
    "resolve",
    "space_of",
    "task_of",
    "training_of",
]

FAMILIES: dict[str, Registry[Any]] = {
    "relaxation": RELAXATIONS,
    "hypergradient": HYPERGRADIENTS,
    "arch_optimizer": ARCH_OPTIMIZERS,
    "discretizer": DISCRETIZERS,
}
"""The families of which a method must have one member each, by the names of its fields."""


@dataclass(frozen=True, eq=False)
class ResolvedSearch:
    """The parts that a configuration describes, built once and checked together; it needs no data.

    ``training`` says how the weights are trained. ``named_callbacks`` are those that the configuration names, and
    ``callbacks`` all that watch the search, in their order.
    """

    config: SearchConfig
    space: SearchSpace
    method: Method
    task: BaseTask
    training: WeightTraining
    named_callbacks: Mapping[str, Callback]
    callbacks: tuple[Callback, ...]


def resolve(
    config: SearchConfig, callbacks: Sequence[Callback] = (), *, standard_callbacks: bool = True
) -> ResolvedSearch:
    """Build the parts of a search; raise one UserError that lists everything that is wrong with them.

    ``callbacks`` watch the search beside the standard ones, or alone without ``standard_callbacks``.

    >>> resolve(SearchConfig(epochs=1)).training.epochs
    1
    """
    problems: list[str] = []

    def ask(question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return question(*arguments)
        except UserError as error:
            if str(error) not in problems:
                problems.append(str(error))
            return None

    space, method = ask(space_of, config), ask(method_of, config)
    named, task = ask(_named_callbacks, config), ask(task_of, config)
    ask(check_data, config)
    training: Any = None
    watching: Any = None
    if space is not None and method is not None:
        training = ask(training_of, config, space, method)
        if training is not None and method.arch_optimizer.moves:
            ask(method.schedule.check_epochs, training.epochs)
        ask(method.check, space)
        ask(check_reaction, config.on_collapse, method, space)
    if method is not None:
        ask(config.split_fractions, method.schedule.level)
        ask(_check_compile, config, method)
        given = (*(named or {}).values(), *callbacks)
        watching = ask(_all_callbacks, method, given, standard_callbacks, config.on_collapse)
    if config.published and not problems:
        ask(_check_recipe, config, space, method)
    if len(problems) == 1:
        raise UserError(problems[0])
    if problems:
        listed = "\n".join(f"  {number}. {problem}" for number, problem in enumerate(problems, start=1))
        raise UserError(f"{len(problems)} things are wrong with this search:\n{listed}")
    return ResolvedSearch(config, space, method, task, training, named, watching)


def _check_recipe(config: SearchConfig, space: SearchSpace, method: Method) -> None:
    """Reject a method that is no recipe, or a changed one, and a space of another size than the published one."""
    if config.recipe is None or method != recipes.named(config.recipe, space):
        raise UserError(
            f"the method {method.name!r} is not a recipe as it was published for this space, but {PAPER}; name one of "
            f"`archgrad list methods`, or leave published out."
        )
    published = space_of(replace(config, space=space.name)) if space.name in SPACES else space
    if space != published:
        raise UserError(f"space is {space}, but {PAPER}: {published}; give space={space.name!r}.")


def _check_compile(config: SearchConfig, method: Method) -> None:
    """Reject what torch.compile cannot do."""
    if not config.compile:
        return
    if config.checkpoint_cells:
        raise UserError(
            "compile and checkpoint_cells are both on, but torch.compile decides itself which activations it keeps; "
            "switch one of them off."
        )
    if processes().size > 1:
        raise UserError("torch.compile works in one process only; search without compile, or without torchrun.")
    if method.hypergradient.order > 1:
        raise UserError(
            f"{type(method.hypergradient).__name__} differentiates the supernet twice or changes its ReLUs, which "
            f"torch.compile does not support; search without compile, or with FirstOrder."
        )
    for regularizer in method.regularizers:
        if regularizer.differentiates_gradient or regularizer.differentiates_outer_loss:
            raise UserError(
                f"{type(regularizer).__name__} as it is set differentiates the supernet twice, which torch.compile "
                f"cannot do; search without compile, or set difference=interleaved and objective=inner."
            )
    if method.relaxation.sparse:
        raise UserError(
            f"{type(method.relaxation).__name__} computes different operations in each step, so torch.compile would "
            f"compile again every time; search without compile, or with a dense relaxation."
        )


def _all_callbacks(
    method: Method, given: Sequence[Callback], with_standard: bool, on_collapse: Reaction
) -> tuple[Callback, ...]:
    """Return all callbacks of a search; reject other objects, and callbacks that do not fit the method."""
    for callback in given:
        if not isinstance(callback, Callback):
            raise UserError(
                f"{shortened(callback)} is not a callback; give objects of classes that derive from "
                f"archgrad.callbacks.Callback."
            )
        callback.check(method.relaxation, method.arch_optimizer, method.discretizer)
    measuring = (*standard(), *method.measures) if with_standard else ()
    rule = () if method.stop is None else (method.stop,)
    return join_callbacks(measuring, given, (*rule, *doctors(on_collapse, method)))


def space_of(config: SearchConfig) -> SearchSpace:
    """Return the space at the configured size, or at the size that the method was published with."""
    if isinstance(config.space, str):
        space = SPACES.create(config.space)
        space = replace(space, **({} if config.recipe is None else recipes.sized(config.recipe, space)))
    else:
        space = config.space
    sizes: dict[str, Any] = {"channels": config.channels, space.depth_knob: config.cells}
    space = replace(space, **{name: size for name, size in sizes.items() if size is not None})
    return with_settings(space, config.settings_of("space"), "space")


def task_of(config: SearchConfig) -> BaseTask:
    """Return the task with its settings."""
    task = TASKS.create(config.task) if isinstance(config.task, str) else config.task
    return with_settings(task, config.settings_of("task"), "task")


def method_of(config: SearchConfig) -> Method:
    """Return the method with the named parts and the settings.

    The learning rate of an architecture optimizer that is named counts as a recipe's own, until a setting changes it.
    """
    named = {part: family.create(name) for part, family in FAMILIES.items() if (name := getattr(config, part))}
    method = _base_method(config, named)
    recipes_own = "arch_optimizer" in named or method.arch_optimizer is method.recipe_optimizer
    parts: dict[str, Any] = {part: getattr(method, part) for part in PARTS} | named
    parts = {part: with_settings(parts[part], config.settings_of(part), part) for part in PARTS}
    parts["recipe_optimizer"] = parts["arch_optimizer"] if recipes_own else None
    method = replace(method, progressive=_at_depth(config, method.progressive))
    parts |= {part: _optional_part(config, part, method) for part in OPTIONAL_PARTS}
    return replace(method, **parts, regularizers=_regularizers(config, method))


def _base_method(config: SearchConfig, named: Mapping[str, Any]) -> Method:
    """Return the method before settings: an object, a recipe, or parts that are all named."""
    if not isinstance(config.method, str):
        return config.method
    if config.recipe is None and len(named) == len(FAMILIES):
        return Method(**named, name=config.method)
    return recipes.named(config.method, config.space)


def _at_depth(config: SearchConfig, stages: Progressive | None) -> Progressive | None:
    """Give all stages the configured depth; reject it if every stage was set to its own."""
    if stages is None or config.cells is None or not all(stage.cells for stage in stages.stages):
        return stages
    if "progressive.cells" not in config.settings:
        return with_settings(stages, {"cells": "none"}, "progressive")
    given = with_settings(stages, config.settings_of("progressive"), "progressive").stages
    if all(stage.cells for stage in given):
        own = ", ".join(str(stage.cells) for stage in given)
        raise UserError(
            f"cells is {config.cells}, but stages have their own, {own}; leave it out, or set progressive.cells=none."
        )
    return stages


def _optional_part(config: SearchConfig, part: str, method: Method) -> Any:
    """Return an optional part of the method with its settings; reject settings of a part that it lacks."""
    member, settings = getattr(method, part), config.settings_of(part)
    if member is not None:
        return with_settings(member, settings, part)
    for knob in settings:
        raise UserError(
            f"{part}.{knob} cannot be set: the method {config.method!r} has no {part}; `archgrad list methods` "
            f"shows which have one."
        )
    return None


def _regularizers(config: SearchConfig, method: Method) -> tuple[Regularizer, ...]:
    """Return the regularizers of the search with their settings."""
    chosen = method.regularizers if config.regularizer is None else _named_regularizers(config.regularizer, method)
    own = [(REGULARIZERS.label_of(regularizer), regularizer) for regularizer in chosen]
    others = {name for name, _ in own} | {*SETTABLE, *CALLBACKS, *_callback_names(config)}
    for part in {path.rpartition(".")[0] for path in config.settings} - others:
        raise UserError(f"{part} cannot be set: this search has no such regularizer; add --regularizer +{part}.")
    return tuple(with_settings(regularizer, config.settings_of(name), name) for name, regularizer in own)


def _named_regularizers(listed: str, method: Method) -> tuple[Regularizer, ...]:
    """Return the named regularizers; names that begin with a plus add to the method's own."""
    names = read_value("regularizer", listed, tuple[str, ...])
    added = [name.removeprefix("+").strip() for name in names if name.startswith("+")]
    if added and len(added) < len(names):
        raise UserError(
            f"regularizer is {listed!r}, which both adds to the method's regularizers and replaces them; "
            f"write a plus before every name, to add, or before none, to replace."
        )
    if added:
        return (*method.regularizers, *map(REGULARIZERS.create, added))
    return () if names == ("none",) else tuple(map(REGULARIZERS.create, names))


def _named_callbacks(config: SearchConfig) -> dict[str, Callback]:
    """Return the callbacks by the names that the configuration gives them, with their settings."""
    names = _callback_names(config)
    for part in {path.rpartition(".")[0] for path in config.settings} & set(CALLBACKS) - set(names):
        raise UserError(f"{part} cannot be set: this search does not name that callback; add --callback {part}.")
    return {name: with_settings(CALLBACKS.create(name), config.settings_of(name), name) for name in names}


def _callback_names(config: SearchConfig) -> list[str]:
    return list(dict.fromkeys(read_value("callback", config.callback or "", tuple[str, ...])))


def training_of(config: SearchConfig, space: SearchSpace, method: Method) -> WeightTraining:
    """Return the weight-training settings: the space's, then the method's, then the user's."""
    chosen = {"epochs": config.epochs, "batch_size": config.batch_size}
    given = {name: value for name, value in chosen.items() if value is not None}
    base = method.trained(space.weights) if config.weights is None else config.weights
    return with_settings(base, {**config.settings_of("weights"), **given}, "weights")
