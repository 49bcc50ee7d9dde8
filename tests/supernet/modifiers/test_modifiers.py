"""What each modifier gives to the supernet's forward pass, for which purpose, and when."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from spying import spied

import archgrad as ag
from archgrad.regularizers import AuxiliarySkip, Regularizer
from archgrad.supernet import Modifier, Purpose, SearchTime, SupernetOptions, merge_arguments
from archgrad.supernet.modifiers import AuxiliaryLoss, DropPath, SkipDropout

TIME = SearchTime(epoch=2, epochs=8, warmup_epochs=1, progress=0.25)


@pytest.mark.parametrize(
    ("member", "training", "architecture", "evaluation"),
    [
        (DropPath(0.4), {"drop_path": 0.1}, {}, {}),
        (SkipDropout(0.5), *[{"skip_dropout": 0.5 * math.exp(-0.2)}] * 2, {}),
        (AuxiliaryLoss(0.4), {"auxiliary": True}, {}, {}),
        (AuxiliarySkip(), *[{"skip": 0.75}] * 3),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Modifier) else "",
)
def test_each_has_its_purposes(member: Modifier, training: Any, architecture: Any, evaluation: Any) -> None:
    expected: dict[Purpose, Any] = {"training": training, "architecture": architecture, "evaluation": evaluation}
    for purpose, arguments in expected.items():
        assert merge_arguments([member], purpose, TIME) == pytest.approx(arguments)


def test_options_make_their_modifiers() -> None:
    options = SupernetOptions(drop_path=0.4, skip_dropout=0.5, auxiliary_head=0.3)
    assert set(merge_arguments(options.modifiers, "training", TIME)) == {"drop_path", "skip_dropout", "auxiliary"}
    assert set(merge_arguments(options.modifiers, "architecture", TIME)) == {"skip_dropout"}


def test_the_auxiliary_loss_is_weighed() -> None:
    logits, labels = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0])

    def loss(outputs: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(outputs, labels)

    assert torch.equal(AuxiliaryLoss(0.4).loss_term([logits], loss), 0.4 * loss(logits))
    assert Modifier().loss_term([logits], loss) is None


def test_the_loop_passes_on_what_a_modifier_of_ones_own_says(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Constant(Modifier):
        def arguments(self, purpose: Purpose, time: SearchTime) -> Mapping[str, Any]:
            return {"drop_path": 0.3 if purpose == "architecture" else 0.0}

    class Brings(Regularizer):
        @property
        def modifiers(self) -> tuple[Modifier, ...]:
            return (Constant(),)

    given = spied(monkeypatch, ag.supernet.Supernet, "forward", lambda *args, **extra: extra.get("drop_path", 0.0))
    method = replace(ag.recipes.darts(), regularizers=(Brings(),))
    space, data = ag.spaces.NASBench201(channels=2, cells_per_stage=1), ag.data.digits(limit=48)
    ag.search(space, method, data, epochs=1, batch_size=12, held_out=0, standard_callbacks=False)
    assert given == [0.3, 0.0, 0.3, 0.0]  # α, then w, in two steps
