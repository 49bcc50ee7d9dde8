"""What a screen shows of a record."""

from __future__ import annotations

from archgrad.callbacks.screen_words import screen_numbers


def test_the_screen_shows_the_accuracy_of_the_images_that_train_the_architecture() -> None:
    assert [number.name for number in screen_numbers({"arch_loss": 2.0, "arch_accuracy": 50.0})] == [
        "α loss",
        "α accuracy",
    ]
