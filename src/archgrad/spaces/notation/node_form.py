"""The form of genotypes with operations on nodes: ``[op~0][op~1][op~0,2]…[output~2,3]``.

Each pair of brackets is a node, from node 1 on, with its operation and the nodes it reads; the last is the output.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from archgrad.spaces.genotype import CellGenotype, Decision, Genotype
from archgrad.spaces.notation.common import NAME, fail, show

__all__ = ["BLOCKS", "EXAMPLE", "OUTPUT", "NodeChoice", "genotype_with", "nodes_of", "parse", "write"]

EXAMPLE = "[op~0][op~1][op~0,2]…[output~2,3]"
BLOCKS = ("operations", "inputs", "output")
"""The blocks: operations of the nodes, inputs of the nodes with a choice, inputs of the output."""
OUTPUT = "output"
_NODE = re.compile(r"\[([^\[\]~]*)~([0-9,]*)\]")


class NodeChoice(NamedTuple):
    """A node: its operation (``output`` for the last) and its inputs, in order."""

    operation: str
    sources: tuple[int, ...]


def nodes_of(genotype: Genotype) -> tuple[NodeChoice, ...] | None:
    """Return the nodes 1, 2, … and the output of a genotype with operations on nodes; None for any other.

    A node without decided inputs reads all nodes before it.
    """
    if genotype.names != BLOCKS or any(cell.concat is not None for _, cell in genotype.blocks):
        return None
    operations, inputs, output = (cell.decisions for _, cell in genotype.blocks)
    last = len(operations) + 1
    if [one.target for one in operations] != list(range(1, last)) or {one.target for one in output} != {last}:
        return None
    if any(one.source is not None for one in genotype.decisions):
        return None
    read: dict[int, list[int]] = {}
    for decision in (*inputs, *output):
        number = decision.choice
        if not re.fullmatch(r"0|[1-9][0-9]{0,8}", number) or not int(number) < decision.target <= last:
            return None
        read.setdefault(decision.target, []).append(int(number))
    if any(len(own) != len(set(own)) for own in read.values()) or any(one.target == last for one in inputs):
        return None
    labels = [*(one.choice for one in operations), OUTPUT]
    return tuple(NodeChoice(label, tuple(sorted(read.get(n, range(n))))) for n, label in enumerate(labels, start=1))


def parse(text: str, start: int) -> Genotype:
    """Read the form that begins at ``start``."""
    nodes: list[NodeChoice] = []
    position = start
    while position < len(text):
        match = _NODE.match(text, position)
        if match is None:
            fail(text, position, "this is not a node in brackets", f"write {EXAMPLE}")
        nodes.append(_node(text, match, len(nodes) + 1))
        position = match.end()
        if nodes[-1].operation == OUTPUT:
            break
    if not nodes or nodes[-1].operation != OUTPUT:
        fail(text, len(text), "there is no output", f"end with [{OUTPUT}~…], as in {EXAMPLE}")
    if position != len(text):
        fail(text, position, "something follows the output", "remove it")
    return genotype_with(nodes)


def _node(text: str, match: re.Match[str], number: int) -> NodeChoice:
    operation, numbers = match[1], match[2].split(",")
    if not NAME.match(operation):
        fail(text, match.start(1), f"{show(operation)} is not the name of an operation", f"write {EXAMPLE}")
    if not all(re.fullmatch(r"0|[1-9][0-9]{0,8}", one) and int(one) < number for one in numbers):
        fix = f"node {number} reads nodes from 0 to {number - 1}, such as {operation}~0"
        fail(text, match.start(2), f"{show(match[2])} does not name earlier nodes", fix)
    sources = tuple(map(int, numbers))
    if list(sources) != sorted(set(sources)):
        fail(text, match.start(2), f"{show(match[2])} is not in order, or names a node twice", "sort it")
    return NodeChoice(operation, sources)


def genotype_with(nodes: Sequence[NodeChoice]) -> Genotype:
    """Return the genotype of these nodes; a node that reads all nodes before it has no decision about inputs."""
    last = len(nodes)
    operations = tuple(Decision(n, None, node.operation) for n, node in enumerate(nodes[:-1], start=1))
    inputs = tuple(
        Decision(n, None, str(source))
        for n, node in enumerate(nodes[:-1], start=1)
        for source in node.sources
        if len(node.sources) < n
    )
    output = tuple(Decision(last, None, str(source)) for source in nodes[-1].sources)
    return Genotype.of(dict(zip(BLOCKS, map(CellGenotype, (operations, inputs, output)), strict=True)))


def write(genotype: Genotype) -> str | None:
    """Print a genotype in this notation; return None if it cannot hold it."""
    nodes = nodes_of(genotype)
    if nodes is None or not all(NAME.match(node.operation) for node in nodes):
        return None
    if any(node.operation == OUTPUT for node in nodes[:-1]) or genotype_with(nodes) != genotype:
        return None
    return "".join(f"[{node.operation}~{','.join(map(str, node.sources))}]" for node in nodes)
