"""`archgrad compare`, `status`, `top` and `plot` of a study."""

from __future__ import annotations

import csv
import io
import json
import resource
import shutil
import sys
from pathlib import Path

import pytest

from archgrad.studies.folder import StudyFolder

TINY = ["--channels", 2, "--cells", 1, "--limit", 60, "--batch-size", 20, "--epochs", 1]
METHODS = "gdas,gaea-simultaneous"
PLACE = "nasbench201-digits"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def study(archgrad, engine, kept) -> Path:
    """A finished study of two methods and two seeds."""
    if not (kept / "study").exists():
        archgrad.run("compare", "--methods", METHODS, "--seeds", 2, *TINY, "-o", kept / "study")
    engine.submitted.clear()
    return Path(shutil.copytree(kept / "study", "study"))


def test_processes_of_their_own_compute_a_study(archgrad):
    code, out, err = archgrad("compare", "--methods", "gaea-simultaneous", "--seeds", 1, *TINY, "-o", "study")
    assert code == 0, err
    assert "0 of 1 runs finished, 1 waiting" in err
    assert "1 of 1 runs finished" in err
    assert f"{PLACE}, by heldout_accuracy" in out
    assert Path("study", PLACE, "gaea-simultaneous-seed0", "summary.json").exists()


def test_the_report_of_a_finished_study_comes_at_once_and_nothing_wraps(archgrad, engine, study):
    out = archgrad.run("compare", study)
    assert engine.submitted == []
    head, first, second = out.splitlines()[2:5]
    assert head.split() == ["variant", "runs", "mean", "±", "std", "95", "%", "interval", "collapsed", "minutes"]
    assert first.startswith("gdas               2 of 2")
    assert second.startswith("gaea-simultaneous  2 of 2")
    assert "No winner: " in out
    assert "not the same for all: split: " in out


def test_a_begun_study_takes_more_seeds_and_methods(archgrad, engine, study):
    code, _, err = archgrad("compare", study, "--seeds", 3, "--methods", "gdas")
    assert (code, engine.submitted) == (0, [f"{PLACE}/gdas-seed2", f"{PLACE}/gaea-simultaneous-seed2"]), err


def test_a_variant_leaves_a_begun_study_and_comes_back(archgrad, engine, study):
    code, out, err = archgrad("compare", study, "--without", "gdas")
    assert (code, engine.submitted, "gdas" in out) == (0, [], False), err
    assert (study / PLACE / "gdas-seed0" / "summary.json").exists()
    code, out, err = archgrad("compare", study, "--methods", "gdas")
    assert (code, engine.submitted, "gdas               2 of 2" in out) == (0, [], True), err
    for names, sentence in (("gdsa", "did you mean 'gdas'"), ("gdas,gaea-simultaneous", "at least one variant")):
        assert sentence in archgrad.error("compare", study, "--without", names)


def test_tables_have_other_formats(archgrad, engine, study):
    def printed(kind: str) -> str:
        return archgrad.run("compare", study, "--table", kind)

    assert printed("md").startswith("| variant | runs | mean ± std | 95 % interval | collapsed | minutes |\n")
    assert f"\n{PLACE}, by heldout\\_accuracy. No winner: " in printed("md")
    assert printed("latex").count("\\begin{tabular}") == 3
    rows = list(csv.DictReader(io.StringIO(printed("csv"))))
    assert [(row["variant"], row["runs"]) for row in rows] == [("gdas", "2"), ("gaea-simultaneous", "2")]
    content = json.loads(printed("json"))
    assert [row["variant"] for row in content["results"]] == ["gdas", "gaea-simultaneous"]
    assert content["pairs"][0]["first"] == "gdas"
    assert "No winner" in content["verdicts"][PLACE]


def test_a_study_that_is_computed_elsewhere_can_be_reported(archgrad, engine, study):
    shutil.rmtree(study / PLACE / "gdas-seed1")
    with StudyFolder(study).locked():
        assert archgrad("compare", study)[0] == 2
        code, out, err = archgrad("compare", study, "--no-run")
    assert (code, engine.submitted) == (0, []), err
    assert "gdas               1 of 2" in out
    assert "--no-run reports what a study has finished" in archgrad.error("compare", study, "--no-run", "--seeds", 4)


def test_the_help_begins_with_what_is_compared(archgrad):
    out = archgrad.run("compare", "--help")
    places = [out.index(f"  {name} ") for name in ("--methods", "--data", "--seeds", "-o,", "--engine", "--epochs")]
    assert places == sorted(places)
    assert "[default:" not in out


def test_status_tells_how_far_a_study_is(archgrad, study):
    out = archgrad.run("status", study)
    assert "4 of 4 runs finished" in out
    assert f"{PLACE}  gdas               ■■" in out
    assert "`archgrad compare study --no-run` reports the finished runs" in out
    shutil.rmtree(study / PLACE / "gdas-seed1")
    StudyFolder(study).write_failures({f"{PLACE}/gdas-seed1": "no data."})
    out = archgrad.run("status", study)
    assert "3 of 4 runs finished, 1 failed" in out
    assert f"failed: {PLACE}/gdas-seed1: no data." in out
    StudyFolder(study).write_failures({})
    out = archgrad.run("status", study)
    assert "nobody works on it; `archgrad compare study` continues it" in out
    StudyFolder(study).write_heartbeat("local", [f"{PLACE}/gdas-seed1"])
    out = archgrad.run("status", study)
    assert "3 of 4 runs finished, 1 running; about 1 min left" in out
    assert "works on it (engine local)" in out


