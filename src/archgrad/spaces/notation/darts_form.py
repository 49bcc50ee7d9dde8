"""The printed DARTS form: ``Genotype(normal=[('sep_conv_3x3', 0), …], normal_concat=range(2, 6), …)``.

It looks like Python but has its own grammar: only names, whole numbers, quoted names, lists, tuples and
``range(a, b)``.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, NoReturn

from archgrad.spaces.genotype import CellGenotype, Decision, Genotype
from archgrad.spaces.notation.common import MOST_NODES, NAME, fail, show

__all__ = ["EXAMPLE", "parse", "write"]

EXAMPLE = "Genotype(normal=[('sep_conv_3x3', 0), ('skip_connect', 1), …], normal_concat=range(2, 6), …)"
_INPUTS = 2


class _Token(NamedTuple):
    """A token of the printed form: a name, a number, a quoted text, a mark or the end, with its position."""

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
    """Yield the tokens lazily: a long text costs no more than the part before its first error."""
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            fail(text, position, "this cannot be part of it", f"write {EXAMPLE}")
        yield _Token(match.lastgroup.rstrip("2"), match[match.lastgroup], position)
        position = _SPACE.match(text, match.end()).end()  # type: ignore[union-attr]  # it always matches
    yield _Token("end", "", len(text))


class _Reader:
    """Reads the printed form from left to right; its grammar has a fixed depth, so nothing recurses."""

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self.tokens = _tokens(text, start)
        self.token = next(self.tokens)

    def fail(self, problem: str, fix: str = f"write {EXAMPLE}", token: _Token | None = None) -> NoReturn:
        fail(self.text, (token or self.token).position, problem, fix)

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
                self.fail(f"{show(name.value)} is given twice", "keep one of them", name)
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
        """Join cells with their concatenated nodes."""
        if not cells and not concats:
            self.fail("it has no cell")
        for name, (place, _) in concats.items():
            if name.removesuffix("_concat") not in cells:
                self.fail(f"{show(name)} belongs to no cell", f"add {name.removesuffix('_concat')[:40]}=[…]", place)
        blocks: dict[str, CellGenotype] = {}
        for name, (place, decisions) in cells.items():
            if f"{name}_concat" not in concats:
                fix = f"add {name[:40]}_concat=range(2, 6)"
                self.fail(f"the cell {show(name)} does not say which nodes it concatenates", fix, place)
            place, nodes = concats[f"{name}_concat"]
            if not _fits(nodes, last := decisions[-1].target):
                fix = f"use nodes from 0 to {last}, each once"
                self.fail(f"{show(list(nodes[:8]))} does not name nodes of the cell", fix, place)
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
            decisions.append(self.edge(_INPUTS + len(decisions) // 2))
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
        if operation.kind != "text" or not NAME.match(operation.value):
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
        if token.kind != "number" or int(token.value) >= MOST_NODES:
            self.fail(f"a node is a whole number from 0 to {MOST_NODES - 1}", "write its number", token)
        return int(token.value)


def _fits(nodes: Sequence[int], last: int) -> bool:
    """Tell whether concatenated nodes are nodes of a cell that ends with the node ``last``."""
    return 0 < len(nodes) <= last + 1 and min(nodes) >= 0 and max(nodes) <= last and len(set(nodes)) == len(nodes)


def parse(text: str, start: int) -> Genotype:
    """Read the printed form that begins at ``start``."""
    return _Reader(text, start).genotype()


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
