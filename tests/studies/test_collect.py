"""The scripts that keep what a study has found in small files, and write its page from them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from archgrad.diagnostics.rules import Thresholds
from archgrad.studies import Study
from archgrad.studies.folder import StudyFolder
from archgrad.studies.plan import Benchmark, StudyPlan, Variant
from archgrad.studies.vote import vote
from archgrad.studies.worker import run_planned

sys.path.insert(0, str(Path(__file__).parents[2] / "studies"))
from claims import Claim, claims_page
from collect import collect, restore
from doctor import Warned, doctor_page
from fits_page import fits_page
from largest import largest_page
from publish import (
    BEGIN,
    CLAIMS,
    DOCTOR,
    END,
    FITS,
    LARGEST,
    LATENCY,
    MACRO,
    PAGE,
    PATIENT,
    README,
    VOTE,
    front,
    macro_page,
    page,
    patient_page,
    vote_page,
)
from shared import read_runs, worse_share
from targets import ends_of, latency_page

TABLE = Path(os.environ.get("ARCHGRAD_DATA") or "absent", "nasbench201", "accuracy.csv")


@pytest.mark.skipif(not TABLE.is_file(), reason="$ARCHGRAD_DATA/nasbench201/accuracy.csv is not there")
def test_page_and_readme_have_the_stored_runs_of_the_main_study() -> None:
    home, found = Path(__file__).parents[2], read_runs("main")
    written, claims, readme = ((home / name).read_text(encoding="utf-8") for name in (PAGE, CLAIMS, README))
    assert claims_page(found, read_runs("macro")) == claims, "run `python studies/publish.py`"
    switched = read_runs("switch").get("darts-switch", {})
    doctor = (home / DOCTOR).read_text(encoding="utf-8")
    assert doctor_page(found, read_runs("proxy"), worse_share(), switched) == doctor, "run `python studies/publish.py`"
    latency = latency_page(ends_of(read_runs("latency")))
    assert latency == (home / LATENCY).read_text(encoding="utf-8"), "run `python studies/publish.py`"
    patient = patient_page(found["gaea-simultaneous"], read_runs("patient")["gaea-patient"])
    assert patient == (home / PATIENT).read_text(encoding="utf-8"), "run `python studies/publish.py`"
    assert macro_page(read_runs("macro")) == (home / MACRO).read_text(encoding="utf-8"), "run `studies/publish.py`"
    assert vote_page() == (home / VOTE).read_text(encoding="utf-8"), "run `python studies/publish.py`"
    largest = largest_page(home / "studies" / "results")
    assert largest == (home / LARGEST).read_text(encoding="utf-8"), "run `python studies/publish.py`"
    fits = fits_page(home / "studies" / "results" / "fits")
    assert fits == (home / FITS).read_text(encoding="utf-8"), "run `python studies/publish.py`"
    assert page(found) == written, "run `python studies/publish.py`"
    assert f"{BEGIN}{front(found)}{END}" in readme, "run `python studies/publish.py`"


def test_the_first_warning_of_a_run_is_counted_from_its_end_and_from_its_skips() -> None:
    records = [
        {
            "epoch": epoch,
            "skips": skips,
            "skip_share": skips / 6,
            "entropy": 1.4 - epoch / 10,
            "entropy_max": 1.4,
            "oracle_cifar10_test_200ep": 90.0 - epoch,
        }
        for epoch, skips in enumerate([1, 1, 4, 4, 4, 4, 0, 0], 1)
    ]
    assert Warned.of("run", records, True) == Warned("run", 4, "healthy", True, 4, 1, 87.0, 82.0)
    patient = Warned.of("run", records, True, Thresholds(many=0.9, most=0.9))
    assert patient.first is None


@pytest.mark.parametrize(
    ("ends", "sign", "least", "verdict"),
    [
        ([5.0, 5.1, 4.9, 5.2, 5.0], 1, 0.0, "**holds**"),
        ([5.0, 5.1, 4.9, 5.2, 5.0], -1, 0.0, "**does not hold here**"),
        ([-5.0, 5.0, 0.0, 1.0, -1.0], 1, 0.0, "cannot be told"),
        ([-0.1, 0.1, 0.0, 0.1, -0.1], 1, -1.0, "**holds**"),
        ([5.0, 5.1, 4.9, 5.2], 1, 0.0, "cannot be told: too few seeds"),
    ],
)
def test_the_interval_decides_about_a_claim(ends: list[float], sign: int, least: float, verdict: str) -> None:
    better = {seed: [{"value": end}] for seed, end in enumerate(ends)}
    worse = {seed: [{"value": 0.0}] for seed in range(9)}
    claim = Claim("paper", "text", "about", lambda record: record["value"], "new", "old", sign, least)
    row = claim.row({"new": better, "old": worse})
    assert row.endswith(f"| {verdict} |")
    assert f"| {len(ends)} | {sum(ends) / len(ends):+.2f}" in row


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    sizes = {"epochs": 2, "channels": 4, "cells": 1, "limit": 120, "batch_size": 16}
    plan = StudyPlan((Variant("gaea", "gaea"),), (Benchmark("b", "nasbench201", "digits"),), (0, 1), sizes)
    folder = StudyFolder(tmp_path_factory.mktemp("study"))
    folder.write_plan(plan)
    run_planned(folder, plan, next(plan.runs()))
    return Study(folder, plan)


def test_a_restored_study_knows_its_finished_runs_and_their_numbers(study: Study, tmp_path: Path) -> None:
    assert collect(study, tmp_path / "results") == 1
    assert restore(tmp_path / "results", tmp_path / "again") == 1
    again = Study.load(tmp_path / "again")
    assert [one.state for one in again.status] == ["finished", "waiting"]
    (before,), (after,) = study.results, again.results
    for measure in ("heldout_accuracy", "entropy", "skips"):
        assert after.values(measure)["gaea"][0] == pytest.approx(before.values(measure)["gaea"][0], rel=1e-5)


def test_no_weights_are_kept(study: Study, tmp_path: Path) -> None:
    collect(study, tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"study.toml", "metrics.jsonl", "config.toml", "summary.json"}
    assert sum(path.stat().st_size for path in files) < 10_000
    assert "genotype" in json.loads((tmp_path / "b" / "gaea-seed0" / "summary.json").read_text())


def test_mixtures_are_kept_for_votes(study: Study, tmp_path: Path) -> None:
    collect(study, tmp_path, mixtures=True)
    own = vote(study.folder.run_folder(next(study.plan.runs())))
    assert vote(tmp_path / "b" / "gaea-seed0").genotype == own.genotype


def test_stored_results_are_reported_where_the_data_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARCHGRAD_DATA", raising=False)
    stored = Study.load(Path(__file__).parents[2] / "studies" / "results" / "proxy")
    (summary,) = stored.summaries()
    assert {one.variant.name: one.collapsed.runs for one in summary.variants}["images-4000-depth-3"] == 5
