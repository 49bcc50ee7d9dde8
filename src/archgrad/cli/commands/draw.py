"""``archgrad draw``."""

from __future__ import annotations

from archgrad.cli import options

__all__ = ["draw"]


def draw(genotype: options.DrawnGenotype, out: options.DrawingFile = None) -> None:
    """Draw the cells of a genotype, or a module without its loose ends."""
    from archgrad import report
    from archgrad.cli.console import errors, say
    from archgrad.cli.query import read_drawable

    cell = read_drawable(genotype)
    if out is None:
        say(report.to_text(cell))
        return
    drawn = report.draw(cell, out)
    if drawn != out:
        say(f"{out} needs Graphviz (the program dot and the Python package); the cell is drawn as text:", errors())
    say(str(drawn))
