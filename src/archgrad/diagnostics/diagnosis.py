"""The diagnosis of a search by its records: whether it decides, learns, memorises or collapses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import mean
from typing import Literal

from archgrad.diagnostics.records import Record, after_first_move, number_in, share_of, skip_share
from archgrad.diagnostics.rules import DecisionRules, MetricRules, Rules, Thresholds
from archgrad.parts.fields import Count, check_value, checked
from archgrad.system.amounts import counted

__all__ = ["ALARMING", "CURES", "Diagnosis", "Verdict", "diagnose", "first_moved_epoch", "last_usable_epoch"]

Verdict = Literal["too early", "healthy", "undecided", "untrained", "memorising", "collapsing"]

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
ALARMING: tuple[Verdict, ...] = ("collapsing",)
"""The verdicts that cause a warning while a search runs."""

CURES = ("λ-DARTS (--regularizer +layer-alignment)", "GAEA (--method gaea)")
"""The usual cures of a collapse into skip connections."""


@dataclass(frozen=True)
class Diagnosis:
    """A verdict on a search, with sentences and the numbers behind them.

    ``since`` is the first epoch of the present alarm, None if there is no alarm. ``usable`` tells whether the search
    could return the present architecture: skip connections or `none` do not dominate it. ``evidence`` has the numbers
    behind the sentences, by name.
    """

    verdict: Verdict
    since: int | None
    sentences: tuple[str, ...]
    advice: str
    usable: bool = False
    evidence: dict[str, float] = field(default_factory=dict, hash=False)

    @property
    def alarming(self) -> bool:
        """Whether to warn the user, and to stop or change the search."""
        return self.verdict in ALARMING

    def __str__(self) -> str:
        since = "" if self.since is None else f" since epoch {self.since}"
        lines = [f"diagnosis: {self.verdict}{since}", *(f"  {sentence}" for sentence in self.sentences)]
        return "\n".join([*lines, *([f"  {self.advice}"] if self.advice else [])])


@checked
def diagnose(
    records: Sequence[Record],
    epochs: int,
    thresholds: Thresholds | None = None,
    cures: Sequence[str] = CURES,
) -> Diagnosis:
    """Diagnose a search of so many ``epochs`` by its records so far, one for each epoch.

    Numbers that a record lacks are skipped: alignment where no two cells share a block, the eigenvalue in most epochs.
    It never reads a benchmark's table. The advice names the ``cures``.

    >>> records = [{"epoch": n, "skip_share": n / 6, "entropy": 1.4 - n / 10, "entropy_max": 1.4} for n in range(1, 5)]
    >>> print(diagnose(records, 20))
    diagnosis: collapsing since epoch 4
      skip connections are 50 % of the architecture, up from 17 % in epoch 1
      decided 21 %: entropy 1.100 of 1.400
      go back to an earlier epoch, or search again: λ-DARTS (--regularizer +layer-alignment) or GAEA (--method gaea) \
