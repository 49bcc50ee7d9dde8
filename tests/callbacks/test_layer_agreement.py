"""What the cells want, each for itself: against the definitions, and in a real search."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from experiments import experiment_of
from listening import Event, StepFinished, listening
from torch import Tensor

import archgrad as ag
from archgrad.arch_optimizers import Fixed
from archgrad.callbacks import Callback, LayerAgreement, SearchView
from archgrad.config import SearchConfig
from archgrad.errors import SearchInterrupted
from archgrad.regularizers.gradient_alignment import aligned_blocks, alignment
from archgrad.relaxations import Uniform
from archgrad.training.schedule import Schedule

DATA = ag.data.digits(limit=64)
TINY = ag.spaces.NASBench201(channels=2, cells_per_stage=1)
MEASURES = ("alignment", "sign_alignment")
WISHES = ("skip_gradient_first", "skip_gradient_last", "conv_gradient_first", "conv_gradient_last")


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_gradients_are_of_the_first_and_the_last_third_of_the_cells() -> None:
    space = ag.spaces.NASBench201(channels=2, cells_per_stage=2)  # six cells: two are a third
    slopes = randn(6, 6, 5)
    found = LayerAgreement().measure_gradients(space.searched_blocks(), {"cell": slopes})
    choices = space.blocks[0].rows[0].choices
    for kind, choice in (("skip", "skip_connect"), ("conv", "nor_conv_3x3")):
        by_cell = slopes[:, :, choices.index(choice)].double().mean(1)
        assert found[f"{kind}_gradient_first"] == pytest.approx((by_cell[0] + by_cell[1]).item())
        assert found[f"{kind}_gradient_last"] == pytest.approx((by_cell[4] + by_cell[5]).item())
    assert found["alignment"] == pytest.approx(alignment({"cell": slopes}, space.blocks, "cosine").item())
    assert found["sign_alignment"] == pytest.approx(alignment({"cell": slopes}, space.blocks, "sign").item())


def test_rows_without_a_skip_connection_have_no_part_in_its_mean() -> None:
    space = ag.spaces.S1(channels=2, cells=4)
    normal = space.block("normal")
    slopes = {block.name: randn(block.cells, *block.shape) for block in space.blocks}
    places = [
        (r, row.choices.index("skip_connect")) for r, row in enumerate(normal.rows) if "skip_connect" in row.choices
    ]
    expected = torch.stack([slopes["normal"][0, row, choice] for row, choice in places]).mean().item()
    found = LayerAgreement().measure_gradients(space.searched_blocks(), slopes)
    assert len(places) < len(normal.rows)
    assert found["skip_gradient_first"] == pytest.approx(expected, rel=1e-5)


def test_a_space_without_shared_cells_or_skips_measures_less() -> None:
    alone = ag.spaces.AmendedA2(channels=2, cells=3)
    assert (
        LayerAgreement().measure_gradients(
            alone.searched_blocks(), {block.name: randn(1, *block.shape) for block in alone.blocks}
        )
        == {}
    )
    noise = ag.spaces.S4(channels=2, cells=4)
    found = LayerAgreement().measure_gradients(
        noise.searched_blocks(), {block.name: randn(block.cells, *block.shape) for block in noise.blocks}
    )
    assert set(found) == {"alignment", "sign_alignment", "conv_gradient_first", "conv_gradient_last"}


def searched(method: ag.Method, **settings: Any) -> ag.SearchResult:
    return ag.search(TINY, method, DATA, epochs=2, batch_size=16, seed=0, **settings)


@pytest.mark.parametrize("name", ["darts", "darts-2nd", "gaea", "gaea-simultaneous", "gdas", "pc-darts", "xnas"])
def test_every_search_logs_them_in_every_epoch(name: str) -> None:
    method = ag.recipes.named(name)
    space = ag.spaces.NASBench201(channels=4, cells_per_stage=1)
    schedule = replace(method.schedule, warmup_epochs=0)
    method = replace(method, schedule=schedule)
    result = ag.search(space, method, DATA, epochs=2, batch_size=16, seed=0)
    for record in result.history:
        assert {*MEASURES, *WISHES, "movement", "skip_share", "skip_weight", "entropy"} <= set(record)
        assert all(-1 <= record[measure] <= 1 for measure in MEASURES)


def test_what_is_logged_is_the_mean_over_the_gradients_that_moved_the_architecture() -> None:
    method = ag.recipes.darts()
    states: list[dict[str, Tensor]] = []

    class Keep(LayerAgreement):
        def measure_gradients(self, blocks: Any, slopes: Any) -> dict[str, float]:
            states.append(dict(slopes))
            return super().measure_gradients(blocks, slopes)

    result = searched(method, standard_callbacks=False, callbacks=[Keep()])
    steps = len(states) // 2
    values = [alignment(slopes, aligned_blocks(TINY.searched_blocks()), "cosine").item() for slopes in states]
    assert steps > 1
    assert result.history[0]["alignment"] == pytest.approx(sum(values[:steps]) / steps)
    assert result.history[1]["alignment"] == pytest.approx(sum(values[steps:]) / steps)


def kept_gradients(order: int = 1, **knobs: Any) -> tuple[list[float], list[ag.callbacks.Record]]:
    """Return the gradient of the skip connections in the last cell, step by step, and the records."""
    seen: list[float] = []

    class Keep(LayerAgreement):
        def measure_gradients(self, blocks: Any, slopes: Any) -> dict[str, float]:
            found = super().measure_gradients(blocks, slopes)
            seen.append(found["skip_gradient_last"])
            return found

    return seen, searched(ag.recipes.darts(order), standard_callbacks=False, callbacks=[Keep(**knobs)]).history


def test_the_gradients_of_fig_2_are_exponential_averages_over_all_steps() -> None:
    for knobs, decay in (({}, 0.999), ({"decay": 0.5}, 0.5), ({"decay": 0.0}, 0.0)):
        seen, history = kept_gradients(**knobs)
        for epoch, record in enumerate(history, start=1):
            steps = seen[: epoch * len(seen) // 2]
            average = 0.0
            for value in steps:
                average = decay * average + (1 - decay) * value
            assert record["skip_gradient_last"] == pytest.approx(average / (1 - decay ** len(steps)), rel=1e-9)


def test_a_gradient_that_is_measured_now_and_then_stands_for_the_steps_between() -> None:
    """So that DARTS of second order averages over as many steps as that of first order."""
    (first, second), (_, record) = kept_gradients(order=2, every=2, decay=0.5)
    kept = 0.5**2
    assert record["skip_gradient_last"] == pytest.approx((kept * first + second) / (kept + 1), rel=1e-9)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_search_that_is_interrupted_in_an_epoch_goes_on_with_the_same_averages(tmp_path: Path, steps: int) -> None:
    class Interrupt(Callback):
        def on_step_end(self, search: SearchView, means: Any) -> None:
            if search.index == steps:
                signal.raise_signal(signal.SIGINT)

    whole = searched(ag.recipes.darts(), out=tmp_path / "whole").history
    with pytest.raises(SearchInterrupted):
        searched(ag.recipes.darts(), callbacks=[Interrupt()], out=tmp_path / "cut", interruptible=True)
    resumed = searched(ag.recipes.darts(), out=tmp_path / "cut", resume=True).history
    assert [{**record, "seconds": 0} for record in resumed] == [{**record, "seconds": 0} for record in whole]


def test_the_gradients_measured_are_those_of_the_outer_loss() -> None:
    from archgrad.loop.loaders import StepBatches

    setup = experiment_of(TINY, ag.recipes.darts(), DATA, SearchConfig(epochs=2, batch_size=16, seed=0))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        state = setup.initial_state()
    batches, stepper = StepBatches(setup.weight_loader, setup.arch_loader, 0), setup.stepper(state)
    mixture = {"cell": state.alpha["cell"].softmax(-1).repeat(3, 1, 1).requires_grad_()}
    batch = batches.outer()
    F.cross_entropy(state.supernet(batch.inputs, mixture), batch.targets).backward()
    at_rest = stepper.mixture_gradients(state, batches)["cell"]
    moved = stepper.architecture_step(state, batches).mixture_gradients["cell"]
    torch.testing.assert_close(moved, mixture["cell"].grad)
    torch.testing.assert_close(at_rest, mixture["cell"].grad)


def test_they_are_measured_in_a_warm_up_but_not_where_nothing_ever_moves() -> None:
    warm = replace(ag.recipes.darts(), schedule=Schedule(warmup_epochs=1))
    first, second = searched(warm).history
    assert set(MEASURES) <= set(first)
    assert set(MEASURES) <= set(second)
    fixed = replace(ag.recipes.darts(), relaxation=Uniform(), arch_optimizer=Fixed())
    assert not set(MEASURES) & set(searched(fixed).history[0])


def test_measuring_changes_no_bit_of_the_search() -> None:
    for method in (ag.recipes.darts(), ag.recipes.darts(order=2), ag.recipes.gaea(updates="simultaneous")):
        with_it, without = searched(method), searched(method, standard_callbacks=False)
        assert all(torch.equal(with_it.alpha[name], value) for name, value in without.alpha.items())


def test_at_rest_the_gradient_is_computed_only_now_and_then() -> None:
    counted: list[int] = []

    class Rare(LayerAgreement):
        def measure_gradients(self, blocks: Any, slopes: Any) -> dict[str, float]:
            counted.append(1)
            return {}

    seen: list[Event] = []
    warm = replace(ag.recipes.darts(), schedule=Schedule(warmup_epochs=1))
    searched(warm, standard_callbacks=False, callbacks=[Rare(every=2), *listening(seen.append)])
    steps = sum(isinstance(event, StepFinished) for event in seen) // 2
    assert len(counted) == -(-steps // 2) + steps


def test_movement_is_the_sum_of_changes_since_the_beginning() -> None:
    result = searched(ag.recipes.gaea())
    start = torch.full((6, 5), 0.2)
    assert result.history[-1]["movement"] == pytest.approx((result.alpha["cell"] - start).abs().sum().item(), rel=1e-5)
