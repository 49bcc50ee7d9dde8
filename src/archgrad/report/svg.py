"""A drawn cell as SVG: readable in light and dark, by colors that color-blind eyes tell apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from archgrad.parts.fields import checked
from archgrad.report.layout import BOX, CellLayout, DrawnEdge, DrawnNode, lay_out
from archgrad.report.text import to_text
from archgrad.spaces.genotype import Genotype

__all__ = ["COLORS", "cell_style", "to_svg"]

COLORS = {
    "convolution": "#0072b2",
    "pooling": "#b35900",
    "skip": "#00795c",
    "none": "#6b7580",
    "other": "#8b4a9c",
    "plain": "#52606d",
}
"""The colors of the kinds of operations; those of Okabe and Ito, darker where they are letters."""
_LIGHT = {"page": "#ffffff", "text": "#1f2933", "input": "#e3eaf2", "output": "#f8e9cf", **COLORS}
_DARK = {
    "page": "#14181d",
    "text": "#e4e7eb",
    "input": "#26313d",
    "output": "#40351f",
    "convolution": "#6fb9e8",
    "pooling": "#f0a35c",
    "skip": "#4cc9a4",
    "none": "#9aa5b1",
    "other": "#d59ae3",
    "plain": "#9aa5b1",
}
_SHAPES = (
    ".cell{font-family:Helvetica,Arial,sans-serif}.cell text{font-size:13px;text-anchor:middle}"
    ".cell .title{font-size:15px;text-anchor:start;font-weight:600}.cell .operation text{font-size:11px}"
    ".cell path{fill:none;stroke-width:1.6}.cell .plain path{stroke-width:1}.cell rect{stroke-width:1.2}"
    ".cell .none path,.cell .none rect{stroke-dasharray:4 3}.cell path.head{stroke:none}"
)


@checked
def to_svg(genotype: Genotype, styled: bool = True) -> str:
    """Return a genotype as an SVG picture, its blocks from top to bottom.

    A page with many of them has :func:`cell_style` once, and pictures that are not ``styled``.
    """
    cells = lay_out(genotype)
    width, height = max((cell.width for cell in cells), default=200.0), sum(cell.height for cell in cells) or 20.0
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" class="cell" role="img" aria-label="{escape(_spoken(genotype))}">',
        *([f"<style>{cell_style()}</style>"] if styled else []),
    ]
    top = 0.0
    for cell in cells:
        lines += [f'<g transform="translate(0 {top:.1f})">', *_cell(cell), "</g>"]
        top += cell.height
    return "\n".join([*lines, "</svg>", ""])


def _spoken(genotype: Genotype) -> str:
    """Return the cell in words, for screen readers."""
    return " ".join(to_text(genotype).split())[:2000]


def cell_style() -> str:
    """Return the rules of CSS for drawn cells."""
    return f"{_SHAPES}{_rules(_LIGHT)}@media(prefers-color-scheme:dark){{{_rules(_DARK)}}}"


def _rules(colors: Mapping[str, str]) -> str:
    """Return the colors as rules of CSS; without variables, which many viewers of SVG do not know."""
    rules = [f".cell{{background:{colors['page']}}}.cell text{{fill:{colors['text']}}}"]
    rules += [f".cell rect{{fill:{colors['page']};stroke:{colors['plain']}}}"]
    rules += [f".cell .{kind} rect{{fill:{colors[kind]}}}" for kind in ("input", "output")]
    for kind in COLORS:
        ink = colors[kind]
        rules += [f".cell .{kind} path,.cell .{kind} rect{{stroke:{ink}}}"]
        rules += [f".cell .{kind} path.head,.cell .operation.{kind} text{{fill:{ink}}}"]
    return "".join(rules)


def _cell(cell: CellLayout) -> Iterator[str]:
    yield f'<text class="title" x="8" y="18">{escape(cell.title)}</text>'
    for edge in sorted(cell.edges, key=lambda edge: edge.operation is not None):  # lines cross no operation
        yield f'<g class="operation {edge.kind}"><path d="{_way(edge)}"/><path class="head" d="{_head(edge)}"/></g>'
    for edge in cell.edges:
        if edge.operation is not None:
            yield _operation(edge, edge.operation)
    for node in cell.nodes:
        yield _node(node)


def _operation(edge: DrawnEdge, name: str) -> str:
    (x, y), width = edge.box, edge.width
    rect = f'<rect x="{x - width / 2:.1f}" y="{y - BOX / 2:.1f}" width="{width:.1f}" height="{BOX:.0f}" rx="5"/>'
    return f'<g class="operation {edge.kind}">{rect}<text x="{x:.1f}" y="{y + 4:.1f}">{escape(name)}</text></g>'


def _way(edge: DrawnEdge) -> str:
    (x, y), (to_x, to_y) = edge.start, edge.end
    if edge.corners is None:
        return f"M{x:.1f} {y:.1f}H{to_x:.1f}"
    (left, lane), (right, _) = edge.corners
    return (
        f"M{x:.1f} {y:.1f}C{x:.1f} {lane:.1f} {x:.1f} {lane:.1f} {left:.1f} {lane:.1f}H{right:.1f}"
        f"C{to_x:.1f} {lane:.1f} {to_x:.1f} {lane:.1f} {to_x:.1f} {to_y:.1f}"
    )


def _head(edge: DrawnEdge) -> str:
    """Return the arrowhead: to the right on the row, down from above, up from below."""
    x, y = edge.end
    if edge.corners is None:
        return f"M{x:.1f} {y:.1f}l-8 -4v8z"
    back = -8 if edge.corners[0][1] < y else 8
    return f"M{x:.1f} {y:.1f}l-4 {back}h8z"


def _node(node: DrawnNode) -> str:
    corner = node.height / 2 if node.kind == "node" and node.width == node.height else 7
    rect = (
        f'<rect x="{node.x - node.width / 2:.1f}" y="{node.y - node.height / 2:.1f}" width="{node.width:.1f}" '
        f'height="{node.height:.1f}" rx="{corner:.0f}"/>'
    )
    first = node.y + 4.5 - 8.0 * (len(node.rows) - 1)
    rows = "".join(
        f'<text x="{node.x:.1f}" y="{first + 16.0 * at:.1f}">{_symbol(row)}</text>' for at, row in enumerate(node.rows)
    )
    return f'<g class="{node.kind}">{rect}{rows}</g>'


def _symbol(label: str) -> str:
    """Return the text of a node; ``c_{k-1}`` gets a subscript."""
    base, brace, index = label.partition("_{")
    if not brace:
        return escape(label)
    return f'<tspan font-style="italic">{escape(base)}</tspan><tspan dy="4" font-size="9">{escape(index[:-1])}</tspan>'
