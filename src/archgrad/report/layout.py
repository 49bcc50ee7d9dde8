"""Where nodes and edges of a drawn cell stand: nodes in a row in topological order, every edge on a lane of its own.

An edge rises from its source to its lane, carries its operation there, and falls to its target. An edge between
neighbors lies on the row itself. Short edges get the lanes next to the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from archgrad.report.wiring import NodeWiring, Wiring, kind_of, printable
from archgrad.spaces.genotype import CellGenotype, Genotype

__all__ = ["CellLayout", "DrawnEdge", "DrawnNode", "Point", "lay_out"]

Point = tuple[float, float]

_LETTER, _SMALL_LETTER = 7.8, 6.6
"""The width of a letter of a node and of an operation, in pixels, a little too wide."""
_RADIUS, _GAP, _MARGIN, _TITLE = 17.0, 46.0, 16.0, 26.0
_LANE, _THIN_LANE, _FIRST_LANE = 30.0, 10.0, 42.0
_BEND = 26.0
BOX = 20.0
"""The height of the box of an operation."""


@dataclass(frozen=True)
class DrawnNode:
    """A node: its middle, its size, its rows of text and its kind (input, output, node, or that of an operation)."""

    x: float
    y: float
    width: float
    height: float
    rows: tuple[str, ...]
    kind: str


@dataclass(frozen=True)
class DrawnEdge:
    """An edge from ``start`` over its lane to ``end``; ``box`` is the middle of its operation's box.

    ``corners`` are the two points between which it runs on its lane; None for a straight edge.
    """

    start: Point
    end: Point
    corners: tuple[Point, Point] | None
    box: Point
    width: float
    operation: str | None
    kind: str


@dataclass(frozen=True)
class CellLayout:
    """The drawing of one block."""

    title: str
    width: float
    height: float
    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]


@dataclass(frozen=True)
class _Node:
    rows: tuple[str, ...]
    kind: str

    @property
    def width(self) -> float:
        longest = max(map(len, self.rows))
        return 2 * _RADIUS if self.kind == "node" and longest < 3 else 18 + _LETTER * longest

    @property
    def height(self) -> float:
        return max(2 * _RADIUS, 8 + 16.0 * len(self.rows))


@dataclass(frozen=True)
class _Edge:
    """An edge between the places of two nodes in the row."""

    source: int
    target: int
    operation: str | None
    kind: str


def lay_out(genotype: Genotype) -> list[CellLayout]:
    """Return the drawing of every block of a genotype."""
    wiring = NodeWiring.of(genotype)
    if wiring is not None:
        return [_layout("cell", *_node_cell(wiring))]
    return [_layout(printable(name), *_edge_cell(cell)) for name, cell in genotype.blocks]


def _node_cell(wiring: NodeWiring) -> tuple[list[_Node], list[_Edge]]:
    """Return nodes and edges of a cell with operations on nodes; what leads nowhere looks like ``none``."""
    nodes, edges = [_Node(("0", "input"), "input")], []
    for number, node in enumerate(wiring.nodes, start=1):
        loose = number in wiring.loose
        kind = "output" if number == len(wiring.nodes) else "none" if loose else kind_of(node.operation)
        nodes.append(_Node((str(number), printable(node.operation)), kind))
        edges += [_Edge(source, number, None, "none" if loose else "plain") for source in node.sources]
    return nodes, edges


def _edge_cell(cell: CellGenotype) -> tuple[list[_Node], list[_Edge]]:
    wiring = Wiring.of(cell)
    place = {node: index for index, node in enumerate(wiring.nodes)}
    nodes = [_Node(_rows(wiring, node), _kind(wiring, node)) for node in wiring.nodes]
    edges = [
        _Edge(place[edge.source or 0], place[edge.target], printable(edge.choice), kind_of(edge.choice))
        for into in wiring.edges.values()
        for edge in into
    ]
    if wiring.concat:
        edges += [_Edge(place[node], len(nodes), None, "plain") for node in wiring.concat]
        nodes.append(_Node((wiring.output_label,), "output"))
    return nodes or [_Node(("no decisions",), "none")], edges


def _rows(wiring: Wiring, node: int) -> tuple[str, ...]:
    label = wiring.labels[node]
    rows = [label, *(printable(choice.choice) for choice in wiring.choices.get(node, ()))]
    if node in wiring.inputs and label == str(node):
        rows.append("input")
    elif node == wiring.last:
        rows.append("output")
    return tuple(rows)


def _kind(wiring: Wiring, node: int) -> str:
    if node in wiring.inputs:
        return "input"
    if node == wiring.last:
        return "output"
    return kind_of(wiring.choices[node][0].choice) if node in wiring.choices else "node"


def _layout(title: str, nodes: Sequence[_Node], edges: Sequence[_Edge]) -> CellLayout:
    label = max((18 + _SMALL_LETTER * len(edge.operation) for edge in edges if edge.operation), default=0.0)
    lanes = list(_lanes(edges))
    above, below = (max((lane * side for lane in lanes), default=0.0) for side in (1, -1))
    tallest = max(node.height for node in nodes) / 2
    row = _TITLE + max(above + BOX / 2, tallest) + 6
    gap = max(_GAP, label + 2 * 14.0)
    drawn, x = [], _MARGIN
    for node in nodes:
        drawn.append(DrawnNode(x + node.width / 2, row, node.width, node.height, node.rows, node.kind))
        x += node.width + gap
    width = max(x - gap + _MARGIN, 2 * _MARGIN + _LETTER * len(title))
    height = row + max(below + BOX / 2, tallest) + _MARGIN
    places = list(_drawn_edges(edges, lanes, drawn, label))
    return CellLayout(title, width, height, tuple(drawn), tuple(places))


def _lanes(edges: Sequence[_Edge]) -> Iterator[float]:
    """Yield the height of every edge over the row; below it is negative, and 0 is on the row itself.

    Edges with an operation take turns above and below, edges without one stay below, closer together.
    """
    heights: dict[int, float] = {}
    taken: dict[int, list[tuple[int, int]]] = {}
    straight: set[tuple[int, int]] = set()
    order = sorted(range(len(edges)), key=lambda at: (abs(edges[at].target - edges[at].source), edges[at].source, at))
    for at in order:
        span = (min(edges[at].source, edges[at].target), max(edges[at].source, edges[at].target))
        if edges[at].target - edges[at].source == 1 and span not in straight:
            straight.add(span)
            heights[at] = 0.0
            continue
        level = 1
        sides = (1, -1) if edges[at].operation else (-1,)
        while (side := next((side for side in sides if _is_free(taken.get(side * level, []), span)), 0)) == 0:
            level += 1
        taken.setdefault(side * level, []).append(span)
        step = _LANE if any(edge.operation for edge in edges) else _THIN_LANE * 2
        heights[at] = side * (_FIRST_LANE + (level - 1) * step)
    yield from (heights[at] for at in range(len(edges)))


def _is_free(taken: Sequence[tuple[int, int]], span: tuple[int, int]) -> bool:
    return all(span[1] <= start or end <= span[0] for start, end in taken)


def _drawn_edges(
    edges: Sequence[_Edge], lanes: Sequence[float], nodes: Sequence[DrawnNode], label: float
) -> Iterator[DrawnEdge]:
    for at, (edge, lane) in enumerate(zip(edges, lanes, strict=True)):
        source, target, row = nodes[edge.source], nodes[edge.target], nodes[0].y
        if lane == 0:
            start, end = (source.x + source.width / 2, row), (target.x - target.width / 2, row)
            corners = None
        else:
            side = 1 if lane > 0 else -1
            out, into = (_slot(edges, lanes, at, outgoing) for outgoing in (True, False))
            start = source.x + out * source.width * 0.38, row - side * _edge_height(source, out)
            end = target.x - into * target.width * 0.38, row - side * _edge_height(target, into)
            bend = _BEND if edge.target > edge.source else -_BEND
            corners = (start[0] + bend, row - lane), (end[0] - bend, row - lane)
        middle = (start[0] + end[0]) / 2
        yield DrawnEdge(start, end, corners, (middle, row - lane), label, edge.operation, edge.kind)


def _slot(edges: Sequence[_Edge], lanes: Sequence[float], at: int, outgoing: bool) -> float:
    """Return where an edge meets its node, from 0, the middle, to 1, the side; lower lanes are further out."""

    def node(index: int) -> int:
        return edges[index].source if outgoing else edges[index].target

    same = [one for one in range(len(edges)) if node(one) == node(at) and lanes[one] * lanes[at] > 0]
    same.sort(key=lambda one: -abs(lanes[one]))
    return (same.index(at) + 1) / (len(same) + 1)


def _edge_height(node: DrawnNode, slot: float) -> float:
    """Return how far above its middle an edge meets a node: a circle falls off toward its sides."""
    if node.kind != "node" or node.width > 2 * _RADIUS:
        return node.height / 2
    return float(_RADIUS * (1 - (0.76 * slot) ** 2) ** 0.5)
