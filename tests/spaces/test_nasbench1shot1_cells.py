"""All cells of the spaces of NAS-Bench-1Shot1, counted by four rules."""

from __future__ import annotations

from itertools import permutations

import pytest
from reference.nasbench1shot1_cells import count, pruned_modules

from archgrad.spaces.nasbench1shot1 import NASBench1Shot1
from archgrad.spaces.nasbench101 import CONV1X1, CONV3X3, Module

SIZES = {
    "all": (14_580, 29_160, 1_312_200),
    "read": (6_240, 16_632, 363_648),
    "pruned": (3_288, 11_826, 118_524),
    "distinct": (2_685, 7_773),
}


@pytest.mark.parametrize(
    ("rule", "which", "size"),
    [(rule, which, size) for rule, sizes in SIZES.items() for which, size in enumerate(sizes, start=1)],
)
def test_the_sizes_of_the_spaces(rule: str, which: int, size: int) -> None:
    assert count(NASBench1Shot1(number=which), rule) == size


def test_the_published_sizes_are_by_two_rules() -> None:
    assert (SIZES["read"][0], SIZES["all"][1], SIZES["read"][2]) == (6_240, 29_160, 363_648)


def smallest_form(module: Module) -> tuple[object, ...]:
    """The first of all orders of the interior vertices: the same for isomorphic modules and for no others."""
    last = module.vertices - 1
    return min(
        (
            tuple(tuple(module.matrix[i][j] for j in (0, *order, last)) for i in (0, *order, last)),
            tuple(module.operations[i] for i in order),
        )
        for order in permutations(range(1, last))
    )


def test_the_hash_tells_apart_what_is_not_isomorphic_and_nothing_else() -> None:
    space = NASBench1Shot1(number=1).restricted({"operations": [(CONV3X3, CONV1X1)] * 4})
    modules = [Module(*module) for module in pruned_modules(space)]
    forms = [smallest_form(module) for module in modules]
    assert len(set(forms)) == len({(form, module.hash) for form, module in zip(forms, modules, strict=True)})
    assert len(set(forms)) == count(space, "distinct")
