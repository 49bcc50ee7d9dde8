"""A drawn cell as PNG or PDF, by matplotlib."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from archgrad.report.figure import check_picture, save_figure
from archgrad.report.layout import BOX, CellLayout, DrawnEdge, DrawnNode, lay_out
from archgrad.report.svg import COLORS
from archgrad.spaces.genotype import Genotype

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["save_picture"]

_INCH = 96.0
"""Pixels of the layout in an inch."""
_POINT = 72 / _INCH
_GROUNDS = {"input": "#e3eaf2", "output": "#f8e9cf"}


def save_picture(genotype: Genotype, path: Path) -> None:
    """Draw a genotype into a PNG or PDF file, its blocks from top to bottom."""
    check_picture(path)
    cells = lay_out(genotype)
    width = max((cell.width for cell in cells), default=200.0)
    height = sum(cell.height for cell in cells) or 20.0
    save_figure(partial(_fill, cells, width, height), path, (width / _INCH, height / _INCH))


def _fill(cells: list[CellLayout], width: float, height: float, figure: Figure) -> None:
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    top = 0.0
    for cell in cells:
        axes.text(8, top + 13, cell.title, fontsize=15 * _POINT, fontweight="bold", va="center", parse_math=False)
        for edge in sorted(cell.edges, key=lambda edge: edge.operation is not None):
            _line(axes, edge, top)
        for edge in cell.edges:
            if edge.operation is not None:
                _box(axes, edge.box, (edge.width, BOX), top, COLORS[edge.kind], "white", edge.kind == "none")
                _text(axes, edge.operation, edge.box[0], top + edge.box[1], 11, COLORS[edge.kind])
        for node in cell.nodes:
            _node(axes, node, top)
        top += cell.height


def _line(axes: Axes, edge: DrawnEdge, top: float) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Curve

    (x, y), (to_x, to_y) = edge.start, edge.end
    points, codes = [(x, y), (to_x, to_y)], [Curve.MOVETO, Curve.LINETO]
    if edge.corners is not None:
        (left, lane), (right, _) = edge.corners
        points = [(x, y), (x, lane), (x, lane), (left, lane), (right, lane), (to_x, lane), (to_x, lane), (to_x, to_y)]
        codes = [Curve.MOVETO, *3 * [Curve.CURVE4], Curve.LINETO, *3 * [Curve.CURVE4]]
    curve = Curve([(px, top + py) for px, py in points], codes)
    style = "--" if edge.kind == "none" else "-"
    width = 0.8 if edge.operation is None else 1.2
    color = COLORS[edge.kind]
    axes.add_patch(
        FancyArrowPatch(
            path=curve, arrowstyle="-|>", mutation_scale=9, color=color, lw=width, ls=style, fill=False, zorder=1
        )
    )


def _box(
    axes: Axes, middle: tuple[float, float], size: tuple[float, float], top: float, ink: str, ground: str, dashed: bool
) -> None:
    from matplotlib.patches import FancyBboxPatch

    (x, y), (width, height) = middle, size
    corner = f"round,pad=0,rounding_size={min(height / 2, 6 if width > height else height / 2)}"
    style = "--" if dashed else "-"
    place = (x - width / 2, top + y - height / 2)
    axes.add_patch(FancyBboxPatch(place, width, height, boxstyle=corner, ec=ink, fc=ground, lw=0.9, ls=style, zorder=2))


def _node(axes: Axes, node: DrawnNode, top: float) -> None:
    ink = COLORS.get(node.kind, COLORS["plain"])
    ground = _GROUNDS.get(node.kind, "white")
    _box(axes, (node.x, node.y), (node.width, node.height), top, ink, ground, node.kind == "none")
    first = top + node.y - 8 * (len(node.rows) - 1)
    for at, row in enumerate(node.rows):
        _text(axes, row, node.x, first + 16 * at, 13, "#1f2933")


def _text(axes: Axes, text: str, x: float, y: float, size: float, color: str) -> None:
    symbol = text.startswith("c_{")
    shown = f"${text}$" if symbol else text
    axes.text(x, y, shown, fontsize=size * _POINT, color=color, ha="center", va="center", zorder=3, parse_math=symbol)
