"""What a method drops while it searches, and how its weight decay moves: drop-path, skip dropout and L2 by schedule."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from experiments import experiment_of
from spying import spied

import archgrad as ag
from archgrad.callbacks import EigenvalueStop
from archgrad.config import SearchConfig, config_to_toml, read_config
from archgrad.config.resolve import method_of, space_of, training_of
from archgrad.errors import UserError
from archgrad.recipes import darts, r_darts

DATA = ag.data.digits(limit=48)
SPACE = ag.spaces.NASBench201(channels=2, cells_per_stage=1)
AMENDED = ag.spaces.AmendedA1(channels=2, cells=3)


def options(**settings: Any) -> ag.Method:
    return replace(darts(), supernet=ag.SupernetOptions(**settings))


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The settings of every call of the supernet."""
    return spied(monkeypatch, ag.supernet.Supernet, "forward", lambda *args, **extra: extra)


def search(method: ag.Method, **settings: Any) -> ag.SearchResult:
    return ag.search(
        SPACE, method, DATA, **{"epochs": 3, "batch_size": 24, "held_out": 0, "standard_callbacks": False, **settings}
    )


# --- in a search ---------------------------------------------------------------------------------------------------


def test_drop_path_of_the_method_grows_with_the_epochs(given: list[dict[str, Any]]) -> None:
    search(options(drop_path=0.3))
    rates = [call.get("drop_path", 0.0) for call in given]
    assert rates == pytest.approx([0.0, 0.0, 0.0, 0.1, 0.0, 0.2])  # the architecture's loss has none


def test_skip_dropout_falls_linearly_while_the_architecture_warms_up_and_begins_again_when_it_moves(
    given: list[dict[str, Any]],
) -> None:
    method = replace(options(skip_dropout=0.7), schedule=ag.Schedule(warmup_epochs=2))
    search(method, epochs=5)
    linear, exponential = [0.7 * 4 / 5, 0.7 * 3 / 5], [0.7 * math.exp(-0.2 * epoch) for epoch in range(3)]
    seen = [call["skip_dropout"] for call in given]
    assert list(dict.fromkeys(seen)) == pytest.approx([*linear, *exponential])


def test_skip_dropout_falls_exponentially_in_both_losses(given: list[dict[str, Any]]) -> None:
    search(options(skip_dropout=0.4))
    expected = [0.4 * math.exp(-0.2 * epoch) for epoch in (0, 0, 1, 1, 2, 2)]
    assert [call.get("skip_dropout", 0.0) for call in given] == pytest.approx(expected)


def test_by_default_the_supernet_is_called_as_ever(given: list[dict[str, Any]]) -> None:
    search(darts())
    assert all(set(call) == {"active", "seed"} for call in given)


def test_the_weight_decay_of_the_optimizer_and_of_the_hypergradient_moves() -> None:
    training = replace(SPACE.weights, weight_decay=0.0, weight_decay_end=0.4, epochs=4, batch_size=24)
    made = experiment_of(SPACE, darts(), DATA, SearchConfig(weights=training))
    state = made.initial_state()
    stepper, used = made.stepper(state), []
    while state.epoch < state.epochs:
        assert stepper.bilevel_step(state).descent.weight_decay == pytest.approx(training.weight_decay_at(state.epoch))
        stepper.weight_step(state, made.weight_loader.batch(state.index))
        used.append(state.optimizer.param_groups[0]["weight_decay"])
        state.epoch += 1
    assert used == pytest.approx([0.0, 0.1, 0.2, 0.3])


def test_a_step_decays_by_what_the_schedule_says() -> None:
    """Without momentum and after clipping almost everything away, w ← w − lr·(g + λ·w) is nearly w·(1 − lr·λ)."""
    training = ag.WeightTraining(
        lr=0.1, lr_min=0.1, momentum=0.0, weight_decay=0.0, weight_decay_end=1.0, clip=1e-12, epochs=2, batch_size=24
    )
    made = experiment_of(SPACE, darts(), DATA, SearchConfig(weights=training))
    torch.manual_seed(0)
    state = made.initial_state()
    for state.epoch, factor in ((0, 1.0), (1, 1 - 0.1 * 0.5)):
        before = {name: value.detach().clone() for name, value in state.weights.items()}
        made.stepper(state).weight_step(state, made.weight_loader.batch(state.index))
        for name, value in state.weights.items():
            torch.testing.assert_close(value.detach(), factor * before[name], rtol=1e-5, atol=1e-8)


