"""Searches that differ in their seeds vote: the mean of their mixtures decides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from archgrad.autodiff.tensors import Probabilities
from archgrad.callbacks.mixture import MIXTURE, read_mixture
from archgrad.config import SearchConfig, read_run_config
from archgrad.config.resolve import method_of, space_of
from archgrad.discretizers import Discretizer
from archgrad.errors import UserError
from archgrad.relaxations.base import shapes_of
from archgrad.spaces import Genotype, SearchSpace
from archgrad.studies.folder import StudyFolder
from archgrad.studies.study import Study
from archgrad.supernet import SupernetOptions
from archgrad.system.files import as_path, write_text

__all__ = ["LAST_SHARE", "Vote", "vote", "write_vote"]

LAST_SHARE = 0.25
"""A search votes with its mean mixture of this last share of its epochs, because choices that are near flicker."""


@dataclass(frozen=True)
class Vote:
    """What several searches of one space decide together.

    ``probabilities`` ``{block: [rows, choices]}`` is the mean of their mixtures, and ``genotype`` its architecture.
    ``own`` are the architectures that each of ``runs`` would choose by itself.
    """

    space: SearchSpace
    genotype: Genotype
    probabilities: Probabilities
    runs: tuple[Path, ...]
    own: tuple[Genotype, ...]

    @property
    def votes(self) -> dict[str, int]:
        """How many searches would make each decision of the genotype by themselves, such as conv@cell:2<-0."""
        own = [set(_decisions(one)) for one in self.own]
        return {decision: sum(decision in one for one in own) for decision in _decisions(self.genotype)}

    @property
    def agreement(self) -> float:
        """The share of the decisions that a search would make by itself too, in the mean over the searches."""
        return sum(self.votes.values()) / (len(self.votes) * len(self.own))


def vote(*runs: Path | str) -> Vote:
    """Let finished searches vote; ``runs`` are their run directories, or the folder of a study of one method.

    Each search counts with its mean mixture of the last quarter of its epochs, and the discretizer of its method
    derives the architecture from the mean over all searches.
    """
    folders = tuple(one for run in runs for one in _runs_of(as_path("run", run)))
    if not folders:
        raise UserError("nothing can vote; give the run directories of finished searches, or a study of one method.")
    configs = [read_run_config(folder) for folder in folders]
    space, discretizer, options = _asked(configs[0])
    for folder, config in zip(folders, configs, strict=True):
        if _asked(config)[:2] != (space, discretizer):
            raise UserError(
                f"{folder} searched another space, or in another way, than {folders[0]}; vote among equals."
            )
    mixtures = [_last_mixture(folder, space, options) for folder in folders]
    mean = Probabilities({name: torch.stack([one[name] for one in mixtures]).mean(0) for name in mixtures[0]})
    if discretizer.ties(space, mean, last=True).everywhere:
        raise UserError("all choices tie exactly in the mean of these searches, so they decide nothing; search longer.")
    own = tuple(discretizer.select(space, one) for one in mixtures)
    return Vote(space, discretizer.select(space, mean), mean, folders, own)


def write_vote(found: Vote, folder: Path) -> None:
    """Write the architecture and a configuration, with which `archgrad train FOLDER` and others use it as a run."""
    text = (found.runs[0] / "config.toml").read_text(encoding="utf-8")
    write_text(folder / "config.toml", text)
    write_text(folder / "genotype.json", found.genotype.to_json() + "\n")


def _runs_of(folder: Path) -> Sequence[Path]:
    """Return the run directories of a study of one method, or the folder itself."""
    if not StudyFolder(folder).exists():
        return (folder,)
    study = Study.load(folder)
    plan = study.plan
    if len(plan.variants) * len(plan.benchmarks) > 1:
        raise UserError(
            f"{folder} compares several methods or data; name the runs that vote, such as "
            f"{folder / plan.benchmarks[0].name}/{plan.variants[0].name}-seed*."
        )
    return [study.folder.run_folder(run) for run in plan.runs() if study.folder.is_finished(run)]


def _asked(config: SearchConfig) -> tuple[SearchSpace, Discretizer, SupernetOptions]:
    """Return the whole space of a search, how its method derives, and the options of its supernet."""
    method, space = method_of(config), space_of(config)
    plan = method.progressive
    space = space if plan is None else plan.sized(space, len(plan.stages) - 1)
    if method.discretizer.measures:
        raise UserError(f"{config.method} derives by measuring architectures, so it cannot vote with its mixture.")
    return replace(space, restriction=None), method.discretizer, method.supernet


def _last_mixture(folder: Path, space: SearchSpace, options: SupernetOptions) -> Probabilities:
    """Return the mean mixture of a search over its last epochs; choices that a stage has dropped have no weight."""
    stages = sorted(folder.glob(f"stage-*/{MIXTURE}"), key=lambda path: (len(path.parent.name), path.parent.name))
    choices, epochs = read_mixture(stages[-1] if stages else folder / MIXTURE)
    last = torch.tensor(epochs[-math.ceil(LAST_SHARE * len(epochs)) :], dtype=torch.float64).mean(0).tolist()
    weights = dict(zip(choices, last, strict=True))
    blocks = space.searched_blocks(options)
    mixture = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes_of(blocks).items()}
    for block in blocks:
        for number, row in enumerate(block.rows):
            for at, choice in enumerate(row.choices):
                mixture[block.name][number, at] = weights.get((block.name, row.name, choice), 0.0)
    return Probabilities(mixture)


def _decisions(genotype: Genotype) -> list[str]:
    return [f"{one.choice}@{name}:{one.row}" for name, cell in genotype.blocks for one in cell]
