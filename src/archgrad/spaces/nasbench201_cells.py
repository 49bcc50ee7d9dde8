"""The 15,625 cells of NAS-Bench-201 as whole numbers.

A cell chooses one of five operations on each of six edges. Its code is the number whose six digits in base 5 are the
operations, first edge first: ``code = Σ operation_i · 5^(5 - i)``, from 0 to 15,624.
"""

from __future__ import annotations

from functools import cache
from itertools import product

from archgrad.spaces.genotype import CellGenotype, Decision, Genotype
from archgrad.spaces.nasbench201 import NASBench201

__all__ = ["CELLS", "EDGES", "OPERATIONS", "code_of", "codes_by_name", "codes_without", "genotype_of"]

_SPACE = NASBench201()
_ROWS = _SPACE.block("cell").rows

OPERATIONS = _ROWS[0].choices
EDGES = tuple((row.target, row.source) for row in _ROWS)
"""The edges as (target, source), in the order of a cell's digits."""
CELLS: int = len(OPERATIONS) ** len(EDGES)


def code_of(genotype: Genotype | str) -> int:
    """Return the code of a cell; raise a UserError if it is not a NAS-Bench-201 cell."""
    genotype = Genotype.parse(genotype) if isinstance(genotype, str) else genotype
    _SPACE.check(genotype)
    chosen = {(decision.target, decision.source): decision.choice for decision in genotype["cell"]}
    code = 0
    for edge in EDGES:
        code = code * len(OPERATIONS) + OPERATIONS.index(chosen[edge])
    return code


def genotype_of(code: int) -> Genotype:
    """Return the cell with this code."""
    digits = [code // len(OPERATIONS) ** place % len(OPERATIONS) for place in reversed(range(len(EDGES)))]
    decisions = (Decision(*edge, OPERATIONS[digit]) for edge, digit in zip(EDGES, digits, strict=True))
    return Genotype.of({"cell": CellGenotype(tuple(decisions))})


@cache
def codes_without(excluded: tuple[str, ...]) -> tuple[int, ...]:
    """Return the codes of all cells that have none of these operations.

    >>> len(codes_without(("none",)))
    4096
    """
    kept = [place for place, name in enumerate(OPERATIONS) if name not in excluded]
    digits = product(kept, repeat=len(EDGES))
    return tuple(sum(digit * len(OPERATIONS) ** (5 - place) for place, digit in enumerate(one)) for one in digits)


@cache
def codes_by_name() -> dict[str, int]:
    """Return the code of every cell by its NAS-Bench-201 string."""
    cells = product(OPERATIONS, repeat=len(EDGES))
    return {f"|{a}~0|+|{b}~0|{c}~1|+|{d}~0|{e}~1|{f}~2|": code for code, (a, b, c, d, e, f) in enumerate(cells)}
