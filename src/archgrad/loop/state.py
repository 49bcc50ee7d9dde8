"""The whole state of a search in one place, to save and restore it to the bit."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from archgrad.arch_optimizers import ArchState
from archgrad.autodiff.tensors import Alpha, Probabilities, Weights
from archgrad.callbacks import Record
from archgrad.distributed.processes import processes
from archgrad.hypergradients import HypergradientState
from archgrad.loop.checkpoint import check_saved, load_optimizer, refuse_damaged
from archgrad.regularizers import RegularizerState
from archgrad.relaxations import DecidedRows
from archgrad.spaces import Genotype
from archgrad.supernet import Supernet, operation_weights
from archgrad.tasks import ACCURACY, MetricInfo
from archgrad.tasks.metric import widen

__all__ = [
    "PRODUCTS",
    "BatchMetrics",
    "MetricSums",
    "SearchState",
    "WeightAverage",
    "nothing_decided",
]

PRODUCTS = "products"
"""The prefix of keys in ``trusted`` for the Hessian products of hypergradients and callbacks, one key per kind."""


def nothing_decided(history: Sequence[Record], stopped: str | None) -> bool:
    """Tell whether the search has no architecture: all choices tied in its last epoch, or in all, if it was stopped."""
    genotypes = [record["genotype"] for record in history]
    return bool(genotypes) and (genotypes[-1] is None if stopped is None else not any(genotypes))


_COUNTS = {"sum": "times", "decayed": "remaining"}
"""The sums of measures, and what each is divided by for their mean."""


@dataclass(frozen=True)
class BatchMetrics:
    """The mean loss of a batch, and the total and the weight of its metrics, at the weights before the step."""

    name: str
    loss: Tensor
    ratios: Mapping[str, tuple[Tensor | float, Tensor | float]]
    count: int


class MetricSums:
    """Running sums of losses and metrics, per kind of step, and of the measures of callbacks; they restore exactly.

    Sums are tensors on the device of the weights, in 64 bits, so that no step waits for the device; :meth:`plain` and
    :meth:`means` read them.
    """

    def __init__(self) -> None:
        self.values: dict[str, Tensor | float] = {}

    def add(self, batch: BatchMetrics) -> None:
        """Add the metrics of one batch."""
        found: dict[str, Tensor | float] = {"loss": widen(batch.loss.detach()) * batch.count, "count": batch.count}
        for metric, (total, weight) in batch.ratios.items():
            found |= {f"{metric}_total": widen(total), f"{metric}_weight": widen(weight)}
        for quantity, value in found.items():
            name = f"{batch.name}_{quantity}"
            self.values[name] = self.values.get(name, 0.0) + value

    def plain(self) -> dict[str, float]:
        """Return the sums as numbers."""
        return {name: float(value) for name, value in self.values.items()}

    def note(self, measured: Mapping[str, float], decays: Mapping[str, float] | None = None) -> None:
        """Add the measures of a callback inside the epoch; those with a decay outlast it, and lose weight instead."""
        for measure, value in measured.items():
            decay = (decays or {}).get(measure)
            total, count = ("sum", "times") if decay is None else ("decayed", "remaining")
            for name, amount in ((f"{measure}_{total}", value), (f"{measure}_{count}", 1.0)):
                self.values[name] = (1.0 if decay is None else decay) * self.values.get(name, 0.0) + amount

    def after_epoch(self) -> MetricSums:
        """Return the sums that the next epoch begins with: those that decay."""
        following = MetricSums()
        following.values = {
            name: value for name, value in self.values.items() if name.endswith(("_decayed", "_remaining"))
        }
        return following

    def means(self) -> dict[str, float]:
        """Return mean loss and metrics of each kind of step, and the mean of each measure."""
        means, values = {}, self.plain()
        for name in sorted(values):
            kind, _, quantity = name.rpartition("_")
            if quantity == "loss":
                means[f"{kind}_loss"] = values[name] / values[f"{kind}_count"]
            elif quantity == "total":
                weight = values[f"{kind}_weight"]
                mean = values[name] / weight if weight else 0.0
                means[kind.removesuffix("²")] = math.sqrt(mean) if kind.endswith("²") else mean
            elif quantity in _COUNTS:
                means[kind] = values[name] / values[f"{kind}_{_COUNTS[quantity]}"]
        return means

    def lazy_means(self) -> Mapping[str, float]:
        """Return the present means as a mapping that reads the device when it is first used."""
        copy = MetricSums()
        copy.values = dict(self.values)
        return _LazyMeans(copy)


class _LazyMeans(Mapping[str, float]):
    """Means that are computed on first use."""

    def __init__(self, sums: MetricSums) -> None:
        self._sums = sums

    @cached_property
    def _means(self) -> dict[str, float]:
        return self._sums.means()

    def __getitem__(self, name: str) -> float:
        return self._means[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._means)

    def __len__(self) -> int:
        return len(self._means)


@dataclass(frozen=True)
class WeightAverage:
    """w̄ ← d·w̄ + (1 − d)·w after every step, with d = min(``decay``, (1 + t)/(10 + t)) at step t.

    The smaller decay at the beginning lets the average forget the initial weights. ``tensors`` are w̄ and the averaged
    running statistics by name; counters are copied.
    """

    decay: float
    tensors: dict[str, Tensor]

    @classmethod
    def of(cls, network: nn.Module, decay: float) -> WeightAverage:
        """Begin with the present weights."""
        return cls(decay, {name: value.detach().clone() for name, value in network.state_dict().items()})

    @torch.no_grad()
    def update(self, network: nn.Module, step: int) -> None:
        """Add the weights after step ``step``, counted from 0."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, value in network.state_dict().items():
            own = self.tensors[name]
            if own.is_floating_point():
                own.lerp_(value, 1 - decay)
            else:
                own.copy_(value)

    def restore(self, saved: dict[str, Tensor]) -> None:
        """Become what a checkpoint holds."""
        for name, value in saved.items():
            self.tensors[name].copy_(value)


