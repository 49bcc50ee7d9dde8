"""The plan of a study: which variants are compared, on which benchmarks, with which seeds."""

from __future__ import annotations

import hashlib
import operator
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from archgrad.config import SearchConfig
from archgrad.config.toml import options_of, options_table, read_toml
from archgrad.errors import UserError, shortened, unknown
from archgrad.parts.fields import Range, check_value, read_value
from archgrad.system.toml import parse_toml

if TYPE_CHECKING:
    from archgrad.spaces import SearchSpace

__all__ = [
    "BLACKBOX", "BUDGETS", "OWN", "Benchmark", "PlannedRun", "StudyPlan", "Variant", "begun_plan_from_toml",
    "begun_plan_to_toml", "plan_from_toml", "plan_of", "plan_to_toml", "seeds_of", "split_names",
]  # fmt: skip

_FORMAT = "archgrad.study/1"
_KEYS = ("format", "digest", "seeds", "spaces", "data", "common", "benchmark", "variant")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_TAKEN = {
    "logs", "slurm", "run.json", "study.toml", "study.lock", "heartbeat.json", "failures.json", "config.toml",
    "genotype.json", "cell.svg",
}  # fmt: skip
"""What the folder of a study itself contains."""
OWN = ("method", "seed", "space", "data", "needs")
"""Options of a search that a study gives itself."""
MOST_RUNS = 100_000
BUDGETS = ("queries", "seconds")
BLACKBOX = "blackbox."
"""How settings of a search without gradients begin."""

Options = Mapping[str, Any]
"""Fields of :class:`archgrad.SearchConfig` by name; knobs of parts stand in ``settings``."""


@dataclass(frozen=True)
class Variant:
    """One of the things that a study compares: a method by name, with options of its own."""

    name: str
    method: str
    options: Options = field(default_factory=dict)

    @property
    def is_blackbox(self) -> bool:
        """Whether the method searches without gradients (:mod:`archgrad.blackbox`)."""
        from archgrad.blackbox import SEARCHES

        return self.method in SEARCHES

    @property
    def blackbox_settings(self) -> dict[str, Any]:
        """The knobs of a search without gradients, and its budget: ``queries`` or simulated ``seconds``."""
        settings = self.options.get("settings", {})
        return {path.removeprefix(BLACKBOX): value for path, value in settings.items() if path.startswith(BLACKBOX)}


@dataclass(frozen=True)
class Benchmark:
    """A space and data to search, with the sizes that all variants share there."""

    name: str
    space: str
    data: str
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study; its ``name`` is the path of its run directory in the study's folder."""

    benchmark: Benchmark
    variant: Variant
    seed: int

    @property
    def name(self) -> str:
        """The run directory: BENCHMARK/VARIANT-seedN."""
        return f"{self.benchmark.name}/{self.variant.name}-seed{self.seed}"


@dataclass(frozen=True)
class StudyPlan:
    """The grid of runs: every variant on every benchmark with every seed; ``common`` are options of all runs."""

    variants: tuple[Variant, ...]
    benchmarks: tuple[Benchmark, ...]
    seeds: tuple[int, ...]
    common: Options = field(default_factory=dict)

    def __post_init__(self) -> None:
        members: Sequence[Variant | Benchmark]
        for what, members in (("variant", self.variants), ("benchmark", self.benchmarks)):
            if not members:
                raise UserError(f"a study needs at least one {what}; name methods with --methods, or write a file.")
            for one in members:
                _check_name(what, one.name)
            _reject_twice(what, [one.name.lower() for one in members])
        _reject_twice("seed", self.seeds)
        for seed in self.seeds:
            check_value("seed", seed, Annotated[int, Range(0, 2**62)])
        if not 1 <= self.size <= MOST_RUNS:
            raise UserError(f"this study would have {self.size:,} runs; it must have from 1 to {MOST_RUNS:,}.")

    @property
    def size(self) -> int:
        """The number of runs."""
        return len(self.variants) * len(self.benchmarks) * len(self.seeds)

    def runs(self) -> Iterator[PlannedRun]:
        """Yield all runs: all variants with the first seed, then with the next, so that early tables are fair."""
        for seed in self.seeds:
            for benchmark in self.benchmarks:
                for variant in self.variants:
                    yield PlannedRun(benchmark, variant, seed)

    def run(self, name: str) -> PlannedRun:
        """Return the run of this name."""
        found = next((run for run in self.runs() if run.name == name), None)
        if found is None:
            raise UserError(f"this study has no run {shortened(name)}.")
        return found

    def config(self, run: PlannedRun) -> SearchConfig:
        """Return the configuration of a run: common options, then those of its benchmark, then those of its variant.

        Of a search without gradients it has the space and the data.
        """
        layers = (self.common, run.benchmark.options, run.variant.options)
        options = {name: value for layer in layers for name, value in layer.items() if name != "settings"}
        settings = {path: value for layer in layers for path, value in layer.get("settings", {}).items()}
        own: dict[str, Any] = {"space": run.benchmark.space, "data": run.benchmark.data, "seed": run.seed}
        if run.variant.is_blackbox:
            settings = {path: value for path, value in settings.items() if path.startswith("space.")}
        # DARTS leaves the space of a benchmark as it is.
        own["method"] = "darts" if run.variant.is_blackbox else run.variant.method
        return SearchConfig(**{"threads": 1, **options, **own, "settings": settings})

    def space(self, run: PlannedRun) -> SearchSpace:
        """Return the space that a run searches."""
        from archgrad.config.resolve import space_of

        return space_of(self.config(run))

    def without(self, names: Sequence[str]) -> StudyPlan:
        """Return this plan without the variants of these names."""
        known = [one.name for one in self.variants]
        if wrong := [name for name in names if name not in known]:
            raise unknown("variant" if len(wrong) == 1 else "variants", ", ".join(wrong), known)
        return replace(self, variants=tuple(one for one in self.variants if one.name not in names))

    def extended(self, other: StudyPlan) -> StudyPlan:
        """Return this plan with the new variants, benchmarks and seeds of another one, which must agree on all else."""
        if dict(other.common) != dict(self.common):
            raise UserError(
                f"this study was begun with other common options ({_difference(self.common, other.common)}); give the "
                f"same, or the study another folder."
            )
        known = [_as_begun(one, self.benchmarks) for one in other.benchmarks]
        return replace(
            self,
            variants=_joined("variant", self.variants, other.variants),
            benchmarks=_joined("benchmark", self.benchmarks, known),
            seeds=tuple(dict.fromkeys((*self.seeds, *other.seeds))),
        )


