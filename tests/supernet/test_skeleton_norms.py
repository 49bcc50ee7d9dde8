"""Batch norms have affine parameters in the skeleton and none inside cells, as in the published search code."""

from __future__ import annotations

import pytest
from torch import nn

from archgrad.spaces import SPACES

NB201 = {"stem.1", "layers.1.first.norm", "layers.1.second.norm", "layers.3.first.norm", "layers.3.second.norm", "norm"}
DARTS, ONE_SHOT = {"stem.1"}, {"stem.1"}
AMENDED = {"stem.1", "auxiliary.features.1", "auxiliary.features.4"}


@pytest.mark.parametrize(
    ("name", "sizes", "expected"),
    [
        ("nasbench201", {"cells_per_stage": 1}, NB201),
        ("darts", {"cells": 3}, DARTS),
        ("s2", {"cells": 3}, DARTS),
        ("amended-a1", {"cells": 3}, AMENDED),
        ("nasbench1shot1-1", {"cells": 3}, ONE_SHOT),
    ],
)
def test_norms_with_affine_parameters_are_those_of_the_skeleton(
    name: str, sizes: dict[str, int], expected: set[str]
) -> None:
    supernet = SPACES.constructor(name)(channels=2, **sizes).supernet()
    norms = {key.removeprefix("body."): one for key, one in supernet.named_modules() if isinstance(one, nn.BatchNorm2d)}
    assert {key for key, norm in norms.items() if norm.affine} == expected
    assert not any(norm.track_running_stats for norm in norms.values())
