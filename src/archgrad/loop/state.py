"""The whole state of a search in one place, to save and restore it to the bit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from archgrad.arch_optimizers import ArchState
from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.callbacks import Record
from archgrad.distributed.processes import processes
from archgrad.hypergradients import HypergradientState
from archgrad.loop.metric_sums import MetricSums
from archgrad.loop.precision import LossScale
from archgrad.loop.saved_optimizer import load_optimizer
from archgrad.loop.saved_state import check_saved
from archgrad.loop.weight_average import WeightAverage
from archgrad.spaces import Genotype
from archgrad.supernet import Supernet
from archgrad.tasks import ACCURACY, MetricInfo

__all__ = ["PRODUCTS", "SearchState", "all_trusted", "nothing_decided"]

PRODUCTS = "products"
"""The prefix of keys in ``trusted`` for the Hessian products of hypergradients and callbacks, one key per kind."""


def all_trusted(trusted: Mapping[str, bool], prefix: str) -> bool:
    """Tell whether all comparisons under keys with this prefix agreed."""
    return all(agreed for key, agreed in trusted.items() if key.startswith(prefix))


def nothing_decided(history: Sequence[Record], stopped: str | None) -> bool:
    """Tell whether nothing chose the genotype of the search: the last epoch did not, or if it was stopped, none did."""
    genotypes = [record["genotype"] for record in history]
    return bool(genotypes) and (genotypes[-1] is None if stopped is None else not any(genotypes))


@dataclass
class SearchState:
    """Weights, α, both optimizers, position, running sums and history.

    ``epochs`` and ``steps`` are the size of the search; ``epoch`` and ``step`` count what is done. Random numbers need
    no state: every stream is a function of the seed and the position. ``stopped`` is a sentence that says why the
    search ended early, None if it did not. ``switched`` says from which epoch it went back to which. ``trusted`` says
    by name whether differences of gradients agreed with exact derivatives. ``loss_scale`` is that of float16, None in
    other precisions, and ``average`` the average of the weights, None if it is not kept. ``warmup_epochs``,
    ``budget_line``, ``metric`` and ``folder`` come from the settings and are in no checkpoint.
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
    loss_scale: LossScale | None = None
    average: WeightAverage | None = None
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
        """Return 16 letters that tell these weights and α from any other."""
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
            "loss_scale": {} if self.loss_scale is None else self.loss_scale.tensors,
            "processes": processes().size,
            "average": {} if self.average is None else self.average.tensors,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Become the state that :meth:`tensors` returned."""
        own = self.tensors()
        check_saved(saved, own, self.optimizer)
        device, position = self.device, saved["position"]
        self.supernet.load_state_dict(saved["weights"])
        self.alpha = Alpha(_to_device(saved["alpha"], device))
        for name in ("arch_state", "hypergradient_state"):
            setattr(self, name, {quantity: _to_device(values, device) for quantity, values in saved[name].items()})
        load_optimizer(self.optimizer, saved["optimizer"])
        self.genotype = Genotype.parse(saved["genotype"])
        self.epoch, self.step = position["epoch"], position["step"]
        self.sums.restore(saved["sums"])
        self.history = [dict(record) for record in saved["history"]]
        self.seconds = saved["seconds"]
        self.switched = saved["switched"]
        self.stopped = saved["stopped"]
        self.trusted = dict(saved["trusted"])
        if self.loss_scale is not None:
            self.loss_scale.restore(saved["loss_scale"])
        if self.average is not None:
            self.average.restore(saved["average"])


def _to_device(values: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    return {name: value.to(device) if value.dim() else value for name, value in values.items()}