def _check_name(what: str, name: object) -> None:
    """Raise a UserError unless a name can be part of a path and of a page."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.lower() in _TAKEN:
        raise UserError(
            f"the {what} {shortened(name)} has a name that cannot be part of a path; use up to 64 letters, digits and "
            f"the characters . _ + - and begin with a letter or digit. {', '.join(sorted(_TAKEN))} are taken."
        )


def _reject_twice(what: str, values: Sequence[Any]) -> None:
    for value, count in Counter(values).items():
        if count > 1:
            raise UserError(f"the {what} {shortened(value)} is given twice; name each {what} once.")


def _joined(what: str, own: Sequence[Any], new: Sequence[Any]) -> tuple[Any, ...]:
    known = {one.name: one for one in own}
    for one in new:
        if one != known.setdefault(one.name, one):
            raise UserError(
                f"this study has a {what} {one.name!r} with other options; give the new {what} another name, or the "
                f"study another folder."
            )
    return tuple(known.values())


def _as_begun(benchmark: Benchmark, begun: Sequence[Benchmark]) -> Benchmark:
    """Return the begun benchmark of the same name if it only has more options: the sizes that the study has chosen."""
    for one in begun:
        same = (one.name, one.space, one.data) == (benchmark.name, benchmark.space, benchmark.data)
        if same and all(one.options.get(name) == value for name, value in benchmark.options.items()):
            return one
    return benchmark


def _difference(one: Options, other: Options) -> str:
    flat = [{**options, **options.get("settings", {})} for options in (one, other)]
    names = sorted(name for name in {**flat[0], **flat[1]} if flat[0].get(name) != flat[1].get(name))
    return ", ".join(name for name in names if name != "settings") or "settings"


def plan_from_toml(path: Path) -> StudyPlan:
    """Read the plan of a study from a TOML file."""
    return plan_of(read_toml(path), path)


def begun_plan_from_toml(path: Path) -> StudyPlan:
    """Read the plan of a begun study; raise a UserError if somebody has edited it."""
    content = read_toml(path)
    plan = plan_of(content, path)
    if content.get("digest") != _digest_of(plan):
        raise UserError(
            f"{path} was edited by hand, so its finished runs may not be what it says. Undo that; add seeds and "
            f"variants with --seeds, --methods, or with a file: `archgrad compare FILE -o {path.parent}`."
        )
    return plan


def begun_plan_to_toml(plan: StudyPlan) -> str:
    """Return the plan as TOML, with a digest of all that it says."""
    return f'digest = "{_digest_of(plan)}"\n{plan_to_toml(plan)}'


def _digest_of(plan: StudyPlan) -> str:
    written = plan_of(parse_toml(plan_to_toml(plan), "the plan"), "the plan")  # as it is once it is in a file
    return hashlib.sha256(plan_to_toml(written).encode()).hexdigest()[:16]


def plan_of(content: Mapping[str, Any], path: Path | str) -> StudyPlan:
    """Return the plan that tables of TOML describe; ``path`` says in errors where they stand."""
    for name in content:
        if name not in _KEYS:
            raise unknown(f"key in {path}:", name, _KEYS)
    if content.get("format", _FORMAT) != _FORMAT:
        raise UserError(f"{path} does not have the format {_FORMAT!r}; another version of archgrad has written it.")
    tables, common = content.get("variant", {}), content.get("common", {})
    if not isinstance(common, dict):
        raise UserError(f"common in {path} is {shortened(common)}; write a table [common] with options of all runs.")
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise UserError(f'{path} has no tables [variant.NAME]; write one for each variant, such as method = "darts".')
    variants = []
    for name, table in tables.items():
        options = _options_in(table, f"[variant.{name}] in {path}", ("method",))
        variants.append(Variant(name, options.pop("method", name), options))
    shared = _options_in(common, f"[common] in {path}")
    return StudyPlan(tuple(variants), _benchmarks(content, path), seeds_of(content.get("seeds", 3)), shared)


def _benchmarks(content: Mapping[str, Any], path: Path | str) -> tuple[Benchmark, ...]:
    if "benchmark" not in content:
        spaces, data = content.get("spaces", ["nasbench201"]), content.get("data", ["digits"])
        data = split_names("data", data)
        return tuple(_benchmark(space, one, {}) for space in split_names("spaces", spaces) for one in data)
    if "spaces" in content or "data" in content:
        raise UserError(f"{path} has both [[benchmark]] and spaces or data; write one of the two.")
    given = content["benchmark"]
    if not isinstance(given, list) or not all(isinstance(table, dict) for table in given):
        raise UserError(f"benchmark in {path} is {shortened(given)}; write tables [[benchmark]] with space and data.")
    found = []
    for table in given:
        named = {name: value for name, value in table.items() if name != "name"}
        options = _options_in(named, f"[[benchmark]] in {path}", ("space", "data"))
        space, data = options.pop("space", "nasbench201"), options.pop("data", "digits")
        found.append(_benchmark(space, data, options, table.get("name")))
    return tuple(found)


def _benchmark(space: str, data: str, options: Options, name: str | None = None) -> Benchmark:
    """Return a benchmark; its usual name is that of the space, then that of the data or of its folder."""
    from archgrad.data.catalog import absolute_name

    data = absolute_name(data)
    kind, _, path = data.partition(":")
    text = f"{space}-{kind}-{Path(path).stem}" if path else f"{space}-{kind}"
    return Benchmark(name or re.sub(r"[^A-Za-z0-9._+-]+", "-", text)[:64], space, data, options)


def split_names(what: str, names: str | Sequence[str]) -> list[str]:
    """Return names from a list, or from text with commas.

    >>> split_names("methods", "darts, gaea")
    ['darts', 'gaea']
    """
    check_value(what, names, str | Sequence[str])
    return list(read_value(what, names, tuple[str, ...]))


def seeds_of(value: Any) -> tuple[int, ...]:
    """Return the seeds that a number or a list means.

    >>> seeds_of(3), seeds_of([5, 7]), seeds_of("100-102,7")
    ((0, 1, 2), (5, 7), (100, 101, 102, 7))
    """
    try:
        if isinstance(value, str) and not value.isdecimal():
            seeds = [seed for part in value.split(",") for seed in _range_of(part)]
        elif isinstance(value, list | tuple):
            seeds = [operator.index(seed) for seed in value]
        else:
            count = int(value) if isinstance(value, str) else operator.index(value)
            check_value("seeds", count, Annotated[int, Range(1, MOST_RUNS)])
            seeds = list(range(count))
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"seeds is {shortened(value)}; give a number such as 10, or seeds such as 0-9,20.") from None
    return tuple(seeds)


def _range_of(part: str) -> range:
    low, dash, high = part.partition("-")
    seeds = range(int(low), int(high if dash else low) + 1)
    if not 1 <= len(seeds) <= MOST_RUNS:
        raise UserError(f"seeds has {shortened(part)}; a range must have from 1 to {MOST_RUNS:,} seeds, such as 0-9.")
    return seeds


def plan_to_toml(plan: StudyPlan) -> str:
    """Return the plan as TOML, which :func:`plan_from_toml` reads again."""
    import tomli_w

    places = [
        {"name": one.name, "space": one.space, "data": one.data, **options_table(one.options)}
        for one in plan.benchmarks
    ]
    variants = {one.name: {"method": one.method, **options_table(one.options)} for one in plan.variants}
    head = {"format": _FORMAT, "seeds": _as_ranges(plan.seeds), "common": options_table(plan.common)}
    try:
        return tomli_w.dumps({**head, "benchmark": places, "variant": variants})
    except TypeError as error:
        raise UserError(f"a study is written to a file, so its settings are no objects ({error}).") from None


def _as_ranges(seeds: Sequence[int]) -> str:
    """Write seeds as :func:`seeds_of` reads them.

    >>> _as_ranges((0, 1, 2, 7))
    '0-2,7-7'
    """
    ranges: list[list[int]] = []
    for seed in seeds:
        if ranges and seed == ranges[-1][1] + 1:
            ranges[-1][1] = seed
        else:
            ranges.append([seed, seed])
    return ",".join(f"{first}-{last}" for first, last in ranges)


def _options_in(table: Mapping[str, Any], place: str, own: Sequence[str] = ()) -> dict[str, Any]:
    """Return the options in a table; of those that a study gives itself, only its ``own`` may stand there."""
    for name in OWN:
        if name in table and name not in own:
            raise UserError(f"{name} cannot be an option in {place}: the study itself gives every run its {name}.")
    options = options_of(table, place)
    return {name: value for name, value in options.items() if name != "settings" or value}
