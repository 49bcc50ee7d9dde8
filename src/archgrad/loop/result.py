"""The result of a search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from archgrad.autodiff.tensors import Alpha
from archgrad.callbacks import Record
from archgrad.diagnostics import Diagnosis
from archgrad.discretizers import ScoredGenotype, most_probable
from archgrad.errors import UserError
from archgrad.loop.experiment import Experiment
from archgrad.loop.stages import SearchedStages, config_of_run, reopen
from archgrad.loop.state import nothing_decided
from archgrad.method.bundle import Method
from archgrad.method.reactions import diagnosed
from archgrad.parts.fields import check_value
from archgrad.report import to_svg
from archgrad.spaces import Cost, Genotype, SearchSpace
from archgrad.spaces.shared_weights import copy_shared_weights, measure_norms
from archgrad.supernet import Supernet
from archgrad.system.files import as_path

if TYPE_CHECKING:
    import archgrad
    from archgrad.data import Normalization
    from archgrad.tasks import BaseTask

__all__ = ["SearchResult", "result_of"]

_NORM_BATCHES = 50
"""The most batches that measure the batch norms of a network with shared weights."""


@dataclass(frozen=True, eq=False, repr=False)
class SearchResult:
    """The genotype that a search found, its last state and its history.

    ``mixture`` is the input of the supernet, ``{block: [cells, rows, choices]}``, and ``alpha`` the parameters behind
    it. ``history`` has one record per epoch, which ``pandas.DataFrame(result.history)`` takes. ``epochs`` is the
    planned number (of each stage, in a search in stages). ``budget`` says in one line what α's learning rate was, and
    why. ``stopped`` says why a search ended early; then the genotype is that of an earlier epoch, but mixture, α and
    supernet are the last ones. ``stages`` is what the search was made of.
    """

    genotype: Genotype
    history: tuple[Record, ...]
    mixture: dict[str, Tensor]
    alpha: Alpha
    supernet: Supernet
    seconds: float
    method: Method
    epochs: int
    budget: str
    stages: SearchedStages
    stopped: str | None = None

    @property
    def undecided(self) -> bool:
        """Whether all choices tie exactly, so that the genotype is just the first in the order of choices."""
        return nothing_decided(self.history, self.stopped)

    @property
    def space(self) -> SearchSpace:
        """The space that the genotype belongs to, at the searched size."""
        return replace(self._last.space, restriction=None)

    @property
    def _last(self) -> Experiment:
        return self.stages.runs[-1][0]

    @property
    def summary(self) -> dict[str, Any]:
        """The content of ``summary.json``, ready for JSON."""
        return self.stages.summary

    @property
    def normalization(self) -> Normalization:
        """How inputs ``[N, C, H, W]`` are normalized before they enter a network."""
        return self._last.weight_loader.normalization

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """The health of the search by its history; the advice names cures that its method lacks."""
        return diagnosed(self.history, self.epochs, self.method)

    def network(self, trained: bool = False) -> nn.Module:
        """Build the plain network of the genotype, at the searched size.

        It is new, or with ``trained`` it has the weights of the supernet. These were trained for all architectures at
        once: the network is a good start, not a finished model. Its batch norms have statistics of training batches,
        and it is in evaluation mode. Its inputs are normalized ones: ``result.normalization(images)``.
        """
        check_value("trained", trained, bool)
        if self.undecided:
            raise UserError("the search has chosen no architecture: all choices tie exactly; search for longer.")
        last = self._last
        network = self.space.network(self.genotype, num_classes=last.outputs, input_channels=last.data.channels)
        network.to(last.device)
        if trained:
            copy_shared_weights(self.supernet, network)
            count = min(last.weight_loader.steps, _NORM_BATCHES)
            measure_norms(network, (last.weight_loader.batch(number).inputs for number in range(count)))
        return network

    def top(self, k: int = 10) -> list[ScoredGenotype]:
        """Return the k most probable architectures by the last α, the most probable first; see ``most_probable``.

        The search itself may return another one than the first: after an early stop, or where its discretizer measures.
        """
        last, state = self.stages.runs[-1]
        probabilities = last.present_probabilities(state)
        if self.method.discretizer.ties(last.space, probabilities, last=True).everywhere:
            raise UserError(
                "no architecture is more probable than another: all choices tie exactly; search for longer."
            )
        return most_probable(last.space, probabilities, k)

    def cost(self, genotype: Genotype) -> Cost:
        """Count parameters and multiply-adds of a genotype's network at the searched size, on the searched images."""
        last = self._last
        return self.space.cost(genotype, **last.network_shape, image_size=last.data.image_size)

    def train(self, data: Any = None, **options: Any) -> archgrad.TrainResult:
        """Train the network of the genotype from scratch, by default on the searched data: ``archgrad.train(self)``."""
        import archgrad

        return archgrad.train(self, data=data, **options)

    def save(self, folder: Path | str) -> Path:
        """Write a run directory, as ``search(..., out=folder)`` does, and return its path."""
        return self.stages.save(folder)

    @classmethod
    def load(
        cls,
        folder: Path | str,
        *,
        space: SearchSpace | None = None,
        method: Method | None = None,
        data: Any = None,
        task: BaseTask | None = None,
    ) -> SearchResult:
        """Read the run directory of a finished search, and change nothing in it.

        Objects that the directory could not name must be given again, as for :func:`archgrad.resume`.
        """
        home = as_path("folder", folder)
        found = reopen(config_of_run(home, {"space": space, "method": method, "data": data, "task": task}), home)
        if not found.complete:
            raise UserError(f"the search in {home} is not finished; `archgrad resume {home}` finishes it.")
        return result_of(found)

    def __repr__(self) -> str:
        found = "no genotype" if self.undecided else self.genotype
        return f"<SearchResult {found}, {self._summary}>"

    @property
    def _summary(self) -> str:
        epochs = f"{len(self.history)} epochs" if len(self.history) != 1 else "1 epoch"
        return f"diagnosis {self.diagnosis.verdict}, {epochs}, {self.seconds:.1f} seconds"

    def _repr_svg_(self) -> str | None:
        """Return the drawn cell for notebooks; None if nothing is decided."""
        return None if self.undecided else to_svg(self.genotype)

    def _repr_html_(self) -> str:
        """Return a few lines and the drawn cell for notebooks."""
        head = f"<p><b>SearchResult</b>: {escape(self._summary)}</p>"
        if self.undecided:
            return f"{head}<p>no genotype: all choices tie exactly</p>"
        return f"{head}<p><code>{escape(str(self.genotype))}</code></p>{to_svg(self.genotype)}"


def result_of(stages: SearchedStages) -> SearchResult:
    """Return the result of a search whose last stage is in its last state."""
    experiment, state = stages.runs[-1]
    return SearchResult(
        state.genotype, tuple(stages.history), experiment.mixture(state), state.alpha, state.supernet,
        stages.seconds, experiment.method, experiment.weights.epochs,
        experiment.budget_line, stages, state.stopped,
    )  # fmt: skip
