"""The form of chains, ``chain:op,op,op`` from the first layer on, and the eight digits of NAS-Bench-Macro."""

from __future__ import annotations

import re

from archgrad.spaces.genotype import CellGenotype, Decision, Genotype
from archgrad.spaces.notation.common import NAME, fail, show

__all__ = ["CODED", "EXAMPLE", "code_of", "is_code", "parse", "parse_code", "write"]

EXAMPLE = "chain:op,op,op"
CODED = ("skip_connect", "mb3_3x3", "mb6_5x5")
"""What the digits 0, 1 and 2 of NAS-Bench-Macro stand for."""
_PREFIX, _BLOCK = "chain:", "chain"


def parse(text: str, start: int) -> Genotype:
    """Read the form that begins at ``start``."""
    position, choices = start + len(_PREFIX), list[str]()
    for part in text[position:].split(","):
        if not NAME.match(part.strip()):
            fail(text, position, f"{show(part)} is not the name of an operation", f"write {EXAMPLE}")
        choices.append(part.strip())
        position += len(part) + 1
    return _genotype(choices)


def is_code(text: str) -> bool:
    """Tell whether a text is the code of a network of NAS-Bench-Macro.

    >>> is_code("02012100"), is_code("0201210"), is_code("02013100")
    (True, False, False)
    """
    return re.fullmatch("[012]{8}", text) is not None


def parse_code(text: str) -> Genotype:
    """Read the code of a network of NAS-Bench-Macro: a digit for each layer."""
    return _genotype([CODED[int(digit)] for digit in text])


def _genotype(choices: list[str]) -> Genotype:
    decisions = (Decision(number, number - 1, choice) for number, choice in enumerate(choices, start=1))
    return Genotype.of({_BLOCK: CellGenotype(tuple(decisions))})


def code_of(genotype: Genotype) -> str:
    """Return the code of a network of NAS-Bench-Macro."""
    return "".join(str(CODED.index(decision.choice)) for decision in genotype[_BLOCK])


def write(genotype: Genotype) -> str | None:
    """Print a genotype in this notation; return None if it cannot hold it."""
    if genotype.names != (_BLOCK,):
        return None
    choices = [decision.choice for decision in genotype[_BLOCK]]
    if not choices or not all(NAME.match(choice) for choice in choices) or _genotype(choices) != genotype:
        return None
    return f"{_PREFIX}{','.join(choices)}"
