"""Showing what a search found."""

from __future__ import annotations

from archgrad.report.dot import to_dot
from archgrad.report.drawing import draw, graphviz_available
from archgrad.report.text import to_text

__all__ = ["draw", "graphviz_available", "to_dot", "to_text"]
