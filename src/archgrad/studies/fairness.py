"""The same search space, images and length for all variants of a study, and what differs all the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

from archgrad.config import SearchConfig
from archgrad.config.resolve import method_of, resolve, space_of, training_of
from archgrad.config.search_config import SIZE_FIELDS
from archgrad.errors import UserError, shortened, unknown
from archgrad.loop.prepare import DEFAULT_MINUTES
from archgrad.loop.sizes import fit_sizes
from archgrad.studies.plan import BLACKBOX, BUDGETS, Benchmark, PlannedRun, StudyPlan, Variant

__all__ = ["check_plan", "differences", "fill_in_sizes"]


def fill_in_sizes(
    plan: StudyPlan, begun: Collection[Benchmark] = (), tell: Callable[[str], None] = lambda text: None
) -> StudyPlan:
    """Give every benchmark the sizes and the space that all variants share, where the study leaves them open.

    Open sizes are those of the first variant: chosen for its time limit, or as published. Operations that any method
    leaves out of its space are left out for all. ``published`` leaves every variant its own. Benchmarks that have
    ``begun`` keep what they have.
    """
    if plan.common.get("published"):
        return plan
    return replace(
        plan,
        benchmarks=tuple(
            benchmark if benchmark in begun else _with_sizes(plan, benchmark, tell) for benchmark in plan.benchmarks
        ),
    )


def _with_sizes(plan: StudyPlan, benchmark: Benchmark, tell: Callable[[str], None]) -> Benchmark:
    configs = [_bare(plan, benchmark, variant) for variant in plan.variants if not variant.is_blackbox]
    if not configs:
        return benchmark
    sizes = {name: value for name, value in _sizes(configs[0], tell).items() if plan.common.get(name) is None}
    excluded = {name for config in configs for name in space_of(config).exclude}
    space = {"space.exclude": sorted(excluded)} if excluded else {}
    settings = {**space, **plan.common.get("settings", {}), **benchmark.options.get("settings", {})}
    new = {path: value for path, value in settings.items() if path not in plan.common.get("settings", {})}
    return replace(benchmark, options={**sizes, **benchmark.options, **({"settings": new} if new else {})})


def _bare(plan: StudyPlan, benchmark: Benchmark, variant: Variant) -> SearchConfig:
    """Return the configuration of a variant without its own options."""
    return plan.config(PlannedRun(benchmark, replace(variant, options={}), plan.seeds[0]))


def _sizes(config: SearchConfig, tell: Callable[[str], None]) -> dict[str, Any]:
    """Return the sizes of a configuration: chosen for its time limit if it gives none, else its own or published."""
    if not config.is_sized:
        chosen = fit_sizes(replace(config, time_limit=config.time_limit or DEFAULT_MINUTES), config.load_data(), tell)
        tell(f"{chosen}, for all variants")
        return {name: value for name in SIZE_FIELDS if (value := getattr(chosen.config, name)) is not None}
    config = config.with_sizes()
    space, method = space_of(config), method_of(config)
    training = training_of(config, space, method)
    sizes: dict[str, Any] = {"epochs": training.epochs, "batch_size": training.batch_size, "channels": space.channels}
    return sizes if method.progressive is not None else {**sizes, "cells": getattr(space, space.depth_knob)}


def _conditions(config: SearchConfig) -> dict[str, str]:
    """Return what a fair comparison keeps the same, of one run, by the names of the options that set it."""
    space, method = space_of(config), method_of(config)
    training, schedule = training_of(config, space, method), method.schedule
    without = f" without {', '.join(space.exclude)}" if space.exclude else ""
    stages = "" if method.progressive is None else f" in each of {len(method.progressive.stages)} stages"
    shares = config.split_fractions(schedule.level)
    both = "all images train both weights and α (more steps in an epoch)"
    split = both if shares is None else "{:g} : {:g} for weights : α".format(*shares)
    return {
        "space": f"{space.name}{without}",
        "channels": f"{space.channels}",
        "cells": f"{getattr(space, space.depth_knob)}",
        "epochs": f"{training.epochs}{stages}",
        "batch_size": f"{training.batch_size}",
        "limit": "all images" if config.limit is None else f"{config.limit:,}",
        "image_size": f"{config.search_size or config.image_size or 'their own'}",
        "split": split,
        "held_out": f"{config.held_out:g}",
        "schedule.inner_steps": f"{schedule.inner_steps}",
        "alpha_budget": f"{config.budget}",
    }


def differences(plan: StudyPlan, benchmark: Benchmark) -> Iterator[str]:
    """Yield a sentence for each condition in which a variant differs from most others on a benchmark."""
    found = {
        variant.name: _conditions(plan.config(PlannedRun(benchmark, variant, plan.seeds[0])))
        for variant in plan.variants
        if not variant.is_blackbox
    }
    for variant in plan.variants:
        if variant.is_blackbox:
            yield f"{variant.name} has no epochs: it searches without gradients, {_budget(variant)}"
    for name in dict.fromkeys(name for one in found.values() for name in one):
        values = [one[name] for one in found.values()]
        usual = max(values, key=values.count)
        for value in dict.fromkeys(values):
            if value != usual:
                who = ", ".join(variant for variant, one in found.items() if one[name] == value)
                yield f"{name}: {value} for {who}, {usual} for the others"


def _budget(variant: Variant) -> str:
    """Say what limits a search without gradients."""
    from archgrad.blackbox import SEARCHES

    budget = {name: variant.blackbox_settings.get(name) for name in BUDGETS}
    given = " and ".join(f"{value:,} {name}" for name, value in budget.items() if value is not None)
    if not given and not SEARCHES.create(variant.method).needs_table:
        return "and trains nothing"
    return f"within {given or '12,000 seconds'} (simulated)"


def check_plan(plan: StudyPlan) -> None:
    """Raise a UserError unless every variant can be searched on every benchmark; nothing is loaded for that."""
    for variant in plan.variants:
        if "time_limit" in variant.options:
            raise UserError(
                f"time_limit of the variant {variant.name!r} is {shortened(variant.options['time_limit'])}; all "
                f"variants of a benchmark share its sizes, so give the limit in [common], or in a [[benchmark]]."
            )
    for benchmark in plan.benchmarks:
        for variant in plan.variants:
            run = PlannedRun(benchmark, variant, plan.seeds[0])
            try:
                _check_method(variant.method)
                _check_blackbox(plan, run) if variant.is_blackbox else resolve(plan.config(run))
            except UserError as error:
                raise UserError(f"the variant {variant.name!r} on {benchmark.name}: {error}") from error


def _check_method(name: str) -> None:
    """Raise a UserError for an unknown method, which may also be one that searches without gradients."""
    from archgrad.blackbox import SEARCHES
    from archgrad.recipes import RECIPES

    known = [*RECIPES, *SEARCHES]
    if ":" not in name and name not in known:
        raise unknown("method", name, known)


def _check_blackbox(plan: StudyPlan, run: PlannedRun) -> None:
    """Raise a UserError unless a search without gradients can query the space of a benchmark."""
    from archgrad.blackbox import SEARCHES
    from archgrad.blackbox.base import check_short_trainings
    from archgrad.parts.knobs import with_settings

    variant = run.variant
    others = [name for name in variant.options if name != "settings"]
    others += [path for path in variant.options.get("settings", {}) if not path.startswith((BLACKBOX, "space."))]
    if others:
        raise UserError(
            f"{', '.join(others)} cannot be set: {variant.method} has no weights and no epochs; set "
            f"blackbox.queries, blackbox.seconds or a knob of `archgrad list blackbox`."
        )
    knobs = {name: value for name, value in variant.blackbox_settings.items() if name not in BUDGETS}
    search, space = with_settings(SEARCHES.create(variant.method), knobs, "blackbox"), plan.space(run)
    search.check(space)
    if search.needs_table:
        check_short_trainings(space.name, run.benchmark.data)
