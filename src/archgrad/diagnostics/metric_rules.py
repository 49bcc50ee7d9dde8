"""Rules for the main metric: near chance, the weights have not learned; far better in training, they memorise."""

from __future__ import annotations

from dataclasses import dataclass

from archgrad.diagnostics.records import Rules

__all__ = ["MetricRules"]


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
        text = f"held-out {name} is {show(value)}"
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
