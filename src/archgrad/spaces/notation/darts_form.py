"""The printed DARTS form: ``Genotype(normal=[('sep_conv_3x3', 0), …], normal_concat=range(2, 6), …)``.

It looks like Python but has its own grammar: only names, whole numbers, quoted names, lists, tuples and
``range(a, b)``. The grammar has a fixed depth, so regular expressions read it from left to right.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence

from archgrad.spaces.genotype import MOST_NODES, CellGenotype, Decision, Genotype
from archgrad.spaces.notation.common import NAME, fail, show

__all__ = ["EXAMPLE", "parse", "write"]

EXAMPLE = "Genotype(normal=[('sep_conv_3x3', 0), ('skip_connect', 1), …], normal_concat=range(2, 6), …)"
_INPUTS = 2

_HEAD = re.compile(r"Genotype\s*\(\s*")
_FIELD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=\s*")
_OPEN = re.compile(r"[(\[]\s*")
_EDGE = re.compile(r"""(?:(\()|\[)\s*(?:'([^'\\\n]*)'|"([^"\\\n]*)")\s*,\s*([0-9]{1,9})\s*(?:,\s*)?(?(1)\)|\])\s*""")
_NODES = re.compile(r"(list\s*\(\s*)?(?:(\[)|(range\s*)?\()([0-9,\s]*)(?(2)\]|\))\s*(?(1)\)\s*)")
_COMMA = re.compile(r",\s*")
_END = re.compile(r"\)")
_CLOSING = {"[": re.compile(r"\]\s*"), "(": re.compile(r"\)\s*")}


def parse(text: str, start: int) -> Genotype:
    """Read the printed form that begins at ``start``."""
    head = _HEAD.match(text, start)
    if head is None:
        fail(text, start, "it is not one call Genotype(…)", f"write {EXAMPLE}")
    position = head.end()
    cells: dict[str, tuple[int, tuple[Decision, ...]]] = {}
    concats: dict[str, tuple[int, Sequence[int]]] = {}
    while not (end := _END.match(text, position)):
        field = _FIELD.match(text, position)
        if field is None:
            fail(text, position, "fields must be given by name", f"write {EXAMPLE}")
        if field[1] in cells or field[1] in concats:
            fail(text, position, f"{show(field[1])} is given twice", "keep one of them")
        if field[1].endswith("_concat"):
            nodes, position = _read_nodes(text, field.end())
            concats[field[1]] = field.end(), nodes
        else:
            decisions, position = _read_cell(text, field.end())
            cells[field[1]] = field.start(), decisions
        position = _after_item(text, position, _END, "put ',' between the fields and ')' at the end")
    if end.end() != len(text):
        fail(text, end.end(), "something follows the call Genotype(…)", "remove it")
    return _joined(text, cells, concats)


def _read_cell(text: str, start: int) -> tuple[tuple[Decision, ...], int]:
    """Return the edges of the cell at a position, and the position after it."""
    fix = "list ('operation', input) twice for each node"
    opening = _OPEN.match(text, start)
    if opening is None:
        fail(text, start, "a cell is a list with two edges for each node", fix)
    position, decisions, closing = opening.end(), list[Decision](), _CLOSING[text[start]]
    while not (end := closing.match(text, position)):
        edge = _EDGE.match(text, position)
        if edge is None or not NAME.match(operation := edge[2] or edge[3] or ""):
            fail(text, position, "an edge is a pair of a quoted operation and a node", "write ('sep_conv_3x3', 0)")
        target, source = _INPUTS + len(decisions) // 2, int(edge[4])
        if source >= target:
            fix = f"node {target} takes its inputs from 0 to {target - 1}"
            fail(text, position, f"the input {source} does not come before node {target}", fix)
        decisions.append(Decision(target, source, operation))
        position = _after_item(text, edge.end(), closing, fix)
    if not decisions or len(decisions) % 2:
        fail(text, start, f"a cell has two edges for each node, but this one has {len(decisions)} in all", fix)
    return tuple(decisions), end.end()


def _read_nodes(text: str, start: int) -> tuple[Sequence[int], int]:
    """Return the concatenated nodes at a position, and the position after them."""
    found = _NODES.match(text, start)
    numbers = [] if found is None else [number.strip() for number in found[4].split(",")]
    if numbers and not numbers[-1]:
        numbers.pop()  # a comma may follow the last one
    if found is None or not all(re.fullmatch("[0-9]{1,9}", number) for number in numbers):
        fail(text, start, "the concatenated nodes are a list or a range of whole numbers", "write range(2, 6)")
    nodes = [int(number) for number in numbers]
    if found[3] and (not 1 <= len(nodes) <= 2 or max(nodes) > MOST_NODES):
        fail(text, start, f"range takes one or two numbers up to {MOST_NODES}", "write range(2, 6)")
    return range(*nodes) if found[3] else nodes, found.end()


def _after_item(text: str, position: int, closing: re.Pattern[str], fix: str) -> int:
    """Return the position after the comma that follows an item; the last item needs none."""
    comma = _COMMA.match(text, position)
    if comma is None and not closing.match(text, position):
        fail(text, position, "',' or the closing bracket is missing", fix)
    return position if comma is None else comma.end()


def _joined(
    text: str, cells: dict[str, tuple[int, tuple[Decision, ...]]], concats: dict[str, tuple[int, Sequence[int]]]
) -> Genotype:
    """Join cells with their concatenated nodes."""
    if not cells and not concats:
        fail(text, len(text), "it has no cell", f"write {EXAMPLE}")
    for name, (place, _) in concats.items():
        if name.removesuffix("_concat") not in cells:
            fail(text, place, f"{show(name)} belongs to no cell", f"add {name.removesuffix('_concat')[:40]}=[…]")
    blocks: dict[str, CellGenotype] = {}
    for name, (place, decisions) in cells.items():
        if f"{name}_concat" not in concats:
            fix = f"add {name[:40]}_concat=range(2, 6)"
            fail(text, place, f"the cell {show(name)} does not say which nodes it concatenates", fix)
        place, nodes = concats[f"{name}_concat"]
        if not _fits(nodes, last := decisions[-1].target):
            fix = f"use nodes from 0 to {last}, each once"
            fail(text, place, f"{show(list(nodes[:8]))} does not name nodes of the cell", fix)
        blocks[name] = CellGenotype(decisions, tuple(nodes))
    return Genotype.of(blocks)


def _fits(nodes: Sequence[int], last: int) -> bool:
    """Tell whether concatenated nodes are nodes of a cell that ends with the node ``last``."""
    return 0 < len(nodes) <= last + 1 and min(nodes) >= 0 and max(nodes) <= last and len(set(nodes)) == len(nodes)


def write(genotype: Genotype) -> str | None:
    """Print a genotype in this notation; return None if it cannot hold it."""
    fields: list[str] = []
    for name, cell in genotype.blocks:
        if not _is_name(name) or cell.concat is None or not cell.decisions or len(cell.decisions) % 2:
            return None
        for index, decision in enumerate(cell):
            target, source = _INPUTS + index // 2, decision.source
            if decision.target != target or source is None or not 0 <= source < target:
                return None
            if not NAME.match(decision.choice):
                return None
        if not _fits(cell.concat, cell.decisions[-1].target):
            return None
        edges = ", ".join(f"({decision.choice!r}, {decision.source})" for decision in cell)
        fields.append(f"{name}=[{edges}], {name}_concat={_write_nodes(cell.concat)}")
    return f"Genotype({', '.join(fields)})" if fields else None


def _is_name(name: str) -> bool:
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name) and not name.endswith("_concat")


def _write_nodes(nodes: tuple[int, ...]) -> str:
    first, last = nodes[0], nodes[-1]
    return f"range({first}, {last + 1})" if nodes == tuple(range(first, last + 1)) else str(list(nodes))
