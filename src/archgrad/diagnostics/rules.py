"""The thresholds of a diagnosis, and the rules that tell whether a search has decided and its weights have learned."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import mean

from archgrad.diagnostics.records import Record, changed_share, decided_share, mean_in, number_in
from archgrad.parts.fields import Count, NonNegative, Positive, check_fields
from archgrad.tasks import MetricInfo

__all__ = ["DecisionRules", "MetricRules", "Rules", "Thresholds"]


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

    window: Count = 3
    early: NonNegative = 0.1
    many: Positive = 0.45
    most: Positive = 0.6
    rise: Positive = 0.15
    misaligned: Positive = 0.1
    growth: Positive = 4 / 3
    nothing: Positive = 0.5
    decided: Positive = 0.05
    lead: Positive = 0.1
    trained: Positive = 0.2
    memorised: Positive = 30.0
    changing: Positive = 0.25
    kept: Positive = 1 / 3
    images: Count = 20

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Rules:
    """Rules that judge the ``records`` of a search by the ``limits``.

    ``tied``: the search is over and all its choices tie. ``never_moved``: it is over and has never moved the
    architecture; the discretizer alone has chosen it.
    """

    limits: Thresholds
    records: tuple[Record, ...]
    tied: bool = False
    never_moved: bool = False

    @property
    def _window(self) -> tuple[Record, ...]:
        return self.records[-self.limits.window :]

    def now(self, name: str) -> float | None:
        """Return the mean of a number over the window, None if no record there has it."""
        return mean_in(self._window, name)

    @property
    def metric(self) -> MetricInfo:
        """The main metric of the search."""
        return MetricInfo.of_record(self.records[-1] if self.records else {})

    def key(self, kind: str) -> str:
        """Return what records call the main metric on these images: ``train_accuracy`` for ``train``."""
        return f"{kind}_{self.metric.name}"


@dataclass(frozen=True)
class MetricRules(Rules):
    """Judges the main metric of a search by the thresholds.

    Without held-out images, the metric on the architecture's images or on the training images takes their place to tell
    whether the weights have learned at all.
    """

    @property
    def is_untrained(self) -> bool:
        """Whether the metric is near chance although the weights do not memorise."""
        value, chance = self._measured
        if value is None or chance is None or self.memorises or self._too_few:
            return False
        return self._is_near(value, chance)

    def _is_near(self, value: float, chance: float) -> bool:
        """Tell whether a value is near chance; where perfect is unknown, whether it is not better than chance."""
        if self.metric.best is None:
            return self.metric.gain(value, chance) <= 0
        skill = self.metric.skill(value, chance)
        return skill is not None and skill < self.limits.trained

    @property
    def learned_nothing(self) -> bool:
        """Whether the metric is near chance on the training images too."""
        training, chance = self.now(self.key("train")), self._measured[1]
        return training is None or chance is None or self._is_near(training, chance)

    @property
    def memorises(self) -> bool:
        """Whether the metric is far better in training than on held-out images."""
        training, value = self.now(self.key("train")), self.now(self.key("heldout"))
        if training is None or value is None or self._too_few:
            return False
        if self.metric.unit == "%":
            return self.metric.gain(training, value) > self.limits.memorised
        chance = self.now("heldout_chance")
        if chance is None or (seen := self.metric.skill(training, chance)) is None:
            return False
        return seen - (self.metric.skill(value, chance) or 0.0) > self.limits.memorised / 100

    @property
    def sentence(self) -> str:
        """The findings in words; empty if nothing was measured."""
        name, show = self.metric.name, self.metric.show
        training, value = self.now(self.key("train")), self.now(self.key("heldout"))
        if value is None:
            if training is None:
                return ""
            near = f" ({show(training)} in training is near chance)" if self.is_untrained else ""
            return f"held-out {name} was not measured, so it is unknown whether the weights memorise{near}"
        over = f" (mean of {len(self._window)} epochs)" if len(self._window) > 1 else ""
        text = f"held-out {name} is {show(value)}{over}"
        text += "" if training is None else f", {show(training)} in training"
        if self._too_few:
            return f"{text}; {self.now('heldout_images'):.0f} held-out images are too few to judge by"
        if self.is_untrained:
            constant = "the most common class alone" if name == "accuracy" else "the best constant prediction"
            return f"{text}; {constant} gives {show(self.now('heldout_chance') or 0.0)}"
        return f"{text}: the weights remember their images" if self.memorises else text

    @property
    def _measured(self) -> tuple[float | None, float | None]:
        """The value to judge by, and that of the best constant prediction."""
        value = self.now(self.key("heldout"))
        if value is not None:
            return value, self.now("heldout_chance")
        arch = self.now(self.key("arch"))
        return (self.now(self.key("train")) if arch is None else arch), self.now("train_chance")

    @property
    def _too_few(self) -> bool:
        images = self.now("heldout_images")
        return images is not None and images < self.limits.images


@dataclass(frozen=True)
class DecisionRules(Rules):
    """Judges by the thresholds how far a search has decided."""

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
        """How far entropy has fallen below its maximum, as a share of that, over the window; None if unknown."""
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
        """The architecture's gain over chance as a part of the mixture's, with the same weights; None if unknown."""
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
