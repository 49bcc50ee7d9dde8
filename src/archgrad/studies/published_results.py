"""Published results to stand beside a study's own, never mixed: ``published_results.toml``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from archgrad.config.toml import read_toml
from archgrad.studies.tables import plus_minus

__all__ = ["PublishedProtocol", "PublishedResult", "published", "published_by_protocol"]

_SAME = "the same"
"""In the file: searched on the data of the evaluation."""


class PublishedProtocol(NamedTuple):
    """How a number came about: only numbers of one protocol may be compared."""

    space: str
    searched_on: str
    data: str
    metric: str
    higher_is_better: bool
    evaluation: str

    def __str__(self) -> str:
        return f"{self.metric} on {self.data}, searched on {self.searched_on}. {self.evaluation}"


class PublishedResult(NamedTuple):
    """A number that a paper prints; ``std``, ``best`` and ``runs`` are None where it does not state them."""

    method: str
    protocol: PublishedProtocol
    mean: float
    std: float | None
    best: float | None
    runs: int | None
    source: str

    def __str__(self) -> str:
        return plus_minus(self.mean, self.std)


def published(method: str, space: str, data: str, searched_on: str | None = None) -> tuple[PublishedResult, ...]:
    """Return what is published for a method in a space, searched on some data (by default ``data``) and evaluated.

    ``method`` is the name of a recipe, or random-search, regularized-evolution, reinforce or bohb. There may be results
    of several papers, and of several protocols; the tuple is empty where nothing is published.

    >>> [str(result) for result in published("gaea", "nasbench201", "cifar100", searched_on="cifar10")]
    ['72.60 ± 0.89']
    """
    asked = (method, space, data, searched_on or data)
    return tuple(
        result
        for result in _results()
        if (result.method, result.protocol.space, result.protocol.data, result.protocol.searched_on) == asked
    )


def published_by_protocol(
    methods: Iterable[str], space: str, data: str, searched_on: str | None = None
) -> dict[PublishedProtocol, dict[str, tuple[PublishedResult, ...]]]:
    """Return the results of several methods as columns of a table: a column has one protocol.

    >>> [list(column) for column in published_by_protocol(["darts", "gaea"], "nasbench201", "cifar10").values()]
    [['darts'], ['darts', 'gaea']]
    """
    columns: dict[PublishedProtocol, dict[str, tuple[PublishedResult, ...]]] = {}
    for method in methods:
        for result in published(method, space, data, searched_on):
            column = columns.setdefault(result.protocol, {})
            column[method] = (*column.get(method, ()), result)
    return columns


@lru_cache
def _results() -> tuple[PublishedResult, ...]:
    content = read_toml(Path(__file__).with_suffix(".toml"))
    return tuple(
        _result(method, data, about, content["evaluations"][about["evaluation"]])
        for about in content["results"]
        for method in about["methods"]
        for data in about["values"]
    )


def _result(method: str, data: str, about: dict[str, Any], evaluation: dict[str, Any]) -> PublishedResult:
    searched_on = data if about["searched_on"] == _SAME else about["searched_on"]
    protocol = PublishedProtocol(
        about["space"], searched_on, data, evaluation["metric"], evaluation["higher_is_better"], evaluation["about"]
    )
    mean, *std = about["values"][data]
    best = about.get("best", {}).get(data)
    return PublishedResult(method, protocol, mean, std[0] if std else None, best, about.get("runs"), about["source"])
