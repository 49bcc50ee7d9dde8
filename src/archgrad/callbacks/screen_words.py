"""The numbers of a record as a screen shows them: name, value and meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from archgrad.diagnostics.records import decided_share
from archgrad.tasks import MetricInfo

__all__ = ["ScreenNumber", "screen_numbers"]

_BEFORE = {
    "train_loss": ("loss", "on the images that train the weights"),
    "train_{}": ("training {}", "on the images that train the weights"),
    "arch_loss": ("α loss", "on the images that train the architecture α"),
    "arch_{}": ("α {}", "on the images that train the architecture α"),
    "heldout_{}": ("held-out {}", "on images that train no weights"),
}
"""The names in a record, titles and meanings; braces stand for the main metric."""
_AFTER = {"skips": ("skip connections", "in the current cell")}
_DECIDED = "0 %: all operations are even, 100 %: one on each edge"
_TABLES = {"200ep": "NAS-Bench-201", "12ep": "NAS-Bench-201", "108ep": "NAS-Bench-101"}


class ScreenNumber(NamedTuple):
    """A number on the screen: its name, its value with the unit, and its meaning."""

    name: str
    value: str
    meaning: str


def screen_numbers(record: Mapping[str, Any], metric: MetricInfo | None = None) -> list[ScreenNumber]:
    """Return the numbers of a record that a screen shows; ``metric`` is the main one, by default what the record says.

    >>> screen_numbers({"entropy": 0.7, "entropy_max": 1.4})
    [ScreenNumber(name='decided', value='50 %', meaning='0 %: all operations are even, 100 %: one on each edge')]
    """
    share = decided_share(record)
    decided = [] if share is None else [ScreenNumber("decided", f"{100 * share:.0f} %", _DECIDED)]
    tables = [_looked_up(name, record[name]) for name in record if name.startswith(("oracle_", "regret_"))]
    metric = metric or MetricInfo.of_record(record)
    named = {name.format(metric.name): words for name, words in _BEFORE.items()}
    return [*_measured(record, named, metric), *decided, *_measured(record, _AFTER, metric), *tables]


def _measured(
    record: Mapping[str, Any], names: Mapping[str, tuple[str, str]], metric: MetricInfo
) -> list[ScreenNumber]:
    return [
        ScreenNumber(title.format(metric.name), _value(name, record[name], metric), meaning)
        for name, (title, meaning) in names.items()
        if name in record
    ]


def _value(name: str, value: float | None, metric: MetricInfo) -> str:
    if isinstance(value, int | None):
        return "unknown" if value is None else str(value)
    return (
        metric.show(value, digits=2) if name.endswith(f"_{metric.name}") and metric.name != "loss" else f"{value:.3f}"
    )


def _looked_up(name: str, value: float) -> ScreenNumber:
    """Return the accuracy or regret of the current cell in a table.

    >>> _looked_up("oracle_cifar10_test_200ep", 93.2).meaning
    'of this cell in the NAS-Bench-201 table (cifar10, test, 200ep)'
    """
    quantity, dataset, *rest = name.split("_")
    title = f"table {'accuracy' if quantity == 'oracle' else 'regret'} {' '.join([dataset, *rest[:-1]])}"
    table = _TABLES.get(rest[-1], "benchmark's") if rest else "benchmark's"
    return ScreenNumber(title, f"{value:.2f} %", f"of this cell in the {table} table ({', '.join([dataset, *rest])})")
