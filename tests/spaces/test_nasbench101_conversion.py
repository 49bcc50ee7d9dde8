"""Genotypes of NAS-Bench-1Shot1 as modules of NAS-Bench-101, and back."""

from __future__ import annotations

from itertools import islice

import pytest
from reference.nasbench1shot1_cells import hashed_modules, hashes
from test_nasbench101_module import dice, reordered

from archgrad.errors import UserError
from archgrad.spaces import CellGenotype, Decision, Genotype, NASBench201
from archgrad.spaces.nasbench1shot1 import NASBench1Shot1
from archgrad.spaces.nasbench101 import CONV1X1, CONV3X3, INPUT, MAXPOOL3X3, OUTPUT, Module, genotype_of, module_of

every_space = pytest.mark.parametrize("which", [1, 2, 3])


def nodes(**decided: str) -> CellGenotype:
    """Decisions of a block: ``_3="02"`` reads 0 and 2 at node 3."""
    return CellGenotype(
        tuple(Decision(int(at[1:]), None, choice) for at, choices in decided.items() for choice in choices)
    )


FOUR = Genotype.of(
    {
        "operations": CellGenotype(
            tuple(Decision(at, None, name) for at, name in enumerate((CONV3X3, MAXPOOL3X3, CONV1X1, CONV3X3), start=1))
        ),
        "inputs": nodes(_3="02", _4="13"),
        "output": nodes(_5="34"),
    }
)


def some_genotypes(space: NASBench1Shot1, number: int = 40) -> list[Genotype]:
    """Random genotypes of the space."""
    drawing = dice(space.number)
    drawn = []
    for _ in range(number):
        selection = {
            block.name: [
                (at, choice)
                for at, row in enumerate(block.rows)
                for choice in sorted(drawing.sample(range(len(row.choices)), row.picks))
            ]
            for block in space.blocks
        }
        drawn.append(space.genotype(selection))
    return drawn


def test_four_nodes_make_seven_vertices_one_of_them_loose() -> None:
    module = module_of(FOUR)
    assert module.operations == (INPUT, CONV3X3, MAXPOOL3X3, CONV1X1, CONV3X3, CONV1X1, OUTPUT)
    assert module.matrix == (
        (0, 1, 1, 1, 0, 0, 0),
        (0, 0, 1, 0, 1, 0, 0),
        (0, 0, 0, 1, 0, 0, 0),
        (0, 0, 0, 0, 1, 0, 1),
        (0, 0, 0, 0, 0, 0, 1),
        (0, 0, 0, 0, 0, 0, 0),
        (0, 0, 0, 0, 0, 0, 0),
    )
    assert module.edges == 9
    module.check()


@every_space
def test_any_form_of_a_module_gives_a_genotype_of_the_same_hash(which: int) -> None:
    space = NASBench1Shot1(number=which)
    for seed, genotype in enumerate(some_genotypes(space)):
        module = module_of(genotype)
        for form in (module.pruned(), *(reordered(one, dice(seed)) for one in (module, module.pruned()))):
            found = genotype_of(space, form)
            space.check(found)
            assert module_of(found).hash == module.hash


@pytest.mark.parametrize(("home", "other"), [(1, 2), (2, 1)])
def test_a_module_of_another_space_is_refused_unless_it_is_in_both(home: int, other: int) -> None:
    offered = {"operations": [(CONV3X3, CONV1X1)] * 4}
    space, origin = (NASBench1Shot1(number=which).restricted(offered) for which in (other, home))
    shared = hashes(space)
    for fingerprint, module in islice(hashed_modules(origin), 0, None, 7):
        if fingerprint in shared:
            assert module_of(genotype_of(space, module)).hash == fingerprint
        else:
            with pytest.raises(
                UserError, match=f"is not in the space 'nasbench1shot1-{other}': the nodes of the space read"
            ):
                genotype_of(space, module)


def test_nodes_left_over_take_what_is_offered_first() -> None:
    line = Module(((0, 1, 1), (0, 0, 1), (0, 0, 0)), (INPUT, CONV3X3, OUTPUT))
    genotype = genotype_of(NASBench1Shot1(number=1), line)
    assert [decision.choice for decision in genotype["operations"]] == [CONV3X3, *[MAXPOOL3X3] * 3]
    assert genotype["inputs"] == nodes(_3="01", _4="01")
    assert genotype["output"] == nodes(_5="01")
    assert module_of(genotype).hash == line.hash


def test_spaces_of_another_kind_are_refused() -> None:
    with pytest.raises(UserError, match=r"the space 'nasbench201' decides cell; .* operations, inputs, output"):
        genotype_of(NASBench201(), module_of(FOUR))


NO_CELL = r"is not a cell within NAS-Bench-101; .* operations, inputs, output, with 4 or 5 nodes"


def replaced(**blocks: CellGenotype) -> Genotype:
    return Genotype.of(dict(FOUR.blocks) | blocks)


@pytest.mark.parametrize(
    ("genotype", "sentence"),
    [
        (Genotype.of({"cell": CellGenotype(())}), NO_CELL),
        (replaced(operations=CellGenotype((*FOUR["operations"].decisions[:3], Decision(7, None, CONV3X3)))), NO_CELL),
        (replaced(operations=CellGenotype((*FOUR["operations"].decisions[:3], Decision(4, None, "x")))), "'x'"),
        (replaced(output=CellGenotype(())), NO_CELL),
        (replaced(output=nodes(_5="35")), NO_CELL),
        (replaced(inputs=nodes(_3="03")), NO_CELL),
        (replaced(inputs=nodes(_3="x")), NO_CELL),
    ],
)
def test_genotypes_of_another_kind_are_refused(genotype: Genotype, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        module_of(genotype)
