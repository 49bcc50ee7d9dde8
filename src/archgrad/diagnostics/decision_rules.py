"""Rules that tell whether a search has decided: by entropy, lead, changes of the cell, and the metric kept."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import mean

from archgrad.diagnostics.records import Rules, changed_share, decided_share, number_in

__all__ = ["DecisionRules"]


@dataclass(frozen=True)
class DecisionRules(Rules):
    """Judges by the thresholds how far a search has decided."""

    tied: bool = False
    never_moved: bool = False

    @property
    def has_decided(self) -> bool:
        """Whether one choice stands out, does not change, and keeps enough of the mixture's metric."""
        if self.never_moved:
            return True
        return self.stands_out and not self._keeps_little and (self._by_metric or not self.keeps_changing)

    @property
    def stands_out(self) -> bool:
        """Whether one choice is ahead of the others; True if that was not measured."""
        if self.tied:
            return False
        if self.never_moved or self._by_metric:
            return True
        share, lead = self.share, self.now("lead")
        return (share is None or share >= self.limits.decided) and (lead is None or lead >= self.limits.lead)

    @property
    def _by_metric(self) -> bool:
        return "derived_by" in self.records[-1]

    @property
    def keeps_changing(self) -> bool:
        """Whether more of the cell changes from one epoch to the next than the threshold allows."""
        return self.changed is not None and self.changed > self.limits.changing

    @property
    def share(self) -> float | None:
        """The share of its maximum by which entropy has fallen, over the window; None if it was not measured."""
        entropy = self.now("entropy")
        return None if entropy is None else decided_share({**self.records[-1], "entropy": entropy})

    @property
    def changed(self) -> float | None:
        """The mean share of the cell that changes from one epoch to the next, over the window."""
        last = self.records[-self.limits.window - 1 :]
        shares = [changed_share(*pair) for pair in pairwise(last)]
        known = [share for share in shares if share is not None]
        return mean(known) if known else None

    @property
    def kept(self) -> float | None:
        """The part of the mixture's gain over chance that the one architecture keeps; None if unknown."""
        metric, last = self.metric, self.records[-1] if self.records else {}
        mixture, one = (number_in(last, self.key(kind)) for kind in ("mixture", "discrete"))
        chance = number_in(last, "heldout_chance")
        chance = 0.0 if chance is None and metric.unit == "%" else chance
        if mixture is None or one is None or chance is None:
            return None
        gain = metric.gain(mixture, chance)
        least = 0.0 if metric.best is None else metric.gain(metric.best, chance) / 100
        if gain <= 0 or gain < (1 if metric.unit == "%" else least):
            return None
        return max(metric.gain(one, chance), 0.0) / gain

    @property
    def _keeps_little(self) -> bool:
        return self.kept is not None and self.kept < self.limits.kept

    @property
    def sentences(self) -> list[str]:
        """The findings in words."""
        if self.tied:
            return ["all choices tie exactly: nothing has chosen an architecture"]
        if self.never_moved:
            return ["the architecture parameters have not moved: the discretizer alone has chosen"]
        return [*self._about_entropy(), *self._about_changes(), *self._about_loss()]

    def _about_entropy(self) -> list[str]:
        share, entropy, most, lead = self.share, *map(self.now, ("entropy", "entropy_max", "lead"))
        if share is None:
            return []
        text = f"decided {100 * share:.0f} %: entropy {entropy:.3f} of {most:.3f}"
        return [text if lead is None else f"{text}, and the first choice leads the second by {lead:.2f}"]

    def _about_changes(self) -> list[str]:
        changed = self.changed
        return [f"{100 * changed:.0f} % of the cell changes from one epoch to the next"] if changed else []

    def _about_loss(self) -> list[str]:
        if not self._keeps_little:
            return []
        mixture, one = (self.metric.show(self.records[-1][self.key(kind)]) for kind in ("mixture", "discrete"))
        return [f"this one architecture has {one} {self.metric.name}, the mixture {mixture}: it is not yet the choice"]