@dataclass
class SearchState:
    """Weights, α, both optimizers, position, running sums and history.

    ``epochs`` and ``steps`` are the size of the search; ``epoch`` and ``step`` count what is done. Random numbers need
    no state: every stream is a function of the seed and the position. ``stopped`` is a sentence that says why the
    search ended early, None if it did not. ``switched`` says from which epoch it went back to which. ``trusted`` says
    by name whether differences of gradients agreed with exact derivatives. ``average`` is
    that of the weights, None if it is not kept. ``decided`` are the rows that are decided for good. ``watched`` is what
    regularizers keep of the operations' weights, and ``resting`` names the operations that they have stopped.
    ``warmup_epochs``, ``budget_line``, ``metric`` and ``folder`` come from the settings and are in no checkpoint.
    """

    supernet: Supernet
    alpha: Alpha
    arch_state: ArchState
    optimizer: torch.optim.Optimizer
    epochs: int
    steps: int
    genotype: Genotype
    epoch: int = 0
    step: int = 0
    sums: MetricSums = field(default_factory=MetricSums)
    history: list[Record] = field(default_factory=list)
    seconds: float = 0.0
    stopped: str | None = None
    switched: tuple[int, int] | None = None
    trusted: dict[str, bool] = field(default_factory=dict)
    hypergradient_state: HypergradientState = field(default_factory=dict)
    average: WeightAverage | None = None
    decided: DecidedRows = field(default_factory=DecidedRows)
    watched: dict[str, RegularizerState] = field(default_factory=dict)
    resting: tuple[str, ...] = ()
    warmup_epochs: int = 0
    budget_line: str = ""
    metric: MetricInfo = ACCURACY
    folder: Path | None = None

    def stop(self, epoch: int, reason: str) -> None:
        """End the search after the epoch just recorded, with the architecture of an earlier ``epoch``.

        If that epoch decided nothing, the next one that did is taken. The last record says which epoch it is. α and the
        weights do not change.
        """
        decided = [record["epoch"] for record in self.history[epoch - 1 :] if record["genotype"] is not None]
        if decided:
            epoch = decided[0]
            self.genotype = Genotype.parse(self.history[epoch - 1]["genotype"])
        self.history[-1]["stopped_to"] = epoch
        self.stopped = reason

    @property
    def complete(self) -> bool:
        """Whether no step is left, after the last epoch or an early stop."""
        return self.epoch == self.epochs or self.stopped is not None

    @property
    def weights(self) -> Weights:
        """The supernet's parameters by name."""
        return Weights(dict(self.supernet.named_parameters()))

    @cached_property
    def operations(self) -> dict[str, tuple[str, ...]]:
        """The trained weights of every operation of every cell, by its name; read before any of them rests."""
        return operation_weights(self.supernet)

    def rest(self, operations: Collection[str]) -> None:
        """Stop the training of these operations' weights, and of no others: no step moves them, nor their momentum."""
        weights = self.weights
        for operation in {*self.resting} ^ {*operations}:
            for name in self.operations[operation]:
                weights[name].requires_grad_(operation not in operations)
                weights[name].grad = None
        self.resting = tuple(name for name in self.operations if name in operations)

    @property
    def device(self) -> torch.device:
        """Where the weights and α are."""
        return next(self.supernet.parameters()).device

    @property
    def index(self) -> int:
        """The number of steps done since the beginning."""
        return self.epoch * self.steps + self.step

    @property
    def current_epoch(self) -> int:
        """The epoch whose settings apply: the present one, or the last of a complete search."""
        return min(self.epoch, self.epochs - 1)

    @property
    def progress(self) -> float:
        """The share of the search that is done, from 0 to 1."""
        return min(self.index / (self.epochs * self.steps), 1.0)

    def digest(self) -> str:
        """Return a short hash of the weights and α, by which processes compare theirs."""
        found = hashlib.sha256()
        for value in (*self.alpha.values(), *self.supernet.state_dict().values()):
            found.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return found.hexdigest()[:16]

    def tensors(self) -> dict[str, Any]:
        """Return the whole state as tensors and plain values, for a checkpoint."""
        return {
            "weights": self.supernet.state_dict(),
            "alpha": self.alpha,
            "arch_state": self.arch_state,
            "hypergradient_state": self.hypergradient_state,
            "optimizer": self.optimizer.state_dict(),
            "genotype": self.genotype.to_json(),
            "position": {"epoch": self.epoch, "step": self.step, "epochs": self.epochs, "steps": self.steps},
            "sums": self.sums.plain(),
            "history": [dict(record) for record in self.history],
            "seconds": self.seconds,
            "stopped": self.stopped,
            "switched": self.switched,
            "trusted": dict(self.trusted),
            "threads": torch.get_num_threads(),
            "processes": processes().size,
            "average": {} if self.average is None else self.average.tensors,
            "decided": {"weights": dict(self.decided.weights), "marks": dict(self.decided.marks)},
            "watched": self.watched,
            "resting": list(self.resting),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Become the state that :meth:`tensors` returned."""
        with refuse_damaged():
            check_saved(saved, self.tensors())
            load_optimizer(self.optimizer, saved["optimizer"])
        device, position = self.device, saved["position"]
        self.sums.values = dict(saved["sums"])
        self.supernet.load_state_dict(saved["weights"])
        self.alpha = Alpha(_to_device(saved["alpha"], device))
        for name in ("arch_state", "hypergradient_state"):
            setattr(self, name, {quantity: _to_device(values, device) for quantity, values in saved[name].items()})
        self.genotype = Genotype.parse(saved["genotype"])
        self.epoch, self.step = position["epoch"], position["step"]
        self.history = [dict(record) for record in saved["history"]]
        self.seconds = saved["seconds"]
        self.switched = saved["switched"]
        self.stopped = saved["stopped"]
        self.trusted = dict(saved["trusted"])
        if self.average is not None:
            self.average.restore(saved["average"])
        decided = saved.get("decided", {"weights": {}, "marks": {}})  # earlier versions decided nothing
        self.decided = DecidedRows(Probabilities(dict(decided["weights"])), dict(decided["marks"]))
        self.watched = {name: dict(values) for name, values in saved.get("watched", {}).items()}
        self.rest(saved.get("resting", ()))


def _to_device(values: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    return {name: value.to(device) if value.dim() else value for name, value in values.items()}
