"""How far α may move in a search that is shorter than the published one."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal

from archgrad.errors import UserError
from archgrad.parts.fields import Positive, check_value

if TYPE_CHECKING:
    from archgrad.arch_optimizers import ArchOptimizer

__all__ = ["LARGEST_FACTOR", "AlphaBudget", "BudgetChoice", "rate_knobs"]

LARGEST_FACTOR = 125.0
"""The largest factor that ``published`` may apply to a learning rate (docs/deciding.md has the evidence)."""
BudgetChoice = Literal["published", "always", "off"] | Positive
"""Keep the published drift of α if its learning rate is the recipe's own, or always; keep its learning rate (off); or
multiply that rate by a factor."""


@dataclass(frozen=True)
class AlphaBudget:
    """The ``factor`` on the learning rate of α, with the numbers of architecture steps behind it.

    α can drift as far as steps × learning rate. A search with fewer steps than the published one keeps that drift if
    its rate grows by published steps / own steps. A longer search keeps the published rate. The factor is at most
    ``LARGEST_FACTOR``: beyond it, single batches would decide the architecture. A rate that the user has ``given`` is
    taken literally, unless the choice is "always" or a factor.

    >>> from archgrad.arch_optimizers import Adam
    >>> AlphaBudget.of("published", Adam(), published=19500, own=750).factor
    26.0
    """

    choice: BudgetChoice
    published: int
    own: int
    factor: float
    given: bool = False

    @classmethod
    def of(
        cls, choice: BudgetChoice, optimizer: ArchOptimizer, published: int, own: int, given: bool = False
    ) -> AlphaBudget:
        """Return the budget of this choice for an optimizer; reject a factor that would change nothing."""
        check_value("alpha_budget", choice, BudgetChoice)
        if choice == "off" or (choice == "published" and given):
            return cls(choice, published, own, 1.0, given)
        if choice in ("published", "always"):
            ratio = published / own if own else 1.0
            factor = min(optimizer.drift_factor(ratio), LARGEST_FACTOR) if ratio > 1 else 1.0
            return cls(choice, published, own, factor, given)
        if choice != 1 and optimizer.scaled(float(choice)) == optimizer:
            raise UserError(
                f"alpha_budget is {choice:g}, but {type(optimizer).__name__} has no learning rate to multiply; leave "
                f"alpha_budget out."
            )
        return cls(choice, published, own, float(choice), given)

    def describe(self, bare: ArchOptimizer, scaled: ArchOptimizer) -> str:
        """Say in one line what happens to the learning rate."""
        if not scaled.moves:
            return "α stays where it is: this method does not move it"
        here = f"{self.own:,} α steps here, {self.published:,} in the published search"
        here += (
            f", and no more than × {LARGEST_FACTOR:g}"
            if self.choice in ("published", "always") and self.factor == LARGEST_FACTOR
            else ""
        )
        rate, now = getattr(bare, "lr", None), getattr(scaled, "lr", None)
        if scaled == bare:
            kept = "its own" if rate is None else f"{rate:g}"
            if self.choice == "published" and self.given:
                return (
                    f"α's learning rate is {kept}, as you set it: {here} (--alpha-budget always: scaled by the steps)"
                )
            return f"α's learning rate is {kept}: {here} (alpha budget {self.choice})"
        if rate is None or now is None:
            return f"α's learning rate is its own × {self.factor:.4g}: {here} (--alpha-budget off: its own)"
        return f"α's learning rate is {rate:g} × {self.factor:.4g} = {now:.4g}: {here} (--alpha-budget off: {rate:g})"


def rate_knobs(optimizer: ArchOptimizer) -> dict[str, Any]:
    """Return the knobs that hold the learning rate, with their values: those that scaling changes.

    >>> from archgrad.arch_optimizers import Adam, XNAS
    >>> rate_knobs(Adam()), rate_knobs(XNAS())
    ({'lr': 0.0003}, {'scale': 1.0})
    """
    if not is_dataclass(optimizer):
        return {}
    values = {knob.name: getattr(optimizer, knob.name) for knob in fields(optimizer)}
    try:
        scaled = optimizer.scaled(2.0)
    except UserError:
        return {"lr": getattr(optimizer, "lr", None)}
    return {name: value for name, value in values.items() if getattr(scaled, name) != value}
