"""Judging architectures by the weights that a search shares between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy

import torch
from torch import Tensor

from archgrad import randomness
from archgrad.discretizers import Judge
from archgrad.loop.setup import Setup
from archgrad.loop.state import SearchState, Sums
from archgrad.relaxations import Relaxed

__all__ = ["judge_of"]

Report = Callable[[str, int, int], None]


def judge_of(
    setup: Setup,
    state: SearchState,
    report: Report = lambda what, done, total: None,
    between: Callable[[], None] = lambda: None,
) -> Judge:
    """Return a judge that classifies the images which train the architecture, as they are, with the present weights.

    Asked to tune, it trains a copy of the weights, by which it judges from then on; the search keeps its own. It calls
    ``between`` before every batch, which may raise to end it all.
    """
    seed = randomness.seed_of(setup.seed, "judge")
    copies: list[SearchState] = []

    def accuracy(mixture: Mapping[str, Tensor], number: int) -> float:
        between()
        supernet = (copies or [state])[0].supernet
        batch, relaxed = setup.judge_loader.batch(number), _relaxed(mixture, state.device)
        with torch.no_grad():
            logits = supernet(batch.images, relaxed.mixture, active=relaxed.active, seed=seed)
        return 100 * float((logits.argmax(1) == batch.labels).double().mean())

    def tune(mixture: Mapping[str, Tensor], epochs: int) -> None:
        if not copies:
            copies.append(_copied(setup, state))
        _tune(setup, copies[0], _relaxed(mixture, state.device), epochs, between)

    draws = randomness.generator(setup.seed, "judge", "draws", state.epoch)
    return Judge(accuracy, draws, setup.judge_loader.steps, tune, report)


def _relaxed(mixture: Mapping[str, Tensor], device: torch.device) -> Relaxed:
    """Return a mixture of which only what has a weight is computed."""
    weights = {name: value.to(device) for name, value in mixture.items()}
    return Relaxed(weights, {name: value != 0 for name, value in weights.items()})


def _copied(setup: Setup, state: SearchState) -> SearchState:
    """Copy what training changes; the copy stands at the end of the last epoch, whose learning rate it goes on with."""
    supernet = deepcopy(state.supernet)
    optimizer = torch.optim.SGD(supernet.parameters(), lr=setup.training.lr)
    optimizer.load_state_dict(deepcopy(state.optimizer.state_dict()))
    return SearchState(
        supernet,
        state.alpha,
        state.arch_state,
        optimizer,
        state.epochs,
        state.steps,
        state.genotype,
        epoch=state.epochs - 1,
        step=state.steps,
    )


def _tune(setup: Setup, copy: SearchState, relaxed: Relaxed, epochs: int, between: Callable[[], None]) -> None:
    """Take weight steps with one mixture, on the batches that would follow those of the search."""
    stepper = setup.stepper(copy)
    for _ in range(epochs * copy.steps):
        between()
        stepper.tuning_step(copy, relaxed, setup.weight_loader.batch(copy.index))
        copy.step += 1
    stepper.check(copy)
    copy.sums = Sums()
