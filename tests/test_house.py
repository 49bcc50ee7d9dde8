"""Imports point one way: a room may use what stands before it in the house, never behind it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from each_of import each_of

import archgrad

ROOT = Path(archgrad.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
DOCS = Path(__file__).resolve().parent.parent / "docs"
sys.path.insert(0, str(DOCS))
from house import FIGURE, drawing, imports_of, room_of, rooms  # noqa: E402

FLOOR = {room: number for number, room in enumerate([*rooms(), "__main__"])}
"""The place of each room in the table of CONTRIBUTING.md."""
STRANGERS = {("spaces", "data"), ("data", "spaces")}
"""Rooms that know nothing of each other, although one stands before the other."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def violations(path: Path) -> Iterator[str]:
    here = room_of(path)
    for line, module in imports_of(ast.parse(path.read_text(encoding="utf-8"))):
        parts = module.split(".")
        if not parts[0]:
            yield f"{name_of(path)}:{line}: imports are absolute here"
        if parts[0] != "archgrad" or len(parts) == 1 or parts[1] == "__version__":
            continue
        there = parts[1]
        if there not in FLOOR:
            yield f"{name_of(path)}:{line} imports {module}, which is no room of the house"
        elif (here, there) in STRANGERS or FLOOR[there] > FLOOR[here]:
            yield f"{name_of(path)}:{line}: {here} must not import {module}"


@each_of(path for path in FILES if path != ROOT / "__init__.py")
def test_imports_point_one_way(path: Path) -> None:
    assert room_of(path) in FLOOR, f"{name_of(path)} has no place in the house; give it one here"
    assert list(violations(path)) == []


@each_of(FILES)
def test_every_module_says_what_it_offers(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "a module begins with what it is for"
    if path.name == "__main__.py":
        return
    targets = [node.targets[0] for node in tree.body if isinstance(node, ast.Assign)]
    targets += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    bare = len(tree.body) == 1  # a folder's own file may hold nothing but its docstring
    assert bare or "__all__" in [target.id for target in targets if isinstance(target, ast.Name)]


@each_of(sorted((ROOT / "loop").glob("*.py")))
def test_the_loop_names_no_member_of_a_family(path: Path) -> None:
    from archgrad import callbacks, hypergradients, regularizers

    members = [type(make()).__name__ for make in (*callbacks.CALLBACKS.values(), *regularizers.REGULARIZERS.values())]
    members += [type(make()).__name__ for make in hypergradients.HYPERGRADIENTS.values()]
    imported = [module.rpartition(".")[2] for _, module in imports_of(ast.parse(path.read_text(encoding="utf-8")))]
    assert not set(members) & set(imported)


def test_the_table_of_rooms_fits_on_a_screen() -> None:
    text = (DOCS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = [
        line for line in text.splitlines() if any(line.startswith((f"| `{room}", f"| `{room}/")) for room in rooms())
    ]
    assert len(rooms()) == len(set(rooms())) <= 32
    assert max(map(len, rows)) <= 110


def test_the_figure_of_the_house_is_up_to_date() -> None:
    assert FIGURE.read_text(encoding="utf-8") == drawing(), "the imports changed; run `python docs/house.py`"


def test_the_rules_are_broken_by_what_breaks_them() -> None:
    assert FLOOR["spaces"] < FLOOR["loop"] < FLOOR["cli"]
    source = "def f():\n    from archgrad.loop import run\n    import archgrad.data\n"
    assert [module for _, module in imports_of(ast.parse(source))] == ["archgrad.loop.run", "archgrad.data"]


def test_everything_the_package_offers_exists() -> None:
    for name in archgrad.__all__:
        assert getattr(archgrad, name) is not None
    assert set(archgrad.__all__) <= set(dir(archgrad))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        archgrad.nothing  # noqa: B018


def test_importing_the_package_costs_nothing() -> None:
    heavy = {"torch", "numpy", "rich", "typer", "sklearn", "scipy"}
    code = f"import sys, archgrad; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