usually cures it
    """
    check_value("epochs", epochs, Count)
    limits = thresholds or Thresholds()
    found = _CollapseRules.of(records, epochs, limits)
    since = None
    if found.verdict in ALARMING:
        since = records[-1]["epoch"]
        for end in range(len(records) - 1, 0, -1):
            if _CollapseRules.of(records[:end], epochs, limits).verdict not in ALARMING:
                break
            since = records[end - 1]["epoch"]
    return Diagnosis(found.verdict, since, found.sentences, found.advice(cures), found.usable, found.evidence)


def first_moved_epoch(records: Sequence[Record]) -> int:
    """Return the first epoch that moved the architecture, 0 if none did, as in a warm-up.

    >>> first_moved_epoch([{"epoch": 1, "movement": 0.0}, {"epoch": 2, "movement": 0.4}])
    2
    """
    left = after_first_move(records)
    return int(left[0]["epoch"]) if left else 0


def last_usable_epoch(records: Sequence[Record], epochs: int, thresholds: Thresholds | None = None) -> int:
    """Return the last epoch whose architecture is usable, 0 if there is none.

    >>> last_usable_epoch([{"epoch": 1, "skip_share": 0.2}, {"epoch": 2, "skip_share": 0.9}], 9)
    1
    """
    for end in range(len(records), 0, -1):
        if (
            records[end - 1].get("genotype", "") is not None
            and _CollapseRules.of(records[:end], epochs, thresholds or Thresholds()).usable
        ):
            epoch: int = records[end - 1]["epoch"]
            return epoch
    return 0


@dataclass(frozen=True)
class _CollapseRules(Rules):
    """Judges the numbers of the last epochs; ``progress`` is the share of the epochs that are done."""

    progress: float = 0.0

    @classmethod
    def of(cls, records: Sequence[Record], epochs: int, limits: Thresholds) -> _CollapseRules:
        """Read the records of a search of so many epochs."""
        progress, moved = len(records) / epochs, tuple(after_first_move(records))
        tied = progress >= 1 and records[-1].get("genotype", "") is None
        never_moved = progress >= 1 and not tied and not moved
        return cls(limits, tuple(records) if tied or never_moved else moved, tied, never_moved, progress)

    @property
    def over(self) -> bool:
        """Whether all epochs are done."""
        return self.progress >= 1

    @cached_property
    def decision(self) -> DecisionRules:
        """Whether the search has decided."""
        return DecisionRules(self.limits, self.records, self.tied, self.never_moved)

    @cached_property
    def learning(self) -> MetricRules:
        """Whether its weights have learned."""
        return MetricRules(self.limits, self.records)

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict by the thresholds."""
        if self.tied:
            return "undecided"
        if not self.records or (not self.over and self._is_early):
            return "too early"
        if self.learning.is_untrained and self.learning.learned_nothing:
            return "untrained"
        collapses = self._skips_are_most or self._nothing_is_left or self._skips_take_over
        if self.decision.stands_out and collapses and not (self.never_moved or self._is_early):
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
        found |= {"skip_share": self._skips[-1] if self.records else None, "none_share": self._nothing}
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
            return (f"{what} {counted(done, 'epoch')}, too few to judge",)
        state = [*self.decision.sentences, self.learning.sentence]
        collapse = [self._about_skips(), self._about_none(), *self._about_causes()]
        said = [*collapse, *state] if self.verdict == "collapsing" else [*state, *collapse]
        return tuple(sentence for sentence in said if sentence)

    def advice(self, cures: Sequence[str]) -> str:
        """Return what the user may do; for a collapse, name these cures."""
        verdict, cure = self.verdict, f"{' or '.join(cures)} usually cures it" if cures else _EXHAUSTED
        if verdict == "memorising" and self.records[-1].get("level") == "single":
            return _ADVICE[verdict] + _BILEVEL
        if verdict == "undecided" and self.decision.keeps_changing:
            return _SETTLE
        if verdict != "collapsing":
            return "" if verdict == "too early" and not self.over else _ADVICE.get(verdict, "")
        if self._nothing_is_left and not self._skips_are_most:
            return "most of the network is gone; search without `none` (--set space.exclude=none)"
        return f"go back to an earlier epoch, or search again: {cure}"

    @cached_property
    def _skips(self) -> list[float]:
        """The share of skip connections in every epoch, as the mean over the window that ends there."""
        shares = [skip_share(record) for record in self.records]
        return [mean(shares[max(0, end - self.limits.window) : end]) for end in range(1, len(shares) + 1)]

    @property
    def _skips_are_many(self) -> bool:
        return self._skips[-1] >= self.limits.many

    @property
    def _skips_are_most(self) -> bool:
        return min(map(skip_share, self._window)) >= self.limits.most

    @property
    def _skips_rose(self) -> bool:
        return self._skips[-1] - min(self._skips) >= self.limits.rise

    @property
    def _skips_recover(self) -> bool:
        return max(self._skips) - self._skips[-1] >= self.limits.rise

    @property
    def _skips_take_over(self) -> bool:
        """Whether they are many and growing while the cells disagree; where alignment is unknown, they alone decide."""
        disagree = self.now("alignment") is None or self._is_misaligned
        return self._skips_are_many and self._skips_rose and not self._skips_recover and disagree

    @property
    def _nothing(self) -> float | None:
        """The share of `none` over the window."""
        return mean(share_of(record, "none") for record in self._window) if self._window else None

    @property
    def _nothing_is_left(self) -> bool:
        return (self._nothing or 0.0) >= self.limits.nothing

    @property
    def _is_misaligned(self) -> bool:
        alignment = self.now("alignment")
        return alignment is not None and alignment < self.limits.misaligned

    @property
    def _growth(self) -> float | None:
        """The growth of the eigenvalue from the window before to the last window; None where unknown."""
        width = self.limits.window
        values = [value for record in self.records if (value := number_in(record, "alpha_eigenvalue")) is not None]
        if len(values) < 2 * width:
            return None
        before, now = mean(values[-2 * width : -width]), mean(values[-width:])
        return now / before if before > 0 else None

    def _about_skips(self) -> str:
        lowest, highest = min(self._skips), max(self._skips)
        if not highest and any("skip_share" in record and "skip_weight" not in record for record in self.records):
            return ""  # no row of the space offers one
        text = f"skip connections are {_percent(self._skips[-1])} of the architecture"
        if self._skips_recover:
            return f"{text}, down from {_percent(highest)} in epoch {self._last_epoch_with(highest)}"
        if self._skips_rose:
            return f"{text}, up from {_percent(lowest)} in epoch {self._last_epoch_with(lowest)}"
        return text

    def _last_epoch_with(self, share: float) -> int:
        return int(self.records[max(place for place, one in enumerate(self._skips) if one == share)]["epoch"])

    def _about_none(self) -> str:
        return f"`none` has {_percent(self._nothing or 0.0)} of the architecture" if self._nothing_is_left else ""

    def _about_causes(self) -> list[str]:
        alignment, skip, conv = map(self.now, ("alignment", "skip_gradient_last", "conv_gradient_last"))
        sentences = []
        if alignment is not None:
            apart = "the cells want different architectures"
            apart += "" if self.verdict == "collapsing" else ", which alone is no sign of collapse"
            sentences.append(
                f"layer alignment is {alignment:.2f}: {apart if self._is_misaligned else 'the cells agree'}"
            )
        if skip is not None and conv is not None and skip < min(conv, 0.0):  # they grow, and faster than convolutions
            sentences.append(
                f"the last cells favor skip connections: their gradient is {skip:.2g}, that of convolutions {conv:.2g}"
            )
        if (self._growth or 0.0) >= self.limits.growth:
            sentences.append(f"the largest eigenvalue of the architecture's Hessian has grown {self._growth:.1f} times")
        return sentences


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
