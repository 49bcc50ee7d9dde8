"""The three ways to write a genotype down: JSON, the NAS-Bench-201 string and the printed DARTS form.

Nothing here runs code. The printed form is read with Python's own syntax tree, of which only literals, tuples, lists
and ``range(a, b)`` are accepted.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from archgrad.errors import UserError, unknown
from archgrad.spaces.genotype import CellGenotype, Decision, Genotype

__all__ = ["WRITERS", "parse", "to_dict", "to_json", "write"]

_FORMAT = "archgrad.genotype/1"
_LONGEST = 1_000_000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*\Z")
_NB201_EXAMPLE = "|op~0|+|op~0|op~1|+|op~0|op~1|op~2|"
_DARTS_EXAMPLE = "Genotype(normal=[('sep_conv_3x3', 0), ('skip_connect', 1), …], normal_concat=range(2, 6), …)"
_DARTS_INPUTS = 2


def parse(text: str) -> Genotype:
    """Read a genotype in any of the three notations."""
    stripped = text.strip()
    if len(stripped) > _LONGEST:
        raise UserError(f"a genotype of {len(stripped)} characters is no genotype; the limit is {_LONGEST}.")
    if stripped.startswith("{"):
        return _parse_json(stripped)
    if stripped.startswith("|"):
        return _parse_nasbench201(stripped)
    if stripped.startswith("Genotype"):
        return _parse_darts(stripped)
    _fail(
        stripped,
        0,
        "it is none of the three notations",
        f"write JSON ({{…}}), a NAS-Bench-201 string ({_NB201_EXAMPLE}) or {_DARTS_EXAMPLE}",
    )


def write(genotype: Genotype) -> str:
    """Print a genotype in the most readable notation that can hold it."""
    return _write_nasbench201(genotype) or _write_darts(genotype) or to_json(genotype)


def _fail(text: str, position: int, problem: str, fix: str) -> NoReturn:
    """Raise the error for a malformed genotype, with the text around the position."""
    excerpt = text[max(0, position - 12) : position + 24].replace("\n", " ")
    shown = f" near {excerpt!r}" if excerpt else ""
    raise UserError(f"malformed genotype at position {position}{shown}: {problem}; {fix}.")


# --- JSON ---------------------------------------------------------------------------------------------------------


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


def _parse_json(text: str) -> Genotype:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        _fail(text, error.pos, f"it is not valid JSON ({error.msg})", "correct the JSON there")
    except RecursionError:
        _fail(text, 0, "it is nested too deeply", "a genotype has three levels")
    if content.get("format") != _FORMAT:
        raise UserError(
            f'malformed genotype: its "format" is {content.get("format")!r}; it must be {_FORMAT!r}, '
            f"as Genotype.to_json() writes it."
        )
    blocks = _json_field(content, "blocks", dict, "the genotype")
    return Genotype.of({name: _json_cell(name, cell) for name, cell in blocks.items()})


def _json_cell(name: str, cell: object) -> CellGenotype:
    where = f"block {name!r}"
    if not isinstance(cell, dict):
        raise UserError(f'malformed genotype: {where} must be an object with "decisions", not {cell!r}.')
    rows = _json_field(cell, "decisions", list, where)
    decisions = tuple(_json_decision(row, f"decision {index} of {where}") for index, row in enumerate(rows))
    if "concat" not in cell:
        return CellGenotype(decisions)
    concat = _json_field(cell, "concat", list, where)
    return CellGenotype(decisions, tuple(_node(node, f'"concat" of {where}') for node in concat))


def _json_decision(row: object, where: str) -> Decision:
    if not isinstance(row, dict):
        raise UserError(f'malformed genotype: {where} must be an object with "choice" and "target", not {row!r}.')
    for key in row:
        if key not in ("choice", "target", "source"):
            raise unknown(f"key in {where} of a genotype:", key, ("choice", "target", "source"))
    choice = _json_field(row, "choice", str, where)
    target = _node(_json_field(row, "target", int, where), f'"target" of {where}')
    source = _node(row["source"], f'"source" of {where}') if "source" in row else None
    return Decision(target, source, choice)


def _json_field(content: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    value = content.get(key)
    if not isinstance(value, kind):
        raise UserError(f'malformed genotype: "{key}" of {where} is {value!r}; it must be a JSON {_KINDS[kind]}.')
    return value


_KINDS = {dict: "object", list: "array", str: "string", int: "whole number"}


def _node(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UserError(f"malformed genotype: {where} is {value!r}; a node is a whole number from 0 up.")
    return value


# --- NAS-Bench-201 ------------------------------------------------------------------------------------------------


def _parse_nasbench201(text: str) -> Genotype:
    decisions: list[Decision] = []
    position = 0
    for target, node in enumerate(text.split("+"), start=1):
        decisions += _parse_nasbench201_node(text, node, position, target)
        position += len(node) + 1
    return Genotype.of({"cell": CellGenotype(tuple(decisions))})


def _parse_nasbench201_node(text: str, node: str, start: int, target: int) -> list[Decision]:
    if len(node) < 2 or not (node.startswith("|") and node.endswith("|")):
        _fail(text, start, f"node {target} is not enclosed in '|'", f"write {_NB201_EXAMPLE}")
    decisions: list[Decision] = []
    position = start + 1
    for source, edge in enumerate(node[1:-1].split("|")):
        operation, tilde, number = edge.partition("~")
        if not tilde or not _NAME.match(operation):
            _fail(text, position, f"{edge!r} is not operation~source", f"write {_NB201_EXAMPLE}")
        if number != str(source):
            fix = f"edges come in order, so write {operation}~{source}"
            _fail(text, position + len(operation) + 1, f"the source {number!r} should be {source}", fix)
        decisions.append(Decision(target, source, operation))
        position += len(edge) + 1
    if len(decisions) != target:
        fix = f"node {target} takes one from each of the {target} nodes before it"
        _fail(text, start, f"node {target} has {len(decisions)} edges", fix)
    return decisions


def _write_nasbench201(genotype: Genotype) -> str | None:
    if genotype.names != ("cell",) or genotype["cell"].concat is not None:
        return None
    cell = genotype["cell"]
    nodes: list[str] = []
    written: list[Decision] = []
    for target in range(1, max((decision.target for decision in cell), default=0) + 1):
        inputs = cell.inputs_of(target)
        if [decision.source for decision in inputs] != list(range(target)):
            return None
        nodes.append("|" + "|".join(f"{decision.choice}~{decision.source}" for decision in inputs) + "|")
        written += inputs
    return "+".join(nodes) if tuple(written) == cell.decisions and nodes else None


# --- the printed DARTS form ---------------------------------------------------------------------------------------


def _parse_darts(text: str) -> Genotype:
    call = _darts_call(text)
    fields = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    if call.args or len(fields) != len(call.keywords):
        _fail(text, call.col_offset, "fields must be given by name", f"write {_DARTS_EXAMPLE}")
    names = [name for name in fields if not name.endswith("_concat")]
    if not names:
        _fail(text, 0, "it has no cell", f"write {_DARTS_EXAMPLE}")
    for name in fields:
        if name.endswith("_concat") and name.removesuffix("_concat") not in names:
            _fail(
                text,
                fields[name].col_offset,
                f"{name} belongs to no cell",
                f"add {name.removesuffix('_concat')}=[…]",
            )
    cells: dict[str, CellGenotype] = {}
    for name in names:
        if f"{name}_concat" not in fields:
            fix = f"add {name}_concat=range(2, 6)"
            _fail(text, fields[name].col_offset, f"the cell {name!r} has no {name}_concat", fix)
        decisions = _darts_decisions(text, fields[name])
        concat = _darts_concat(text, fields[f"{name}_concat"], last=max(decision.target for decision in decisions))
        cells[name] = CellGenotype(decisions, concat)
    return Genotype.of(cells)


def _darts_call(text: str) -> ast.Call:
    joined = " ".join(text.splitlines())  # so that a column is a position in the text
    try:
        tree = ast.parse(joined, mode="eval").body
    except SyntaxError as error:
        _fail(
            text,
            max((error.offset or 1) - 1, 0),
            f"it cannot be read ({error.msg})",
            f"write {_DARTS_EXAMPLE}",
        )
    except (RecursionError, MemoryError, ValueError):
        _fail(text, 0, "it cannot be read", f"write {_DARTS_EXAMPLE}")
    if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "Genotype"):
        _fail(text, 0, "it is not one call Genotype(…)", f"write {_DARTS_EXAMPLE}")
    return tree


def _darts_decisions(text: str, node: ast.expr) -> tuple[Decision, ...]:
    if not isinstance(node, ast.List | ast.Tuple) or not node.elts or len(node.elts) % 2:
        fix = "list ('operation', input) twice for each node"
        _fail(text, node.col_offset, "a cell is a list with two edges for each node", fix)
    decisions: list[Decision] = []
    for index, pair in enumerate(node.elts):
        target = _DARTS_INPUTS + index // 2
        operation, source = _darts_pair(text, pair)
        if source >= target:
            fix = f"node {target} takes its inputs from 0 to {target - 1}"
            _fail(text, pair.col_offset, f"the input {source} comes after node {target}", fix)
        decisions.append(Decision(target, source, operation))
    return tuple(decisions)


def _darts_pair(text: str, node: ast.expr) -> tuple[str, int]:
    if isinstance(node, ast.Tuple | ast.List) and len(node.elts) == 2:
        operation, source = node.elts
        if isinstance(operation, ast.Constant) and isinstance(operation.value, str) and _NAME.match(operation.value):
            return operation.value, _darts_integer(text, source)
    _fail(text, node.col_offset, "an edge is a pair", "write ('sep_conv_3x3', 0)")


def _darts_concat(text: str, node: ast.expr, last: int) -> tuple[int, ...]:
    if isinstance(node, ast.List | ast.Tuple):
        nodes = tuple(_darts_integer(text, element) for element in node.elts)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("range", "list"):
        if node.keywords or not 1 <= len(node.args) <= 2:
            _fail(text, node.col_offset, f"{node.func.id} takes plain arguments", "write range(2, 6)")
        if node.func.id == "list":
            return _darts_concat(text, node.args[0], last)
        bounds = [_darts_integer(text, argument) for argument in node.args]
        if bounds[-1] > last + 1:
            _fail(text, node.col_offset, f"node {bounds[-1] - 1} does not exist", f"the last node is {last}")
        nodes = tuple(range(*bounds))
    else:
        _fail(text, node.col_offset, "the concatenated nodes are a list or a range", "write range(2, 6)")
    if not nodes or max(nodes) > last or len(set(nodes)) != len(nodes):
        _fail(
            text,
            node.col_offset,
            f"{list(nodes)} does not name nodes of the cell",
            f"use nodes from 0 to {last}",
        )
    return nodes


def _darts_integer(text: str, node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value >= 0:
        return node.value
    _fail(text, node.col_offset, "a node is a whole number from 0 up", "write its number")


def _write_darts(genotype: Genotype) -> str | None:
    fields: list[str] = []
    for name, cell in genotype.blocks:
        if cell.concat is None or not name.isidentifier() or name.endswith("_concat") or not cell.decisions:
            return None
        for index, decision in enumerate(cell):
            if decision.source is None or decision.target != _DARTS_INPUTS + index // 2:
                return None
        if len(cell.decisions) % 2:
            return None
        edges = ", ".join(f"({decision.choice!r}, {decision.source})" for decision in cell)
        fields.append(f"{name}=[{edges}], {name}_concat={_write_nodes(cell.concat)}")
    return f"Genotype({', '.join(fields)})" if fields else None


def _write_nodes(nodes: tuple[int, ...]) -> str:
    first, last = nodes[0], nodes[-1]
    return f"range({first}, {last + 1})" if nodes == tuple(range(first, last + 1)) else str(list(nodes))


WRITERS: dict[str, Callable[[Genotype], str | None]] = {
    "json": to_json,
    "nasbench201": _write_nasbench201,
    "darts": _write_darts,
}
