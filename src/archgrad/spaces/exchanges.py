"""Architectures that differ in one choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from archgrad.spaces.block import DecisionBlock
from archgrad.spaces.choice_costs import Selected, groups_of
from archgrad.spaces.genotype import Genotype
from archgrad.spaces.genotype_check import row_of

__all__ = ["exchanges", "selected_choices"]


def selected_choices(blocks: Sequence[DecisionBlock], genotype: Genotype) -> Selected:
    """Return the rows and choices of a genotype."""
    found: Selected = {}
    for block in blocks:
        rows = [(row_of(block, decision), decision.choice) for decision in genotype[block.name]]
        found[block.name] = [(row, block.rows[row].choices.index(choice)) for row, choice in rows]
    return found


def exchanges(blocks: Sequence[DecisionBlock], selected: Selected) -> Iterator[tuple[str, int, int, Selected]]:
    """Yield every choice that is not selected, and each selection with it in the place of one that competes with it."""
    for block in blocks:
        own = selected[block.name]
        for rows, _ in groups_of(block):
            taken = [pair for pair in own if pair[0] in rows]
            for row in rows:
                rivals = [pair for pair in taken if pair[0] == row] or taken
                for choice, name in enumerate(block.rows[row].choices):
                    if name in block.excluded or (row, choice) in own:
                        continue
                    for rival in rivals:
                        changed = sorted({*own, (row, choice)}.difference([rival]))
                        yield block.name, row, choice, {**selected, block.name: changed}
