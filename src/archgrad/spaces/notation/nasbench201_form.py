"""The NAS-Bench-201 string: ``|op~0|+|op~0|op~1|+|op~0|op~1|op~2|``."""

from __future__ import annotations

from archgrad.spaces.genotype import CellGenotype, Decision, Genotype
from archgrad.spaces.notation.common import NAME, fail, show

__all__ = ["EXAMPLE", "parse", "write"]

EXAMPLE = "|op~0|+|op~0|op~1|+|op~0|op~1|op~2|"


def parse(text: str, start: int) -> Genotype:
    """Read the string that begins at ``start``."""
    decisions: list[Decision] = []
    position = start
    for target, node in enumerate(text[start:].split("+"), start=1):
        decisions += _parse_node(text, node, position, target)
        position += len(node) + 1
    return Genotype.of({"cell": CellGenotype(tuple(decisions))})


def _parse_node(text: str, node: str, start: int, target: int) -> list[Decision]:
    if len(node) < 2 or not (node.startswith("|") and node.endswith("|")):
        fail(text, start, f"node {target} is not enclosed in '|'", f"write {EXAMPLE}")
    decisions: list[Decision] = []
    position = start + 1
    for source, edge in enumerate(node[1:-1].split("|")):
        operation, tilde, number = edge.partition("~")
        if not tilde or not NAME.match(operation):
            fail(text, position, f"{show(edge)} is not operation~source", f"write {EXAMPLE}")
        if number != str(source):
            fix = f"edges come in order, so write {show(operation)[1:-1]}~{source}"
            fail(text, position + len(operation) + 1, f"the source {show(number)} should be {source}", fix)
        decisions.append(Decision(target, source, operation))
        position += len(edge) + 1
    if len(decisions) != target:
        fix = f"node {target} takes one from each of the {target} nodes before it"
        fail(text, start, f"node {target} has {len(decisions)} edges", fix)
    return decisions


def write(genotype: Genotype) -> str | None:
    """Print a genotype in this notation; return None if it cannot hold it."""
    if genotype.names != ("cell",) or genotype["cell"].concat is not None or not genotype["cell"].decisions:
        return None
    nodes: list[list[str]] = [[]]
    for decision in genotype["cell"]:
        if len(nodes[-1]) == len(nodes):  # node t takes t edges
            nodes.append([])
        if (decision.target, decision.source) != (len(nodes), len(nodes[-1])) or not NAME.match(decision.choice):
            return None
        nodes[-1].append(f"{decision.choice}~{decision.source}")
    return "+".join(f"|{'|'.join(node)}|" for node in nodes) if len(nodes[-1]) == len(nodes) else None
