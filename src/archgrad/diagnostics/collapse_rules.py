"""Rules that tell from the last epochs whether a search collapses, memorises or learns nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import mean
from typing import Literal

from archgrad.diagnostics.decision_rules import DecisionRules
from archgrad.diagnostics.metric_rules import MetricRules
from archgrad.diagnostics.records import Record, Rules, after_first_move, number_in, share_of, skip_share
from archgrad.diagnostics.thresholds import Thresholds

__all__ = ["CollapseRules", "Verdict"]

Verdict = Literal["too early", "healthy", "undecided", "untrained", "memorising", "collapsing"]

_NONE = "none"
_EXHAUSTED = (
    "the method has what usually cures it; fewer epochs (--epochs) or a smaller step of the architecture "
    "(--alpha-budget) may help"
)
_SETTLE = "let the cell settle: more epochs or images, or a smaller --alpha-budget"
_ADVICE: dict[Verdict, str] = {
    "too early": "give the search more epochs (--epochs)",
    "undecided": "let the architecture move further: more epochs or images, or a larger --alpha-budget",
    "untrained": "train the supernet more before you trust its choices: more epochs or images, more --cells or "
    "--channels",
    "memorising": "give more images or augmentation, or fewer epochs",
}
_BILEVEL = "; a bilevel method (--method gaea-bilevel) chooses on images that do not train the weights"


@dataclass(frozen=True)
class CollapseRules(Rules):
    """Judges the numbers of the last epochs by the thresholds.

    ``tied``: the search is over and all its choices tie. ``never_moved``: it is over and has never moved the
    architecture; the discretizer alone has chosen it. ``over``: all its epochs are done.
    """

    progress: float = 0.0
    tied: bool = False
    never_moved: bool = False
    over: bool = False

    @classmethod
    def of(cls, records: Sequence[Record], epochs: int, limits: Thresholds) -> CollapseRules:
        """Read the records of a search of so many epochs."""
        progress, own = len(records) / epochs, tuple(after_first_move(records))
        over = progress >= 1
        tied = over and records[-1].get("genotype", "") is None
        never_moved = over and not tied and not own
        return cls(limits, tuple(records) if tied or never_moved else own, progress, tied, never_moved, over)

    @cached_property
    def decision(self) -> DecisionRules:
        """Whether the search has decided."""
        return DecisionRules(self.limits, self.records, self.tied, self.never_moved)

    @cached_property
    def learning(self) -> MetricRules:
        """Whether its weights have learned."""
        return MetricRules(self.limits, self.records)

    @property
    def verdict(self) -> Verdict:
        """The verdict by the thresholds."""
        if self.tied:
            return "undecided"
        if not self.records or (not self.over and self._is_early):
            return "too early"
        if self.learning.is_untrained and self.learning.learned_nothing:
            return "untrained"
        if self.decision.stands_out and self._collapses and not (self.never_moved or self._is_early):
            return "collapsing"
        if self.learning.is_untrained:
            return "untrained"
        if self.learning.memorises:
            return "memorising"
        if not self.decision.has_decided:
            return "undecided"
        return "too early" if self._is_early else "healthy"

    @property
    def _is_early(self) -> bool:
        return len(self.records) < self.limits.window or self.progress <= self.limits.early

    @property
    def _collapses(self) -> bool:
        return self._skips_are_most or self._nothing_is_left or self._skips_take_over

    @property
    def usable(self) -> bool:
        """Whether the search could return the present architecture: skip connections or `none` do not dominate it."""
        return bool(self.records) and not (self._skips_are_many or self._nothing_is_left)

    @property
    def evidence(self) -> dict[str, float]:
        """The means over the window by their names in the records, and numbers derived from them."""
        layers = ("alignment", "sign_alignment", "skip_weight", "movement")
        names = (*layers, "entropy", "entropy_max", "lead", self.key("train"), self.key("heldout"), "heldout_chance")
        gradients = tuple(f"{kind}_gradient_{end}" for kind in ("skip", "conv") for end in ("first", "last"))
        found = {name: self.now(name) for name in (*names, *gradients)}
        found |= {"skip_share": self._share if self.records else None, "none_share": self._nothing}
        found |= {
            "decided": self.decision.share,
            "changed": self.decision.changed,
            "kept": self.decision.kept,
            "eigenvalue_growth": self._growth,
        }
        return {name: value for name, value in found.items() if value is not None}

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings in words, with the numbers behind them."""
        if self.verdict == "too early":
            done = len(self.records)
            what = "the search has had" if self.never_moved else "the architecture has moved in"
            return (f"{what} {done} epoch{'' if done == 1 else 's'}, too few to judge",)
        return tuple(sentence for sentence in self._all_sentences() if sentence)

    def _all_sentences(self) -> list[str]:
        state = [*self.decision.sentences, self.learning.sentence]
        collapse = [self._about_skips(), self._about_none(), *self._about_causes()]
        return [*collapse, *state] if self.verdict == "collapsing" else [*state, *collapse]

    def advice(self, cures: Sequence[str]) -> str:
        """Return what the user may do; for a collapse, name these cures."""
        verdict, cure = self.verdict, _EXHAUSTED
        if cures:
            cure = f"{' or '.join(cures)} usually cures it"
        if verdict == "memorising" and self.records[-1].get("level") == "single":
            return _ADVICE[verdict] + _BILEVEL
        if verdict == "undecided" and self.decision.keeps_changing:
            return _SETTLE
        if verdict != "collapsing":
            return "" if verdict == "too early" and not self.over else _ADVICE.get(verdict, "")
        if self._nothing_is_left and not self._skips_are_most:
            return "most of the network is gone; search without `none` (--set space.exclude=none where there is it)"
        return f"go back to an earlier epoch, or search again: {cure}"

    # --- skip connections

    @property
    def _shares(self) -> list[float]:
        """The share of skip connections in every epoch, as the mean over the window that ends there."""
        width = self.limits.window
        shares = [skip_share(record) for record in self.records]
        return [mean(shares[max(0, end - width) : end]) for end in range(1, len(shares) + 1)]

    @property
    def _share(self) -> float:
        return self._shares[-1]

    @property
    def _skips_are_many(self) -> bool:
        return self._share >= self.limits.many

    @property
    def _skips_are_most(self) -> bool:
        last = self.records[-self.limits.window :]
        return min(skip_share(record) for record in last) >= self.limits.most

    @property
    def _skips_take_over(self) -> bool:
        return self._skips_are_many and self._skips_rose and not self._skips_recover and self._has_cause

    @property
    def _skips_rose(self) -> bool:
        return self._share - min(self._shares) >= self.limits.rise

    @property
    def _skips_recover(self) -> bool:
        return max(self._shares) - self._share >= self.limits.rise

    def _about_skips(self) -> str:
        shares = self._shares
        lowest, highest = min(shares), max(shares)
        if not highest and any("skip_share" in record and "skip_weight" not in record for record in self.records):
            return ""  # no row of the space offers one
        text = f"skip connections are {_percent(self._share)} of the architecture"
        if self._skips_recover:
            return f"{text}, down from {_percent(highest)} in epoch {self._last_epoch_at(shares, highest)}"
        if self._skips_rose:
            return f"{text}, up from {_percent(lowest)} in epoch {self._last_epoch_at(shares, lowest)}"
        return text

    def _last_epoch_at(self, shares: list[float], value: float) -> int:
        return int(self.records[max(place for place, share in enumerate(shares) if share == value)]["epoch"])

    # --- none

    @property
    def _nothing(self) -> float | None:
        last = self.records[-self.limits.window :]
        return mean(share_of(record, _NONE) for record in last) if last else None

    @property
    def _nothing_is_left(self) -> bool:
        return (self._nothing or 0.0) >= self.limits.nothing

    def _about_none(self) -> str:
        if not self._nothing_is_left:
            return ""
        return f"`none` has {_percent(self._nothing or 0.0)} of the architecture"

    # --- causes

    @property
    def _has_cause(self) -> bool:
        """Whether the cells disagree; True where alignment was not measured, so that the skip connections decide."""
        return self.now("alignment") is None or self._is_misaligned

    @property
    def _is_misaligned(self) -> bool:
        alignment = self.now("alignment")
        return alignment is not None and alignment < self.limits.misaligned

    @property
    def _favors_skip(self) -> bool:
        """Whether the last cells make skip connections grow, and faster than convolutions."""
        skip, conv = self.now("skip_gradient_last"), self.now("conv_gradient_last")
        return skip is not None and conv is not None and skip < min(conv, 0.0)

    @property
    def _growth(self) -> float | None:
        """The growth of the eigenvalue from the window before to the last window; None where unknown."""
        width = self.limits.window
        values = [value for record in self.records if (value := number_in(record, "alpha_eigenvalue")) is not None]
        if len(values) < 2 * width:
            return None
        before, now = mean(values[-2 * width : -width]), mean(values[-width:])
        return now / before if before > 0 else None

    @property
    def _eigenvalue_grows(self) -> bool:
        return (self._growth or 0.0) >= self.limits.growth

    def _about_causes(self) -> list[str]:
        alignment, skip, conv = map(self.now, ("alignment", "skip_gradient_last", "conv_gradient_last"))
        sentences = []
        if alignment is not None:
            apart = "the cells want different architectures"
            apart += "" if self.verdict == "collapsing" else ", which alone is no sign of collapse"
            sentences.append(
                f"layer alignment is {alignment:.2f}: {apart if self._is_misaligned else 'the cells agree'}"
            )
        if self._favors_skip:
            sentences.append(
                f"the last cells favor skip connections: their gradient is {skip:.2g}, that of convolutions {conv:.2g}"
            )
        if self._eigenvalue_grows:
            sentences.append(f"the largest eigenvalue of the architecture's Hessian has grown {self._growth:.1f} times")
        return sentences


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
