"""One suite that every search without gradients passes; a new one is one row of MEMBERS."""

from __future__ import annotations

import pytest
from known_table import install

from archgrad.blackbox import (
    BOHB,
    SEARCHES,
    TPE,
    BlackboxSearch,
    RandomCells,
    RandomSearch,
    RegularizedEvolution,
    Reinforce,
    ZeroCost,
    run_blackbox,
)
from archgrad.data import load
from archgrad.errors import UserError
from archgrad.spaces import NASBench201

MEMBERS: dict[str, BlackboxSearch] = {
    "random-search": RandomSearch(),
    "regularized-evolution": RegularizedEvolution(population=4, sample=2),
    "reinforce": Reinforce(),
    "tpe": TPE(startup=5),
    "bohb": BOHB(startup=5),
    "zero-cost": ZeroCost(samples=4, score="params", batch_size=2),
    "random-cells": RandomCells(),
}
SPACE = NASBench201(channels=2, cells_per_stage=1)
IMAGES = load("digits", limit=20).with_fields(name="cifar10")


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


def test_every_search_is_in_the_suite() -> None:
    assert {name: type(member) for name, member in MEMBERS.items()} == {
        name: type(SEARCHES.create(name)) for name in SEARCHES
    }


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("name", MEMBERS)
def test_a_search_is_a_function_of_its_seed(name: str) -> None:
    one, same, other = (run_blackbox(MEMBERS[name], SPACE, IMAGES, seed=seed, queries=25) for seed in (3, 3, 4))
    assert one.history == same.history
    assert one.history != other.history
    assert one.name == name


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("name", MEMBERS)
def test_records_tell_the_best_so_far_and_what_it_cost(name: str) -> None:
    result = run_blackbox(MEMBERS[name], SPACE, IMAGES, queries=25)
    queried, best = (next(key for key in result.history[0] if key.startswith(kind)) for kind in ("queried_", "best_"))
    for number, record in enumerate(result.history, start=1):
        assert record["epoch"] == record["queries"] == number
        assert record[best] == max(one[queried] for one in result.history[:number])
        assert "oracle_cifar10_test_200ep" in record
    assert result.queries == len(result.history) == {"random-cells": 1, "zero-cost": 4}.get(name, 25)
    assert str(result.genotype) == result.history[-1]["genotype"]
    free = name in ("random-cells", "zero-cost")
    assert (result.simulated_seconds == 0) == free
    SPACE.check(result.genotype)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("name", ["random-search", "regularized-evolution", "reinforce", "tpe", "bohb"])
def test_a_query_that_would_exceed_the_budget_ends_the_search(name: str) -> None:
    whole = run_blackbox(MEMBERS[name], SPACE, seed=1, queries=20)
    spent = [record["simulated_seconds"] for record in whole.history]
    part = run_blackbox(MEMBERS[name], SPACE, seed=1, seconds=spent[9] + 1)
    assert part.history == whole.history[:10]
    assert run_blackbox(MEMBERS[name], SPACE, seed=1, seconds=spent[9] + 1, queries=7).queries == 7


@pytest.mark.parametrize("name", ["reinforce", "tpe", "bohb"])
def test_searches_that_need_independent_rows_reject_other_spaces(name: str) -> None:
    with pytest.raises(UserError, match=f"{name} decides every row by itself, but the space 'darts'"):
        run_blackbox(name, "darts")


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("name", ["regularized-evolution", "reinforce", "tpe"])
def test_searches_that_learn_beat_random_search(name: str) -> None:
    """The known values rise with every convolution, so each query tells where to go."""
    ours, chance = (
        sum(run_blackbox(search, seed=seed, queries=80).history[-1]["best_cifar10_valid_12ep"] for seed in range(4))
        for search in (Reinforce(lr=0.1) if name == "reinforce" else name, "random-search")
    )
    assert ours > chance
