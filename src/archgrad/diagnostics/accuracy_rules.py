"""Rules for accuracy: near chance, the weights have not learned; far higher in training, they memorise."""

from __future__ import annotations

from dataclasses import dataclass

from archgrad.diagnostics.records import Rules

__all__ = ["AccuracyRules"]


@dataclass(frozen=True)
class AccuracyRules(Rules):
    """Judges the accuracies of a search by the thresholds.

    Without held-out images, accuracy on the architecture's images or on the training images takes their place to tell
    whether the weights have learned at all.
    """

    @property
    def is_untrained(self) -> bool:
        """Whether accuracy is near chance although the weights do not memorise."""
        accuracy, chance = self._measured
        if accuracy is None or chance is None or chance >= 100 or self.memorises or self._too_few:
            return False
        return self._is_near(accuracy, chance)

    def _is_near(self, accuracy: float, chance: float) -> bool:
        return (accuracy - chance) / (100 - chance) < self.limits.trained

    @property
    def learned_nothing(self) -> bool:
        """Whether accuracy is near chance on the training images too."""
        training, chance = self.now("train_accuracy"), self._measured[1]
        return training is None or chance is None or self._is_near(training, chance)

    @property
    def memorises(self) -> bool:
        """Whether training accuracy is far above the held-out one."""
        training, accuracy = self.now("train_accuracy"), self.now("heldout_accuracy")
        if training is None or accuracy is None or self._too_few:
            return False
        return training - accuracy > self.limits.memorised

    @property
    def sentence(self) -> str:
        """The findings in words; empty if nothing was measured."""
        training, accuracy = self.now("train_accuracy"), self.now("heldout_accuracy")
        if accuracy is None:
            if training is None:
                return ""
            near = f" ({training:.1f} % in training is near chance)" if self.is_untrained else ""
            return f"held-out accuracy was not measured, so it is unknown whether the weights memorise{near}"
        text = f"held-out accuracy is {accuracy:.1f} %"
        text += "" if training is None else f", {training:.1f} % in training"
        if self._too_few:
            return f"{text}; {self.now('heldout_images'):.0f} held-out images are too few to judge by"
        if self.is_untrained:
            return f"{text}; the most common class alone gives {self.now('heldout_chance'):.1f} %"
        return f"{text}: the weights remember their images" if self.memorises else text

    @property
    def _measured(self) -> tuple[float | None, float | None]:
        """The accuracy to judge by, and the accuracy of always naming the most common class."""
        accuracy = self.now("heldout_accuracy")
        if accuracy is not None:
            return accuracy, self.now("heldout_chance")
        valid = self.now("valid_accuracy")
        return (self.now("train_accuracy") if valid is None else valid), self.now("train_chance")

    @property
    def _too_few(self) -> bool:
        images = self.now("heldout_images")
        return images is not None and images < self.limits.images
