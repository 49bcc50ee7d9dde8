"""The notations of a genotype: JSON, the NAS-Bench-201 string, printed DARTS cells, nodes in brackets, and chains.

Nothing here runs code.
"""

from __future__ import annotations

from collections.abc import Callable

from archgrad.errors import UserError
from archgrad.spaces.genotype import Genotype
from archgrad.spaces.notation import chain_form, darts_form, json_form, nasbench201_form, node_form
from archgrad.spaces.notation.common import BLANK, fail
from archgrad.spaces.notation.json_form import to_dict, to_json

__all__ = ["LONGEST", "WRITERS", "parse", "to_dict", "to_json", "write"]

LONGEST = 1_000_000
"""The largest number of characters in a genotype."""
_READERS: dict[str, Callable[[str, int], Genotype]] = {
    "{": json_form.parse,
    "|": nasbench201_form.parse,
    "Genotype": darts_form.parse,
    "[": node_form.parse,
    "chain:": chain_form.parse,
}
WRITERS: dict[str, Callable[[Genotype], str | None]] = {
    "json": to_json,
    "nasbench201": nasbench201_form.write,
    "darts": darts_form.write,
    "nodes": node_form.write,
    "chain": chain_form.write,
}


def parse(text: str) -> Genotype:
    """Read a genotype in any of the notations."""
    if len(text) > LONGEST:
        raise UserError(f"this genotype has {len(text)} characters; give at most {LONGEST}.")
    text = text.rstrip()
    start = len(text) - len(text.lstrip(BLANK))
    for opening, read in _READERS.items():
        if text.startswith(opening, start):
            return read(text, start)
    if chain_form.is_code(text[start:]):
        return chain_form.parse_code(text[start:])
    fail(
        text,
        start,
        "it is none of the notations",
        f"write JSON ({{…}}), a NAS-Bench-201 string ({nasbench201_form.EXAMPLE}), nodes ({node_form.EXAMPLE}), "
        f"{chain_form.EXAMPLE} or {darts_form.EXAMPLE}",
    )


def write(genotype: Genotype) -> str:
    """Print a genotype in the most readable notation that can hold it."""
    readable = (nasbench201_form.write, darts_form.write, node_form.write, chain_form.write)
    return next((text for text in (form(genotype) for form in readable) if text), None) or to_json(genotype)
