"""The continuous network: ``supernet(x, mixture)``."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from archgrad.errors import UserError, shortened
from archgrad.supernet.cell import MixedCell
from archgrad.supernet.mixture import ForwardSettings, Mixture, split_by_cell
from archgrad.supernet.modifiers.edge_weights import EdgeWeights

__all__ = ["Supernet", "in_best_layout"]


class Supernet(nn.Module):
    """All architectures of a space at once, a pure function of its weights, the mixture and x.

    It holds no architecture parameters and no running statistics, so it can be called through
    ``torch.func.functional_call``, differentiated twice, and given a different mixture in every cell.

    ``body`` maps ``(x, {block: [CellMixture]})`` to logits. ``shapes`` are the mixture's shapes ``{block: (cells, rows,
    choices)}``. ``edges`` says which block holds the edge weights of which other; the body receives their product. A
    body with an auxiliary head has it as its module ``auxiliary``, and returns both logits when called with
    ``auxiliary=True``.
    """

    def __init__(
        self,
        body: nn.Module,
        shapes: Mapping[str, tuple[int, int, int]],
        edges: Mapping[str, EdgeWeights] | None = None,
    ) -> None:
        super().__init__()
        self.body = body
        self.shapes = dict(shapes)
        self.edges = dict(edges or {})
        self.auxiliary_skip = any(isinstance(module, MixedCell) and module.auxiliary_skip for module in body.modules())
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(
        self,
        x: Tensor,
        mixture: Mixture,
        *,
        active: Mapping[str, Tensor] | None = None,
        seed: int = 0,
        drop_path: float = 0.0,
        skip: float = 0.0,
        skip_dropout: float = 0.0,
        auxiliary: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return logits ``[N, classes]`` for images ``[N, C, H, W]``.

        ``mixture`` maps each block to ``[cells, rows, choices]``, or to ``[cells, N, rows, choices]``: one mixture for
        each image. ``active`` (bool, ``[cells, rows, choices]``) marks the entries to compute. The others count as
        zero, cost nothing and receive no gradient; so do all operations on an inactive edge. ``seed`` fixes all random
        draws. ``drop_path`` is the probability of dropping an operation for an image; skip connections are never
        dropped. ``skip_dropout`` is the probability of dropping single activations on skip connections among the
        choices. ``skip`` is the weight of the auxiliary skip connections, which are always active and never dropped.
        ``auxiliary`` returns ``(logits, auxiliary_logits)`` of a supernet with an auxiliary head.
        """
        if not torch.compiler.is_compiling():  # a compiled pass would be specialized to this seed
            _check_inputs(x, seed)
        settings = ForwardSettings(drop_path, skip, skip_dropout)
        if skip and not self.auxiliary_skip:
            raise UserError(
                f"skip is {skip!r}, but this supernet has no auxiliary skip connections; build it with "
                f"SupernetOptions(auxiliary_skip=True), or leave skip at 0."
            )
        views = split_by_cell(self.shapes, mixture, active, seed, self.edges, x.shape[0], settings)
        if not auxiliary:
            logits: Tensor = self.body(in_best_layout(x), views)
            return logits
        if getattr(self.body, "auxiliary", None) is None:
            raise UserError(
                "this supernet has no auxiliary head; build it with SupernetOptions(auxiliary_head=0.4) from a space "
                "that can have one, such as DARTS()."
            )
        both: tuple[Tensor, Tensor] = self.body(in_best_layout(x), views, auxiliary=True)
        return both


def _check_inputs(x: object, seed: object) -> None:
    if not isinstance(x, Tensor) or x.dim() != 4 or not x.is_floating_point():
        found = f"{list(x.shape)} of {x.dtype}" if isinstance(x, Tensor) else shortened(x)
        raise UserError(f"x is {found}; it must be images [N, C, H, W] of floating-point numbers.")
    if not isinstance(seed, int):
        raise UserError(f"seed is {shortened(seed)}; it must be a whole number.")


def in_best_layout(x: Tensor) -> Tensor:
    """Return channels-last memory on the CPU, where it makes every kernel of the supernet at least as fast."""
    return x.contiguous(memory_format=torch.channels_last) if x.device.type == "cpu" else x
