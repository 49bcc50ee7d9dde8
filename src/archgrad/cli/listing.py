"""The texts that ``archgrad list`` prints."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

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
from archgrad.parts.knobs import OPTIONAL_PARTS, PARTS, knobs_of
from archgrad.parts.registry import Registry
from archgrad.spaces.known import known_cells
from archgrad.supernet import SupernetOptions
from archgrad.workflows.presets import PRESETS

__all__ = ["FAMILIES", "LISTS", "list_settings", "methods_page", "published_texts", "shown"]


def _first_line(thing: Any) -> str:
    return str(thing.__doc__ or "").strip().splitlines()[0]


def _settings(knobs: Mapping[str, Any], prefix: str) -> list[str]:
    return [f"{prefix}{name}={shown(value)}" for name, value in knobs.items()]


def _changed(knobs: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in knobs.items() if value != usual[name]}


def list_spaces() -> str:
    """Describe every space and its knobs."""
    lines = []
    for name in spaces.SPACES:
        space = spaces.SPACES.constructor(name)()
        shown = [
            f"--cells is {space.depth_knob}",
            *_settings(knobs_of(space), "space."),
            *_settings(_changed(knobs_of(space.supernet_defaults), knobs_of(SupernetOptions())), "supernet."),
            *_settings(knobs_of(space.weights), "weights."),
        ]
        lines += [
            f"{name}: {_first_line(type(space))}",
            *textwrap.wrap(", ".join(shown), 100, initial_indent="    ", subsequent_indent="    "),
        ]
    return "\n".join(lines)


def list_methods() -> str:
    """Describe every recipe, its parts and their knobs."""
    lines = []
    for name, recipe in recipes.RECIPES.items():
        method = recipe()
        parts: list[tuple[str, str | None, Any]] = [
            (part, part, getattr(method, part)) for part in (*PARTS, *OPTIONAL_PARTS)
        ]
        parts += [("regularizer", regularizers.name_of(one), one) for one in method.regularizers]
        lines.append(f"{name}: {_first_line(recipe)}")
        for kind, prefix, member in parts:
            if member is not None:
                settings = ", ".join(_settings(knobs_of(member), f"{prefix}."))
                lines.append(f"    {kind}: {type(member).__name__}  {settings}".rstrip())
        if method.weights:
            lines.append(f"    weights: {', '.join(_settings(method.weights, 'weights.'))}")
    return "\n".join(lines)


def list_settings(name: str, space: str | None, markdown: bool) -> str:
    """Describe every setting of a recipe, or of all recipes, in every space or in one, with its source."""
    if name != "all":
        look_up("method", name, recipes.RECIPES)
    names = list(recipes.RECIPES) if name == "all" else [name]
    if not markdown:
        return "\n\n".join(_settings_text(recipe, space) for recipe in names)
    return methods_page() if name == "all" else _settings_markdown(name) + "\n"


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
    from archgrad.cli.dry_run import duration
    from archgrad.loop.estimate import published_seconds

    try:
        return f"about {duration(published_seconds(name, space))} on this machine, by a few steps with small batches"
    except UserError as error:
        return f"not on this machine: {error}"


def _list_parts(family: Registry[Any], part: str | None) -> str:
    """Describe every member of a family and its knobs, as ``part.knob``, or ``member.knob`` if ``part`` is None."""
    lines = []
    for name in family:
        member = family.create(name)
        lines.append(f"{name}: {_first_line(type(member))}")
        lines += [f"    {', '.join(_settings(knobs_of(member), f'{part or name}.'))}"] if knobs_of(member) else []
    return "\n".join(lines)


def list_data() -> str:
    """Describe every source of data."""
    sources = source_names()
    width = max(map(len, sources))
    lines = [f"{name:<{width}}  {_first_line(source)}" for name, source in sources.items()]
    knobs = ", ".join(_settings(knobs_of(data.Augmentation()), "augmentation."))
    return "\n".join([*lines, f"knobs (the defaults depend on the data): {knobs}"])


def list_presets() -> str:
    """Describe the presets of ``archgrad train``: every setting and where it stands."""
    lines, head = list[str](), ("setting", "value", "source")
    for name, preset in PRESETS.items():
        rows = [head, *((path, shown(value), source) for path, value, source in preset.listed())]
        lines += [f"{name}: {preset.about}", *(f"    {line}" for line in _columns(rows))]
    return "\n".join(lines)


def list_genotypes() -> str:
    """Describe every well-known cell: its published sizes beside the ones of our networks, and its genotype."""
    lines = []
    for name, cell in known_cells().items():
        ours, large = cell.ours
        small = "" if cell.cifar is None else f" (published: {cell.cifar} M)"
        both = "" if cell.imagenet is None else f" (published: {cell.imagenet[0]} M, {cell.imagenet[1]:.0f} M)"
        lines += [
            f"{name} ({cell.space.name}): {cell.source}",
            f"    CIFAR, 20 cells, 36 channels: {ours.parameters / 1e6:.3f} M parameters{small}, "
            f"{ours.multiply_adds / 1e6:.1f} M multiply-adds",
            f"    ImageNet, 14 cells, 48 channels: {large.parameters / 1e6:.3f} M parameters, "
            f"{large.multiply_adds / 1e6:.1f} M multiply-adds{both}",
            *textwrap.wrap(str(cell.genotype), 100, initial_indent="    ", subsequent_indent="    "),
        ]
    return "\n".join(lines)


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

LISTS: dict[str, Callable[[], str]] = {
    "spaces": list_spaces,
    "methods": list_methods,
    **{name: partial(_list_parts, *family) for name, family in FAMILIES.items()},
    "data": list_data,
    "genotypes": list_genotypes,
    "presets": list_presets,
}

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
