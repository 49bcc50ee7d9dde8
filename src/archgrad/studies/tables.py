"""A table of results as Markdown, LaTeX, CSV, JSON, or for the terminal. Names in it can do no harm there."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from archgrad.errors import UserError, escaped, look_up

if TYPE_CHECKING:
    from rich.table import Table as RichTable

__all__ = ["FORMATS", "Cell", "Column", "ResultTable", "plus_minus", "render", "to_rich"]

Cell = str | int | float | bool | None
Row = Sequence[Cell]

_MISSING = "–"
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "±": r"$\pm$", "×": r"$\times$", "≤": r"$\leq$", "≥": r"$\geq$",
    "−": "$-$", "→": r"$\to$", "∞": r"$\infty$", "–": "--", "—": "---", "…": r"\dots{}", "α": r"$\alpha$",
    "β": r"$\beta$", "γ": r"$\gamma$", "ε": r"$\varepsilon$", "η": r"$\eta$", "λ": r"$\lambda$", "τ": r"$\tau$",
    "Λ": r"$\Lambda$",
}  # fmt: skip
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|~&$])")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes as the beginning of a formula."""


@dataclass(frozen=True)
class Column:
    """A column: its name, and the digits after the point of its numbers that are no whole ones."""

    name: str
    digits: int = 2


@dataclass(frozen=True)
class ResultTable:
    """A table: columns, rows with a cell for each, and notes below it. A cell without a value is None.

    >>> table = ResultTable((Column("variant"), Column("accuracy")), (("gaea", 94.1),), ("Five seeds.",))
    >>> print(render(table, "md"), end="")
    | variant | accuracy |
    |---|---:|
    | gaea | 94.10 |
    <BLANKLINE>
    Five seeds.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if not names or len(set(names)) < len(names):
            raise UserError(f"a table has the columns {names}; it needs columns with different names.")
        for row in self.rows:
            if len(row) != len(names):
                raise UserError(f"a row has {len(row)} cells and the table {len(names)} columns: {tuple(row)}.")
            for cell in row:
                if isinstance(cell, float) and not math.isfinite(cell):
                    raise UserError(f"a cell is {cell}; a table holds finite numbers, text, or None.")

    def shown(self) -> list[list[str]]:
        """Return all cells as text."""
        return [[_shown(cell, column) for cell, column in zip(row, self.columns, strict=True)] for row in self.rows]

    def is_numeric(self, index: int) -> bool:
        """Tell whether a column has numbers only, or numbers with their deviation; it is then aligned to the right."""
        shown = [row[index] for row in self.shown() if row[index] != _MISSING]
        return bool(shown) and all(re.fullmatch(r"-?[\d,.]+( ± [\d.]+)?", text) for text in shown)


def plus_minus(mean: float, std: float | None, digits: int = 2) -> str:
    """Write a mean with its standard deviation; without it for a single run.

    >>> plus_minus(93.613, 0.094), plus_minus(94.36, None)
    ('93.61 ± 0.09', '94.36')
    """
    return f"{mean:.{digits}f}" if std is None else f"{mean:.{digits}f} ± {std:.{digits}f}"


def render(table: ResultTable, kind: str) -> str:
    """Write a table as "md", "latex", "csv" or "json"; CSV has no notes."""
    return look_up("table format", kind, FORMATS)(table)


def to_rich(table: ResultTable) -> RichTable:
    """Return the table for a terminal, without its notes."""
    from rich.table import Table as RichTable
    from rich.text import Text

    found = RichTable(box=None, padding=(0, 2, 0, 0))
    for index, column in enumerate(table.columns):
        side: Literal["left", "right"] = "right" if table.is_numeric(index) else "left"
        found.add_column(Text(_line(column.name)), justify=side)
    for row in table.shown():
        found.add_row(*(Text(_line(text)) for text in row))
    return found


def _shown(cell: Cell, column: Column) -> str:
    if cell is None:
        return _MISSING
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    # Adding zero turns -0.00 into 0.00.
    return f"{round(cell, column.digits) + 0.0:.{column.digits}f}" if isinstance(cell, float) else str(cell)


def _line(text: str) -> str:
    """Return text on one line, in which no terminal obeys a control character."""
    return escaped(re.sub(r"[\r\n\t]+", " ", text))


def _markdown_text(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", _line(text))


def _markdown(table: ResultTable) -> str:
    marks = ["---:" if table.is_numeric(index) else "---" for index in range(len(table.columns))]
    head = [_markdown_text(column.name) for column in table.columns]
    body = [[_markdown_text(text) for text in row] for row in table.shown()]
    rows = [f"| {' | '.join(head)} |", f"|{'|'.join(marks)}|", *(f"| {' | '.join(row)} |" for row in body)]
    notes = [line for note in table.notes for line in ("", _markdown_text(note))]
    return "\n".join([*rows, *notes, ""])


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in _line(text))


def _latex(table: ResultTable) -> str:
    """Write a tabular with the rules of the package booktabs."""
    sides = "".join("r" if table.is_numeric(index) else "l" for index in range(len(table.columns)))
    head = " & ".join(_latex_text(column.name) for column in table.columns)
    # An empty group keeps a name in brackets or a star from being an option of the line break before it.
    rows = [f"{{}}{' & '.join(map(_latex_text, row))} \\\\" for row in table.shown()]
    notes = [f"{{\\par\\footnotesize {_latex_text(note)}\\par}}" for note in table.notes]
    lines = [f"\\begin{{tabular}}{{{sides}}}", "\\toprule", f"{{}}{head} \\\\", "\\midrule", *rows, "\\bottomrule"]
    return "\n".join(["% \\usepackage{booktabs}", *lines, "\\end{tabular}", *notes, ""])


def _csv_cell(cell: Cell) -> str | int | float:
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, str):
        return f"'{cell}" if cell.lstrip(" ").startswith(_FORMULA) else cell
    return "" if cell is None else cell


def _csv(table: ResultTable) -> str:
    """Write all digits of the numbers; text that a spreadsheet would run as a formula begins with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_csv_cell(column.name) for column in table.columns])
    writer.writerows([_csv_cell(cell) for cell in row] for row in table.rows)
    return text.getvalue()


def _json(table: ResultTable) -> str:
    names = [column.name for column in table.columns]
    rows = [dict(zip(names, row, strict=True)) for row in table.rows]
    return json.dumps({"columns": names, "rows": rows, "notes": list(table.notes)}, indent=2, ensure_ascii=False) + "\n"


FORMATS: Mapping[str, Callable[[ResultTable], str]] = {"md": _markdown, "latex": _latex, "csv": _csv, "json": _json}
"""The formats of ``render``."""
