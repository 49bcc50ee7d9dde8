"""Genotypes as DOT source, the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from archgrad.parts.fields import checked
from archgrad.report.wiring import NodeWiring, Wiring, kind_of, printable
from archgrad.spaces.genotype import CellGenotype, Decision, Genotype

__all__ = ["to_dot"]

_FONT = 'fontname="Helvetica,Arial,sans-serif", fontcolor="#1f2933"'
_GRAPH = (
    f"graph [rankdir=LR, bgcolor=white, {_FONT}, fontsize=15, nodesep=0.22, ranksep=0.34, pad=0.15, splines=spline]",
    f'node [shape=circle, style=filled, fillcolor="#ffffff", color="#52606d", penwidth=1.3, {_FONT}, fontsize=13, '
    'width=0.46, height=0.46, margin="0.07,0.04"]',
    'edge [penwidth=1.4, arrowsize=0.65, color="#52606d"]',
)
_COLORS = {
    "convolution": ("#1d5fa8", "#eaf2fb"),
    "pooling": ("#b45309", "#fdf1e3"),
    "skip": ("#2f7d4f", "#e9f6ee"),
    "none": ("#8a949e", "#ffffff"),
    "other": ("#6d4aa3", "#f2edf9"),
}
"""The colors of each kind of operation: lines and letters, then the background of its box."""
_INPUT = 'shape=box, style="filled,rounded", fillcolor="#e3eaf2"'
_OUTPUT = 'shape=box, style="filled,rounded", fillcolor="#f8e9cf"'
_SMALL = "fontsize=11, height=0.26, penwidth=1.0"
_LETTER = 0.09  # inches, a little more than a letter of that size takes


@checked
def to_dot(genotype: Genotype, dpi: int | None = None) -> str:
    """Return DOT source with one cluster per block; ``dpi`` sets the resolution of bitmaps made from it."""
    lines = [*_GRAPH] if dpi is None else [*_GRAPH, f"dpi={dpi}"]
    nodes = NodeWiring.of(genotype)
    if nodes is not None:
        return "\n".join(["digraph genotype {", *_indented([*lines, *_node_cell(nodes)]), "}", ""])
    # Graphviz stacks clusters from the bottom when ranks go from left to right.
    for index, (name, cell) in reversed([*enumerate(genotype.blocks)]):
        lines += [f"subgraph cluster_{index} {{", *_indented(_block(index, name, cell)), "}"]
    return "\n".join(["digraph genotype {", *_indented(lines), "}", ""])


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _node_cell(wiring: NodeWiring) -> Iterator[str]:
    """Yield a cell with operations on nodes; nodes that lead nowhere are pale."""
    output = len(wiring.nodes)
    yield f"{_id(0, 0)} [label={_quoted('0', 'input')}, {_INPUT}];"
    for number, node in enumerate(wiring.nodes, start=1):
        style = _OUTPUT if number == output else _box("none" if number in wiring.loose else node.operation)
        yield f"{_id(0, number)} [label={_quoted(str(number), node.operation)}, {style}];"
        for source in node.sources:
            pale = f' [style=dashed, penwidth=1.0, color="{_COLORS["none"][0]}"]' if number in wiring.loose else ""
            yield f"{_id(0, source)} -> {_id(0, number)}{pale};"


def _block(index: int, name: str, cell: CellGenotype) -> list[str]:
    wiring = Wiring.of(cell)
    head = [f"label={_quoted(name)}", "labeljust=l", 'style=rounded; color="#cbd2d9"; penwidth=1.0; margin=14']
    return head + [f"{line};" for line in [*_nodes(index, wiring), *_edges(index, wiring)]]


def _nodes(block: int, wiring: Wiring) -> Iterator[str]:
    for node in wiring.nodes:
        yield f"{_id(block, node)} [label={_node_label(wiring, node)}{_node_style(wiring, node)}]"
    if wiring.concat:
        yield f"{_id(block, None)} [label={_symbol(wiring.output_label)}, {_OUTPUT}]"
    if not wiring.nodes:
        yield f"{_id(block, None)} [label={_quoted('no decisions')}, shape=plaintext, style={_quoted('')}]"


def _node_label(wiring: Wiring, node: int) -> str:
    label = wiring.labels[node]
    rows = [choice.choice for choice in wiring.choices.get(node, ())]
    if node in wiring.inputs and label == str(node):
        rows.append("input")
    elif node == wiring.last:
        rows.append("output")
    return _quoted(label, *rows) if rows else _symbol(label)


def _node_style(wiring: Wiring, node: int) -> str:
    if node in wiring.inputs:
        return f", {_INPUT}"
    if node == wiring.last:
        return f", {_OUTPUT}"
    return f", {_box(wiring.choices[node][0].choice)}" if node in wiring.choices else ""


def _box(choice: str) -> str:
    line, ground = _COLORS[kind_of(choice)]
    style = "filled,rounded,dashed" if kind_of(choice) == "none" else "filled,rounded"
    return f'shape=box, style="{style}", color="{line}", fontcolor="{line}", fillcolor="{ground}"'


def _edges(block: int, wiring: Wiring) -> Iterator[str]:
    edges = [edge for node in wiring.nodes for edge in wiring.edges.get(node, ())]
    width = 0.2 + _LETTER * max((len(printable(edge.choice)) for edge in edges), default=0)
    for index, edge in enumerate(edges):
        yield from _edge(block, index, edge, width)
    for node in wiring.concat or ():
        yield f"{_id(block, node)} -> {_id(block, None)} [penwidth=1.1]"
    if not edges:  # invisible edges keep operations on nodes in order
        for before, after in zip(wiring.nodes, wiring.nodes[1:], strict=False):
            yield f"{_id(block, before)} -> {_id(block, after)} [style=invis]"


def _edge(block: int, index: int, edge: Decision, width: float) -> Iterator[str]:
    """Yield an edge as two lines with the operation in a box between them; a label beside a line is ambiguous."""
    kind = kind_of(edge.choice)
    style = f'color="{_COLORS[kind][0]}"' + (", style=dashed, penwidth=1.0" if kind == "none" else "")
    box = f"b{block}_e{index}"
    yield f"{box} [label={_quoted(edge.choice)}, {_box(edge.choice)}, {_SMALL}, width={width:.2f}]"
    yield f"{_id(block, edge.source)} -> {box}:w [{style}, arrowhead=none]"
    yield f"{box}:e -> {_id(block, edge.target)} [{style}]"


def _id(block: int, node: int | None) -> str:
    """Return the identifier of a node; None is the output of a concatenation."""
    return f"b{block}_out" if node is None else f"b{block}_n{node}"


def _symbol(label: str) -> str:
    """Return the label of a node: ``c_{k-1}`` with a subscript, anything else unchanged."""
    base, brace, index = label.partition("_{")
    return f"<<I>{base}</I><SUB>{index[:-1]}</SUB>>" if brace else _quoted(label)


def _quoted(*rows: str) -> str:
    """Return one label of several rows; escape backslashes, quotes and entities of untrusted names."""
    safe = [printable(row).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") for row in rows]
    return '"' + "\\n".join(safe) + '"'
