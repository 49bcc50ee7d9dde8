"""What each search without gradients does with the values that it is told."""

from __future__ import annotations

from itertools import islice

import pytest
from tiny_space import Tiny
from varied_spaces import VARIED_SPACES

from archgrad.blackbox import BOHB, Problem, RegularizedEvolution, Reinforce, ZeroCost, run_blackbox
from archgrad.blackbox.evolution import mutated
from archgrad.data import load
from archgrad.spaces import SPACES, Genotype


def decisions(genotype: Genotype) -> set[object]:
    return {(name, decision) for name, cell in genotype.blocks for decision in cell}


def test_evolution_lets_the_oldest_die_even_if_it_is_the_best() -> None:
    proposals = RegularizedEvolution(population=1, sample=1).proposals(Problem(Tiny(), "digits"))
    parent = next(proposals)
    for value in range(10, 0, -1):  # every child is worse than its parent, and still takes its place
        child = proposals.send(float(value))
        assert len(decisions(child) - decisions(parent)) == 1
        parent = child


def test_evolution_mutates_the_best_of_the_tournament() -> None:
    proposals = RegularizedEvolution(population=3, sample=100).proposals(Problem(Tiny(), "digits", seed=5))
    first, second, third = next(proposals), proposals.send(1.0), proposals.send(5.0)
    assert len({first, second, third}) == 3
    assert len(decisions(proposals.send(2.0)) - decisions(second)) == 1


@pytest.mark.parametrize("name", VARIED_SPACES)
def test_a_mutation_stays_in_its_space(name: str) -> None:
    problem = Problem(SPACES.create(name), "digits")
    draws = problem.stream("draw")
    parent = problem.draw(draws)
    child = mutated(problem, parent, draws)
    problem.space.check(child)
    assert child != parent


def test_reinforce_learns_what_is_rewarded() -> None:
    proposals = Reinforce(lr=0.1).proposals(Problem(Tiny(), "digits"))
    genotype, shares = next(proposals), []
    for _ in range(200):
        shares.append(genotype.count("conv") / 3)
        genotype = proposals.send(shares[-1])
    assert sum(shares[:20]) / 20 < 0.6
    assert sum(shares[-20:]) / 20 > 0.9


def test_bohb_trains_the_best_third_again() -> None:
    proposals = BOHB().proposals(Problem(Tiny(), "digits", seed=1))
    seen, values = [next(proposals)], [3.0, 9.0, 1.0, 7.0, 2.0, 8.0, 4.0, 5.0, 6.0, 8.5, 9.5, 7.5]
    seen += [proposals.send(value) for value in values]
    assert seen[9:12] == [seen[1], seen[5], seen[3]]
    assert seen[12] == seen[5]  # 9.5 is the best of the second rung


def test_bohb_has_the_brackets_of_hyperband() -> None:
    assert BOHB(rungs=1).brackets() == [(1,)]
    assert BOHB(rungs=4).brackets()[0] == (27, 9, 3, 1)


def test_zero_cost_can_score_the_whole_space() -> None:
    space, images = Tiny(channels=2, cells_per_stage=1), load("digits", limit=20)
    every = run_blackbox(ZeroCost("params", samples=None, batch_size=2), space, images)
    assert every.queries == 27
    assert every.genotype.count("conv") == 3
    few = run_blackbox(ZeroCost("params", samples=3, batch_size=2), space, images)
    problem = Problem(space, images)
    draws = problem.stream("draw")
    drawn = [problem.draw(draws) for _ in range(3)]
    assert few.genotype == max(drawn, key=lambda one: one.count("conv"))


def test_a_score_is_that_of_the_same_weights_for_every_query() -> None:
    search, problem = ZeroCost("snip", batch_size=4), Problem(Tiny(channels=2, cells_per_stage=1), load("digits"))
    value = search.objective(problem).value
    one, other = islice((problem.draw(problem.stream(name)) for name in ("a", "b")), 2)
    assert value(one) == value(one) != value(other)
