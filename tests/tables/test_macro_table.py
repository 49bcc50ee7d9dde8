"""The table of NAS-Bench-Macro: its own networks, and chains that it does not have."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from archgrad.errors import UserError
from archgrad.spaces import Genotype
from archgrad.tables import TABLES, look_up

TABLE = TABLES["nasbench-macro"]
SMALL = ["--space", "macro", "--channels", 2, "--epochs", 1, "--limit", 60, "--batch-size", 20]
OTHERS = ["chain:mb3_3x3,mb6_5x5,skip_connect", "chain:" + ",".join(["mb3_7x7"] * 8)]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table in which a network has half a per cent for each step of each digit."""
    codes = ("".join(digits) for digits in product("012", repeat=8))
    content = {code: {"test_acc": [90 + sum(map(int, code)) / 2 + one for one in (-1, 0, 1)]} for code in codes}
    path = tmp_path / "nasbench-macro" / "cifar10.json"
    path.parent.mkdir()
    path.write_text(json.dumps(content))
    monkeypatch.setenv("ARCHGRAD_DATA", str(tmp_path))
    return path


def test_a_network_is_looked_up_by_its_code(table: Path) -> None:
    found = look_up(Genotype.parse("22220000")).content
    assert (found["accuracy"], found["trainings"]) == ({"cifar10": 94.0}, [93.0, 94.0, 95.0])
    assert found["regret"] == {"cifar10": 4.0}
    assert TABLE.accuracies(Genotype.parse("22220000")) == {"oracle_cifar10_test_50ep": 94.0}
    assert TABLE.best(table).content["code"] == "22222222"


@pytest.mark.parametrize("chain", OTHERS)
def test_other_chains_are_in_no_table(table: Path, chain: str) -> None:
    assert TABLE.accuracies(Genotype.parse(chain)) == {}
    with pytest.raises(UserError, match=r"no table has the accuracy of the genotype chain:mb3"):
        look_up(Genotype.parse(chain))


def test_the_best_chains_of_another_depth_are_shown_without_the_table(archgrad: Any, table: Path) -> None:
    assert "archgrad query" not in archgrad.run("search", *SMALL, "--cells", 3, "--out", "run")
    assert "oracle" not in archgrad.run("top", "run")
    assert "archgrad query" in archgrad.run("search", *SMALL, "--out", "whole")
