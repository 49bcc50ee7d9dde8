"""Read architectures that a user gives, and look up their accuracy in tables."""

from __future__ import annotations

from pathlib import Path

from archgrad.errors import UserError
from archgrad.spaces import Genotype
from archgrad.spaces.nasbench101 import Module, pruned_genotype
from archgrad.spaces.notation import LONGEST
from archgrad.system.files import exists, read_text
from archgrad.tables import TABLES, Answer, Table

__all__ = ["find_best", "look_up", "read_architecture", "read_drawable"]


def read_drawable(text: str) -> Genotype:
    """Return a genotype to draw; a NAS-Bench-101 module becomes one without its loose ends."""
    found = read_architecture(text)
    return pruned_genotype(found) if isinstance(found, Module) else found


def read_architecture(text: str) -> Genotype | Module:
    """Return a genotype or a NAS-Bench-101 module from text, from a file or from a run directory."""
    content = _content(text)
    is_module = content.lstrip().startswith("{") and '"matrix"' in content
    return Module.parse(content) if is_module else Genotype.parse(content)


def look_up(architecture: Genotype | Module, path: Path | None) -> Answer:
    """Look a cell up in the table of its benchmark."""
    own = next((table for table in TABLES.values() if table.has_form_of(architecture)), None)
    if own is None:
        titles = " or ".join(table.title for table in TABLES.values())
        raise UserError(f"no table has the accuracy of the genotype {architecture}; give a cell of {titles}.")
    other = None if path is None else _table_by_name(path)
    if other is not None and other is not own:
        raise UserError(
            f"the name of {path} says that it is a table of {other.title}, but the cell is from {own.title}; give a "
            f"{own.suffixes[0]} file of {own.title}."
        )
    return own.look_up(architecture, path)


def find_best(path: Path) -> Answer:
    """Look up the best cell of a table."""
    table = _table_by_name(path)
    if table is None:
        known = ", ".join(f"{' or '.join(table.suffixes)} for {table.title}" for table in TABLES.values())
        raise UserError(
            f"the name of {path} does not tell which benchmark its table is from; it must end in {known}. "
            f"The official folder of NATS-Bench, or a .tfrecord file, becomes a table with: archgrad convert PATH"
        )
    return table.best(path)


def _table_by_name(path: Path) -> Table | None:
    return next((table for table in TABLES.values() if path.suffix.lower() in table.suffixes), None)


def _content(text: str) -> str:
    """Return the content of the file or run directory that the text names, or else the text itself."""
    path = Path(text)
    if exists(path / "genotype.json"):
        path /= "genotype.json"
    if not exists(path):
        if path.suffix in (".json", ".txt") or "/" in text.partition("|")[0].partition("{")[0]:
            raise UserError(
                f"there is no file {text[:150]}; give a genotype, a file or a run directory that holds one."
            )
        return text
    if path.is_dir():
        raise UserError(
            f"{path} has no genotype.json; give the directory of a search that has finished an epoch after its "
            f"warm-up: an even mixture has no genotype."
        )
    return read_text(path, "file with a genotype", LONGEST)
