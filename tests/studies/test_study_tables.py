from __future__ import annotations

import csv
import io
import json

import pytest
from rich.console import Console

from archgrad.errors import UserError
from archgrad.studies.tables import ResultTable, render, to_rich

TABLE = ResultTable(
    ({"variant": "gaea|x_1", "test_accuracy": 94.128, "seeds": 5}, {"variant": "50%&more", "seeds": 3}),
    ("Means of α.",),
)


def test_markdown() -> None:
    assert render(TABLE, "md").splitlines() == [
        r"| variant | test\_accuracy | seeds |",
        "|---|---:|---:|",
        r"| gaea\|x\_1 | 94.13 | 5 |",
        r"| 50%\&more | – | 3 |",
        "",
        "Means of α.",
    ]


def test_latex() -> None:
    assert render(TABLE, "latex").splitlines() == [
        r"% \usepackage{booktabs}",
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"{}variant & test\_accuracy & seeds \\",
        r"\midrule",
        r"{}gaea\textbar{}x\_1 & 94.13 & 5 \\",
        r"{}50\%\&more & -- & 3 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"{\par\footnotesize Means of $\alpha$.\par}",
    ]


def test_latex_runs_no_command_of_a_name() -> None:
    text = render(ResultTable(({"name": r"\input{/etc/passwd}~^#$"}, {"name": "93.6 ± 0.1"})), "latex")
    assert r"{}\textbackslash{}input\{/etc/passwd\}\textasciitilde{}\textasciicircum{}\#\$ \\" in text
    assert r"{}93.6 $\pm$ 0.1 \\" in text


def test_a_small_negative_number_is_no_negative_zero() -> None:
    assert ResultTable(({"τ": -0.001}, {"τ": -0.01})).shown() == [["0.00"], ["-0.01"]]


def test_csv_has_all_digits() -> None:
    text = render(ResultTable(({"name": 'quo"te, comma', "value": -0.123456, "told": True},)), "csv")
    assert list(csv.reader(io.StringIO(text))) == [["name", "value", "told"], ['quo"te, comma', "-0.123456", "yes"]]


def test_json_has_the_values_and_notes() -> None:
    assert json.loads(render(TABLE, "json")) == {
        "columns": ["variant", "test_accuracy", "seeds"],
        "rows": [
            {"variant": "gaea|x_1", "test_accuracy": 94.128, "seeds": 5},
            {"variant": "50%&more", "test_accuracy": None, "seeds": 3},
        ],
        "notes": ["Means of α."],
    }


def test_the_terminal_obeys_no_name() -> None:
    table = ResultTable(({"name": "[red]a\x1b[2J", "[b]x": 1.0}, {"name": "b\nc", "[b]x": True}), ("One.", "Two."))
    console = Console(width=60, file=io.StringIO(), force_terminal=False)
    console.print(to_rich(table))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[0].split() == ["name", "[b]x"]
    assert lines[1].split() == [r"[red]a\x1b[2J", "1.00"]
    assert lines[2].split() == ["b", "c", "yes"]
    assert len(lines) == 3  # the notes are printed below, and wrap with the terminal


def test_an_unknown_format_is_a_sentence() -> None:
    with pytest.raises(UserError, match="unknown table format 'html'"):
        render(TABLE, "html")