# --- how it is asked for -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["drop_path", "skip_dropout"])
def test_the_method_chooses_or_leaves_it_to_the_space(name: str) -> None:
    class Own(ag.spaces.NASBench201):
        supernet_defaults = ag.SupernetOptions(**{name: 0.1})

    own = Own(channels=2, cells_per_stage=1)
    assert getattr(options(**{name: 0.3}).supernet_options(own), name) == 0.3
    assert getattr(darts().supernet_options(own), name) == 0.1
    assert getattr(options(**{name: 0.0}).supernet_options(own), name) == 0.0
    assert getattr(darts().supernet_options(SPACE), name) == 0.0
    with pytest.raises(UserError, match=rf"supernet\.{name} is 1; it must be a number from 0 to less than 1"):
        options(**{name: 1})


def test_a_published_rate_of_the_space_gives_way() -> None:
    assert options(drop_path=0.4).supernet_options(AMENDED).drop_path == 0.4
    assert darts().supernet_options(AMENDED).drop_path == 0.2


def test_other_options_are_applied_beside_it() -> None:
    applied = options(partial=2, edge_weights=True, drop_path=0.3).supernet_options(SPACE)
    assert (applied.partial, applied.edge_weights, applied.drop_path) == (2, True, 0.3)


def test_robust_darts_is_three_systems() -> None:
    decayed, dropped, stopped = (r_darts(kind) for kind in ("l2", "drop-path", "es"))
    assert [one.trained(SPACE.weights).weight_decay for one in (decayed, dropped, stopped)] == [81e-4, 5e-4, 5e-4]
    assert [one.supernet_options(SPACE).drop_path for one in (decayed, dropped, stopped)] == [0.0, 0.2, 0.0]
    assert [one.stop for one in (decayed, dropped, stopped)] == [None, None, EigenvalueStop()]
    with pytest.raises(UserError, match=r"unknown kind of R-DARTS: 'l1'.* Choose from: l2, drop-path, es"):
        r_darts("l1")


def test_the_command_line_has_all_of_it(archgrad: Any, tmp_path: Path) -> None:
    tiny = ["--channels", 2, "--cells", 1, "--limit", 48, "--batch-size", 12, "--threads", 1, "--epochs", 1]
    knobs = {"supernet.drop_path": 0.2, "supernet.skip_dropout": 0.4, "weights.weight_decay_end": 0.0027}
    settings = [part for path, value in knobs.items() for part in ("--set", f"{path}={value}")]
    archgrad.run("search", *tiny, "--method", "darts", *settings, "--out", "run")
    saved = read_config(Path("run/config.toml"))
    assert {path: saved["settings"][path] for path in knobs} == knobs
    archgrad.run("resume", "run")
    config = SearchConfig(**saved)
    (tmp_path / "again.toml").write_text(config_to_toml(config))
    assert SearchConfig(**read_config(tmp_path / "again.toml")) == config
    method = method_of(config)
    assert method.supernet_options(space_of(config)).skip_dropout == 0.4
    assert training_of(config, space_of(config), method).weight_decay_end == 0.0027


def test_what_is_left_out_is_saved_as_none(archgrad: Any) -> None:
    tiny = ["--channels", 2, "--cells", 1, "--limit", 48, "--batch-size", 12, "--threads", 1, "--epochs", 1]
    archgrad.run("search", *tiny, "--method", "darts", "--out", "run")
    saved = read_config(Path("run/config.toml"))
    for path in ("supernet.drop_path", "supernet.skip_dropout", "weights.weight_decay_end"):
        assert saved["settings"][path] == "none"
    config = SearchConfig(**saved)
    assert method_of(config).supernet == ag.SupernetOptions()
    assert training_of(config, SPACE, darts()).weight_decay_end is None
