"""The table that ``archgrad list methods NAME`` prints: every setting of a recipe in every space, with its source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archgrad import recipes, spaces
from archgrad.errors import chosen

__all__ = ["as_markdown", "as_text", "methods_page"]

_EXAMPLES = {
    "nasbench201": "nasbench201",
    "darts": "darts",
    "amended": "amended-a1",
    "nasbench1shot1": "nasbench1shot1-1",
}
"""A space of each family."""

Row = tuple[str, str, str, str]
"""Setting, value, spaces with this value, source."""


def rows_of(name: str, space: str | None = None) -> list[Row]:
    """Return the settings of a recipe; spaces with the same value share a row."""
    chosen("method", name, recipes.RECIPES)
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


def as_text(name: str, space: str | None = None) -> str:
    """Return the table in columns."""
    head: Row = ("setting", "value", "spaces", "source")
    rows = [head, *rows_of(name, space)]
    columns = [0, 1, 3] if space is not None else [0, 1, 2, 3]
    widths = {column: max(len(row[column]) for row in rows) for column in columns[:-1]}
    lines = [
        "  ".join([*(f"{row[column]:<{widths[column]}}" for column in columns[:-1]), row[columns[-1]]]) for row in rows
    ]
    return "\n".join([f"{name}: {_sentence(name)}", *lines])


def as_markdown(name: str) -> str:
    """Return the table as a section of a page."""
    lines = [f"## `{name}`", "", _sentence(name), "", "| setting | value | spaces | source |", "|---|---|---|---|"]
    return "\n".join([*lines, *(_line(row) for row in rows_of(name))])


def methods_page() -> str:
    """Return the Markdown page of all recipes."""
    return "\n\n".join([_INTRODUCTION, *(as_markdown(name) for name in recipes.RECIPES)]) + "\n"


def _line(row: Sequence[str]) -> str:
    path, value, families, source = (cell.replace("|", "\\|") for cell in row)
    return f"| `{path}` | {value} | {families} | {source} |"


def _sentence(name: str) -> str:
    return str(recipes.RECIPES[name].__doc__).strip().splitlines()[0]


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
weights' current learning rate. `space.*` and `augmentation.*` are set by the command; in Python they are arguments of
the space and of the data. The spaces of a family share their settings: S1 to S4 those of DARTS, A1 and A2 those of
Amended-DARTS.

What the recipes leave out of what was published: the term of SNAS for the size of the network; the widening of weights
in DrNAS, whose second stage begins anew; the chance of cutout in R-DARTS, which grows over the search there; the
retraining of several strengths by which the authors of R-DARTS choose; batches of 96 and ε0 = 1e-3 for Λ-DARTS in S1 to
S4 on CIFAR-100 and SVHN (A.9.3), which are settings of those data. All searches measure every epoch on a tenth of
the images (`--held-out`), which a single-level search trains nothing on: that is ours."""