def test_top_shows_the_best_of_a_run_and_of_a_study(archgrad, study):
    run = study / PLACE / "gaea-simultaneous-seed0"
    out = archgrad.run("top", run, "-k", 3)
    assert " 3. |" in out
    assert "score " in out
    assert "multiply-adds" in out
    genotype = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["genotype"]
    content = json.loads(archgrad.run("top", run, "-k", 2, "--json"))[str(run)]
    assert [content[0]["genotype"], len(content)] == [genotype, 2]
    votes = json.loads(archgrad.run("top", study, "--json"))[PLACE]
    assert sum(one["votes"] for one in votes) == 4


def test_plot_draws_a_study_over_seconds(archgrad, study):
    (about,) = json.loads(archgrad.run("plot", study, "--against", "seconds", "-o", "a.svg", "--json")).values()
    assert (about["against"], list(about["curves"])) == ("seconds", ["gdas", "gaea-simultaneous"])
    assert Path("a.svg").read_bytes().startswith(b"<?xml")
    assert "--against works only with the folder of a study" in archgrad.error(
        "plot", study / PLACE / "gdas-seed0", "--against", "seconds"
    )


def test_the_quick_study_of_the_repository_runs_at_a_small_size(archgrad, engine):
    text = (ROOT / "studies" / "quick.toml").read_text()
    small = text.replace("epochs = 15", "epochs = 1\nlimit = 60").replace("batch_size = 64", "batch_size = 20")
    Path("quick.toml").write_text(small.replace("channels = 8", "channels = 2"))
    archgrad.run("compare", "quick.toml", "--seeds", 1)
    assert [name.partition("/")[2] for name in engine.submitted] == [
        "darts-seed0", "gaea-seed0", "lambda-darts-seed0", "random-nas-seed0",
    ]  # fmt: skip
    assert Path("studies", "quick", "study.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-o", "s"], "name methods to compare, such as --methods darts,gaea"),
        ([], "name methods to compare, such as --methods darts,gaea"),
        (["--methods", "pc-darts", "--epochs", 2, "-o", "s"], "does not move in the first 15 epochs"),
        (["--methods", "darts"], "give the folder of the study: -o STUDY"),
        (["--methods", "randomsearch", "-o", "s"], "unknown method 'randomsearch'; did you mean 'random-search'"),
        (["--methods", "darts", "--spaces", "nasbench", "-o", "s"], "unknown space 'nasbench'"),
        (["--methods", "darts", "--set", "x.y=1", "-o", "s"], "unknown part in a setting: 'x'"),
        (["--methods", "darts", "--table", "xml", "-o", "s"], "unknown table format 'xml'"),
        (["--methods", "darts", "-o", "/proc/study"], "cannot be written"),
        (["--methods", "darts", "-o", "stranger"], "is no study, but holds thesis.txt"),
        (["stranger"], "stranger is no study: it has no study.toml"),
        (["missing.toml"], "there is no study or file missing.toml"),
        (["good.toml", "--epochs", "3"], "epochs cannot be given beside a file"),
    ],
)  # fmt: skip
def test_bad_input_is_a_sentence_and_leaves_nothing(archgrad, arguments, sentence):
    Path("stranger").mkdir()
    Path("stranger", "thesis.txt").touch()
    Path("good.toml").write_text("[variant.darts]")
    assert sentence in archgrad.error("compare", *arguments)
    assert not list(Path().rglob("study.toml"))
    assert [one.name for one in Path("stranger").iterdir()] == ["thesis.txt"]


def test_a_begun_study_refuses_other_options_and_measures(archgrad, engine, study):
    for arguments, sentence in (
        (["compare", study, "--epochs", 3], "epochs cannot change in a begun study"),
        (["compare", study, "-o", "other"], "is the folder of a study already"),
        (["top", study, "-k", 0], "-k"),
        (["top", "nothing"], "nothing"),
        (["status", "nothing"], "nothing is no study"),
        (["plot", study, "--against", "days"], "unknown axis 'days'"),
    ):
        assert sentence in archgrad.error(*arguments)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits of this kind")
@pytest.mark.parametrize("room", [20_000, 100])
def test_a_full_disk_is_a_sentence_and_the_study_goes_on_later(archgrad, engine, room):
    """A limit on the size of files is as close to a full disk as a test can come: for checkpoints, or for the plan."""
    arguments = ("compare", "--methods", "gaea-simultaneous", "--seeds", 1, *TINY, "-o", "study")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        code, _, err = archgrad(*arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (code, "File too large" in err, "archgrad compare study" in err) == (2, True, True), err
    archgrad.run(*arguments)
