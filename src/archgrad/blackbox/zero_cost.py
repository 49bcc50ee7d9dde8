"""Search by a zero-cost score: the best of many architectures that nothing has trained."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import ClassVar, Literal

import torch

from archgrad.blackbox.base import BlackboxSearch, Objective, Problem, Proposals, check_independent_rows
from archgrad.blackbox.scores import SCORES
from archgrad.data import Batch, Data, Loader, normalization_of
from archgrad.errors import UserError
from archgrad.parts.fields import Count
from archgrad.spaces import Genotype, SearchSpace
from archgrad.system.random_streams import seed_of

__all__ = ["ZeroCost"]


@dataclass(frozen=True)
class ZeroCost(BlackboxSearch):
    """The best of ``samples`` random architectures by a score of the untrained network on one batch.

    Every network starts from the same random numbers, at the size of the space. Without ``samples`` all architectures
    of the space are scored. It trains nothing: its simulated time is 0, and a query is a score. It is the floor that a
    search must beat.
    """

    needs_table: ClassVar[bool] = False

    score: Literal["params", "flops", "synflow", "jacov", "nwot", "grad-norm", "snip"] = "synflow"
    samples: Count | None = 100
    batch_size: Count = 64

    def check(self, space: SearchSpace) -> None:
        """Reject spaces whose architectures cannot be listed, if all are to be scored."""
        if self.samples is None:
            check_independent_rows("zero-cost without samples", space)

    def proposals(self, problem: Problem) -> Proposals:
        """Draw architectures, or list all of them."""
        draws = problem.stream("draw")
        if self.samples is None:
            yield from _all_genotypes(problem)
        for _ in range(self.samples or 0):
            yield problem.draw(draws)

    def objective(self, problem: Problem) -> Objective:
        """Return the score on a batch of the data."""
        images = problem.images()
        if not images.classes:
            raise UserError(f"zero-cost scores need classes, but the targets of {images.name!r} are none.")
        batch = _first_batch(images, self.batch_size, problem.seed)

        def value(genotype: Genotype) -> float:
            with torch.random.fork_rng([]):
                torch.default_generator.manual_seed(seed_of(problem.seed, "blackbox", "weights"))
                network = problem.space.network(
                    genotype, num_classes=images.num_classes, input_channels=images.channels
                )
            return SCORES[self.score](network, batch.inputs, batch.targets)

        source = f"{self.score} of untrained networks on {len(batch.targets)} images of {images.name}"
        return Objective(self.score.replace("-", "_"), value, lambda genotype: 0.0, source)


def _first_batch(images: Data, size: int, seed: int) -> Batch:
    everything = torch.arange(len(images))
    normalization = normalization_of(images, everything)
    return Loader(images, everything, size, normalization, seed=seed, stream="blackbox").batch(0)


def _all_genotypes(problem: Problem) -> Proposals:
    """Yield every architecture of a space whose rows are independent."""
    offered = [
        [(block.name, index, place) for place, choice in enumerate(row.choices) if choice not in block.excluded]
        for block in problem.blocks
        for index, row in enumerate(block.rows)
    ]
    for choices in product(*offered):
        chosen: dict[str, list[tuple[int, int]]] = {block.name: [] for block in problem.blocks}
        for name, row, place in choices:
            chosen[name].append((row, place))
        yield problem.space.genotype(chosen)
