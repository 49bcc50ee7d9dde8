"""The three ways to write a genotype down: JSON, the NAS-Bench-201 string and the printed DARTS form.

Nothing here runs code. The printed form looks like Python but is read by a grammar of its own, which knows names, whole
numbers, quoted names, lists, tuples, ``range(a, b)`` and nothing else.
"""

from __future__ import annotations

import json
import keyword
import re
import reprlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from archgrad.errors import UserError, unknown
from archgrad.spaces.genotype import CellGenotype, Decision, Genotype

__all__ = ["WRITERS", "parse", "to_dict", "to_json", "write"]

_FORMAT = "archgrad.genotype/1"
_LONGEST = 1_000_000
_MOST_NODES = 10_000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*\Z")
_NB201_EXAMPLE = "|op~0|+|op~0|op~1|+|op~0|op~1|op~2|"
_DARTS_EXAMPLE = "Genotype(normal=[('sep_conv_3x3', 0), ('skip_connect', 1), …], normal_concat=range(2, 6), …)"
_DARTS_INPUTS = 2


def parse(text: str) -> Genotype:
    """Read a genotype in any of the three notations."""
    if len(text) > _LONGEST:
        raise UserError(f"a genotype of {len(text)} characters is no genotype; the limit is {_LONGEST}.")
    text = text.rstrip()
    start = len(text) - len(text.lstrip(_BLANK))
    for opening, read in _READERS.items():
        if text.startswith(opening, start):
            return read(text, start)
    _fail(
        text,
        start,
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


_BLANK = " \t\r\n\ufeff"  # editors on Windows put U+FEFF before a text
_show = reprlib.repr  # a stranger's value may be a megabyte long or nested a thousand times


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


def _parse_json(text: str, start: int) -> Genotype:
    try:
        content, end = json.JSONDecoder(object_pairs_hook=_json_object).raw_decode(text, start)
    except json.JSONDecodeError as error:
        _fail(text, error.pos, f"it is not valid JSON ({error.msg})", "correct the JSON there")
    except UserError:
        raise
    except RecursionError:
        _fail(text, start, "it is nested too deeply", "a genotype has three levels")
    except ValueError:  # Python refuses to convert thousands of digits
        _fail(text, start, "a number in it is too long", f"a node is a whole number below {_MOST_NODES}")
    if end != len(text):
        _fail(text, end, "something follows the JSON", "remove it")
    if content.get("format") != _FORMAT:
        raise UserError(
            f'malformed genotype: its "format" is {_show(content.get("format"))}; it must be {_FORMAT!r}, '
            f"as Genotype.to_json() writes it."
        )
    blocks = _json_field(content, "blocks", dict, "the genotype")
    return Genotype.of({_json_name(name, "the name of a block"): _json_cell(name, blocks[name]) for name in blocks})


def _json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise UserError(f"malformed genotype: the key {_show(twice)} is twice in one object; keep one of them.")
    return content


def _json_cell(name: str, cell: object) -> CellGenotype:
    where = f"block {_show(name)}"
    if not isinstance(cell, dict):
        raise UserError(f'malformed genotype: {where} must be an object with "decisions", not {_show(cell)}.')
    _json_keys(cell, ("decisions", "concat"), where)
    rows = _json_field(cell, "decisions", list, where)
    decisions = tuple(_json_decision(row, f"decision {index} of {where}") for index, row in enumerate(rows))
    if "concat" not in cell:
        return CellGenotype(decisions)
    concat = _json_field(cell, "concat", list, where)
    return CellGenotype(decisions, tuple(_node(node, f'"concat" of {where}') for node in concat))


def _json_decision(row: object, where: str) -> Decision:
    if not isinstance(row, dict):
        raise UserError(f'malformed genotype: {where} must be an object with "choice" and "target", not {_show(row)}.')
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
        raise UserError(f'malformed genotype: "{key}" of {where} is {_show(value)}; it must be a JSON {_KINDS[kind]}.')
    return value


_KINDS = {dict: "object", list: "array", str: "string", int: "whole number"}


def _json_name(value: str, where: str) -> str:
    if not value or not value.isprintable():
        raise UserError(f"malformed genotype: {where} is {_show(value)}; write at least one letter, all printable.")
    return value


def _node(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST_NODES:
        shown = _show(value) if not isinstance(value, int) or abs(value) < 10**20 else "a number of many digits"
        raise UserError(
            f"malformed genotype: {where} is {shown}; a node is a whole number from 0 to {_MOST_NODES - 1}."
        )
    return value


# --- NAS-Bench-201 ------------------------------------------------------------------------------------------------


def _parse_nasbench201(text: str, start: int) -> Genotype:
    decisions: list[Decision] = []
    position = start
    for target, node in enumerate(text[start:].split("+"), start=1):
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
            _fail(text, position, f"{_show(edge)} is not operation~source", f"write {_NB201_EXAMPLE}")
        if number != str(source):
            fix = f"edges come in order, so write {_show(operation)[1:-1]}~{source}"
            _fail(text, position + len(operation) + 1, f"the source {_show(number)} should be {source}", fix)
        decisions.append(Decision(target, source, operation))
        position += len(edge) + 1
    if len(decisions) != target:
        fix = f"node {target} takes one from each of the {target} nodes before it"
        _fail(text, start, f"node {target} has {len(decisions)} edges", fix)
    return decisions


def _write_nasbench201(genotype: Genotype) -> str | None:
    if genotype.names != ("cell",) or genotype["cell"].concat is not None or not genotype["cell"].decisions:
        return None
    nodes: list[list[str]] = [[]]
    for decision in genotype["cell"]:
        if len(nodes[-1]) == len(nodes):  # node t takes t edges
            nodes.append([])
        if (decision.target, decision.source) != (len(nodes), len(nodes[-1])) or not _NAME.match(decision.choice):
            return None
        nodes[-1].append(f"{decision.choice}~{decision.source}")
    return "+".join(f"|{'|'.join(node)}|" for node in nodes) if len(nodes[-1]) == len(nodes) else None


# --- the printed DARTS form ---------------------------------------------------------------------------------------


class _Token(NamedTuple):
    """A piece of the printed form: a name, a number, a quoted text, a mark or the end, and where it stands."""

    kind: str
    value: str
    position: int


_TOKEN = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>[0-9]{1,9}(?![0-9]))|(?P<mark>[()\[\],=])|"
    r"'(?P<text>[^'\\\n]*)'|\"(?P<text2>[^\"\\\n]*)\""
)
_SPACE = re.compile(r"\s*")
_CLOSING = {"[": "]", "(": ")"}


