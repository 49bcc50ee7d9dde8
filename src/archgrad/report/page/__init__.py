"""One self-contained HTML page for a run, a fit or a study: a payload of plain data, which ``page.js`` draws.

The charts are drawn by Observable Plot: its pictures are SVG, so they follow the colors of the page, print sharply and
have labels for screen readers, and it weighs half a megabyte with D3, half as much as Plotly or Vega-Lite.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from archgrad.errors import UserError
from archgrad.report.svg import cell_style, to_svg
from archgrad.spaces import KNOWN_NETWORKS
from archgrad.spaces.genotype import Genotype

__all__ = [
    "Cells",
    "ClassRow",
    "Example",
    "FoundCell",
    "Group",
    "Listing",
    "Measure",
    "Page",
    "PageRun",
    "PageTable",
    "Scatter",
    "to_html",
]

_MOST_CELLS = 400
"""So many different cells are drawn on a page; the others are text."""
_NAMES = {str(genotype): name for name, genotype in KNOWN_NETWORKS.items()}


@dataclass(frozen=True)
class Measure:
    """A number that runs measure in every epoch, by its name in ``metrics.jsonl``."""

    key: str
    label: str


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seeds; ``collapsed`` is how many did, of how many."""

    name: str
    collapsed: tuple[int, int] | None = None


@dataclass(frozen=True)
class PageRun:
    """One run: its measures by epoch, its mean probabilities of operations, and the cell of every epoch.

    ``choices`` are block, edge and operation of each number of a row of the ``mixture``, which has a row per epoch.
    """

    name: str
    group: int
    epochs: Sequence[int]
    seconds: Sequence[float]
    series: Mapping[str, Sequence[float | None]]
    operations: Sequence[str] = ()
    shares: Sequence[Sequence[float | None]] = ()
    cells: Sequence[int | None] = ()
    choices: Sequence[Sequence[str]] = ()
    mixture: Sequence[Sequence[float | None]] = ()


@dataclass(frozen=True)
class FoundCell:
    """An architecture at the end, with what is known of it."""

    title: str
    about: str
    cell: int


@dataclass(frozen=True)
class Scatter:
    """Points of two quantities, each with ``name``, ``group``, ``x`` and ``y``."""

    x: str
    y: str
    points: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class PageTable:
    """A table of text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class ClassRow:
    """A class: how many of its images have trained and tested a model, and how many of the latter were right."""

    name: str
    trained: int
    tested: int
    right: int


@dataclass(frozen=True)
class Example:
    """An image with a large loss: its class or targets, what it was called and how surely, its file and its picture.

    The probability is None where there are no classes.
    """

    true: str
    called: str
    probability: float | None
    name: str = ""
    image: str = ""


@dataclass(frozen=True)
class Listing:
    """A list of runs to filter and sort: rows of cells, each with the address of its page or an empty one."""

    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]


@dataclass
class Cells:
    """The drawn cells of a page, each once."""

    drawn: list[dict[str, str]] = field(default_factory=list)
    known: dict[str, int | None] = field(default_factory=dict)

    def number(self, genotype: str | None) -> int | None:
        """Return the number of a cell on the page, None if it cannot be drawn."""
        if genotype is None:
            return None
        if genotype not in self.known:
            self.known[genotype] = self._draw(genotype) if len(self.drawn) < _MOST_CELLS else None
        return self.known[genotype]

    def _draw(self, genotype: str) -> int | None:
        try:
            svg = to_svg(Genotype.parse(genotype), styled=False)
        except UserError:
            return None
        self.drawn.append({"text": _NAMES.get(genotype, genotype), "svg": svg})
        return len(self.drawn) - 1


@dataclass(frozen=True)
class Page:
    """Everything that a page shows. ``bands`` are means with intervals: by x-axis and measure, one for each group.

    ``confusion`` counts how often class i (row) was called class j, and ``mistakes`` are its largest wrong numbers.
    """

    title: str
    verdict: str
    facts: Sequence[tuple[str, str]] = ()
    measures: Sequence[Measure] = ()
    health: Sequence[str] = ()
    groups: Sequence[Group] = ()
    runs: Sequence[PageRun] = ()
    bands: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]] = field(default_factory=dict)
    cells: Sequence[Mapping[str, str]] = ()
    found: Sequence[FoundCell] = ()
    scatters: Sequence[Scatter] = ()
    tables: Sequence[PageTable] = ()
    classes: Sequence[ClassRow] = ()
    confusion: Sequence[Sequence[int]] = ()
    mistakes: Sequence[tuple[str, str, int]] = ()
    examples: Sequence[Example] = ()
    findings: Sequence[str] = ()
    notes: Sequence[str] = ()
    commands: Sequence[str] = ()
    listing: Listing | None = None
    live: str = ""

    def to_json(self) -> str:
        """Return the payload: five digits, and no NaN, which JSON lacks."""
        return json.dumps(_plain(asdict(self)), ensure_ascii=False, separators=(",", ":"))


def to_html(page: Page, events: str = "", payload: str = "") -> str:
    """Return the page as one file; ``events`` and ``payload`` are the addresses of a live page."""
    script, charts = _asset("page.js"), f"{_asset('vendor/d3.min.js')}\n{_asset('vendor/plot.min.js')}"
    live = f'data-events="{escape(events)}" data-payload="{escape(payload)}"' if events else ""
    return Template(_asset("page.html")).substitute(
        policy=_policy(script, charts, bool(events)),
        title=escape(page.title),
        style=_asset("page.css") + cell_style(),
        attributes=live,
        payload=page.to_json().replace("<", "\\u003c"),
        charts=charts,
        script=script,
    )


def _policy(script: str, charts: str, live: bool) -> str:
    """Return the content security policy: no script but our own, and no request unless the page is live."""
    hashes = " ".join(f"'sha256-{_hash(text)}'" for text in (charts, script))
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        f"connect-src {chr(39)}{'self' if live else 'none'}{chr(39)}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value
