"""The JSON form, which every genotype has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from archgrad.errors import UserError, unknown
from archgrad.spaces.genotype import CellGenotype, Decision, Genotype
from archgrad.spaces.notation.common import MOST_NODES, fail, show, unique_keys

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
    try:
        content, end = json.JSONDecoder(object_pairs_hook=unique_keys("genotype")).raw_decode(text, start)
    except json.JSONDecodeError as error:
        fail(text, error.pos, f"it is not valid JSON ({error.msg})", "correct the JSON there")
    except UserError:
        raise
    except RecursionError:
        fail(text, start, "it is nested too deeply", "a genotype has three levels")
    except ValueError:  # Python refuses to convert thousands of digits
        fail(text, start, "a number in it is too long", f"a node is a whole number below {MOST_NODES}")
    if end != len(text):
        fail(text, end, "something follows the JSON", "remove it")
    if content.get("format") != _FORMAT:
        raise UserError(
            f'malformed genotype: its "format" is {show(content.get("format"))}; it must be {_FORMAT!r}, '
            f"as Genotype.to_json() writes it."
        )
    blocks = _json_field(content, "blocks", dict, "the genotype")
    return Genotype.of({_json_name(name, "the name of a block"): _json_cell(name, blocks[name]) for name in blocks})


def _json_cell(name: str, cell: object) -> CellGenotype:
    where = f"block {show(name)}"
    if not isinstance(cell, dict):
        raise UserError(f'malformed genotype: {where} must be an object with "decisions", not {show(cell)}.')
    _json_keys(cell, ("decisions", "concat"), where)
    rows = _json_field(cell, "decisions", list, where)
    decisions = tuple(_json_decision(row, f"decision {index} of {where}") for index, row in enumerate(rows))
    if "concat" not in cell:
        return CellGenotype(decisions)
    concat = _json_field(cell, "concat", list, where)
    return CellGenotype(decisions, tuple(_node(node, f'"concat" of {where}') for node in concat))


def _json_decision(row: object, where: str) -> Decision:
    if not isinstance(row, dict):
        raise UserError(f'malformed genotype: {where} must be an object with "choice" and "target", not {show(row)}.')
    _json_keys(row, ("choice", "target", "source"), where)
    choice = _json_name(_json_field(row, "choice", str, where), f'"choice" of {where}')
    target = _node(_json_field(row, "target", int, where), f'"target" of {where}')
    source = _node(row["source"], f'"source" of {where}') if "source" in row else None
    return Decision(target, source, choice)


def _json_keys(content: Mapping[str, Any], allowed: tuple[str, ...], where: str) -> None:
    for key in content:
        if key not in allowed:
            raise unknown(f"key in {where} of a genotype:", key, allowed)


def _json_field(content: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    value = content.get(key)
    if not isinstance(value, kind):
        raise UserError(f'malformed genotype: "{key}" of {where} is {show(value)}; it must be a JSON {_KINDS[kind]}.')
    return value


_KINDS = {dict: "object", list: "array", str: "string", int: "whole number"}


def _json_name(value: str, where: str) -> str:
    if not value or not value.isprintable():
        raise UserError(f"malformed genotype: {where} is {show(value)}; write at least one letter, all printable.")
    return value


def _node(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MOST_NODES:
        shown = show(value) if not isinstance(value, int) or abs(value) < 10**20 else "a number of many digits"
        raise UserError(f"malformed genotype: {where} is {shown}; a node is a whole number from 0 to {MOST_NODES - 1}.")
    return value
