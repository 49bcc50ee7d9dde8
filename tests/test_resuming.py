"""One function and one command continue whatever a run directory says it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import archgrad as ag
from archgrad.blackbox import run_blackbox
from archgrad.errors import UserError
from archgrad.spaces import NASBench201
from archgrad.studies import Variant
from archgrad.system.run_kind import RUN_FILE, read_kind, write_kind
from tests.blackbox.known_table import install
from tests.studies.made_runs import make_study

STORED = Path(__file__).parent / "stored" / "run-1"


def test_a_study(tmp_path: Path, archgrad: Any) -> None:
    runs = {f"b-digits/{name}-seed0": {"heldout_accuracy": 50.0} for name in ("darts", "gaea")}
    make_study(tmp_path / "study", runs, Variant("darts", "darts"), Variant("gaea", "gaea"), seeds=1, data=("digits",))
    assert read_kind(tmp_path / "study") == "study"
    assert len(ag.resume(tmp_path / "study").status) == 2
    out = archgrad.run("resume", tmp_path / "study", "--json")
    assert [row["variant"] for row in json.loads(out)["results"]][:2] == ["darts", "gaea"]


def test_a_search_without_gradients(tmp_path: Path, archgrad: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    space = NASBench201(exclude=("none",))
    found = run_blackbox("regularized-evolution", space, seed=7, queries=12, settings={"population": 4})
    home = found.save(tmp_path / "run")
    again = ag.resume(home)
    assert (again.history, again.search, again.space) == (found.history, found.search, space)
    assert str(found.genotype) in archgrad.run("resume", home)


@pytest.mark.parametrize("given", [{"test": "digits"}, {"method": ag.recipes.darts()}], ids=["test", "method"])
def test_what_this_kind_of_run_does_not_take(tmp_path: Path, given: dict[str, Any]) -> None:
    write_kind(tmp_path, "search" if "test" in given else "training")
    with pytest.raises(UserError, match=f"{next(iter(given))} is given, but a .* takes .*leave it out"):
        ag.resume(tmp_path, **given)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is damaged"),
        ("[]", "is damaged"),
        ('{"kind": "serch"}', "did you mean 'search'"),
        ('{"kind": 7}', "kind 7"),
    ],
    ids=["empty", "list", "unknown", "number"],
)
def test_a_folder_that_does_not_say_what_it_is(tmp_path: Path, text: str, message: str) -> None:
    shutil.copytree(STORED, tmp_path / "run")
    (tmp_path / "run" / RUN_FILE).write_text(text)
    with pytest.raises(UserError, match=message):
        ag.resume(tmp_path / "run")


def test_a_stage_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "stage-1").mkdir()
    write_kind(tmp_path, "search")
    with pytest.raises(UserError, match=r"is one stage of the run in .*; give that directory instead"):
        ag.resume(tmp_path / "stage-1")
