from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

import archgrad as ag

EXAMPLE = Path(__file__).parents[2] / "examples" / "tune_regularization.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def test_a_strength_per_feature_beats_the_grid_on_held_out_data(
    example: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = example["main"](splits=6)
    grid, tuned = torch.tensor([outcome[:2] for outcome in outcomes]).T
    assert (grid - tuned).mean() > 0.004
    assert (tuned < grid).sum() >= 4
    printed = capsys.readouterr().out.splitlines()
    assert f"{outcomes[0].tuned:.4f}" in printed[2]
    assert printed[-1].endswith(f"in {(tuned < grid).sum()} of 6")


def test_the_hypergradient_is_the_slope_of_the_validation_loss(example: dict[str, Any]) -> None:
    train, valid, _ = example["split"](0)
    solve, log_loss = example["solve"], example["log_loss"]
    log_l2 = torch.linspace(-6, -3, 30, dtype=torch.float64)
    problem = ag.BilevelProblem(example["inner"], lambda w, a, part: log_loss(w, part))
    hypergradient = ag.hypergradients.ConjugateGradient(steps=31)
    found = hypergradient(problem, solve(log_l2, train), {"log_l2": log_l2}, train, valid)["log_l2"]
    for feature in (0, 20, 29):
        step = torch.zeros_like(log_l2)
        step[feature] = 1e-3
        ahead, behind = (log_loss(solve(log_l2 + sign * step, train), valid) for sign in (1, -1))
        assert found[feature].item() == pytest.approx(((ahead - behind) / 2e-3).item(), rel=1e-3, abs=1e-7)


def test_the_parts_share_no_sample(example: dict[str, Any]) -> None:
    parts = example["split"](3)
    assert [len(part.y) for part in parts] == [70, 330, 169]
    assert len(torch.cat([part.x for part in parts]).unique(dim=0)) == 569


def test_a_problem_without_an_optimum_is_explained(example: dict[str, Any]) -> None:
    train, _, _ = example["split"](0)
    with pytest.raises(RuntimeError, match="did not converge; are the strengths finite"):
        example["solve"](torch.full((30,), torch.nan, dtype=torch.float64), train)
