"""Modules of NAS-Bench-101: what is a module, pruning, and the canonical hash."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from archgrad.errors import UserError
from archgrad.spaces.nasbench101 import CONV1X1, CONV3X3, INPUT, MAXPOOL3X3, OPERATIONS, OUTPUT, Module

REAL = Path(os.environ.get("ARCHGRAD_DATA") or "absent", "nasbench101", "models-1k.jsonl")
needs_models = pytest.mark.skipif(not REAL.is_file(), reason="needs nasbench101/models-1k.jsonl under ARCHGRAD_DATA")
LINE = Module(((0, 1, 0), (0, 0, 1), (0, 0, 0)), (INPUT, CONV3X3, OUTPUT))
REAL_CELL = Module(
    (
        (0, 1, 0, 0, 1, 1, 0),
        (0, 0, 1, 0, 0, 0, 0),
        (0, 0, 0, 1, 0, 0, 1),
        (0, 0, 0, 0, 0, 1, 0),
        (0, 0, 0, 0, 0, 1, 0),
        (0, 0, 0, 0, 0, 0, 1),
        (0, 0, 0, 0, 0, 0, 0),
    ),
    (INPUT, CONV3X3, MAXPOOL3X3, CONV3X3, CONV3X3, CONV1X1, OUTPUT),
)
REAL_HASH = "00005c142e6f48ac74fdcf73e3439874"


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in REAL.read_text(encoding="utf-8").splitlines()]


def dice(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311


def random_module(generator: random.Random, vertices: int) -> Module:
    """A module whose input and output are connected, with loose ends more often than not."""
    matrix = [[int(i < j and generator.random() < 0.35) for j in range(vertices)] for i in range(vertices)]
    middle = generator.randrange(1, vertices - 1)
    matrix[0][middle] = matrix[middle][-1] = 1
    interior = [generator.choice(OPERATIONS) for _ in range(vertices - 2)]
    return Module(tuple(map(tuple, matrix)), (INPUT, *interior, OUTPUT))


def reordered(module: Module, generator: random.Random) -> Module:
    """The same module with its vertices in another topological order."""
    order, left = [0], set(range(1, module.vertices - 1))
    while left:
        ready = [v for v in sorted(left) if set(module.sources_of(v)) <= set(order)]
        order.append(generator.choice(ready))
        left.remove(order[-1])
    order.append(module.vertices - 1)
    matrix = tuple(tuple(module.matrix[i][j] for j in order) for i in order)
    return Module(matrix, tuple(module.operations[i] for i in order))


def with_loose_vertex(module: Module, generator: random.Random) -> Module:
    """The same module and, somewhere inside, a vertex that reads others and that nothing reads, or the reverse."""
    place = generator.randrange(1, module.vertices)
    old = [v for v in range(module.vertices + 1) if v != place]
    matrix = [[0] * (module.vertices + 1) for _ in range(module.vertices + 1)]
    for i, row in zip(old, module.matrix, strict=True):
        for j, entry in zip(old, row, strict=True):
            matrix[i][j] = entry
    if generator.random() < 0.5:
        for source in range(place):
            matrix[source][place] = generator.randrange(2)
    else:
        for target in range(place + 1, module.vertices + 1):
            matrix[place][target] = generator.randrange(2)
    operations = [*module.operations[:place], generator.choice(OPERATIONS), *module.operations[place:]]
    return Module(tuple(map(tuple, matrix)), tuple(operations))


def on_paths(module: Module) -> set[int]:
    """All vertices of all paths, by walking each of them."""
    found: set[int] = set()
    paths = [(0,)]
    while paths:
        path = paths.pop()
        if path[-1] == module.vertices - 1:
            found.update(path)
        paths += [(*path, w) for w in range(path[-1] + 1, module.vertices) if module.matrix[path[-1]][w]]
    return found


def test_the_hash_is_the_benchmark_s() -> None:
    assert REAL_CELL.hash == REAL_HASH


@needs_models
def test_every_hash_of_the_real_models_is_matched() -> None:
    table = rows()
    assert len(table) == 1000
    assert [Module.parse(json.dumps(row)).hash for row in table] == [row["hash"] for row in table]


@pytest.mark.parametrize("seed", range(20))
def test_isomorphic_modules_have_one_hash_and_prune_to_what_paths_visit(seed: int) -> None:
    generator = dice(seed)
    module = random_module(generator, generator.randrange(3, 9))
    pruned = module.pruned()
    assert pruned.vertices == len(on_paths(module))
    assert pruned.operations == tuple(module.operations[v] for v in sorted(on_paths(module)))
    assert on_paths(pruned) == set(range(pruned.vertices))
    assert pruned.pruned() is pruned
    for other in (pruned, reordered(module, generator), with_loose_vertex(module, generator)):
        assert other.hash == module.hash


def test_an_input_that_does_not_reach_the_output_cannot_be_pruned_or_hashed() -> None:
    module = Module(((0, 1, 0), (0, 0, 0), (0, 0, 0)), (INPUT, CONV3X3, OUTPUT))
    for use in (module.pruned, module.check, lambda: module.hash):
        with pytest.raises(UserError, match="no path leads from the input to the output"):
            use()


def chain(vertices: int, *shortcuts: tuple[int, int]) -> Module:
    edges = {(v, v + 1) for v in range(vertices - 1)} | set(shortcuts)
    matrix = tuple(tuple(int((i, j) in edges) for j in range(vertices)) for i in range(vertices))
    return Module(matrix, (INPUT, *[CONV1X1] * (vertices - 2), OUTPUT))


def test_the_benchmark_s_limits_hold_after_pruning() -> None:
    chain(7, (0, 2), (0, 3), (0, 4)).check()
    with_loose_vertex(chain(7), dice(1)).check()
    with pytest.raises(UserError, match=r"8 vertices and 7 edges after pruning; .* at most 7 vertices and 9 edges"):
        chain(8).check()
    with pytest.raises(UserError, match="7 vertices and 10 edges after pruning"):
        chain(7, (0, 2), (0, 3), (0, 4), (0, 5)).check()


@pytest.mark.parametrize("module", [LINE, REAL_CELL])
def test_json_is_read_back_and_other_keys_are_ignored(module: Module) -> None:
    assert Module.parse(module.to_json()) == module
    assert (
        json.loads(module.to_json())
        == module.to_dict()
        == {
            "matrix": [list(row) for row in module.matrix],
            "ops": list(module.operations),
        }
    )
    assert Module.parse(json.dumps({"hash": "?", **module.to_dict(), "params": 1})) == module


OPS = (INPUT, CONV3X3, OUTPUT)


@pytest.mark.parametrize(
    ("matrix", "operations", "sentence"),
    [
        (7, OPS, "matrix of a module is 7; it must be"),
        ([], [], "has 0 rows .*; it must be square, with 2 .* to 32 rows"),
        ([[0, 1], [0, 0], [0, 0]], OPS, "matrix of a module has 3 rows of 2 entries; it must be square"),
        ([[0, 2, 0], [0, 0, 1], [0, 0, 0]], OPS, r"entry \(0, 1\) of a module's matrix is 2; it must be 1 where"),
        ([[0, 10**5000, 0], [0, 0, 1], [0, 0, 0]], OPS, r"entry \(0, 1\) of .* cannot be printed; it must be 1"),
        ([[0, True, 0], [0, 0, 1], [0, 0, 0]], OPS, "matrix of a module is .*True"),
        ([[0, 1, 0], [1, 0, 1], [0, 0, 0]], OPS, r"entry \(1, 0\) of .* is 1; .* topological order"),
        (LINE.matrix, OPS[:2], "a module has 2 operations; give one for each of its 3 vertices"),
        (LINE.matrix, (INPUT, "conv3x3", OUTPUT), "operation of vertex 1 .* 'conv3x3'; did you mean 'conv3x3-bn-relu'"),
        (LINE.matrix, (CONV3X3, CONV3X3, OUTPUT), "operation of vertex 0 .*Choose from: input"),
        (LINE.matrix, (INPUT, ["x"], OUTPUT), "operations of a module"),
    ],
)
def test_what_is_no_module_is_refused(matrix: Any, operations: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Module(matrix, operations)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "malformed module at position 0"),
        ('{"matrix": [[0, 1], [0, 0]', "not valid JSON"),
        ('{"matrix": [[0, 1], [0, 0]]}', 'has no "ops"'),
        ('{"ops": [], "ops": ["input", "output"], "matrix": [[0, 1], [0, 0]]}', "the key 'ops' appears twice"),
        ('{"matrix": ' + "[" * 40_000, "nested too deeply"),
        (" " * 100_001, "too long"),
    ],
)
def test_what_is_no_text_of_a_module_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Module.parse(text)
