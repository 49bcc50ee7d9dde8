from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import torch

from archgrad.bilevel.problem import BilevelProblem
from archgrad.hypergradients import ConjugateGradient
from archgrad.system.warn_once import forget_warnings, warn_once

LOG = logging.getLogger("archgrad.tests")


@pytest.fixture(autouse=True)
def _nothing_was_said() -> Iterator[None]:
    forget_warnings()
    yield
    forget_warnings()


def test_a_warning_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    for value in (1, 2, 3):
        warn_once(LOG, "the value is %d.", value)
    assert caplog.messages == ["the value is 1."]
    assert caplog.records[0].levelno == logging.WARNING


def test_other_words_and_other_loggers_are_other_warnings(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        warn_once(LOG, "one.")
        warn_once(LOG, "two.")
        warn_once(LOG.getChild("child"), "one.")
    assert caplog.messages == ["one.", "two.", "one."]


def test_what_is_forgotten_is_said_again(caplog: pytest.LogCaptureFixture) -> None:
    warn_once(LOG, "again.")
    forget_warnings()
    warn_once(LOG, "again.")
    assert caplog.messages == ["again.", "again."]


def negative_curvature(curvature: float) -> BilevelProblem:
    return BilevelProblem(
        inner=lambda w, a, x: 0.5 * curvature * w["w"].square().sum() + (w["w"] * a["a"]).sum(),
        outer=lambda w, a, x: (w["w"] + a["a"]).square().sum(),
    )


POINT = {"w": torch.tensor([1.0, 2.0])}, {"a": torch.tensor([0.5, 0.5])}, None, None


def test_conjugate_gradient_warns_once_of_negative_curvature(caplog: pytest.LogCaptureFixture) -> None:
    for curvature in (-3.0, -4.0):
        ConjugateGradient()(negative_curvature(curvature), *POINT)
    assert caplog.messages == [
        "conjugate gradient met a curvature of -3 in the inner Hessian and stopped early; "
        "a damping above 3 would let it go on."
    ]
    forget_warnings()
    ConjugateGradient(damping=1.0)(negative_curvature(-4.0), *POINT)
    assert caplog.messages[1:] == [
        "conjugate gradient met a curvature of -4 in the inner Hessian and stopped early; "
        "a damping above 4 would let it go on."
    ]


def test_conjugate_gradient_has_nothing_to_say_where_the_damping_is_enough(caplog: pytest.LogCaptureFixture) -> None:
    ConjugateGradient(damping=3.5)(negative_curvature(-3.0), *POINT)
    assert not caplog.messages
