"""The examples of docs/theory.md at their smallest size, and what the page says of them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Run an example with its smallest size; its figure must be there."""

    def main(name):
        specification = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(specification)
        monkeypatch.setitem(sys.modules, name, module)
        specification.loader.exec_module(module)
        found = module.main(["--small", "-o", str(tmp_path / "figure.svg")])
        assert b"<svg" in (tmp_path / "figure.svg").read_bytes()
        assert capsys.readouterr().out
        return found

    return main


def test_a_fixed_number_of_terms_converges_to_a_point_of_its_own(run):
    found = run("theory_idarts")
    errors, bounds = found["theorem 1"]
    assert all(error <= bound for error, bound in zip(errors, bounds, strict=True))
    assert errors[-1] / errors[-2] == pytest.approx(0.9, abs=0.01)  # 1 − γμ
    by_terms = found["inner steps"]
    assert by_terms[60][0] > by_terms[0][0]  # many terms do harm far from w*
    assert by_terms[60][-1] < by_terms[0][-1] / 100
    assert found["corollary 2"][3][-1] < 1e-8 < 0.1 < found["corollary 2"][2][-1]
    assert all(ratios[0] < 0 for ratios in found["lemma 1"].values())
    true = [found["theorem 2"][terms].true[-1] for terms in (0, 2, 10, 60)]
    own = [found["theorem 2"][terms].own[-1] for terms in (0, 2, 10)]
    assert true == sorted(true, reverse=True)
    assert all(10 * mine < theirs for mine, theirs in zip(own, true[:3], strict=True))


def test_the_amending_term_points_against_the_exact_one_where_the_condition_is_bad(run):
    found = run("theory_amended")
    assert found["counterexample"]["exact"] == pytest.approx(-1.75)  # −M·H⁻¹·b = −(2 − 1/4)
    assert found["counterexample"]["amended"] == pytest.approx(0.2)  # −0.1·M·H·b = −0.1·(2 − 4)
    shares = [amended for amended, _ in found["random"][10, 10]]
    assert shares[0] == 0
    assert 0.4 < shares[-1] < 0.6
    assert all(-1 <= one <= 1 for rows in found["convex"].values() for row in rows for one in row)
    assert found["real"][0][0].smallest < 0 < found["real"][0][0].largest


def test_algorithm_1_becomes_stationary_at_its_rate_on_a_loss_that_is_not_convex(run):
    found = run("theory_gaea")
    plain, relative = found["curvatures"]
    gamma = 2 * 2.718281828**-1.5 * (1 + 3 * 0.25)  # three rows, columns of length ½
    assert plain < 0
    assert -gamma <= relative < 0
    for rows in found["rates"].values():
        assert all(measured <= promised for _, measured, promised in rows)
        assert rows[-1][1] < rows[0][1] / 3  # T^(−1/2) would be a quarter
    entropy, euclidean = found["sparse"]["entropy"], found["sparse"]["euclidean"]
    assert euclidean[1][0] > 2 * entropy[1][0]  # 32 choices, at the step sizes of the theory
    assert found["bilinear"] == (0, pytest.approx(1))


def test_proposition_1_holds_for_orthogonal_centered_gradients_and_not_as_it_is_stated(run):
    found = run("theory_lambda")
    assert max(found["holds"]) == 24  # six edges of five operations, less one each
    assert min(found["holds"].values()) >= 1
    assert found["stated"].left == 0 < found["stated"].right
    for cells, (alignment, ratio) in found["cancelling"].items():
        assert alignment == pytest.approx(-1 / (cells - 1))
        assert abs(ratio) < 1e-20
    left, right = zip(*found["saturating"].values(), strict=True)
    assert left[-1] > left[0] / 2
    assert right[-1] < 1e-10 * right[0]
    (run_of_three,) = found["searches"].values()
    assert all(one.sides.left > 0 and 0 <= one.null_share <= 1 for one in run_of_three)
