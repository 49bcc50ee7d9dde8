from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from same_bits import assert_same, stopping_at
from tiny_space import Tiny
from torch import Tensor

import archgrad as ag
from archgrad.errors import SearchInterrupted
from archgrad.regularizers import AdversarialPerturbation, PerturbStep, RandomPerturbation
from archgrad.regularizers.random_perturbation import draw_noise
from archgrad.spaces import DecisionBlock, Row
from archgrad.spaces.nasbench201 import NASBench201

SHAPES = {"cell": (3, 200, 5), "other": (1, 100, 4)}


def blocks_of(mixture: dict[str, Tensor]) -> tuple[DecisionBlock, ...]:
    """Blocks of these shapes; those named after another weigh its edges."""
    return tuple(
        DecisionBlock(
            name,
            value.shape[0],
            tuple(Row(1, source, tuple(map(str, range(value.shape[-1])))) for source in range(value.shape[-2])),
            kind="edge" if name.endswith(".edges") else "operation",
        )
        for name, value in mixture.items()
    )


def step_of(mixture: dict[str, Tensor], progress: float = 0.5, seed: int = 0) -> PerturbStep:
    def never(_: dict[str, Tensor]) -> Tensor:
        raise AssertionError("evaluated the loss")

    return PerturbStep(blocks_of(mixture), mixture, never, progress, torch.Generator().manual_seed(seed))


def uniform_mixture(dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    return {name: torch.full(shape, 1 / shape[-1], dtype=dtype) for name, shape in SHAPES.items()}


def noise_of(progress: float, seed: int, member: RandomPerturbation | None = None) -> dict[str, Tensor]:
    """Return what is added before the mixture is made one again."""
    step = step_of(uniform_mixture(), progress, seed)
    radius = (member or RandomPerturbation()).radius(progress)
    return {name: value.expand(SHAPES[name]) for name, value in draw_noise(step, radius).items()}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("progress", "radius"), [(0.0, 0.03), (0.25, 0.0975), (0.5, 0.165), (1.0, 0.3)])
def test_noise_is_uniform_in_a_ball_that_grows_linearly(progress: float, radius: float, seed: int) -> None:
    for noise in noise_of(progress, seed).values():
        values = noise[0].flatten() / radius
        assert values.abs().max() <= 1 + 1e-12
        assert values.abs().max() > 0.98
        assert abs(values.mean()) < 4 / (3 * len(values)) ** 0.5
        assert abs(values.square().mean() - 1 / 3) < 4 * (4 / 45 / len(values)) ** 0.5
        counts = torch.histc(values, bins=10, min=-1, max=1)
        assert ((counts - len(values) / 10).square() / (len(values) / 10)).sum() < 33.7  # chi-squared of 9, 1 in 10,000


@pytest.mark.parametrize("progress", [0.0, 0.5, 1.0])
def test_what_the_weights_see_is_clamped_and_normalized(progress: float) -> None:
    mixture = uniform_mixture()
    seen, noise = RandomPerturbation().perturb(step_of(mixture, progress, 3)), noise_of(progress, 3)
    for name, value in mixture.items():
        expected = (value + noise[name]).clamp(0, 1)
        torch.testing.assert_close(seen[name], expected / expected.sum(-1, keepdim=True))
        assert (seen[name] >= 0).all()
        torch.testing.assert_close(seen[name].sum(-1), torch.ones_like(seen[name].sum(-1)))


def test_a_row_of_which_nothing_is_left_becomes_its_largest_choice() -> None:
    mixture = {"cell": torch.full((1, 400, 3), 1 / 3, dtype=torch.float64)}
    member = RandomPerturbation(2.0, 2.0)  # all three fall below 0 in one row of fourteen
    seen, noise = member.perturb(step_of(mixture))["cell"][0], draw_noise(step_of(mixture), 2.0)["cell"]
    gone = (mixture["cell"][0] + noise).max(-1).values <= 0
    assert gone.sum() > 5
    assert torch.equal(seen[gone].argmax(-1), noise[gone].argmax(-1))
    assert torch.equal(seen[gone].max(-1).values, torch.ones_like(seen[gone, 0]))


