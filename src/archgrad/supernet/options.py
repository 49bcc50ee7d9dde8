"""What a supernet is built with, and what its forward pass does during a search."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from archgrad.errors import check_bool, check_number, check_probability, check_whole
from archgrad.supernet.modifiers import AuxiliaryLoss, DropPath, Modifier, SkipDropout

__all__ = ["PLAIN", "SupernetOptions"]


@dataclass(frozen=True)
class SupernetOptions:
    """How a supernet is built for a search; a plain network has none of it.

    Only 1/``partial`` of the channels pass through the operations, and ``edge_weights`` adds a simplex over the
    incoming edges of each node (PC-DARTS, Xu et al., 2020). ``drop_path`` is the probability, at the end of the search,
    with which an operation is dropped for an image (R-DARTS, Zela et al., 2020), and ``skip_dropout`` the one, at its
    beginning, for single numbers on skip connections (P-DARTS, Chen et al., 2019). ``auxiliary_head`` is the weight of
    the loss of a second head, 0 for none. None leaves these three to the space.

    ``auxiliary_skip`` adds a skip connection beside the operations of every edge (DARTS-, Chu et al., 2021). The
    regularizers of a method ask for it.
    """

    partial: int = 1
    edge_weights: bool = False
    drop_path: float | None = None
    skip_dropout: float | None = None
    auxiliary_head: float | None = None
    auxiliary_skip: bool = field(default=False, metadata={"knob": False})

    def __post_init__(self) -> None:
        check_whole("supernet.partial", self.partial)
        check_bool("supernet.edge_weights", self.edge_weights)
        check_bool("supernet.auxiliary_skip", self.auxiliary_skip)
        if self.drop_path is not None:
            check_probability("supernet.drop_path", self.drop_path)
        if self.skip_dropout is not None:
            check_probability("supernet.skip_dropout", self.skip_dropout)
        if self.auxiliary_head is not None:
            check_number("supernet.auxiliary_head", self.auxiliary_head)

    @property
    def modifiers(self) -> tuple[Modifier, ...]:
        """What changes the forward pass during a search, beside what regularizers bring."""
        return (
            DropPath(self.drop_path or 0.0),
            SkipDropout(self.skip_dropout or 0.0),
            AuxiliaryLoss(self.auxiliary_head or 0.0),
        )

    def completed(self, defaults: SupernetOptions) -> SupernetOptions:
        """Return these options with the defaults in the place of None.

        >>> SupernetOptions(partial=4).completed(SupernetOptions(drop_path=0.2)).drop_path
        0.2
        """
        left = [knob.name for knob in fields(self) if getattr(self, knob.name) is None]
        return replace(self, **{name: getattr(defaults, name) for name in left})


PLAIN = SupernetOptions(drop_path=0.0, skip_dropout=0.0, auxiliary_head=0.0)
"""What holds where neither a method nor a space says anything."""
