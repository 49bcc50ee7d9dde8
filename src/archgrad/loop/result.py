"""The result of a search."""

from __future__ import annotations

from collections.abc import Callable
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
from archgrad.loop.state import nothing_decided
from archgrad.method.bundle import Method
from archgrad.method.reactions import diagnosed
from archgrad.parts.fields import check_value
from archgrad.relaxations import expand_to_cells
from archgrad.report import to_svg
from archgrad.spaces import Cost, Genotype, SearchSpace
from archgrad.spaces.shared_weights import copy_shared_weights, measure_norms
from archgrad.supernet import Supernet

if TYPE_CHECKING:
    import archgrad
    from archgrad.data import Normalization
    from archgrad.loop.setup import Setup
    from archgrad.loop.state import SearchState
    from archgrad.tasks import BaseTask

__all__ = ["SearchResult", "SearchedStages", "result_of"]

_NORM_BATCHES = 50
"""The most batches that measure the batch norms of a network with shared weights."""


@dataclass(frozen=True, eq=False)
class SearchedStages:
    """The setup and the last state of every stage of a search; most searches have one.

    ``whole`` is the setup of the whole search, and ``describe`` writes its configuration as TOML.
    """

    whole: Setup
    runs: tuple[tuple[Setup, SearchState], ...]
    describe: Callable[[], str]


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
        return replace(self._setup.space, restriction=None)

    @property
    def _setup(self) -> Setup:
        return self.stages.runs[-1][0]

    @property
    def normalization(self) -> Normalization:
        """How inputs ``[N, C, H, W]`` are normalized before they enter a network."""
        return self._setup.weight_loader.normalization

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
        setup = self._setup
        shape = setup.network_shape
        network = self.space.network(
            self.genotype, num_classes=shape["num_classes"], input_channels=shape["input_channels"]
        ).to(setup.device)
        if trained:
            copy_shared_weights(self.supernet, network)
            count = min(setup.weight_loader.steps, _NORM_BATCHES)
            measure_norms(network, (setup.weight_loader.batch(number).inputs for number in range(count)))
        return network

    def top(self, k: int = 10) -> list[ScoredGenotype]:
        """Return the k most probable architectures by the last α, the most probable first; see ``most_probable``.

        The search itself may return another one than the first: after an early stop, or where its discretizer measures.
        """
        setup, state = self.stages.runs[-1]
        probabilities = setup.method.relaxation.probabilities(setup.blocks, state.alpha)
        if self.method.discretizer.ties(setup.space, probabilities, last=True).everywhere:
            raise UserError(
                "no architecture is more probable than another: all choices tie exactly; search for longer."
            )
        return most_probable(setup.space, probabilities, k)

    def cost(self, genotype: Genotype) -> Cost:
        """Count parameters and multiply-adds of a genotype's network at the searched size, on the searched images."""
        shape, data = self._setup.network_shape, self._setup.weight_loader.data
        return self.space.cost(genotype, **shape, image_size=data.image_size)

    def train(self, data: Any = None, **options: Any) -> archgrad.TrainResult:
        """Train the network of the genotype from scratch, by default on the searched data: ``archgrad.train(self)``."""
        import archgrad

        return archgrad.train(self, data=data, **options)

    def save(self, folder: Path | str) -> Path:
        """Write a run directory, as ``search(..., out=folder)`` does, and return its path."""
        from archgrad.loop.saved_result import save_result

        return save_result(self, folder)

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
        from archgrad.loop.saved_result import load_result

        return load_result(folder, {"space": space, "method": method, "data": data, "task": task})

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


def result_of(setup: Setup, state: SearchState, describe: Callable[[], str]) -> SearchResult:
    """Return the result of a search in its last state."""
    mixture = expand_to_cells(setup.blocks, setup.method.relaxation.probabilities(setup.blocks, state.alpha))
    return SearchResult(
        state.genotype, tuple(state.history), mixture, state.alpha, state.supernet, state.seconds, setup.method,
        setup.weights.epochs, setup.budget_line, SearchedStages(setup, ((setup, state),), describe), state.stopped,
    )  # fmt: skip
