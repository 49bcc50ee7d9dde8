"""Claims of the four papers, held against the stored runs of two studies: ``claims_page`` is docs/results/claims.md.

A claim is the sign of a difference. It *holds* if the 95 % interval of the mean over seeds has that sign, *does not
hold here* if the interval has the other one, and *cannot be told* otherwise, or with fewer than five seeds. "Does not
get worse" is a claim about the lower end alone: a loss of a point or more must lie outside of the interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shared import CIFAR10, FEWEST, row_of

from archgrad.studies.statistics import summarize

__all__ = ["CLAIMS", "Claim", "claims_page"]

Record = dict[str, Any]
Runs = Mapping[int, list[Record]]
EARLY = 10
CHAINS = "oracle_cifar10_test_50ep"
PAGE = """\
# What the papers claim, and what we see

`python studies/publish.py` writes this page from the runs of [the main study](main.md), a proxy of minutes in
NAS-Bench-201. A claim holds if the whole 95 % interval of the mean difference over seeds is on the side that the claim
says, and does not hold here if it is on the other side; "does not get worse" allows for one point. Ten seeds are
planned: with fewer, verdicts are provisional. The size of the proxy was chosen, on other seeds, so that DARTS falls.
The papers searched longer, on more and larger images: what does not hold here may hold there.

| paper | claim | our measure | seeds | difference | verdict |
|---|---|---|---|---|---|
{rows}

Accuracies, in points, are those of the current cell in the table of NAS-Bench-201 on CIFAR-10. Entropy is that of the
mixture as a share of its largest value. The drop at discretization is the accuracy of the mixture minus that of the
found cell with the same weights, on held-out images. Alignment is the mean cosine of the gradients of the cells.

## In chains

The same claims in [NAS-Bench-Macro](macro.md), where each layer is decided alone; five seeds. Λ-DARTS needs cells that
share their decisions.

| paper | claim | our measure | seeds | difference | verdict |
|---|---|---|---|---|---|
{chains}
"""


def accuracy(record: Record) -> float:
    """Return the accuracy of the cell, or of the chain, in the table."""
    return float(record[CIFAR10] if CIFAR10 in record else record[CHAINS])


def entropy(record: Record) -> float:
    """Return the entropy as a share of its largest value, in per cent."""
    return 100 * float(record["entropy"]) / float(record["entropy_max"])


def drop(record: Record) -> float:
    """Return the accuracy that discretization costs."""
    return float(record["mixture_accuracy"]) - float(record["discrete_accuracy"])


def alignment(record: Record) -> float:
    """Return the mean cosine of the gradients of the cells, in per cent."""
    return 100 * float(record["alignment"])


@dataclass(frozen=True)
class Claim:
    """A difference over seeds of a ``better`` variant at its end and what it beats; ``sign`` · it is above ``least``.

    What it beats is the variant ``worse`` with the same seed at its end, or the same run at epoch 10 if there is none.
    ``sign`` is −1 where the difference should be negative.
    """

    paper: str
    text: str
    about: str
    measure: Callable[[Record], float]
    better: str
    worse: str = ""
    sign: int = 1
    least: float = 0.0

    def differences(self, found: Mapping[str, Runs]) -> list[float]:
        """Return one difference for each seed that has both runs."""
        ends, others = found.get(self.better, {}), found.get(self.worse or self.better, {})
        at = -1 if self.worse else EARLY - 1
        seeds = sorted(set(ends) & set(others))
        return [self.measure(ends[one][-1]) - self.measure(others[one][at]) for one in seeds]

    def row(self, found: Mapping[str, Runs]) -> str:
        """Return the line of the table."""
        values = self.differences(found)
        cells = [self.paper, self.text, self.about, str(len(values)), *self._verdict(values)]
        return row_of(cells)

    def _verdict(self, values: list[float]) -> tuple[str, str]:
        if not values:
            return "–", "no run yet"
        summary = summarize(values)
        if len(values) < FEWEST or summary.interval is None:
            return f"{summary.mean:+.2f}", "cannot be told: too few seeds"
        shown = "{:+.2f} ({:+.2f} to {:+.2f})".format(summary.mean, *summary.interval)
        low, high = sorted(self.sign * end for end in summary.interval)
        if low > self.least:
            return shown, "**holds**"
        return shown, "**does not hold here**" if high < self.least else "cannot be told"


_BEATS = "accuracy at the end, minus that of `darts`"
_LONGER = "accuracy at the end, minus that at epoch 10"
_AMENDED, _GAEA, _LAMBDA, _IDARTS = "Amended-DARTS", "GAEA", "Λ-DARTS", "iDARTS"
CLAIMS = (
    Claim("all four", "DARTS gets worse the longer it searches", _LONGER, accuracy, "darts", sign=-1),
    Claim(_AMENDED, "its search does not get worse with length", _LONGER, accuracy, "amended", least=-1.0),
    Claim(_LAMBDA, "its search does not get worse with length", _LONGER, accuracy, "lambda-darts", least=-1.0),
    Claim(_IDARTS, "finds better cells than DARTS (Table 1)", _BEATS, accuracy, "idarts", "darts"),
    Claim(_AMENDED, "finds better cells than DARTS", _BEATS, accuracy, "amended", "darts"),
    Claim(_GAEA, "finds better cells than DARTS on two levels", _BEATS, accuracy, "gaea-bilevel", "darts"),
    Claim(_GAEA, "finds better cells than DARTS on one level", _BEATS, accuracy, "gaea", "darts"),
    Claim(_LAMBDA, "finds better cells than DARTS", _BEATS, accuracy, "lambda-darts", "darts"),
    Claim(
        _GAEA, "one level finds better cells than two", "accuracy at the end, minus that of `gaea-bilevel`", accuracy,
        "gaea", "gaea-bilevel",
    ),
    Claim(
        _GAEA, "its mixture is sparser (Fig. 1)", "entropy at the end, minus that of `darts`", entropy, "gaea-bilevel",
        "darts", sign=-1,
    ),
    Claim(
        _GAEA, "loses less by discretization", "drop at discretization, minus that of `darts`", drop, "gaea-bilevel",
        "darts", sign=-1,
    ),
    Claim(
        _LAMBDA, "DARTS loses the alignment of cells (Fig. 1)", "100 × alignment at the end, minus that at epoch 10",
        alignment, "darts", sign=-1,
    ),
    Claim(
        _LAMBDA, "keeps the cells' gradients aligned (Fig. 1)", "100 × alignment at the end, minus that of `darts`",
        alignment, "lambda-darts", "darts",
    ),
    Claim(
        _LAMBDA, "chooses fewer skip connections", "skips at the end, minus those of `darts`",
        lambda record: float(record["skips"]), "lambda-darts", "darts", sign=-1,
    ),
)  # fmt: skip


def claims_page(found: Mapping[str, Runs], chains: Mapping[str, Runs]) -> str:
    """Return the page: the claims in the main study, and those that can be asked in chains."""
    asked = [one for one in CLAIMS if one.better in chains and one.measure is not alignment]
    return PAGE.format(
        rows="\n".join(claim.row(found) for claim in CLAIMS), chains="\n".join(claim.row(chains) for claim in asked)
    )
