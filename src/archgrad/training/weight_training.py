"""How weights are trained: those of a supernet, by the settings published with its space, or those of a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from archgrad.errors import UserError, reason, shortened
from archgrad.parts.fields import Count, NonNegative, Positive, Probability, Range, check_fields

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

__all__ = ["NETWORK_ONLY", "WeightTraining"]

NETWORK_ONLY = ("accumulate", "ema_decay", "epoch_images")
"""The settings for the training of one network, which a supernet does not have."""
_TAIL = 5


@dataclass(frozen=True)
class WeightTraining:
    """SGD with momentum, a cosine schedule from ``lr`` to ``lr_min`` over the epochs, and gradient clipping.

    lr(t) = lr_min + (lr − lr_min)·s(t), constant within an epoch, where s is by ``lr_schedule``

    - cosine: (1 + cos(π·t/T))/2
    - linear: 1 − t/T
    - linear-tail: 1 − t/(T − n) until the last n epochs, then (T − t)/(n·(T − n)), a smaller slope (P-DARTS, PC-DARTS);
      n is 5, or T/5 rounded down if that is less

    and lr·(lr_min/lr)^(t/T) for exponential. In the first W = ``lr_warmup_epochs`` epochs it is lr·(t + 1)/W. The
    weight decay is constant, or goes linearly to ``weight_decay_end``: λ(t) = λ + (λ_end − λ)·t/T.

    ``optimizer`` is the name of another optimizer of ``torch.optim``, such as "adamw", or ``module:Name`` of your own:
    a class or a function (parameters, lr=…, weight_decay=…) → optimizer. In Python it may be the class or function
    itself. ``optimizer_settings`` are its further arguments. ``momentum`` and ``nesterov`` are those of SGD only.

    Three settings are for networks of one architecture, not for supernets. ``accumulate`` k computes the gradient of a
    batch in k parts, one after another, for less memory. ``ema_decay`` d > 0 keeps an average of the weights, w̄ ← d·w̄ +
    (1 − d)·w, which is the network that is measured and saved. With ``epoch_images`` an epoch has only so many images,
    and the next epoch the following ones of the shuffled data: where there is time for few passes, the learning rate
    still falls in many epochs, and all images are seen.

    >>> WeightTraining(optimizer="adamw", lr=1e-3, optimizer_settings=("betas=0.9", "0.95")).optimizer
    'adamw'
    """

    lr: Positive = 0.025
    lr_min: NonNegative = 0.001
    momentum: Probability = 0.9
    weight_decay: NonNegative = 3e-4
    nesterov: bool = False
    clip: Positive = 5.0
    batch_size: Count = 64
    epochs: Count = 50
    weight_decay_end: NonNegative | None = None
    optimizer: str | Callable[..., Any] = "sgd"
    optimizer_settings: tuple[str, ...] = ()
    lr_schedule: Literal["cosine", "linear", "linear-tail", "exponential"] = "cosine"
    lr_warmup_epochs: Annotated[int, Range(0, 1_000_000)] = 0
    accumulate: Count = 1
    ema_decay: Probability = 0.0
    epoch_images: Count | None = None

    def __post_init__(self) -> None:
        check_fields(self, "weights.{}")
        if self.lr < self.lr_min:
            raise UserError(
                f"weights.lr is {self.lr}, less than weights.lr_min, {self.lr_min}, so the rate would rise; set "
                f"weights.lr_min lower too, such as 0."
            )
        if self.lr_schedule == "exponential" and not self.lr_min:
            raise UserError(
                "weights.lr_schedule is 'exponential', which never reaches weights.lr_min = 0; set weights.lr_min to "
                "the rate after the last epoch, such as 1e-4."
            )
        if self.lr_warmup_epochs and self.lr_warmup_epochs >= self.epochs:
            raise UserError(
                f"weights.lr_warmup_epochs is {self.lr_warmup_epochs}, but there are only {self.epochs} epochs; give "
                f"fewer epochs of warm-up, or more epochs."
            )
        if self.nesterov and not self.momentum:
            raise UserError("weights.nesterov needs weights.momentum greater than 0; set both or neither.")
        if self.optimizer != "sgd" or self.optimizer_settings:
            self._check_optimizer()

    @property
    def known_steps(self) -> Literal["sgd", "adam", "adamw"] | None:
        """The optimizer, if hypergradients can differentiate its steps: SGD, or Adam with other betas and eps at most.

        >>> WeightTraining(optimizer="adam", lr=1e-3, optimizer_settings=("amsgrad=true",)).known_steps is None
        True
        """
        if self.optimizer == "sgd" and not self.optimizer_settings:
            return "sgd"
        allowed = all(text.partition("=")[0] in ("betas", "eps") for text in self.optimizer_settings if "=" in text)
        if not allowed or self.optimizer not in ("adam", "adamw"):
            return None
        return "adam" if self.optimizer == "adam" else "adamw"

    def make_optimizer(self, parameters: Iterable[Tensor]) -> Optimizer:
        """Return the optimizer of these parameters, with the learning rate and weight decay of the first epoch."""
        from archgrad.training.torch_optimizers import find_optimizer, make_optimizer, read_settings

        found = find_optimizer(self.optimizer) if isinstance(self.optimizer, str) else self.optimizer
        settings = read_settings(self.optimizer_settings, "weights.optimizer_settings")
        if self.optimizer == "sgd":
            settings = {"momentum": self.momentum, "nesterov": self.nesterov} | settings
        try:
            return make_optimizer(found, parameters, self.lr, self.weight_decay, settings)
        except (TypeError, ValueError, RuntimeError) as error:
            raise self._unusable(error) from error

    def _check_optimizer(self) -> None:
        """Name the optimizer, if it has a name, and reject one that cannot take a step from a gradient alone."""
        from archgrad.training.torch_optimizers import optimizer_name, try_optimizer

        object.__setattr__(self, "optimizer", optimizer_name(self.optimizer))
        try:
            try_optimizer(self.make_optimizer, bool(self.weight_decay or self.weight_decay_end))
        except UserError:
            raise
        except Exception as error:  # a user's own optimizer may raise anything
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> UserError:
        return UserError(
            f"weights.optimizer {shortened(self.optimizer)} with lr={self.lr:g} and weights.optimizer_settings="
            f"{shortened(self.optimizer_settings)} cannot train the weights ({reason(error)}); choose settings that it "
            f"takes, or an optimizer that needs only a gradient."
        )

    def lr_at(self, epoch: int) -> float:
        """Return the learning rate of an epoch, counted from 0.

        >>> WeightTraining(lr=0.4, lr_min=0.0, epochs=4, lr_schedule="linear", lr_warmup_epochs=2).lr_at(0)
        0.2
        """
        if epoch < self.lr_warmup_epochs:
            return self.lr * (epoch + 1) / self.lr_warmup_epochs
        if self.lr_schedule == "exponential":
            return float(self.lr * (self.lr_min / self.lr) ** (epoch / self.epochs))
        return self.lr_min + (self.lr - self.lr_min) * self._share_at(epoch)

    def _share_at(self, epoch: int) -> float:
        """Return how much of the way from ``lr_min`` to ``lr`` is left."""
        if self.lr_schedule == "cosine":
            return (1 + math.cos(math.pi * epoch / self.epochs)) / 2
        tail = min(_TAIL, self.epochs // 5) if self.lr_schedule == "linear-tail" else 0
        steep = self.epochs - tail
        return 1 - epoch / steep if epoch < steep else (self.epochs - epoch) / (tail * steep)

    def weight_decay_at(self, epoch: int) -> float:
        """Return the weight decay of an epoch, counted from 0."""
        if self.weight_decay_end is None:
            return self.weight_decay
        return self.weight_decay + (self.weight_decay_end - self.weight_decay) * epoch / self.epochs
