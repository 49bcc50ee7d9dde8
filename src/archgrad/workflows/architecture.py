"""Find the space, the size and the genotype that a user means by a name, a text, a file or a run directory."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from archgrad.errors import UserError, unknown
from archgrad.models import Model
from archgrad.spaces import (
    KNOWN_NETWORKS,
    SPACES,
    Chain,
    Genotype,
    NASNet,
    SearchSpace,
    known_cells,
    known_genotype,
    named_space,
)
from archgrad.spaces.chain import CHAIN
from archgrad.spaces.nasbench101 import Module, pruned_genotype
from archgrad.spaces.notation import LONGEST
from archgrad.spaces.notation.chain_form import is_code
from archgrad.system.files import exists, read_text

__all__ = ["Architecture", "find_architecture", "read_architecture", "read_drawable", "short_name", "sized"]

_NAME = re.compile(r"[\w-]+")


@dataclass(frozen=True)
class Architecture:
    """A genotype in its space, and the run directory or the model that it comes from, if any."""

    space: SearchSpace
    genotype: Genotype
    run: Path | None = None
    model: Model | None = None


def find_architecture(text: str, space: str | None, sizes: Mapping[str, Any]) -> Architecture:
    """Return the architecture that ``text`` names.

    ``space`` is needed only where the genotype does not tell. ``sizes`` may have ``channels``, ``cells`` and ``stem``;
    None stands for the size of the run, or the size at which the literature compares such architectures.
    """
    if exists(Path(text) / "config.toml"):
        found = _of_run(Path(text))
    elif exists(Path(text) / "model.json"):
        model = Model.load(text)
        found = Architecture(model.space, model.genotype, model=model)
    elif text in KNOWN_NETWORKS:
        found = Architecture(named_space(text), KNOWN_NETWORKS[text])
    elif text in known_cells():
        cell = known_cells()[text]
        found = Architecture(_at_published_size(cell.space()), cell.genotype)
    else:
        genotype = read_architecture(text)
        if not isinstance(genotype, Genotype):
            raise UserError("a NAS-Bench-101 module has no space here; give a genotype, a run or a well-known cell.")
        found = Architecture(_at_published_size(_space_of(genotype, space)), genotype)
    found = replace(found, space=sized(found.space, sizes))
    found.space.check(found.genotype)
    return found


def read_drawable(text: str) -> Genotype:
    """Return a genotype to draw; a NAS-Bench-101 module loses its loose ends."""
    found = read_architecture(text)
    return pruned_genotype(found) if isinstance(found, Module) else found


def read_architecture(text: str) -> Genotype | Module:
    """Return a genotype or a NAS-Bench-101 module by a well-known name, from text, a file or a run directory."""
    if known := known_genotype(text):
        return known
    content = _content(text)
    is_module = content.lstrip().startswith("{") and '"matrix"' in content
    return Module.parse(content) if is_module else Genotype.parse(content)


def short_name(genotype: str, longest: int = 100) -> str:
    """Return the well-known name of a genotype, or its text; a longer one has a short name of its own."""
    names = {str(cell.genotype): name for name, cell in known_cells().items()}
    names |= {str(own): name for name, own in KNOWN_NETWORKS.items()}
    short = genotype if len(genotype) <= longest else f"cell {hashlib.sha256(genotype.encode()).hexdigest()[:6]}"
    return names.get(genotype, short)


def _content(text: str) -> str:
    """Return the content of the file or run directory that the text names, or else the text itself."""
    if not text.strip():
        raise UserError("the genotype is empty; give its text, a file, a run directory or a well-known name.")
    path = Path(text)
    if exists(path / "genotype.json"):
        path /= "genotype.json"
    if not exists(path):
        if _NAME.fullmatch(text) and not is_code(text):
            raise unknown("well-known cell", text, (*known_cells(), *KNOWN_NETWORKS))
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


def _of_run(run: Path) -> Architecture:
    from archgrad.config import read_run_config
    from archgrad.config.resolve import method_of, space_of
    from archgrad.workflows.single_architecture import SingleArchitecture

    config = read_run_config(run)
    if "space" in config.needs:
        raise UserError(f"the space of {run} cannot be named in a file; use Python: ag.SearchResult.load(…).network().")
    space = space_of(config)
    if isinstance(space, SingleArchitecture):  # a training
        return Architecture(space.base, space.fixed, run)
    plan = method_of(config).progressive
    space = space if plan is None else plan.sized(space, len(plan.stages) - 1)
    genotype = Genotype.parse(_content(str(run)))
    return Architecture(replace(space, restriction=None), genotype, run)


def _space_of(genotype: Genotype, name: str | None) -> SearchSpace:
    """Return the named space, or the first that has this genotype; a chain is as long as the genotype."""
    if name is not None:
        return _as_long(named_space(name), genotype)
    for one in (*map(SPACES.create, SPACES), NASNet()):
        space = _as_long(one, genotype)
        try:
            space.check(genotype)
        except UserError:
            continue
        return space
    raise UserError("this genotype is in none of the spaces; name one with --space, and it will say why.")


def _as_long(space: SearchSpace, genotype: Genotype) -> SearchSpace:
    if not isinstance(space, Chain) or genotype.names != (CHAIN,):
        return space
    return replace(space, cells=len(genotype[CHAIN].decisions))


def _at_published_size(space: SearchSpace) -> SearchSpace:
    return replace(space, **dict[str, Any](space.compared_at))


def sized(space: SearchSpace, sizes: Mapping[str, Any]) -> SearchSpace:
    """Return the space with other ``channels``, ``cells`` and ``stem``; None leaves one as it is."""
    given = {name: value for name, value in sizes.items() if value is not None}
    if "cells" in given:
        given[space.depth_knob] = given.pop("cells")
    missing = sorted(set(given) - {one.name for one in fields(space)})
    if missing:
        raise UserError(f"the space {space.name!r} has no {' or '.join(missing)}; leave that out.")
    return replace(space, **given)
