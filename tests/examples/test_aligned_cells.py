from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

PATH = Path(__file__).parents[2] / "examples" / "aligned_cells.py"


def test_frozen_differences_align_where_crossing_ones_add_noise(capsys, monkeypatch):
    specification = importlib.util.spec_from_file_location("aligned_cells", PATH)
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "aligned_cells", module)
    specification.loader.exec_module(module)
    monkeypatch.setattr(module, "EPS", (1e-4,))
    monkeypatch.setattr(module, "BATCHES", 3)
    rows = module.main()
    assert "cosine" in capsys.readouterr().out
    frozen = [row for (kinks, _, _), row in rows.items() if kinks == "frozen"]
    crossed = [row for (kinks, _, eps), row in rows.items() if kinks == "crossed" and eps == 1e-4]
    assert all(0.95 < length < 1.05 and cosine > 0.99 for length, cosine in frozen)
    assert all(length > 3 and cosine < 0.5 for length, cosine in crossed)
