from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from statistics import mean

import pytest

import archgrad as ag

PATH = Path(__file__).parents[2] / "examples" / "frozen_kinks.py"


@pytest.fixture
def module(monkeypatch):
    specification = importlib.util.spec_from_file_location("frozen_kinks", PATH)
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "frozen_kinks", module)
    specification.loader.exec_module(module)
    return module


def test_frozen_differences_are_right_where_crossing_ones_are_noisy(module, capsys):
    rows = module.print_radii(ag.spaces.NASBench201(channels=8, cells_per_stage=1), ag.data.digits(), 4, (0.01,))
    assert "across the kinks" in capsys.readouterr().out
    assert all(mean(row.crossing) < 0.9 for row in rows.values())
    assert all(min(row.frozen) > 0.999 for row in rows.values())


def test_other_activations_are_frozen_too(module):
    *crossed, of_alpha, of_weights = module.of_activation(module.ACTIVATIONS["ReLU6"], ag.data.digits())
    assert min(crossed) < 0.9
    assert min(of_alpha, of_weights) > 0.9999
