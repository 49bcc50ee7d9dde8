"""The numbers of a record as a screen shows them: name, value and meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from archgrad.diagnostics.records import decided_share

__all__ = ["ScreenNumber", "screen_numbers"]

_BEFORE = {
    "train_loss": ("loss", "cross-entropy on the images that train the weights"),
    "train_accuracy": ("training accuracy", "on the images that train the weights"),
    "valid_loss": ("α loss", "cross-entropy on the images that train the architecture α"),
    "valid_accuracy": ("α accuracy", "on the images that train the architecture α"),
    "heldout_accuracy": ("held-out accuracy", "on images that train no weights"),
}
_AFTER = {"skips": ("skip connections", "in the current cell")}
_DECIDED = "0 %: all operations are even, 100 %: one on each edge"
_TABLES = {"200ep": "NAS-Bench-201", "12ep": "NAS-Bench-201", "108ep": "NAS-Bench-101"}


class ScreenNumber(NamedTuple):
    """A number on the screen: its name, its value with the unit, and its meaning."""

    name: str
    value: str
    meaning: str


def screen_numbers(record: Mapping[str, Any]) -> list[ScreenNumber]:
    """Return the numbers of a record that a screen shows.

    >>> screen_numbers({"entropy": 0.7, "entropy_max": 1.4})
    [ScreenNumber(name='decided', value='50 %', meaning='0 %: all operations are even, 100 %: one on each edge')]
    """
    share = decided_share(record)
    decided = [] if share is None else [ScreenNumber("decided", f"{100 * share:.0f} %", _DECIDED)]
    tables = [_looked_up(name, record[name]) for name in record if name.startswith(("oracle_", "regret_"))]
    return [*_measured(record, _BEFORE), *decided, *_measured(record, _AFTER), *tables]


def _measured(record: Mapping[str, Any], names: Mapping[str, tuple[str, str]]) -> list[ScreenNumber]:
    return [
        ScreenNumber(title, _value(name, record[name]), meaning)
        for name, (title, meaning) in names.items()
        if name in record
    ]


def _value(name: str, value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return f"{value:.2f} %" if name.endswith("accuracy") else f"{value:.3f}"


def _looked_up(name: str, value: float) -> ScreenNumber:
    """Return the accuracy or regret of the current cell in a table.

    >>> _looked_up("oracle_cifar10_test_200ep", 93.2).meaning
    'of this cell in the NAS-Bench-201 table (cifar10, test, 200ep)'
    """
    quantity, dataset, *rest = name.split("_")
    title = f"table {'accuracy' if quantity == 'oracle' else 'regret'} {' '.join([dataset, *rest[:-1]])}"
    table = _TABLES.get(rest[-1], "benchmark's") if rest else "benchmark's"
    return ScreenNumber(title, f"{value:.2f} %", f"of this cell in the {table} table ({', '.join([dataset, *rest])})")
