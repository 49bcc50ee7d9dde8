"""The plan of a study: which variants are compared, on which benchmarks, with which seeds."""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.config import SearchConfig
from archgrad.config.toml import nested_settings, options_of, parse_toml, read_toml
from archgrad.errors import UserError, check_whole, shortened, unknown
from archgrad.parts.fields import check_value

if TYPE_CHECKING:
    from archgrad.spaces import SearchSpace

__all__ = [
    "BLACKBOX",
    "BUDGETS",
    "FORMAT",
    "Benchmark",
    "PlannedRun",
    "StudyPlan",
    "Variant",
    "benchmark_name",
    "check_name",
    "digest_in",
    "digest_of",
    "grid_of_benchmarks",
    "plan_from_toml",
    "plan_to_toml",
    "seeds_of",
]

FORMAT = "archgrad.study/1"
_KEYS = ("format", "digest", "seeds", "spaces", "data", "common", "benchmark", "variant")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_TAKEN = {"logs", "study.toml", "study.lock", "heartbeat.json", "failures.json"}
"""What the folder of a study itself contains."""
_DEVICES = {"con", "prn", "aux", "nul", *(f"{kind}{number}" for kind in ("com", "lpt") for number in range(10))}
"""What Windows takes for a device, with any suffix."""
_OWN = ("seed", "space", "data", "needs")
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
        members: tuple[Variant | Benchmark, ...] = (*self.variants, *self.benchmarks)
        for what, kind in (("variant", Variant), ("benchmark", Benchmark)):
            names = [one.name for one in members if isinstance(one, kind)]
            if not names:
                raise UserError(f"a study needs at least one {what}; name methods with --methods, or write a file.")
            for name in names:
                check_name(what, name)
            _reject_twice(what, [name.lower() for name in names])
        _reject_twice("seed", self.seeds)
        for seed in self.seeds:
            check_whole("seed", seed, least=0, most=2**62)
        if not 1 <= self.size <= MOST_RUNS:
            raise UserError(f"this study would have {self.size:,} runs; it must have from 1 to {MOST_RUNS:,}.")
        for options in (self.common, *(one.options for one in members)):
            _check_options(options)

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
        for run in self.runs():
            if run.name == name:
                return run
        raise UserError(f"this study has no run {shortened(name)}.")

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

    def extended(self, other: StudyPlan) -> StudyPlan:
        """Return this plan with the new variants, benchmarks and seeds of another one, which must agree on all else."""
        if dict(other.common) != dict(self.common):
            raise UserError(
                f"this study was begun with other common options ({_difference(self.common, other.common)}); give the "
                f"same, or the study another folder."
            )
        variants = _joined("variant", self.variants, other.variants)
        benchmarks = _joined(
            "benchmark", self.benchmarks, [_as_begun(one, self.benchmarks) for one in other.benchmarks]
        )
        return replace(
            self, variants=variants, benchmarks=benchmarks, seeds=tuple(dict.fromkeys((*self.seeds, *other.seeds)))
        )


