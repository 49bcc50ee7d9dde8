"""The options of a supernet: how it is built, and what modifies its forward pass."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from archgrad.parts.fields import Count, NonNegative, Probability, check_fields
from archgrad.supernet.modifiers import AuxiliaryLoss, DropPath, Modifier, SkipDropout

__all__ = ["PLAIN", "SupernetOptions"]


@dataclass(frozen=True)
class SupernetOptions:
    """How a supernet is built for a search; plain networks ignore all of it.

    Only 1/``partial`` of the channels pass through the operations, and ``edge_weights`` adds a simplex over the
    incoming edges of each node (PC-DARTS, Xu et al., 2020). ``drop_path`` is the probability of dropping an operation
    for an image at the end of the search (R-DARTS, Zela et al., 2020). ``skip_dropout`` is the probability of dropping
    single activations on skip connections at its beginning (P-DARTS, Chen et al., 2019). ``auxiliary_head`` is the loss
    weight of a second head, 0 for none. For these three, None takes the space's default.

    ``auxiliary_skip`` adds a skip connection beside the operations of every edge (DARTS-, Chu et al., 2021); a
    regularizer of the method asks for it.
    """

    partial: Count = 1
    edge_weights: bool = False
    drop_path: Probability | None = None
    skip_dropout: Probability | None = None
    auxiliary_head: NonNegative | None = None
    auxiliary_skip: bool = field(default=False, metadata={"knob": False})

    def __post_init__(self) -> None:
        check_fields(self, "supernet.{}")

    @property
    def modifiers(self) -> tuple[Modifier, ...]:
        """The modifiers of the forward pass, without those of regularizers."""
        return (
            DropPath(self.drop_path or 0.0),
            SkipDropout(self.skip_dropout or 0.0),
            AuxiliaryLoss(self.auxiliary_head or 0.0),
        )

    def completed(self, defaults: SupernetOptions) -> SupernetOptions:
        """Return these options with None replaced by the defaults.

        >>> SupernetOptions(partial=4).completed(SupernetOptions(drop_path=0.2)).drop_path
        0.2
        """
        left = [knob.name for knob in fields(self) if getattr(self, knob.name) is None]
        return replace(self, **{name: getattr(defaults, name) for name in left})


PLAIN = SupernetOptions(drop_path=0.0, skip_dropout=0.0, auxiliary_head=0.0)
"""The options that hold where neither the method nor the space sets any."""
