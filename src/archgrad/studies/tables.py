"""A table of results as Markdown, LaTeX, CSV, JSON, or for the terminal. Names in it can do no harm there."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from archgrad.errors import escaped, look_up

if TYPE_CHECKING:
    from rich.table import Table as RichTable

__all__ = ["FORMATS", "Cell", "ResultTable", "plus_minus", "render", "to_rich"]

Cell = str | int | float | bool | None

_MISSING = "–"
_NUMBER = re.compile(r"-?[\d,.]+( ± [\d.]+)?")
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "±": r"$\pm$", "×": r"$\times$", "≤": r"$\leq$", "≥": r"$\geq$",
    "−": "$-$", "→": r"$\to$", "∞": r"$\infty$", "–": "--", "—": "---", "…": r"\dots{}", "α": r"$\alpha$",
    "β": r"$\beta$", "γ": r"$\gamma$", "ε": r"$\varepsilon$", "η": r"$\eta$", "λ": r"$\lambda$", "τ": r"$\tau$",
    "Λ": r"$\Lambda$",
}  # fmt: skip
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|~&$])")


@dataclass(frozen=True)
class ResultTable:
    """A table: rows of cells by the names of their columns, and notes below it. A missing cell is None.

    >>> print(render(ResultTable(({"variant": "gaea", "accuracy": 94.1},), ("Five seeds.",)), "md"), end="")
    | variant | accuracy |
    |---|---:|
    | gaea | 94.10 |
    <BLANKLINE>
    Five seeds.
    """

    rows: tuple[Mapping[str, Cell], ...]
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The names of all columns that any row has."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    @property
    def cells(self) -> list[list[Cell]]:
        """The cells of all rows, in the order of the columns."""
        return [[row.get(name) for name in self.columns] for row in self.rows]

    def shown(self) -> list[list[str]]:
        """Return all cells as text."""
        return [[_shown(cell) for cell in row] for row in self.cells]

    def is_numeric(self) -> list[bool]:
        """Tell which columns have only numbers, or numbers with their deviation; these are aligned to the right."""
        columns = [[text for text in column if text != _MISSING] for column in zip(*self.shown(), strict=True)]
        return [bool(one) and all(map(_NUMBER.fullmatch, one)) for one in columns]


def plus_minus(mean: float, std: float | None) -> str:
    """Write a mean with its standard deviation; without it for a single run.

    >>> plus_minus(93.613, 0.094), plus_minus(94.36, None)
    ('93.61 ± 0.09', '94.36')
    """
    return f"{mean:.2f}" if std is None else f"{mean:.2f} ± {std:.2f}"


def render(table: ResultTable, kind: str) -> str:
    """Write a table as "md", "latex", "csv" or "json"; CSV has no notes."""
    return look_up("table format", kind, FORMATS)(table)


def to_rich(table: ResultTable) -> RichTable:
    """Return the table for a terminal, without its notes."""
    from rich.table import Table as RichTable
    from rich.text import Text

    found = RichTable(box=None, padding=(0, 2, 0, 0))
    for name, numeric in zip(table.columns, table.is_numeric(), strict=True):
        found.add_column(Text(_line(name)), justify="right" if numeric else "left")
    for row in table.shown():
        found.add_row(*(Text(_line(text)) for text in row))
    return found


def _shown(cell: Cell) -> str:
    if cell is None:
        return _MISSING
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{round(cell, 2) + 0.0:.2f}" if isinstance(cell, float) else str(cell)  # + 0.0 turns -0.00 into 0.00


def _line(text: str) -> str:
    """Return text on one line, in which no terminal obeys a control character."""
    return escaped(re.sub(r"[\r\n\t]+", " ", text))


def _markdown_text(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", _line(text))


def _markdown(table: ResultTable) -> str:
    marks = ["---:" if numeric else "---" for numeric in table.is_numeric()]
    head, *body = ([_markdown_text(text) for text in row] for row in (table.columns, *table.shown()))
    rows = [f"| {' | '.join(head)} |", f"|{'|'.join(marks)}|", *(f"| {' | '.join(row)} |" for row in body)]
    notes = [line for note in table.notes for line in ("", _markdown_text(note))]
    return "\n".join([*rows, *notes, ""])


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in _line(text))


def _latex(table: ResultTable) -> str:
    """Write a tabular with the rules of the package booktabs."""
    sides = "".join("r" if numeric else "l" for numeric in table.is_numeric())
    # An empty group keeps a name in brackets or a star from being an option of the line break before it.
    head, *rows = (f"{{}}{' & '.join(map(_latex_text, row))} \\\\" for row in (table.columns, *table.shown()))
    notes = [f"{{\\par\\footnotesize {_latex_text(note)}\\par}}" for note in table.notes]
    lines = [f"\\begin{{tabular}}{{{sides}}}", "\\toprule", head, "\\midrule", *rows, "\\bottomrule"]
    return "\n".join(["% \\usepackage{booktabs}", *lines, "\\end{tabular}", *notes, ""])


def _csv(table: ResultTable) -> str:
    """Write all digits of the numbers."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([_shown(cell) if isinstance(cell, bool) else cell for cell in row] for row in table.cells)
    return text.getvalue()


def _json(table: ResultTable) -> str:
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.cells]
    content = {"columns": table.columns, "rows": rows, "notes": list(table.notes)}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


FORMATS: Mapping[str, Callable[[ResultTable], str]] = {"md": _markdown, "latex": _latex, "csv": _csv, "json": _json}
"""The formats of ``render``."""
