"""AuxiliarySkip in a search: in both losses, fading, and gone where architectures are judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from experiments import experiment_of
from spying import spied
from tiny_space import Tiny

import archgrad as ag
from archgrad.config import SearchConfig
from archgrad.errors import UserError
from archgrad.loop import SearchResult
from archgrad.recipes import darts, darts_minus
from archgrad.regularizers import AuxiliarySkip
from archgrad.supernet import SearchTime

DATA = ag.data.digits(limit=48)
SPACE = Tiny(channels=2, cells_per_stage=1)


def found(method: ag.Method, space: ag.spaces.SearchSpace = SPACE, **settings: Any) -> SearchResult:
    return ag.search(
        space,
        method,
        DATA,
        **{"epochs": 2, "batch_size": 12, "seed": 1, "held_out": 0, "standard_callbacks": False, **settings},
    )


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The weight of the auxiliary connections in every call of the supernet."""
    return spied(monkeypatch, ag.supernet.Supernet, "forward", lambda *args, **extra: extra.get("skip", 0.0))


# --- the schedule --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member", "expected"),
    [(AuxiliarySkip(), [1.0, 0.75, 0.5, 0.0]), (AuxiliarySkip(0.4, 0.8), [0.4, 0.5, 0.6, 0.8])],
)
def test_the_weight_is_linear(member: AuxiliarySkip, expected: list[float]) -> None:
    times = [SearchTime(0, 8, 0, progress) for progress in (0.0, 0.25, 0.5, 1.0)]
    assert [member.arguments("training", time)["skip"] for time in times] == pytest.approx(expected)


def test_what_never_carries_anything_is_refused() -> None:
    with pytest.raises(UserError, match=r"start and end of AuxiliarySkip are 0, .*; set one of them above 0, or leave"):
        AuxiliarySkip(0.0, 0.0)
    with pytest.raises(UserError, match=r"start of AuxiliarySkip is -1; it must be a number of 0 or more"):
        AuxiliarySkip(-1)


# --- in a search ---------------------------------------------------------------------------------------------------


def test_both_losses_have_it_and_it_fades_from_step_to_step(given: list[float]) -> None:
    found(darts_minus())
    assert given == pytest.approx([1.0, 1.0, 0.75, 0.75, 0.5, 0.5, 0.25, 0.25])  # 2 epochs of 2 steps, α then w


def test_the_sum_of_several_counts(given: list[float]) -> None:
    class Another(AuxiliarySkip):
        """A user's own."""

    found(replace(darts(), regularizers=(AuxiliarySkip(), Another(0.2, 0.2))))
    assert given[::2] == pytest.approx([1.2, 0.95, 0.7, 0.45])


def test_it_is_gone_where_architectures_are_judged(given: list[float]) -> None:
    method = replace(ag.recipes.random_nas(), regularizers=(AuxiliarySkip(0.5, 0.5),))
    method = replace(method, discretizer=ag.discretizers.BestSampled(samples=2))
    found(method, epochs=1)
    assert given[:2] == [0.5, 0.5]  # two weight steps
    assert len(given) > 2
    assert set(given[2:]) == {0.0}


def test_the_reductions_beside_strided_edges_are_trained() -> None:
    made = experiment_of(ag.spaces.S4(channels=2, cells=3), darts_minus(), DATA, SearchConfig(epochs=1, batch_size=12))
    torch.manual_seed(0)
    state = made.initial_state()
    before = {name: value.clone() for name, value in state.supernet.named_parameters() if ".skips." in name}
    made.stepper(state).weight_step(state, made.weight_loader.batch(0))
    after = dict(state.supernet.named_parameters())
    assert before
    assert all(not torch.equal(value, after[name]) for name, value in before.items())


# --- how it is asked for -------------------------------------------------------------------------------------------


def test_the_method_has_the_supernet_built_for_it() -> None:
    assert darts_minus().supernet_options(SPACE).auxiliary_skip
    assert not darts().supernet_options(SPACE).auxiliary_skip
    unused = replace(darts(), supernet=ag.SupernetOptions(auxiliary_skip=True))
    with pytest.raises(UserError, match=r"auxiliary_skip is True, but nothing in the method uses .*; add"):
        unused.check(SPACE)


def test_the_command_line_has_it(archgrad: Any) -> None:
    tiny = ["--channels", 2, "--cells", 1, "--limit", 48, "--batch-size", 12, "--threads", 1, "--epochs", 1]
    chosen = ["--method", "darts", "--regularizer", "auxiliary-skip", "--set", "auxiliary-skip.start=0.5"]
    archgrad.run("search", *tiny, *chosen, "--out", "run")
    saved = ag.config.read_config(Path("run/config.toml"))["settings"]
    assert (saved["auxiliary-skip.start"], saved["auxiliary-skip.end"]) == (0.5, 0.0)
    assert "supernet.auxiliary_skip" not in saved
    archgrad.run("resume", "run")
    err = archgrad.error("search", *tiny, "--set", "supernet.auxiliary_skip=true")
    assert "unknown knob of supernet (SupernetOptions): 'auxiliary_skip'" in " ".join(err.split())
