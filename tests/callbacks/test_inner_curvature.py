from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from archgrad.bilevel.descent import Descent
from archgrad.bilevel.problem import BilevelProblem
from archgrad.callbacks import InnerCurvature
from archgrad.errors import UserError
from archgrad.hypergradients import Neumann, evaluate_at
from archgrad.recipes import darts, idarts
from archgrad.system.warn_once import forget_warnings

SPECTRUM = torch.tensor([-0.5, 0.1, 1.0, 2.0, 8.0], dtype=torch.float64)
Tensors = dict[str, Tensor]


def loss(w: Tensors, a: Tensors, batch: None) -> Tensor:
    return 0.5 * (SPECTRUM * w["w"] ** 2).sum() + (a["a"] * w["w"]).sum()


def measured(neumann: Neumann, descent: Descent | None = None) -> dict[str, float]:
    weights, alpha = {"w": torch.ones(5, dtype=torch.float64)}, {"a": torch.ones(5, dtype=torch.float64)}
    with evaluate_at(BilevelProblem(loss, loss), weights, alpha, None, None, descent) as point:
        return InnerCurvature(neumann.lr, products="exact").measure_point(point)


@pytest.fixture(autouse=True)
def _nothing_said() -> None:
    forget_warnings()


def test_the_ends_of_the_spectrum_and_the_contraction_are_found() -> None:
    found = measured(Neumann(2, lr=0.1))
    assert found["lambda_max"] == pytest.approx(8.0)
    assert found["lambda_min"] == pytest.approx(-0.5)
    assert found["contraction"] == pytest.approx(1.05)  # along the negative eigenvalue


def test_the_rate_is_that_of_the_weights_if_the_series_has_none() -> None:
    assert measured(Neumann(2), Descent(lr=0.2))["contraction"] == pytest.approx(1.1)
    assert measured(Neumann(2, "auto"))["contraction"] == pytest.approx(1 + 0.5 / 8)


def test_a_series_that_cannot_converge_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    measured(Neumann(2, lr=0.24))  # 0.24 · 8 < 2
    assert not caplog.messages
    assert measured(Neumann(2, lr=0.5))["contraction"] == pytest.approx(3.0)
    measured(Neumann(2, lr=1.0))
    assert len(caplog.messages) == 1
    assert "cannot converge" in caplog.messages[0]
    assert "The largest safe γ is 0.125" in caplog.messages[0]


def test_only_a_series_is_watched() -> None:
    assert not any(isinstance(part, InnerCurvature) for part in darts().measures)
    assert replace(idarts(), hypergradient=Neumann(3, "auto")).measures[-1] == InnerCurvature("auto")


def test_bad_settings_are_explained() -> None:
    with pytest.raises(UserError, match="every of InnerCurvature is 0"):
        InnerCurvature(every=0)
    with pytest.raises(UserError, match=r"lr of InnerCurvature is 'fast'; .*'auto'"):
        InnerCurvature("fast")
