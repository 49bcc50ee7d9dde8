"""Searches that vote: the mean of their mixtures decides."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import archgrad as ag
from archgrad.callbacks.mixture import MIXTURE
from archgrad.config import SearchConfig
from archgrad.config.resolve import method_of, space_of
from archgrad.pages.studies import page_of_study
from archgrad.system.run_kind import write_kind
from tests.studies.in_process import TINY, InProcess

Weights = Mapping[tuple[str, str], float]
"""Probabilities by row and choice; the others of a row share what is left."""


def make_voter(folder: Path, *epochs: Weights, space: str = "nasbench201", method: str = "gaea", **more: Any) -> Path:
    """Write a run with these mixtures, epoch by epoch, as a finished search leaves them."""
    config = SearchConfig(space=space, method=method, **more)
    blocks = space_of(config).searched_blocks(method_of(config).supernet)
    choices = [(block.name, row.name, one) for block in blocks for row in block.rows for one in row.choices]
    folder.mkdir(parents=True)
    write_kind(folder, "search")
    (folder / "config.toml").write_text(f'space = "{space}"\nmethod = "{method}"\nseed = 1\n')
    content = {"choices": choices, "epochs": [_numbers(choices, one) for one in epochs]}
    (folder / MIXTURE).write_text(json.dumps(content))
    return folder


def _numbers(choices: Sequence[tuple[str, str, str]], given: Weights) -> list[float]:
    found = []
    for block, row, choice in choices:
        own = {one: weight for (place, one), weight in given.items() if place == row}
        others = sum((block, row) == (b, r) for b, r, _ in choices) - len(own)
        found.append(own.get(choice, (1 - sum(own.values())) / max(others, 1)))
    return found


def choice_of(genotype: ag.Genotype, row: str) -> str:
    (found,) = [one.choice for one in genotype.decisions if one.row == row]
    return found


def test_the_mean_of_the_mixtures_decides_and_not_the_number_of_searches(tmp_path: Path) -> None:
    sure = make_voter(tmp_path / "1", {("1<-0", "nor_conv_3x3"): 0.9})
    unsure = [
        make_voter(tmp_path / str(number), {("1<-0", "skip_connect"): 0.4, ("1<-0", "nor_conv_3x3"): 0.3})
        for number in (2, 3)
    ]
    found = ag.vote(sure, *unsure)
    assert choice_of(found.genotype, "1<-0") == "nor_conv_3x3"
    assert [choice_of(one, "1<-0") for one in found.own] == ["nor_conv_3x3", "skip_connect", "skip_connect"]
    assert found.votes["nor_conv_3x3@cell:1<-0"] == 1
    first = found.space.blocks[0].rows[0].choices.index("nor_conv_3x3")
    assert found.probabilities["cell"][0, first].item() == pytest.approx((0.9 + 0.3 + 0.3) / 3)


def test_a_search_counts_with_the_mean_of_its_last_quarter(tmp_path: Path) -> None:
    before, flicker, end = ({("1<-0", name): 1.0} for name in ("avg_pool_3x3", "nor_conv_3x3", "skip_connect"))
    run = make_voter(tmp_path / "run", *[before] * 9, flicker, flicker, end)
    assert choice_of(ag.vote(run).genotype, "1<-0") == "nor_conv_3x3"


def test_all_searches_agree_if_they_choose_the_same(tmp_path: Path) -> None:
    rows = ("1<-0", "2<-0", "2<-1", "3<-0", "3<-1", "3<-2")
    same = {(row, "nor_conv_3x3"): 0.7 for row in rows}
    other = {**same, ("3<-2", "nor_conv_3x3"): 0.0, ("3<-2", "skip_connect"): 0.6}
    assert ag.vote(make_voter(tmp_path / "1", same), make_voter(tmp_path / "2", same)).agreement == 1
    found = ag.vote(tmp_path / "1", tmp_path / "2", make_voter(tmp_path / "3", other))
    assert found.agreement == pytest.approx(1 - 1 / 18)


def test_edge_weights_of_pc_darts_vote_too(tmp_path: Path) -> None:
    """All operations are as likely on all edges, so that the edge weights alone choose two of three inputs."""
    kept = {("3", "1"): 0.5, ("3", "2"): 0.45, ("3", "0"): 0.05}
    strong = {(f"3<-{source}", "sep_conv_3x3"): 0.5 for source in range(3)}
    run = make_voter(tmp_path / "run", {**strong, **kept}, space="darts", method="pc-darts")
    sources = {one.source for one in ag.vote(run).genotype["normal"] if one.target == 3}
    assert sources == {1, 2}


def test_a_real_study_of_one_method_votes(tmp_path: Path) -> None:
    options = {**TINY, "channels": 4, "settings": {"schedule.warmup_epochs": 0}}
    study = ag.compare("gaea-pc-darts", seeds=3, out=tmp_path / "study", engine=InProcess(), **options)
    found = ag.vote(tmp_path / "study")
    results = [ag.SearchResult.load(study.folder.run_folder(one.run)) for one in study.status]
    for name in found.probabilities:  # the last quarter of two epochs is the last one; files have four digits
        mean = torch.stack([one.mixture[name][0] for one in results]).mean(0)
        torch.testing.assert_close(found.probabilities[name].float(), mean, atol=1e-4, rtol=0)
    assert found.own == tuple(one.genotype for one in results)
    first = page_of_study(tmp_path / "study").found[0]
    assert first.title == "voted by 3 searches"


def test_the_last_stage_of_a_search_in_stages_votes(tmp_path: Path) -> None:
    run = make_voter(tmp_path / "run", {}, space="darts", method="p-darts")
    (run / MIXTURE).unlink()
    choices = [["normal", "3<-0", "sep_conv_3x3"], ["normal", "3<-0", "skip_connect"]]
    for stage, weights in (("stage-1", [0.1, 0.9]), ("stage-2", [0.8, 0.2])):
        (run / stage).mkdir()
        (run / stage / MIXTURE).write_text(json.dumps({"choices": choices, "epochs": [weights]}))
    found = ag.vote(run).probabilities["normal"]
    assert sorted(found[found > 0].tolist()) == [0.2, 0.8]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda home: [], "nothing can vote"),
        (lambda home: [make_voter(home / "1", {}), make_voter(home / "2", {}, space="s2")], "another space"),
        (lambda home: [make_voter(home / "1", {}, method="darts-pt")], "derives by measuring"),
        (lambda home: [make_voter(home / "1", {})], "all choices tie exactly"),
        (lambda home: [make_voter(home / "1")], "each epoch must have 24 numbers"),
    ],
)
def test_what_cannot_vote_is_said(make: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ag.UserError, match=sentence):
        ag.vote(*make(tmp_path))


def test_damaged_and_missing_mixtures_are_named(tmp_path: Path) -> None:
    run = make_voter(tmp_path / "run", {})
    for damage in ("half a li", "[]", '{"choices": 3, "epochs": []}'):
        (run / MIXTURE).write_text(damage)
        with pytest.raises(ag.UserError, match="has no mixture of a search"):
            ag.vote(run)
    (run / MIXTURE).unlink()
    with pytest.raises(ag.UserError, match="has no mixture of a search"):
        ag.vote(run)


def test_a_study_of_several_methods_says_what_to_name(tmp_path: Path) -> None:
    ag.compare(["darts", "gaea"], seeds=1, out=tmp_path / "study", engine=InProcess(), **TINY)
    with pytest.raises(ag.UserError, match="name the runs that vote"):
        ag.vote(tmp_path / "study")
