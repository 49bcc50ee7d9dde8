"""Real searches, tiny ones, in this process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import archgrad as ag
from archgrad import UserError
from archgrad.loop.folder import read_records
from archgrad.studies.folder import StudyFolder
from archgrad.studies.study import resume_study, run_study
from archgrad.system.run_kind import read_kind
from tests.studies.in_process import TINY, InProcess


def compare(out: Path, methods: Any, engine: InProcess, seeds: Any = 1) -> ag.Study:
    return ag.compare(methods, seeds=seeds, out=out, engine=engine, **TINY)


def without_seconds(folder: Path) -> list[dict[str, Any]]:
    return [{name: value for name, value in one.items() if name != "seconds"} for one in read_records(folder)]


def test_a_broken_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    name = "nasbench201-digits/darts-seed0"
    whole, broken = (
        compare(tmp_path / kind, ["darts"], InProcess(breaks)).folder.path / name
        for kind, breaks in (("whole", []), ("broken", [name]))
    )
    assert without_seconds(whole) == without_seconds(broken)
    first, second = (ag.SearchResult.load(one) for one in (whole, broken))
    assert all(torch.equal(first.alpha[block], second.alpha[block]) for block in first.alpha)
    weights = (first.supernet.state_dict(), second.supernet.state_dict())
    assert all(torch.equal(one, other) for one, other in zip(*(one.values() for one in weights), strict=True))


def test_more_seeds_and_variants_run_only_what_is_new(tmp_path: Path) -> None:
    first = InProcess()
    compare(tmp_path, ["gaea-simultaneous"], first)
    assert first.submitted == ["nasbench201-digits/gaea-simultaneous-seed0"]
    more = InProcess()
    fast = {"method": "gaea-simultaneous", "settings": {"arch_optimizer.lr": 0.5}}
    study = compare(tmp_path, {"gaea-simultaneous": {}, "fast": fast}, more, seeds=2)
    place = "nasbench201-digits"
    assert more.submitted == [f"{place}/fast-seed0", f"{place}/gaea-simultaneous-seed1", f"{place}/fast-seed1"]
    assert repr(study).endswith("2 variants, 4 of 4 runs finished>")
    again = InProcess()
    compare(tmp_path, ["gaea-simultaneous"], again)
    assert again.submitted == []
    assert ag.Study.load(tmp_path).plan.seeds == (0, 1)
    (summary,) = study.summaries()
    assert [one.value.runs for one in summary.variants] == [2, 2]


def test_a_study_says_what_it_is_and_goes_on_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, engine = compare(tmp_path, ["gaea-simultaneous"], InProcess()), InProcess()
    assert read_kind(tmp_path) == "study"
    monkeypatch.setattr("archgrad.studies.study.make_engine", lambda *given: engine)
    shutil.rmtree(study.folder.run_folder(study.status[0].run))
    assert resume_study(tmp_path).folder.is_complete(study.plan)
    assert engine.submitted == ["nasbench201-digits/gaea-simultaneous-seed0"]


def test_the_runs_tell_their_machine_and_versions(tmp_path: Path) -> None:
    study = compare(tmp_path, ["gaea-simultaneous"], InProcess(), seeds=2)

    def notes() -> str:
        return " ".join(study.table().notes)

    assert "machine and versions" not in notes()
    summary = study.folder.run_folder(study.status[0].run) / "summary.json"
    text = summary.read_text()
    summary.write_text(text.replace(torch.__version__, "1.0"))
    assert "machine and versions" in notes()
    summary.write_text("{}")  # as earlier versions wrote it
    assert "machine and versions" not in notes()


def test_a_finished_study_is_only_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(tmp_path, ["gaea-simultaneous"], InProcess())
    monkeypatch.setattr(StudyFolder, "locked", None)
    assert run_study(tmp_path, None).plan.variants[0].name == "gaea-simultaneous"


def test_a_plan_edited_by_hand_is_refused(tmp_path: Path) -> None:
    compare(tmp_path, ["gaea-simultaneous"], InProcess())
    plan = tmp_path / "study.toml"
    text = plan.read_text()
    plan.write_text(f"# a remark\n{text}")
    assert ag.Study.load(tmp_path).plan.size == 1
    plan.write_text(text.replace("epochs = 2", "epochs = 3"))
    with pytest.raises(UserError, match="was edited by hand"):
        ag.Study.load(tmp_path)


def test_other_options_need_another_folder(tmp_path: Path) -> None:
    compare(tmp_path, ["gaea-simultaneous"], InProcess())
    with pytest.raises(UserError, match=r"begun with other common options \(epochs\)"):
        ag.compare(["gaea-simultaneous"], seeds=1, out=tmp_path, engine=InProcess(), **{**TINY, "epochs": 3})


def test_a_variant_without_a_result_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    good, bad = "nasbench201-digits/gaea-simultaneous-seed0", "nasbench201-digits/gdas-seed0"
    with pytest.raises(UserError, match=rf"all runs of gdas failed \({bad}: the power is gone\..*kept"):
        compare(tmp_path, ["gaea-simultaneous", "gdas"], InProcess([bad, bad]))
    study = ag.Study.load(tmp_path)
    assert {one.run.name: one.state for one in study.status} == {good: "finished", bad: "failed"}
    (summary,) = study.summaries()
    assert summary.failed == {bad: "the power is gone."}


def test_the_top_of_a_run_begins_with_what_it_found(tmp_path: Path) -> None:
    study = compare(tmp_path, ["gaea-simultaneous"], InProcess())
    result = ag.SearchResult.load(tmp_path / "nasbench201-digits" / "gaea-simultaneous-seed0")
    top = result.top(3)
    assert top[0].genotype == result.genotype
    assert [one.score for one in top] == sorted((one.score for one in top), reverse=True)
    assert study.top(1)["nasbench201-digits"][0].genotype == result.genotype
    assert result.cost(result.genotype) == result.space.cost(
        result.genotype, num_classes=10, input_channels=1, image_size=8
    )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"methods": 5}, "methods is 5"),
        ({"methods": {"logs": {"method": "darts"}}}, "logs, .* are taken"),
        ({"methods": {"x": {"method": ag.recipes.named("darts", ag.spaces.NASBench201())}}}, "must be text"),
        ({"seeds": [1.5]}, "give a number such as 10"),
        ({"seeds": "0-99999999999"}, "from 1 to 100,000 seeds"),
        ({"seeds": [2**63]}, "it must be at most"),
        ({"weights": ag.WeightTraining()}, "unknown key in .*'weights'"),
        ({"settings": {"space.exclude": object()}}, "space.exclude is .*<object"),
        ({"settings": 5}, "settings is 5"),
        ({"data": [5]}, r"data is \[5\]"),
        ({"engine": "cloud"}, "unknown engine 'cloud'"),
        ({"engine": "local", "processes": 0}, "processes is 0"),
        ({"engine": "local", "address": "auto"}, "has no option 'address'"),
    ],
)
def test_a_wrong_call_is_a_sentence(tmp_path: Path, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        ag.compare(**{"methods": ["darts"], "seeds": 1, "out": tmp_path / "study", **TINY, **given})
    assert not list(tmp_path.rglob("study.toml"))


def test_the_age_of_a_heartbeat_is_by_the_clock_of_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = StudyFolder(tmp_path)
    with folder.locked():
        folder.write_heartbeat("local", ["b/x-seed0"])
        for wrong in (0.0, 1e10):  # the clock of this machine is years slow or fast
            monkeypatch.setattr("time.time", lambda wrong=wrong: wrong)
            assert folder.heartbeat().alive
