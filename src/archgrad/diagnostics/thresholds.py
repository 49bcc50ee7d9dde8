"""The thresholds of the diagnosis."""

from __future__ import annotations

from dataclasses import dataclass, fields

from archgrad.parts.fields import Count, NonNegative, Positive, check_value

__all__ = ["Thresholds"]


@dataclass(frozen=True)
class Thresholds:
    """The thresholds by which the numbers of a search's records become a verdict.

    All numbers are means over the last ``window`` epochs in which the architecture moved. A running search is *too
    early* to judge with fewer epochs, and in its first share ``early``, where an architecture is noise. A finished one
    is always judged, but with fewer epochs it is neither healthy nor collapsing.

    A search is *undecided* in four cases: its entropy has fallen by less than the share ``decided`` of its maximum; the
    first choice leads the second by less than ``lead``; more than the share ``changing`` of the cell changes from one
    epoch to the next; or, at the end, the one architecture keeps less than the part ``kept`` of the gain over chance
    that the mixture has with the same weights, in the task's main metric.

    It is *untrained* where the held-out accuracy has come less than the part ``trained`` of the way from chance to
    100 %, and *memorising* where the training accuracy is more than ``memorised`` points above the held-out one. Both
    need at least ``images`` held-out images. Other metrics are judged in the same way, by their direction: a point is a
    hundredth of the way from chance to perfect predictions. Where perfect is unknown, a search is untrained if it is
    not better than chance.

    It is *collapsing*, if it has decided, where every epoch of the window has the share ``most`` of skip connections in
    its genotype, or ``none`` has the share ``nothing``; or where skip connections are ``many``, their share has risen
    by ``rise`` above its lowest and has not fallen by as much from its highest, and the layer alignment is below
    ``misaligned``, which is the cause (Λ-DARTS, Section 3.3); where alignment is not measured, the skip connections
    alone decide. Three more findings are reported but decide nothing, because healthy searches have them too:
    alignment near 0, a gradient of the last cells that favors skip connections over convolutions (Fig. 2), and an
    eigenvalue of ∇²α L2 that grew ``growth`` times from one window to the next (R-DARTS, Section 4.3: 1/0.75).
    """

    window: int = 3
    early: float = 0.1
    many: float = 0.45
    most: float = 0.6
    rise: float = 0.15
    misaligned: float = 0.1
    growth: float = 4 / 3
    nothing: float = 0.5
    decided: float = 0.05
    lead: float = 0.1
    trained: float = 0.1
    memorised: float = 30.0
    changing: float = 0.25
    kept: float = 1 / 3
    images: int = 20

    def __post_init__(self) -> None:
        check_value("window of Thresholds", self.window, Count)
        for knob in fields(self):
            kind = NonNegative if knob.name == "early" else Positive
            check_value(f"{knob.name} of Thresholds", getattr(self, knob.name), kind)
