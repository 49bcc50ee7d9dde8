"""A network of one architecture, trained by the loop that trains supernets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from archgrad.supernet.cell import set_drop_path
from archgrad.supernet.mixture import Mixture
from archgrad.supernet.modifiers import Modifier, Purpose, SearchTime
from archgrad.supernet.supernet import Supernet, in_best_layout

__all__ = ["PlainNetwork", "TrainingMode"]


class TrainingMode(Modifier):
    """Ask a :class:`PlainNetwork` for its training mode in the weights' loss."""

    def arguments(self, purpose: Purpose, time: SearchTime) -> Mapping[str, Any]:
        """Return whether the pass trains."""
        return {"training": purpose == "training"}


class PlainNetwork(Supernet):
    """A plain network with the interface of a supernet: it has no mixture, and its batch norms keep statistics.

    It trains only where it is asked to. Without ``training``, it normalizes by its running statistics and drops
    nothing.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__(network, {})

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        mixture: Mixture,
        *,
        active: Mapping[str, Tensor] | None = None,
        seed: int = 0,
        drop_path: float = 0.0,
        auxiliary: bool = False,
        training: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return logits ``[N, classes]``, with ``auxiliary`` those of both heads; all but ``x`` is optional.

        The global generator draws which operations ``drop_path`` drops.
        """
        if training != self.body.training:
            self.body.train(training)
        set_drop_path(self.body, drop_path)
        outputs: Tensor | tuple[Tensor, Tensor] = self.body(in_best_layout(x))
        return outputs
