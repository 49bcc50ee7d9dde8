"""Convert genotypes of NAS-Bench-1Shot1 (operations on nodes) to modules of NAS-Bench-101, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from archgrad.errors import UserError
from archgrad.parts.fields import checked
from archgrad.spaces.block import DecisionBlock, Row
from archgrad.spaces.genotype import Genotype
from archgrad.spaces.nasbench101.module import CONV1X1, INPUT, MOST_VERTICES, OUTPUT, Module
from archgrad.spaces.notation.node_form import BLOCKS, NodeChoice, genotype_with, nodes_of
from archgrad.spaces.space import SearchSpace

__all__ = ["cell_rows", "genotype_of", "module_of", "offered_operations", "pruned_genotype"]

_MOST_NODES = MOST_VERTICES - 2


@checked
def module_of(genotype: Genotype) -> Module:
    """Return the module of a genotype with four or five nodes, before pruning.

    Each node becomes a vertex, in order. Four nodes are followed by a conv1×1 vertex that no vertex reads, as in spaces
    1 and 2 of NAS-Bench-1Shot1 (Zela et al., 2020), so all modules have seven vertices.
    """
    nodes = nodes_of(genotype)
    if nodes is None or len(nodes) - 1 not in (_MOST_NODES - 1, _MOST_NODES):
        raise UserError(
            f"the genotype {genotype} is not a cell within NAS-Bench-101; give one that decides {', '.join(BLOCKS)}, "
            f"with {_MOST_NODES - 1} or {_MOST_NODES} nodes that read earlier nodes, each once."
        )
    *inner, output = nodes
    inner += [NodeChoice(CONV1X1, ())] * (_MOST_NODES - len(inner))
    entering = [(), *(node.sources for node in inner), output.sources]
    vertices = range(len(entering))
    matrix = tuple(tuple(int(source in entering[vertex]) for vertex in vertices) for source in vertices)
    return Module(matrix, (INPUT, *(node.operation for node in inner), OUTPUT))


@checked
def pruned_genotype(module: Module) -> Genotype:
    """Return a genotype of the pruned module, with a node for each vertex between input and output.

    Use it to print and draw. It belongs to a space only if its nodes have as many inputs as those of the space.

    >>> str(pruned_genotype(Module(((0, 1, 1), (0, 0, 1), (0, 0, 0)), ("input", "maxpool3x3", "output"))))
    '[maxpool3x3~0][output~0,1]'
    """
    pruned = module.pruned()
    return genotype_with(
        [NodeChoice(pruned.operations[vertex], pruned.sources_of(vertex)) for vertex in range(1, pruned.vertices)]
    )


@checked
def genotype_of(space: SearchSpace, module: Module) -> Genotype:
    """Return the genotype of a module in a space with operations on nodes.

    The result of :func:`module_of` gives back its genotype. Any other module is pruned, and its vertices take the first
    assignment to the space's nodes that fits. Unused nodes take the first inputs and the first operation that the space
    offers; no node reads them. Either way the hash stays the same.
    """
    rows, offers = cell_rows(space), offered_operations(space)
    exact = _without_loose_vertex(module, nodes=len(rows) - 1)
    if exact is not None:
        straight = {vertex: vertex for vertex in range(exact.vertices)}
        if all(_fits(exact, vertex, straight, rows, offers) for vertex in range(1, exact.vertices)):
            return _genotype(exact, straight, rows, offers)
    pruned = module.pruned()
    for places in _placements(pruned, {0: 0, pruned.vertices - 1: len(rows)}, 1, rows, offers):
        return _genotype(pruned, places, rows, offers)
    reads = [len(pruned.sources_of(vertex)) for vertex in range(1, pruned.vertices)]
    raise UserError(
        f"the module {module.to_json()} is not in the space {space.name!r}: the nodes of the space read "
        f"{[row.picks for row in rows]} vertices (the last is the output), those of the pruned module read "
        f"{reads}. Choose a module of the space, or another space."
    )


def cell_rows(space: SearchSpace) -> tuple[Row, ...]:
    """Return the inputs that nodes 1, 2, … and the output may read; a node without a choice reads all before it."""
    _, inputs, output = _blocks_of(space)
    chosen = {row.target: row for row in (*inputs.rows, *output.rows)}
    nodes = range(1, max(chosen) + 1)
    return tuple(chosen.get(node) or Row(node, None, tuple(map(str, range(node))), picks=node) for node in nodes)


def offered_operations(space: SearchSpace) -> dict[int, tuple[str, ...]]:
    """Return the operations that each node may have."""
    operations, _, _ = _blocks_of(space)
    return {row.target: row.choices for row in operations.rows}


def _blocks_of(space: SearchSpace) -> tuple[DecisionBlock, DecisionBlock, DecisionBlock]:
    blocks = space.blocks
    names = tuple(block.name for block in blocks)
    if names != BLOCKS:
        raise UserError(
            f"the space {space.name!r} decides {', '.join(names)}; modules of NAS-Bench-101 belong to spaces that "
            f"decide {', '.join(BLOCKS)}, such as 'nasbench1shot1-1'."
        )
    operations, inputs, output = blocks
    return operations, inputs, output


def _without_loose_vertex(module: Module, nodes: int) -> Module | None:
    """Return the module without the unread seventh vertex, if it then has one vertex per node; else None."""
    if module.vertices == nodes + 2:
        return module
    loose = nodes + 1
    padded = nodes < _MOST_NODES and module.vertices == nodes + 3 and module.operations[loose] == CONV1X1
    if not padded or any(module.matrix[loose]) or module.sources_of(loose):
        return None
    return module.with_vertices([vertex for vertex in range(module.vertices) if vertex != loose])


def _placements(
    module: Module, places: dict[int, int], vertex: int, rows: Sequence[Row], offers: Mapping[int, tuple[str, ...]]
) -> Iterator[dict[int, int]]:
    """Yield every placement of the vertices from ``vertex`` on; the earlier ones are placed already."""
    if vertex == module.vertices - 1:
        if _fits(module, vertex, places, rows, offers):
            yield places
        return
    for node in range(1, len(rows)):
        extended = {**places, vertex: node}
        if node not in places.values() and _fits(module, vertex, extended, rows, offers):
            yield from _placements(module, extended, vertex + 1, rows, offers)


def _fits(
    module: Module, vertex: int, places: Mapping[int, int], rows: Sequence[Row], offers: Mapping[int, tuple[str, ...]]
) -> bool:
    """Tell whether the node of a vertex can have exactly the vertex's inputs, and offers its operation."""
    node = places[vertex]
    sources = {str(places[source]) for source in module.sources_of(vertex)}
    row = rows[node - 1]
    known = node == len(rows) or module.operations[vertex] in offers[node]
    return known and len(sources) == row.picks and sources <= set(row.choices)


def _genotype(
    module: Module, places: Mapping[int, int], rows: Sequence[Row], offers: Mapping[int, tuple[str, ...]]
) -> Genotype:
    vertices = {node: vertex for vertex, node in places.items()}
    nodes = []
    for row in rows:
        if row.target in vertices:
            vertex = vertices[row.target]
            sources = sorted(places[source] for source in module.sources_of(vertex))
            nodes.append(NodeChoice(module.operations[vertex], tuple(sources)))
        else:
            nodes.append(NodeChoice(offers[row.target][0], tuple(map(int, row.choices[: row.picks]))))
    return genotype_with(nodes)
