from __future__ import annotations

import importlib.util
from pathlib import Path

PATH = Path(__file__).parents[2] / "examples" / "frozen_kinks.py"


def test_frozen_differences_are_right_where_crossing_ones_are_not(capsys):
    specification = importlib.util.spec_from_file_location("frozen_kinks", PATH)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    rows = dict(zip(module.RADII, module.main(), strict=True))
    assert "across the kinks" in capsys.readouterr().out
    assert all(crossing < 0.95 for crossing, _ in rows.values())
    assert all(frozen > 0.999 for _, frozen in rows.values())
    assert rows[0.01][1] > 0.99999
