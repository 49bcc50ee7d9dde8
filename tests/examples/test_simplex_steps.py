from __future__ import annotations

import importlib.util
import math
from pathlib import Path

PATH = Path(__file__).parents[2] / "examples" / "simplex_steps.py"


def test_entropy_needs_log_k_steps_where_euclid_needs_k(capsys):
    """Step sizes ε/G² of the theory, with G² = ‖g‖∞² = 1 and ‖g‖₂² = k − 1 (Beck & Teboulle, 2003; GAEA, Section 3.1).

    The theory promises 2·D(x*‖x)·G²/ε² steps, with D = log k and ½(1 − 1/k).
    """
    specification = importlib.util.spec_from_file_location("simplex_steps", PATH)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    found, sizes, accuracy = module.main(), module.SIZES, module.ACCURACY
    assert capsys.readouterr().out.splitlines()[0].split() == ["choices", *map(str, sizes)]
    entropy, euclid = found["entropy"], found["euclidean"]
    for k, fast, slow in zip(sizes, entropy, euclid, strict=True):
        assert fast <= 2 * math.log(k) / accuracy**2
        assert slow <= (1 - 1 / k) * (k - 1) / accuracy**2
    by_log = [count / math.log(k) for count, k in zip(entropy, sizes, strict=True)]
    by_size = [count / (k - 1) for count, k in zip(euclid, sizes, strict=True)]
    assert max(by_log) < 1.6 * min(by_log)
    assert max(by_size) < 1.6 * min(by_size)
    growth = [math.log(counts[-1] / counts[0]) / math.log(sizes[-1] / sizes[0]) for counts in (entropy, euclid)]
    assert growth[0] < 0.35
    assert growth[1] > 0.9