def check_name(what: str, name: str) -> None:
    """Raise a UserError unless a name can be part of a path and of a page."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UserError(
            f"the {what} {shortened(name)} has a name that cannot be part of a path; use up to 64 letters, digits and "
            f"the characters . _ + - and begin with a letter or digit."
        )
    if name.lower() in _TAKEN or name.lower().partition(".")[0] in _DEVICES or name.endswith("."):
        raise UserError(f"the {what} cannot be called {name!r}: that is another file here or elsewhere; rename it.")


def _check_options(options: Options) -> None:
    known = [one.name for one in fields(SearchConfig)]
    for name in options:
        if name in (*_OWN, "method"):
            raise UserError(f"{name} cannot be an option here: the study itself gives every run its {name}.")
        if name not in known:
            raise unknown("option", name, [one for one in known if one not in (*_OWN, "method")])
    check_value("settings", options.get("settings", {}), Mapping[str, Any])


def _reject_twice(what: str, values: Sequence[Any]) -> None:
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            raise UserError(f"the {what} {shortened(value)} is given twice; name each {what} once.")
        seen.add(value)


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
        if (one.name, one.space, one.data) == (benchmark.name, benchmark.space, benchmark.data):
            return (
                one if all(one.options.get(name) == value for name, value in benchmark.options.items()) else benchmark
            )
    return benchmark


def _difference(one: Options, other: Options) -> str:
    flat = [{**options, **options.get("settings", {})} for options in (one, other)]
    names = sorted(name for name in {**flat[0], **flat[1]} if flat[0].get(name) != flat[1].get(name))
    return ", ".join(name for name in names if name != "settings") or "settings"


def benchmark_name(space: str, data: str) -> str:
    """Return the usual name of a benchmark.

    >>> benchmark_name("nasbench201", "folder:/data/my photos")
    'nasbench201-folder-my-photos'
    """
    kind, _, path = data.partition(":")
    text = f"{space}-{kind}-{Path(path).stem}" if path else f"{space}-{kind}"
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text)[:64]


def plan_from_toml(path: Path) -> StudyPlan:
    """Read the plan of a study from a TOML file."""
    return _plan_of(read_toml(path), path)


def _plan_of(content: Mapping[str, Any], path: Path | str) -> StudyPlan:
    for name in content:
        if name not in _KEYS:
            raise unknown(f"key in {path}:", name, _KEYS)
    if content.get("format", FORMAT) != FORMAT:
        raise UserError(f"{path} does not have the format {FORMAT!r}; another version of archgrad has written it.")
    tables, common = content.get("variant", {}), content.get("common", {})
    if not isinstance(common, dict):
        raise UserError(f"common in {path} is {shortened(common)}; write a table [common] with options of all runs.")
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise UserError(f'{path} has no tables [variant.NAME]; write one for each variant, such as method = "darts".')
    variants = tuple(_variant(name, table, f"[variant.{name}] in {path}") for name, table in tables.items())
    shared = _without_empty(options_of(common, f"[common] in {path}"))
    return StudyPlan(variants, _benchmarks(content, path), seeds_of(content.get("seeds", 3)), shared)


def _variant(name: str, table: Mapping[str, Any], place: str) -> Variant:
    options = options_of(table, place)
    method = options.pop("method", name)
    return Variant(name, method, _without_empty(options))


def _benchmarks(content: Mapping[str, Any], path: Path | str) -> tuple[Benchmark, ...]:
    if "benchmark" in content:
        if "spaces" in content or "data" in content:
            raise UserError(f"{path} has both [[benchmark]] and spaces or data; write one of the two.")
        given = content["benchmark"]
        if not isinstance(given, list) or not all(isinstance(table, dict) for table in given):
            raise UserError(
                f"benchmark in {path} is {shortened(given)}; write tables [[benchmark]] with space and data."
            )
        return tuple(_benchmark(dict(table), path) for table in given)
    spaces, data = (content.get(name, usual) for name, usual in (("spaces", ["nasbench201"]), ("data", ["digits"])))
    return grid_of_benchmarks(_words("spaces", spaces), _words("data", data))


def grid_of_benchmarks(spaces: Sequence[str], data: Sequence[str]) -> tuple[Benchmark, ...]:
    """Return a benchmark for every space and data."""
    from archgrad.data.catalog import absolute_name

    named = [absolute_name(one) for one in data]
    return tuple(Benchmark(benchmark_name(space, one), space, one) for space in spaces for one in named)


def _benchmark(table: dict[str, Any], path: Path | str) -> Benchmark:
    from archgrad.data.catalog import absolute_name

    name = table.pop("name", None)
    options = options_of(table, f"[[benchmark]] in {path}")
    space, data = options.pop("space", "nasbench201"), absolute_name(options.pop("data", "digits"))
    return Benchmark(name or benchmark_name(space, data), space, data, _without_empty(options))


def _words(name: str, value: Any) -> list[str]:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise UserError(f"{name} is {shortened(value)}; it must be a list of names.")
    return words


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
            check_whole("seeds", count, most=MOST_RUNS)
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

    content: dict[str, Any] = {"format": FORMAT, "seeds": _as_ranges(plan.seeds), "common": _table(plan.common)}
    content["benchmark"] = [
        {"name": one.name, "space": one.space, "data": one.data, **_table(one.options)} for one in plan.benchmarks
    ]
    content["variant"] = {one.name: {"method": one.method, **_table(one.options)} for one in plan.variants}
    try:
        return tomli_w.dumps(content)
    except TypeError as error:
        raise UserError(
            f"a study is written to a file, so its options are names and numbers, no objects ({error})."
        ) from None


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


def digest_of(plan: StudyPlan) -> str:
    """Return a digest of all that a plan says once it is in a file."""
    written = _plan_of(parse_toml(plan_to_toml(plan), "the plan"), "the plan")
    return hashlib.sha256(plan_to_toml(written).encode()).hexdigest()[:16]


def digest_in(path: Path) -> object:
    """Return the digest that stands in the file of a plan."""
    return read_toml(path).get("digest")


def _table(options: Options) -> dict[str, Any]:
    table = {name: value for name, value in options.items() if name != "settings" and value is not None}
    return {**table, **({"set": nested_settings(options["settings"])} if options.get("settings") else {})}


def _without_empty(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "settings" or value}
