"""The texts that ``archgrad list`` prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, get_type_hints

from archgrad import (
    arch_optimizers,
    blackbox,
    callbacks,
    data,
    discretizers,
    hypergradients,
    recipes,
    regularizers,
    relaxations,
    spaces,
    tasks,
)
from archgrad.data.catalog import source_names
from archgrad.errors import UserError, look_up
from archgrad.parts.fields import described
from archgrad.parts.knobs import knobs_of
from archgrad.parts.registry import Registry
from archgrad.spaces.known import KnownCell, known_cells
from archgrad.tables.nasbench201.latency import describe_device, describe_devices
from archgrad.workflows.presets import PRESETS

__all__ = [
    "FAMILIES",
    "KINDS",
    "list_all",
    "list_kinds",
    "list_one",
    "list_settings",
    "methods_page",
    "published_texts",
    "shown",
]


@dataclass(frozen=True)
class Kind:
    """A kind of things to choose: a line for each, by name and in columns, and all that is known of one of them."""

    rows: Callable[[], Mapping[str, Sequence[str]]]
    details: Callable[[str], str]


def list_kinds() -> str:
    """Return a line for each kind of things to choose: how many there are, and the first of them."""
    rows = []
    for what, kind in KINDS.items():
        own = list[str]()
        with suppress(UserError):  # devices are those of a table, which need not be there
            own = [*kind.rows()]
        rows.append([what, f"{len(own):>3}", ", ".join(own[:4]) + ", …" * (len(own) > 4)])
    return "\n".join([*_columns(rows), "\nall of a kind: `archgrad list KIND`"])


def list_all(what: str) -> str:
    """Return a line for each thing of a kind, and how to see more."""
    kind = look_up("list", what, KINDS)
    lines = list_methods() if what == "methods" else _columns([[name, *row] for name, row in kind.rows().items()])
    return "\n".join([*lines, f"\nall settings of one: `archgrad list {what} NAME`"])


def list_one(what: str, name: str) -> str:
    """Return all that is known of one thing of a kind, or of all of them."""
    kind = look_up("list", what, KINDS)
    names = {one.removesuffix(":PATH"): one for one in kind.rows()}
    wanted = list(names.values()) if name == "all" else [look_up(what.removesuffix("s"), name, names)]
    return "\n\n".join(map(kind.details, wanted))


def list_methods() -> list[str]:
    """Return a line for each recipe, below what its group changes: the paper, and what it does."""
    lines = []
    for group, members in recipes.RECIPE_GROUPS.items():
        rows = [[name, *recipes.described(name)] for name in members]
        lines += [f"{group}:", *(f"  {line}" for line in _columns(rows))]
    return lines


def _first_line(thing: Any) -> str:
    return str(thing.__doc__ or "").strip().splitlines()[0]


def _knob_lines(*parts: tuple[str, Any]) -> list[str]:
    """Return a line for each knob of some parts, by prefix: its path, its default and what it may be."""
    rows = []
    for prefix, part in parts:
        hints = get_type_hints(type(part), include_extras=True)
        rows += [(f"{prefix}.{knob}", shown(one), described(hints[knob])) for knob, one in knobs_of(part).items()]
    return _columns([("setting", "default", "may be"), *rows]) if rows else ["it has no settings"]


def _detailed(name: str, thing: Any, *parts: tuple[str, Any]) -> str:
    return "\n".join([f"{name}: {_first_line(thing)}", *_knob_lines(*parts)])


def _kind_of_parts(family: Registry[Any], part: str | None) -> Kind:
    """Return a family of parts, whose knobs are ``part.knob``, or ``member.knob`` if ``part`` is None."""

    def details(name: str) -> str:
        member = family.create(name)
        return _detailed(name, type(member), (part or name, member))

    return Kind(lambda: {name: [_first_line(type(family.create(name)))] for name in family}, details)


def _space_details(name: str) -> str:
    space = spaces.SPACES.create(name)
    parts = (("space", space), ("supernet", space.supernet_defaults), ("weights", space.weights))
    return "\n".join([_detailed(name, type(space), *parts), f"--cells is space.{space.depth_knob}"])


def _preset_details(name: str) -> str:
    rows = [(path, shown(value), source) for path, value, source in PRESETS[name].listed()]
    return "\n".join([f"{name}: {PRESETS[name].about}", *_columns([("setting", "value", "source"), *rows])])


def _genotype_row(cell: KnownCell) -> list[str]:
    return [cell.space.name, f"{cell.ours[0].parameters / 1e6:.3f} M parameters", cell.source]


def _genotype_details(name: str) -> str:
    """Describe a well-known cell: its published sizes beside the ones of our networks, and its genotype."""
    cell = known_cells()[name]
    ours, large = cell.ours
    small = "" if cell.cifar is None else f" (published: {cell.cifar} M)"
    both = "" if cell.imagenet is None else f" (published: {cell.imagenet[0]} M, {cell.imagenet[1]:.0f} M)"
    lines = [
        f"{name} ({cell.space.name}): {cell.source}",
        f"CIFAR, 20 cells, 36 channels: {ours.parameters / 1e6:.3f} M parameters{small}, "
        f"{ours.multiply_adds / 1e6:.1f} M multiply-adds",
        f"ImageNet, 14 cells, 48 channels: {large.parameters / 1e6:.3f} M parameters, "
        f"{large.multiply_adds / 1e6:.1f} M multiply-adds{both}",
    ]
    return "\n".join([*lines, str(cell.genotype)])


FAMILIES: dict[str, tuple[Registry[Any], str | None]] = {
    "relaxations": (relaxations.RELAXATIONS, "relaxation"),
    "hypergradients": (hypergradients.HYPERGRADIENTS, "hypergradient"),
    "optimizers": (arch_optimizers.ARCH_OPTIMIZERS, "arch_optimizer"),
    "regularizers": (regularizers.REGULARIZERS, None),
    "discretizers": (discretizers.DISCRETIZERS, "discretizer"),
    "callbacks": (callbacks.CALLBACKS, None),
    "blackbox": (blackbox.SEARCHES, None),
    "tasks": (tasks.TASKS, "task"),
}
"""The families of parts, and the prefix of their knobs; None stands for the name of each member."""

KINDS: dict[str, Kind] = {
    "spaces": Kind(lambda: {name: [spaces.SPACES.create(name).about] for name in spaces.SPACES}, _space_details),
    "methods": Kind(lambda: dict.fromkeys(recipes.RECIPES, ()), lambda name: _settings_text(name)),
    **{name: _kind_of_parts(*family) for name, family in FAMILIES.items()},
    "data": Kind(
        lambda: {name: [_first_line(source)] for name, source in source_names().items()},
        lambda name: _detailed(name, source_names()[name], ("augmentation", data.Augmentation())),
    ),
    "genotypes": Kind(lambda: {name: _genotype_row(cell) for name, cell in known_cells().items()}, _genotype_details),
    "devices": Kind(describe_devices, describe_device),
    "presets": Kind(lambda: {name: [preset.about] for name, preset in PRESETS.items()}, _preset_details),
}


def list_settings(name: str, space: str) -> str:
    """Describe every setting of a recipe in one space, with its source."""
    look_up("method", name, recipes.RECIPES)
    return _settings_text(name, space)


def published_texts(name: str, space: str | None, timed: bool) -> Iterator[str]:
    """Yield what ``--published`` does with a recipe: in one space, or in each family of spaces that it is published in.

    If it is ``timed``, that includes how long it takes on this machine, from a few steps in each.
    """
    examples = _EXAMPLES if space is None else {recipes.family_of(space): space}
    runs = {one: recipes.published_run(name, spaces.SPACES.constructor(one)()) for one in examples.values()}
    known = {one: run for one, run in runs.items() if recipes.family_of(one) in run.families}
    for one, run in (known or runs).items():
        yield "\n  ".join([f"\n--published in {one}: {run.describe()}", *run.departures()])
        if timed:
            yield f"  {_time(name, one)}"


def _time(name: str, space: str) -> str:
    from archgrad.cli.search import duration
    from archgrad.loop.estimate import published_seconds

    try:
        return f"about {duration(published_seconds(name, space))} on this machine, by a few steps with small batches"
    except UserError as error:
        return f"not on this machine: {error}"


_EXAMPLES = {
    "nasbench201": "nasbench201",
    "darts": "darts",
    "amended": "amended-a1",
    "nasbench1shot1": "nasbench1shot1-1",
}
"""A space of each family."""


def _rows(name: str, space: str | None = None) -> list[tuple[str, str, str, str]]:
    """Return setting, value, spaces and source of all settings of a recipe; spaces with the same value share a row."""
    families = {recipes.family_of(space): space} if space is not None else _EXAMPLES
    found: dict[tuple[str, str, str], list[str]] = {}
    for family, example in families.items():
        sized = spaces.SPACES.constructor(example)()
        for setting in recipes.listed(recipes.named(name, sized), sized):
            found.setdefault((setting.path, shown(setting.value), setting.source), []).append(family)
    order = list(dict.fromkeys(path for path, _, _ in found))
    rows = sorted(found.items(), key=lambda item: order.index(item[0][0]))
    return [
        (
            path,
            value,
            "all" if len(own) == len(families) else ", ".join(recipes.FAMILIES[family] for family in own),
            source,
        )
        for (path, value, source), own in rows
    ]


def shown(value: Any) -> str:
    """Write a value as ``--set`` takes it."""
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return ",".join(map(shown, value)) or "()"
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


def methods_page() -> str:
    """Return the Markdown page of all recipes."""
    return "\n\n".join([_INTRODUCTION, *(_settings_markdown(name) for name in recipes.RECIPES)]) + "\n"


def _settings_text(name: str, space: str | None = None) -> str:
    """Return the table in columns."""
    head = ("setting", "value", "spaces", "source")
    rows = [head, *_rows(name, space)]
    columns = [0, 1, 3] if space is not None else [0, 1, 2, 3]
    lines = _columns([[row[column] for column in columns] for row in rows])
    return "\n".join([f"{name}: {_first_line(recipes.RECIPES[name])}", *lines])


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines, all columns but the last of one width."""
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    return ["  ".join([*map(str.ljust, row, widths), row[-1]]) for row in rows]


