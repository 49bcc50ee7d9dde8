"""Reading architectures that a user names, and looking cells up."""

from __future__ import annotations

import errno
from pathlib import Path

from archgrad.errors import UserError
from archgrad.spaces import Genotype
from archgrad.spaces.nasbench101 import Module, pruned_genotype
from archgrad.spaces.notation import LONGEST
from archgrad.tables import TABLES, Answer, Table
from archgrad.tables.base import Progress

__all__ = ["find_best", "look_up", "read_architecture", "read_drawable"]


def read_drawable(text: str) -> Genotype:
    """Return a genotype to draw, also of a module of NAS-Bench-101, without its loose ends."""
    found = read_architecture(text)
    return pruned_genotype(found) if isinstance(found, Module) else found


def read_architecture(text: str) -> Genotype | Module:
    """Return a genotype, or a module of NAS-Bench-101 as JSON, given as text, as a file or as a run directory."""
    content = _content(text)
    is_module = content.lstrip().startswith("{") and '"matrix"' in content
    return Module.parse(content) if is_module else Genotype.parse(content)


def look_up(architecture: Genotype | Module, path: Path | None, progress: Progress | None = None) -> Answer:
    """Return what the table of a cell's benchmark knows of it."""
    own = next((table for table in TABLES.values() if table.has_form_of(architecture)), None)
    if own is None:
        titles = " or ".join(table.title for table in TABLES.values())
        raise UserError(f"no table has accuracies of the genotype {architecture}; give a cell of {titles}.")
    other = None if path is None else _table_by_name(path)
    if other is not None and other is not own:
        raise UserError(
            f"{path} is by its name a table of {other.title}, but the cell is one of {own.title}; give a "
            f"{own.suffixes[0]} file of that."
        )
    return own.look_up(architecture, path, progress)


def find_best(path: Path, progress: Progress | None = None) -> Answer:
    """Return what a table knows of its best cell."""
    table = _table_by_name(path)
    if table is None:
        known = ", ".join(f"{' or '.join(table.suffixes)} for {table.title}" for table in TABLES.values())
        raise UserError(f"the name of {path} does not say whose table it is; its name must end in {known}.")
    return table.best(path, progress)


def _table_by_name(path: Path) -> Table | None:
    return next((table for table in TABLES.values() if path.suffix.lower() in table.suffixes), None)


def _content(text: str) -> str:
    """Return text as it is, or the content of the file or run directory that it names."""
    path = Path(text)
    if _exists(path / "genotype.json"):
        path /= "genotype.json"
    if not _exists(path):
        if path.suffix in (".json", ".txt") or "/" in text.partition("|")[0].partition("{")[0]:
            raise UserError(f"there is no file {text}; give a genotype, a file or a run directory that holds one.")
        return text
    if path.is_dir():
        raise UserError(
            f"{path} has no genotype.json; give the directory of a search that has finished an epoch and decided: an "
            f"even mixture, as in a warm-up, has no genotype."
        )
    if not path.is_file():
        raise UserError(f"{path} is no regular file; give a genotype, a file or a run directory that holds one.")
    try:
        with path.open(encoding="utf-8") as file:
            content = file.read(LONGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as a genotype ({error}).") from error
    if len(content) > LONGEST:
        raise UserError(f"{path} has more than {LONGEST} characters; give a file with one genotype.")
    return content


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # a long genotype is no file name
        if error.errno in (errno.ENAMETOOLONG, errno.EINVAL):
            return False
        raise
    except ValueError:
        return False
