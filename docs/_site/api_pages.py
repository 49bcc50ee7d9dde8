"""Makes a page of the reference for each room of the package: every name in ``__all__``, by mkdocstrings."""

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache

import archgrad


def rooms() -> Iterator[str]:
    """Yield the rooms: the modules and packages right below ``archgrad``."""
    return (one.name for one in pkgutil.iter_modules(archgrad.__path__) if not one.name.startswith("_"))


def public_names(room: str) -> list[str]:
    """Return the full names that a room offers; a package without ``__all__`` offers those of its modules."""
    module = importlib.import_module(f"archgrad.{room}")
    if hasattr(module, "__all__"):
        return [f"{module.__name__}.{name}" for name in module.__all__]
    inside = [importlib.import_module(f"{module.__name__}.{one.name}") for one in pkgutil.iter_modules(module.__path__)]
    return [f"{one.__name__}.{name}" for one in inside for name in getattr(one, "__all__", ())]


def summary(room: str) -> str:
    """Return the first line of a room's docstring."""
    return (importlib.import_module(f"archgrad.{room}").__doc__ or "").strip().splitlines()[0]


@cache
def pages() -> dict[str, str]:
    """Return the pages by their paths in the site."""
    table, made = ["| room | what it holds |", "|---|---|"], {}
    for room in rooms():
        made[f"api/{room}.md"] = f"# archgrad.{room}\n\n{summary(room)}\n\n{_entries(public_names(room))}"
        table.append(f"| [`archgrad.{room}`]({room}.md) | {summary(room)} |")
    homes = {id(_named(full)): full for room in rooms() for full in public_names(room)}
    links, own = [], []
    for name in archgrad.__all__:
        thing = getattr(archgrad, name)
        if name in rooms():
            links.append(f"[`{name}`]({name}.md)")
            continue
        if id(thing) not in homes:
            own.append(f"{thing.__module__}.{name}")
        links.append(f"[`{name}`][{homes.get(id(thing)) or own[-1]}]")
    offers = f"Every public name, from its docstring. `import archgrad as ag` offers {', '.join(links)}."
    made["api/index.md"] = "\n".join(["# Reference", "", offers, "", *table, "", _entries(own)])
    return made


def _entries(names: list[str]) -> str:
    return "".join(f"::: {name}\n\n" for name in names)


def _named(full: str) -> object:
    module, _, name = full.rpartition(".")
    return getattr(importlib.import_module(module), name)
