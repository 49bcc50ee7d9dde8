"""Draw the rooms of the package, the imports between them and the way of one search: ``python docs/house.py``.

The rooms and their order are the table in CONTRIBUTING.md. Arrows are imports; one that follows from others is left
out. ``tests/test_house.py`` checks that ``docs/images/house.svg`` is what this script draws.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from html import escape
from itertools import pairwise
from pathlib import Path

__all__ = ["FIGURE", "PACKAGE", "drawing", "imports_of", "room_of", "rooms"]

_HERE = Path(__file__).resolve().parent
FIGURE = _HERE / "images" / "house.svg"
PACKAGE = _HERE.parent / "src" / "archgrad"

_WAY = {
    "cli": "reads the command",
    "config": "describes the search in one object",
    "recipes": "brings the method's published settings",
    "data": "loads images and splits them",
    "spaces": "says what can be chosen",
    "supernet": "computes all choices, mixed",
    "loop": "repeats the steps, epoch by epoch:",
    "relaxations": "α → mixture",
    "hypergradients": "losses → gradient of α",
    "regularizers": "add their terms",
    "arch_optimizers": "gradient → next α",
    "callbacks": "measure, diagnose, record, stop",
    "discretizers": "last mixture → genotype",
    "report": "draws it",
}
"""The rooms that one search crosses, in this order, and what happens in each."""

_BOX, _LANE, _GAP = 144, 18, 20
_TALL, _STEP, _TOP, _LEFT, _NOTES = 24, 44, 20, 20, 330
_LEFT_OUT = ("One that follows from other arrows", "is left out.")
_STYLE = """
text { font: 13px Helvetica, Arial, sans-serif; fill: #1f2933; }
rect { fill: #ffffff; stroke: #9aa5b1; rx: 5; }
path { fill: none; stroke: #b4bec8; stroke-width: 1.2; marker-end: url(#tip); }
.way rect { fill: #eaf2fb; stroke: #1d5fa8; stroke-width: 1.6; }
path.way { stroke: #1d5fa8; stroke-width: 1.8; }
.tip { fill: #7b8794; stroke: none; marker-end: none; }
.number { fill: #1d5fa8; font-weight: bold; }
"""


def rooms() -> list[str]:
    """Return the rooms in the order of the table in CONTRIBUTING.md."""
    text = (_HERE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("| room |")[2].partition("\n\n")[0]
    return re.findall(r"^\| `(\w+)/?` \|", text, re.MULTILINE)


def room_of(path: Path) -> str:
    """Return the room of a file of the package."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the full name of everything imported, at the top or inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{start}.{alias.name}") for alias in node.names)


def _graph() -> dict[str, set[str]]:
    """Return the rooms that each room imports."""
    graph: dict[str, set[str]] = {room: set() for room in rooms()}
    for path in sorted(PACKAGE.rglob("*.py")):
        here = room_of(path)
        for _, name in imports_of(ast.parse(path.read_text(encoding="utf-8"))) if here in graph else ():
            there = name.removeprefix("archgrad.").partition(".")[0]
            if name.startswith("archgrad.") and there in graph and there != here:
                graph[here].add(there)
    return graph


def _levels_and_arrows(graph: dict[str, set[str]]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return how high each room stands above what it imports, and the imports that follow from no others."""
    level: dict[str, int] = {}
    reached: dict[str, set[str]] = {}
    for room in graph:  # a room stands behind all that it imports
        level[room] = 1 + max((level[there] for there in graph[room]), default=-1)
        reached[room] = set().union(graph[room], *(reached[there] for there in graph[room]))
    arrows = [
        (room, there)
        for room, imported in graph.items()
        for there in sorted(imported)
        if not any(there in reached[other] for other in imported)
    ]
    return level, arrows


def _layout(level: dict[str, int], arrows: list[tuple[str, str]]) -> tuple[dict[str, float], list[list[str]]]:
    """Return the middle of each room, and each arrow as the points that it passes, from the top down.

    An arrow across several floors passes a narrow lane on each. A few sweeps move everything near what it touches.
    """
    ways = []
    for room, there in arrows:
        between = [f"{room} {there} {floor}" for floor in range(level[room] - 1, level[there], -1)]
        ways.append([room, *between, there])
    floors: dict[int, list[str]] = {}
    for room, floor in level.items():
        floors.setdefault(floor, []).append(room)
    for lane in (point for way in ways for point in way[1:-1]):
        floors.setdefault(int(lane.split()[-1]), []).append(lane)
    touching: dict[str, list[str]] = {point: [] for floor in floors.values() for point in floor}
    for upper, lower in (pair for way in ways for pair in pairwise(way)):
        touching[upper].append(lower)
        touching[lower].append(upper)
    x = dict.fromkeys(touching, 0.0)
    for _ in range(40):
        for floor in sorted(floors):
            wanted = {point: sum(x[one] for one in touching[point]) / len(touching[point]) for point in floors[floor]}
            order = sorted(floors[floor], key=lambda point: (wanted[point], point))
            widths = [_LANE if " " in point else _BOX + _GAP for point in order]
            left = -sum(widths) / 2
            for point, width in zip(order, widths, strict=True):
                x[point] = left + width / 2
                left += width
    first = min(value - _BOX / 2 for point, value in x.items() if " " not in point)
    return {point: value - first + _LEFT for point, value in x.items()}, ways


def drawing() -> str:
    """Return the figure as SVG."""
    level, arrows = _levels_and_arrows(_graph())
    x, ways = _layout(level, arrows)
    top = max(level.values())
    lines = []
    for way in ways:
        start, end = way[0], way[-1]
        ys = [_TOP + _TALL + (top - level[start]) * _STEP + number * _STEP for number in range(len(way))]
        bends = [
            f"C {x[upper]:.0f} {high + 10:.0f} {x[lower]:.0f} {high + 10:.0f} {x[lower]:.0f} {high + 20:.0f}"
            + ("" if lower == end else f" v {_TALL}")
            for (upper, lower), high in zip(pairwise(way), ys, strict=False)
        ]
        marked = ' class="way"' if {start, end} <= _WAY.keys() else ""
        lines.append(f'<path{marked} d="M {x[start]:.0f} {ys[0]:.0f} {" ".join(bends)}"/>')
    numbers = {room: number for number, room in enumerate(_WAY, start=1)}
    for room, floor in level.items():
        y, marked = _TOP + (top - floor) * _STEP, ' class="way"' if room in _WAY else ""
        lines.append(
            f'<g{marked}><rect x="{x[room] - _BOX / 2:.0f}" y="{y}" width="{_BOX}" height="{_TALL}"/>'
            f'<text x="{x[room] + 8:.0f}" y="{y + 17}" text-anchor="middle">{room}</text></g>'
        )
        if room in _WAY:
            lines.append(f'<text class="number" x="{x[room] - _BOX / 2 + 5:.0f}" y="{y + 17}">{numbers[room]}</text>')
    notes = [f'<tspan class="number">{number} {room}</tspan> {escape(_WAY[room])}' for room, number in numbers.items()]
    notes = ["The way of one search:", *notes, "", "An arrow points to what a room imports.", *_LEFT_OUT]
    beside = max(x.values()) + _BOX / 2 + _LEFT
    lines += [f'<text x="{beside:.0f}" y="{_TOP + 17 + 26 * place}">{note}</text>' for place, note in enumerate(notes)]
    width, height = round(beside) + _NOTES, _TOP * 2 + top * _STEP + _TALL
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    ground = (
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path class="tip" d="M 0 0 L 8 4 L 0 8 z"/></marker>'
        f'<path style="fill:#ffffff;stroke:none;marker-end:none" d="M 0 0 H {width} V {height} H 0 Z"/>'
    )
    return "\n".join([head, f"<style>{_STYLE}</style>", ground, *lines, "</svg>", ""])


if __name__ == "__main__":
    FIGURE.write_text(drawing(), encoding="utf-8")
