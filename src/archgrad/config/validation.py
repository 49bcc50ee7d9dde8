"""Validation of a configuration by all parts, before data is loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archgrad.config.published import check_recipe
from archgrad.config.search_config import SearchConfig
from archgrad.errors import UserError
from archgrad.method.reactions import check_reaction

__all__ = ["validate"]


def validate(config: SearchConfig) -> None:
    """Raise one UserError that lists everything that is wrong with a configuration.

    >>> validate(SearchConfig(epochs=1))
    """
    problems: list[str] = []

    def ask(question: Callable[[], Any]) -> Any:
        try:
            return question()
        except UserError as error:
            if str(error) not in problems:
                problems.append(str(error))
            return None

    space, method = ask(config.build_space), ask(config.build_method)
    ask(config.build_callbacks)
    ask(config.build_task)
    ask(config.check_data)
    if space is not None and method is not None:
        training = ask(lambda: config.build_training(space, method))
        if training is not None and method.arch_optimizer.moves:
            ask(lambda: method.schedule.check_epochs(training.epochs))
        ask(lambda: method.check(space))
        ask(lambda: check_reaction(config.on_collapse, method, space))
    if method is not None:
        ask(lambda: config.split_fractions(method.schedule.level))
    if config.published and not problems:
        ask(lambda: check_recipe(config))
    ask(lambda: _check_seed(config.seed))
    if len(problems) == 1:
        raise UserError(problems[0])
    if problems:
        listed = "\n".join(f"  {number}. {problem}" for number, problem in enumerate(problems, start=1))
        raise UserError(f"{len(problems)} things are wrong with this search:\n{listed}")


def _check_seed(seed: object) -> None:
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise UserError(f"seed is {seed!r}; it must be a whole number.")
