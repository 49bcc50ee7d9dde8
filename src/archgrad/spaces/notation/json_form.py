"""The JSON form, which every genotype has."""

from __future__ import annotations

import json
from typing import Any

from archgrad.errors import UserError, unknown
from archgrad.spaces.genotype import CellGenotype, Decision, Genotype
from archgrad.spaces.notation.common import read_json, show

__all__ = ["parse", "to_dict", "to_json"]

_FORMAT = "archgrad.genotype/1"


def to_dict(genotype: Genotype) -> dict[str, Any]:
    """Return the JSON form as plain objects."""
    blocks: dict[str, Any] = {}
    for name, cell in genotype.blocks:
        rows = [_row_to_dict(decision) for decision in cell]
        blocks[name] = {"decisions": rows} | ({} if cell.concat is None else {"concat": list(cell.concat)})
    return {"format": _FORMAT, "blocks": blocks}


def to_json(genotype: Genotype) -> str:
    """Return the JSON form on one line."""
    return json.dumps(to_dict(genotype))


def _row_to_dict(decision: Decision) -> dict[str, Any]:
    source = {} if decision.source is None else {"source": decision.source}
    return {"choice": decision.choice, "target": decision.target} | source


def parse(text: str, start: int) -> Genotype:
    """Read the JSON form that begins at ``start``."""
    content = read_json(text, start)
    if content.get("format") != _FORMAT:
        raise UserError(
            f'malformed genotype: its "format" is {show(content.get("format"))}; it must be {_FORMAT!r}, '
            f"as Genotype.to_json() writes it."
        )
    blocks = content.get("blocks")
    if not isinstance(blocks, dict):
        raise UserError(f'malformed genotype: its "blocks" are {show(blocks)}; they must be a JSON object.')
    return Genotype.of({name: _parse_cell(f"block {show(name)}", cell) for name, cell in blocks.items()})


def _parse_cell(where: str, content: object) -> CellGenotype:
    cell = _checked(where, content, ("decisions",), ("concat",))
    if not isinstance(cell["decisions"], list):
        raise UserError(f'malformed genotype: the "decisions" of {where} are no JSON array; write [{{…}}, …].')
    rows = [_checked(f"decision {place} of {where}", row, ("choice", "target"), ("source",))
            for place, row in enumerate(cell["decisions"])]  # fmt: skip
    try:
        decisions = tuple(Decision(row["target"], row.get("source"), row["choice"]) for row in rows)
        concat = cell.get("concat")
        return CellGenotype(decisions, tuple(concat) if isinstance(concat, list) else concat)
    except UserError as error:
        raise UserError(f"malformed genotype: in {where}, {error}") from None


def _checked(where: str, content: object, needed: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, Any]:
    """Return a JSON object that has the needed keys and no others than the optional ones."""
    if not isinstance(content, dict) or not set(needed) <= set(content):
        keys = " and ".join(f'"{key}"' for key in needed)
        raise UserError(f"malformed genotype: {where} is {show(content)}; it must be a JSON object with {keys}.")
    for key in content:
        if key not in needed + optional:
            raise unknown(f"key in {where} of a genotype:", key, needed + optional)
    return content