def test_all_cells_share_the_noise_and_blocks_do_not() -> None:
    noise = noise_of(0.5, 1)
    assert torch.equal(noise["cell"][0], noise["cell"][1])
    assert torch.equal(noise["cell"][0], noise["cell"][2])
    assert not torch.allclose(noise["cell"][0, :100, :4], noise["other"][0])


def test_edge_weights_are_left_alone_and_do_not_move_the_noise_of_operations() -> None:
    edges = torch.full((3, 10, 4), 0.25, dtype=torch.float64)
    mixture = uniform_mixture()
    plain = RandomPerturbation().perturb(step_of(mixture))
    seen = RandomPerturbation().perturb(step_of({"cell": mixture["cell"], "cell.edges": edges, **mixture}))
    assert seen["cell.edges"] is edges
    assert torch.equal(seen["cell"], plain["cell"])
    assert torch.equal(seen["other"], plain["other"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_mixture_keeps_its_precision_and_each_image_its_own(dtype: torch.dtype) -> None:
    mixture = uniform_mixture(dtype)
    seen = RandomPerturbation().perturb(step_of(mixture))
    assert {value.dtype for value in seen.values()} == {dtype}
    of_images = {name: value[:, None].expand(-1, 2, -1, -1) for name, value in mixture.items()}
    each = RandomPerturbation().perturb(step_of(of_images))
    assert all(torch.equal(each[name][:, n], seen[name]) for name in seen for n in range(2))


class Ragged(NASBench201):
    """Edges that offer one operation less each, so that the mixture has entries that do not exist."""

    @property
    def blocks(self) -> tuple[DecisionBlock, ...]:
        (block,) = super().blocks
        rows = [Row(row.target, row.source, row.choices[n % 3 :]) for n, row in enumerate(block.rows)]
        return (replace(block, rows=tuple(rows)),)


def test_entries_that_do_not_exist_change_nothing() -> None:
    torch.manual_seed(0)
    space = Ragged(channels=2, cells_per_stage=1)
    (block,), net, images = space.blocks, space.supernet(), torch.randn(4, 3, 8, 8)
    mixture = {"cell": (block.mask / block.mask.sum(-1, keepdim=True)).expand(3, -1, -1)}
    step = replace(step_of(mixture), blocks=(block,))
    seen = RandomPerturbation().perturb(step)
    assert torch.equal(seen["cell"], seen["cell"] * block.mask)
    assert not torch.equal(net(images, seen), net(images, mixture))


STOPPED: dict[str, ag.Method] = {
    **{name: ag.recipes.named(name) for name in ("sdarts-rs", "sdarts-adv", "beta-darts", "darts-minus")},
    "both, simultaneous": replace(
        ag.recipes.named("gaea-simultaneous"), regularizers=(AdversarialPerturbation(steps=2), RandomPerturbation())
    ),
}


@pytest.mark.parametrize("method", STOPPED.values(), ids=STOPPED)
def test_a_stabilized_search_that_was_stopped_goes_on_to_the_same_bits(method: ag.Method, tmp_path: Path) -> None:
    space, images = Tiny(channels=2, cells_per_stage=1), 40 if method.schedule.level == "bilevel" else 20
    settings: dict[str, Any] = {"epochs": 2, "batch_size": 10, "seed": 2, "held_out": 0, "standard_callbacks": False}
    data = ag.data.digits(limit=images)
    whole = ag.search(space, method, data, **settings)
    with pytest.raises(SearchInterrupted, match="continue with"):
        ag.search(space, method, data, out=tmp_path, interruptible=True, callbacks=stopping_at(3), **settings)
    resumed = ag.search(space, method, data, out=tmp_path, resume=True, **settings)
    assert_same(whole, resumed)
