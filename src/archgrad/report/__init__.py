"""Drawings and curves of search results."""

from __future__ import annotations

from archgrad.report.curves import Curve, EpochStatistics, curve_of, draw_curves, draw_panels, panels_of
from archgrad.report.drawing import draw
from archgrad.report.svg import to_svg
from archgrad.report.text import to_text

__all__ = [
    "Curve",
    "EpochStatistics",
    "curve_of",
    "draw",
    "draw_curves",
    "draw_panels",
    "panels_of",
    "to_svg",
    "to_text",
]
