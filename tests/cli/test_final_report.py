"""What a search ends with."""

from __future__ import annotations

import json
from typing import Any

import pytest

import archgrad as ag

TINY = ["--channels", 2, "--cells", 1, "--limit", 80, "--batch-size", 20, "--epochs", 1]


def test_the_diagnosis_leads_and_the_next_steps_follow(archgrad: Any) -> None:
    out = archgrad.run("search", *TINY, "--out", "run")
    assert out.splitlines()[0] == "loading PyTorch"
    ending = out[out.index("diagnosis: ") :].splitlines()
    assert ending[0] == "diagnosis: too early"
    facts = [line.split()[0] for line in ending if line.startswith(("accuracy", "size", "next", "found"))]
    assert facts == ["accuracy", "size", "size", "found", "next"]
    assert not ending[ending.index("next") + 1].startswith("next")
    assert "with the mixture" in "\n".join(ending)
    assert "as searched, 2 channels and 1 cell per stage, 8×8 pixels" in out
    assert "at the size of published results, 16 channels and 5 cells per stage, 32×32 pixels" in out
    assert "archgrad inspect run" in out
    assert "archgrad train run" in out


def test_json_has_the_same(archgrad: Any) -> None:
    found = json.loads(archgrad.run("search", *TINY, "--out", "run", "--json"))
    assert found["diagnosis"]["verdict"] == "too early"
    genotype = ag.Genotype.parse(found["genotype"])
    space = ag.spaces.NASBench201()
    assert list(found["sizes"].values())[1] == str(space.cost(genotype))  # as the benchmark counts
    assert any("inspect" in step for step in found["next"])


@pytest.mark.parametrize(("space", "size"), [("s1", "36 channels and 20 cells"), ("nasbench1shot1-1", "128 channels")])
def test_each_space_is_compared_at_its_own_size(archgrad: Any, space: str, size: str) -> None:
    assert f"at the size of published results, {size}" in archgrad.run("search", "--space", space, *TINY, "--cells", 3)


def test_of_stages_the_last_is_the_searched_size(archgrad: Any) -> None:
    stages = ["--set", "progressive.cells=1,1,2", "--set", "progressive.keep=5,4,3"]
    options = ["--set", "schedule.warmup_epochs=0", "--channels", 2, "--limit", 80, "--batch-size", 20, "--epochs", 1]
    out = archgrad.run("search", "--space", "nasbench201", "--method", "p-darts", *stages, *options)
    assert "as searched, 2 channels and 2 cells" in out
    assert "stage 3 of 3: " in out


def test_every_option_of_search_shows_its_default() -> None:
    import typer

    from archgrad.cli.app import app

    search: Any = typer.main.get_command(app).commands["search"]  # type: ignore[attr-defined]
    helped = {one.name: one.help for one in search.params if one.name not in ("help", "dry_run", "as_json")}
    assert len(helped) > 20
    assert [name for name, text in helped.items() if not text.endswith("]")] == []