def _tokens(text: str, position: int) -> Iterator[_Token]:
    """Yield the pieces one by one, so that a long text costs no more than the part before its first error."""
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            _fail(text, position, "this cannot be part of it", f"write {_DARTS_EXAMPLE}")
        yield _Token(match.lastgroup.rstrip("2"), match[match.lastgroup], position)
        position = _SPACE.match(text, match.end()).end()  # type: ignore[union-attr]  # it always matches
    yield _Token("end", "", len(text))


class _DartsReader:
    """Reads the printed form from left to right; its grammar has a fixed depth, so nothing recurses."""

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self.tokens = _tokens(text, start)
        self.token = next(self.tokens)

    def fail(self, problem: str, fix: str = f"write {_DARTS_EXAMPLE}", token: _Token | None = None) -> NoReturn:
        _fail(self.text, (token or self.token).position, problem, fix)

    def take(self) -> _Token:
        token = self.token
        self.token = next(self.tokens, token)
        return token

    def accept(self, mark: str) -> bool:
        found = self.token.kind == "mark" and self.token.value == mark
        if found:
            self.take()
        return found

    def expect(self, mark: str, fix: str) -> None:
        if not self.accept(mark):
            self.fail(f"{mark!r} is missing", fix)

    def genotype(self) -> Genotype:
        head = self.take()
        if head.value != "Genotype" or not self.accept("("):
            self.fail("it is not one call Genotype(…)", token=head)
        cells: dict[str, tuple[_Token, tuple[Decision, ...]]] = {}
        concats: dict[str, tuple[_Token, Sequence[int]]] = {}
        while not self.accept(")"):
            name = self.field()
            if name.value in cells or name.value in concats:
                self.fail(f"{_show(name.value)} is given twice", "keep one of them", name)
            if name.value.endswith("_concat"):
                concats[name.value] = self.token, self.concat()
            else:
                cells[name.value] = name, self.cell()
            if not self.accept(",") and (self.token.kind, self.token.value) != ("mark", ")"):
                self.fail("',' or ')' is missing", "put ',' between the fields and ')' at the end")
        if self.token.kind != "end":
            self.fail("something follows the call Genotype(…)", "remove it")
        return self.joined(cells, concats)

    def joined(
        self,
        cells: dict[str, tuple[_Token, tuple[Decision, ...]]],
        concats: dict[str, tuple[_Token, Sequence[int]]],
    ) -> Genotype:
        """Put cells and their concatenated nodes together."""
        if not cells and not concats:
            self.fail("it has no cell")
        for name, (place, _) in concats.items():
            if name.removesuffix("_concat") not in cells:
                self.fail(f"{_show(name)} belongs to no cell", f"add {name.removesuffix('_concat')[:40]}=[…]", place)
        blocks: dict[str, CellGenotype] = {}
        for name, (place, decisions) in cells.items():
            if f"{name}_concat" not in concats:
                fix = f"add {name[:40]}_concat=range(2, 6)"
                self.fail(f"the cell {_show(name)} does not say which nodes it concatenates", fix, place)
            place, nodes = concats[f"{name}_concat"]
            if not _fits(nodes, last := decisions[-1].target):
                fix = f"use nodes from 0 to {last}, each once"
                self.fail(f"{_show(list(nodes[:8]))} does not name nodes of the cell", fix, place)
            blocks[name] = CellGenotype(decisions, tuple(nodes))
        return Genotype.of(blocks)

    def field(self) -> _Token:
        name = self.take()
        if name.kind != "name":
            self.fail("fields must be given by name", token=name)
        self.expect("=", "fields must be given by name, as in normal=[…]")
        return name

    def opening(self, problem: str, fix: str) -> str:
        """Take the bracket that opens a list or a tuple, and return the one that closes it."""
        if self.token.kind != "mark" or self.token.value not in _CLOSING:
            self.fail(problem, fix)
        return _CLOSING[self.take().value]

    def cell(self) -> tuple[Decision, ...]:
        place, fix = self.token, "list ('operation', input) twice for each node"
        closing = self.opening("a cell is a list with two edges for each node", fix)
        decisions: list[Decision] = []
        while not self.accept(closing):
            decisions.append(self.edge(_DARTS_INPUTS + len(decisions) // 2))
            if not self.accept(","):
                self.expect(closing, fix)
                break
        if not decisions or len(decisions) % 2:
            self.fail(f"a cell has two edges for each node, but this one has {len(decisions)} in all", fix, place)
        return tuple(decisions)

    def edge(self, target: int) -> Decision:
        place, fix = self.token, "write ('sep_conv_3x3', 0)"
        closing = self.opening("an edge is a pair", fix)
        operation = self.take()
        if operation.kind != "text" or not _NAME.match(operation.value):
            self.fail("an edge begins with the quoted name of its operation", fix, operation)
        self.expect(",", fix)
        source = self.node()
        self.accept(",")
        self.expect(closing, fix)
        if source >= target:
            fix = f"node {target} takes its inputs from 0 to {target - 1}"
            self.fail(f"the input {source} does not come before node {target}", fix, place)
        return Decision(target, source, operation.value)

    def concat(self) -> Sequence[int]:
        if self.token.kind == "name" and self.token.value == "list":
            self.take()
            self.expect("(", "write range(2, 6)")
            nodes = self.nodes()
            self.expect(")", "write list(range(2, 6))")
            return nodes
        return self.nodes()

    def nodes(self) -> Sequence[int]:
        fix = "write range(2, 6)"
        counted = self.token.kind == "name" and self.token.value == "range"
        if counted:
            self.take()
        place = self.token
        closing = self.opening("the concatenated nodes are a list or a range", fix)
        numbers: list[int] = []
        while not self.accept(closing):
            numbers.append(self.node())
            if not self.accept(","):
                self.expect(closing, fix)
                break
        if not counted:
            return numbers
        if place.value != "(" or not 1 <= len(numbers) <= 2:
            self.fail("range takes one or two numbers", fix, place)
        return range(*numbers)

    def node(self) -> int:
        token = self.take()
        if token.kind != "number" or int(token.value) > _MOST_NODES:
            self.fail(f"a node is a whole number from 0 to {_MOST_NODES - 1}", "write its number", token)
        return int(token.value)


def _fits(nodes: Sequence[int], last: int) -> bool:
    """Tell whether concatenated nodes are nodes of a cell that ends with the node ``last``."""
    return 0 < len(nodes) <= last + 1 and min(nodes) >= 0 and max(nodes) <= last and len(set(nodes)) == len(nodes)


def _parse_darts(text: str, start: int) -> Genotype:
    return _DartsReader(text, start).genotype()


def _write_darts(genotype: Genotype) -> str | None:
    fields: list[str] = []
    for name, cell in genotype.blocks:
        if not _darts_name(name) or cell.concat is None or not cell.decisions or len(cell.decisions) % 2:
            return None
        for index, decision in enumerate(cell):
            target, source = _DARTS_INPUTS + index // 2, decision.source
            if decision.target != target or source is None or not 0 <= source < target:
                return None
            if not _NAME.match(decision.choice):
                return None
        if not _fits(cell.concat, cell.decisions[-1].target):
            return None
        edges = ", ".join(f"({decision.choice!r}, {decision.source})" for decision in cell)
        fields.append(f"{name}=[{edges}], {name}_concat={_write_nodes(cell.concat)}")
    return f"Genotype({', '.join(fields)})" if fields else None


def _darts_name(name: str) -> bool:
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name) and not name.endswith("_concat")


def _write_nodes(nodes: tuple[int, ...]) -> str:
    first, last = nodes[0], nodes[-1]
    return f"range({first}, {last + 1})" if nodes == tuple(range(first, last + 1)) else str(list(nodes))


_READERS: dict[str, Callable[[str, int], Genotype]] = {
    "{": _parse_json,
    "|": _parse_nasbench201,
    "Genotype": _parse_darts,
}
WRITERS: dict[str, Callable[[Genotype], str | None]] = {
    "json": to_json,
    "nasbench201": _write_nasbench201,
    "darts": _write_darts,
}
