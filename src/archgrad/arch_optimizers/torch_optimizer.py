"""Any optimizer of PyTorch on the architecture parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from archgrad.arch_optimizers.base import ArchOptimizer, ArchState
from archgrad.autodiff.tensors import Alpha
from archgrad.errors import UserError
from archgrad.parts.fields import Positive
from archgrad.relaxations.base import Domain
from archgrad.training.torch_optimizers import find_optimizer, read_settings

__all__ = ["TorchOptimizer"]

_STARTED = "started"


@dataclass(frozen=True)
class TorchOptimizer(ArchOptimizer):
    """Move α by an optimizer of ``torch.optim``, such as ``AdamW``, or by one of your own, as ``module:Name``.

    ``settings`` are further arguments of its constructor. Each block has its own optimizer.

    >>> TorchOptimizer("RMSprop", lr=0.01, settings=("alpha=0.9", "momentum=0.5")).name
    'RMSprop'
    """

    domain: ClassVar[Domain] = "real"

    name: str = "AdamW"
    lr: Positive = 3e-4
    settings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        example = Alpha({"example": torch.zeros(1)})
        try:
            self.step(example, example, self.init(example, 1))
        except UserError:
            raise
        except (TypeError, ValueError, RuntimeError) as error:
            raise UserError(
                f"{self.name} of torch.optim cannot move α with lr={self.lr:g} and settings={self.settings} ({error}); "
                f"choose settings that it takes, or an optimizer that needs only a gradient."
            ) from error

    def init(self, alpha: Alpha, steps: int) -> ArchState:
        """Return zeros in the shape of the optimizer's state; it makes its own values in the first step."""
        state: ArchState = {_STARTED: {name: torch.tensor(False) for name in alpha}}
        for name, value in alpha.items():
            for quantity, tensor in self._moved(value, torch.zeros_like(value), {})[1].items():
                state.setdefault(quantity, {})[name] = torch.zeros_like(tensor)
        return state

    def step(self, alpha: Alpha, gradient: Alpha, state: ArchState) -> tuple[Alpha, ArchState]:
        """Take one step of the optimizer."""
        result, following = Alpha({}), ArchState({_STARTED: {name: torch.tensor(True) for name in alpha}})
        for name, value in alpha.items():
            own = {quantity: tensors[name] for quantity, tensors in state.items() if quantity != _STARTED}
            result[name], kept = self._moved(value, gradient[name], own if state[_STARTED][name] else {})
            for quantity, tensor in kept.items():
                following.setdefault(quantity, {})[name] = tensor
        return result, following

    def _moved(self, value: Tensor, gradient: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the value after one step, and the optimizer's state."""
        leaf = value.detach().clone().requires_grad_()
        leaf.grad = gradient.detach().clone()
        optimizer = self._constructor()([leaf], lr=self.lr, **read_settings(self.settings, "arch_optimizer.settings"))
        if state:
            optimizer.state[leaf] = {quantity: tensor.clone() for quantity, tensor in state.items()}
        optimizer.step()
        kept = {quantity: tensor for quantity, tensor in optimizer.state[leaf].items() if tensor is not None}
        return leaf.detach(), {quantity: torch.as_tensor(tensor).detach() for quantity, tensor in kept.items()}

    def _constructor(self) -> Any:
        found = find_optimizer(self.name)
        if isinstance(found, type) and issubclass(found, torch.optim.Optimizer):
            return found
        raise UserError(f"{self.name} is no optimizer: it must be a subclass of torch.optim.Optimizer.")
