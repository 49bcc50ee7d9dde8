"""Genotypes as text, for terminals and mails.

All characters are in old terminal fonts. Arrows point into a node; a dotted arrow is the operation ``none``.
"""

from __future__ import annotations

from collections.abc import Iterator

from archgrad.parts.fields import checked
from archgrad.report.wiring import NodeWiring, Wiring, kind_of, printable
from archgrad.spaces.genotype import CellGenotype, Decision, Genotype

__all__ = ["to_text"]


@checked
def to_text(genotype: Genotype) -> str:
    """Draw a genotype as aligned lines, block by block, with a line break at the end.

    >>> genotype = Genotype.parse("|nor_conv_3x3~0|+|none~0|skip_connect~1|")
    >>> print(to_text(genotype), end="")
    cell
      0  (input)
      1  ◄── nor_conv_3x3 ── 0
      2  ◄·· none ·········· 0  (output)
         ◄── skip_connect ── 1
    """
    if not genotype.blocks:
        return "(a genotype without blocks)\n"
    nodes = NodeWiring.of(genotype)
    if nodes is not None:
        return "\n".join(["cell", *_node_lines(nodes), ""])
    return "\n".join(_block(name, cell) for name, cell in genotype.blocks)


def _node_lines(wiring: NodeWiring) -> Iterator[str]:
    """Yield one line for each node: its operation and its inputs."""
    labels = [f"[{printable(node.operation)}]" for node in wiring.nodes[:-1]] + ["(output)"]
    margin, width = len(str(len(labels))), max(map(len, labels))
    yield f"  {0:<{margin}}  (input)"
    for number, (node, label) in enumerate(zip(wiring.nodes, labels, strict=True), start=1):
        sources = ", ".join(map(str, node.sources))
        note = "  (leads nowhere)" if number in wiring.loose else ""
        yield f"  {number:<{margin}}  {label:<{width}}  ◄── {sources}{note}"


def _block(name: str, cell: CellGenotype) -> str:
    wiring = Wiring.of(cell)
    labels = [*wiring.labels.values(), *([wiring.output_label] if wiring.concat else [])]
    margin = max(map(len, labels), default=0)
    lines = [f"  {label:<{margin}}  {content}".rstrip() for label, content in _lines(wiring)]
    return "\n".join([printable(name), *(lines or ["  (no decisions)"]), ""])


def _lines(wiring: Wiring) -> Iterator[tuple[str, str]]:
    """Yield the label and content of each line; the label is empty if the line above is about the same node."""
    width = max((len(printable(edge.choice)) for edges in wiring.edges.values() for edge in edges), default=0)
    far = max((len(wiring.labels[edge.source or 0]) for edges in wiring.edges.values() for edge in edges), default=0)
    for node in wiring.nodes:
        contents = [f"[{printable(choice.choice)}]" for choice in wiring.choices.get(node, ())]
        contents += [_arrow(wiring, edge, width) for edge in wiring.edges.get(node, ())]
        if node in wiring.inputs:
            contents.append("(input)")
        elif node == wiring.last:
            contents[0] = f"{contents[0]:<{width + far + 9}} (output)"
        for index, content in enumerate(contents):
            yield ("" if index else wiring.labels[node]), content
    if wiring.concat:
        joined = ", ".join(wiring.labels[node] for node in wiring.concat)
        yield wiring.output_label, f"◄── concatenation of {joined}"


def _arrow(wiring: Wiring, edge: Decision, width: int) -> str:
    line = "·" if kind_of(edge.choice) == "none" else "─"
    name = printable(edge.choice)
    return f"◄{line * 2} {name} {line * (width - len(name) + 2)} {wiring.labels[edge.source or 0]}"
