"""The trade between a cost and an accuracy: the points that none beats, and how much they are worth together."""

from __future__ import annotations

from collections.abc import Iterable

from archgrad.parts.fields import checked

__all__ = ["Point", "hypervolume", "pareto_front"]

Point = tuple[float, float]
"""A cost, which should be low, and an accuracy, which should be high."""


@checked
def pareto_front(points: Iterable[Point]) -> list[Point]:
    """Return the points that no other beats, by growing cost: none is at most as expensive and at least as accurate.

    >>> pareto_front([(1.0, 50.0), (2.0, 40.0), (3.0, 90.0), (3.0, 80.0)])
    [(1.0, 50.0), (3.0, 90.0)]
    """
    front: list[Point] = []
    for cost, accuracy in sorted(set(points), key=lambda point: (point[0], -point[1])):
        if not front or accuracy > front[-1][1]:
            front.append((cost, accuracy))
    return front


@checked
def hypervolume(points: Iterable[Point], reference: Point) -> float:
    """Return the area of all (cost, accuracy) that a point beats and that beat the ``reference``.

    With the front (c_1, a_1), …, (c_n, a_n) by growing cost, and the reference (c_0, a_0), it is

        Σ_i (c_0 − c_i) · (a_i − a_{i−1})     over the points with c_i < c_0 and a_i > a_0.

    >>> hypervolume([(1.0, 50.0), (3.0, 90.0)], (4.0, 0.0))
    190.0
    """
    area, below = 0.0, reference[1]
    for cost, accuracy in pareto_front(points):
        if cost < reference[0] and accuracy > below:
            area += (reference[0] - cost) * (accuracy - below)
            below = accuracy
    return area