def _settings_markdown(name: str) -> str:
    """Return the table as a section of a page."""
    lines = [
        f"## `{name}`",
        "",
        _first_line(recipes.RECIPES[name]),
        "",
        "| setting | value | spaces | source |",
        "|---|---|---|---|",
    ]
    return "\n".join([*lines, *(_markdown_row(row) for row in _rows(name))])


def _markdown_row(row: Sequence[str]) -> str:
    path, value, families, source = (cell.replace("|", "\\|") for cell in row)
    return f"| `{path}` | {value} | {families} | {source} |"


_INTRODUCTION = """# Every recipe, every setting, and where it stands

A recipe has the settings that are published for the space it searches: `archgrad search --method NAME --space SPACE` or
`ag.recipes.named(NAME, space)` in Python. This page lists them all, as the recipes really have them; the command below
writes it, and a test compares it with the recipes.

```console
$ archgrad list methods all --markdown > docs/recipes.md
$ archgrad list methods lambda-darts --space darts      # one of them, in one space
```

"Code" is the search code that the authors published. "Ours" is what nobody says. A method in a space that it was not
published for has its own settings from the spaces named behind "ours", and all others that the space has.
`none` as a value means that the part has no such limit or takes it from elsewhere: `hypergradient.lr=none` is the
weights' current learning rate. Only `space.exclude=none` means the operation `none`, which is then left out.
`space.*` and `augmentation.*` are set by the command; in Python they are arguments of the space and of the data. The
spaces of a family share their settings: S1 to S4 those of DARTS, A1 and A2 those of
Amended-DARTS.

What the recipes leave out of what was published: the term of SNAS for the size of the network; the widening of weights
in DrNAS, whose second stage begins anew; the chance of cutout in R-DARTS, which grows over the search there; the
retraining of several strengths by which the authors of R-DARTS choose; batches of 96 and ε0 = 1e-3 for Λ-DARTS in S1 to
S4 on CIFAR-100 and SVHN (A.9.3), which are settings of those data. All searches measure every epoch on a tenth of
the images (`--held-out`), which a single-level search trains nothing on: that is ours. `--published` takes everything
to the letter, `data.images` and `data.held_out` too."""
