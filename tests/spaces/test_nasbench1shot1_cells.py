"""All cells of the spaces of NAS-Bench-1Shot1, counted by four rules."""

from __future__ import annotations

from itertools import permutations

import pytest
from reference.nasbench1shot1_cells import count, genotypes, hashed_modules, hashes, pruned_modules, wirings

from archgrad.errors import UserError
from archgrad.spaces import Genotype, NASBench201
from archgrad.spaces.nasbench1shot1 import NASBench1Shot1
from archgrad.spaces.nasbench101 import CONV1X1, CONV3X3, MAXPOOL3X3, Module, module_of

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


def test_genotypes_are_all_of_the_space_and_all_different() -> None:
    space = NASBench1Shot1(number=1)
    found = list(genotypes(space))
    assert len(set(found)) == len(found) == count(space)
    for genotype in found[::97]:
        space.check(genotype)


@pytest.mark.parametrize(("which", "number"), [(1, 180), (2, 360), (3, 5400)])
def test_wirings_read_earlier_nodes_as_many_as_the_space_says(which: int, number: int) -> None:
    space = NASBench1Shot1(number=which)
    found = list(wirings(space))
    assert len(set(found)) == len(found) == number
    for wiring in found:
        assert tuple(map(len, wiring)) == space.parents
        assert all(int(source) <= node for node, read in enumerate(wiring) for source in read)


def blank_where_unread(genotype: Genotype) -> tuple[object, ...]:
    """The genotype without the operations of nodes that nothing reads."""
    module = module_of(genotype)
    operations = [name if any(row) else None for name, row in zip(module.operations, module.matrix, strict=True)]
    return module.matrix, tuple(operations)


def test_three_rules_agree_with_a_look_at_every_genotype() -> None:
    space = NASBench1Shot1(number=1).restricted({"operations": [(CONV3X3, CONV1X1), (CONV3X3, MAXPOOL3X3)] * 2})
    modules = [module_of(genotype) for genotype in genotypes(space)]
    assert len(modules) == count(space) == 180 * 2**4
    assert len(set(map(blank_where_unread, genotypes(space)))) == count(space, "read")
    assert len({module.pruned() for module in modules}) == count(space, "pruned")
    assert {module.hash for module in modules} == hashes(space)
    assert len(hashes(space)) == count(space, "distinct")


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


def test_each_hash_comes_with_a_pruned_module_that_the_benchmark_holds() -> None:
    for fingerprint, module in hashed_modules(NASBench1Shot1(number=1)):
        assert module.pruned() is module
        assert module.hash == fingerprint
        module.check()


def test_an_unknown_rule_and_a_space_of_another_kind_are_refused() -> None:
    with pytest.raises(UserError, match="unknown rule 'prune'; did you mean 'pruned'"):
        count(NASBench1Shot1(number=1), "prune")
    for rule in SIZES:
        with pytest.raises(UserError, match="the space 'nasbench201' decides cell"):
            count(NASBench201(), rule)
