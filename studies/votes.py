"""The page about searches that vote, from the stored runs of ``vote.toml`` and ``vote-twice.toml``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple, TypeVar

from shared import CIFAR10, CIFAR100, row_of, signed, spread

from archgrad.studies.vote import vote
from archgrad.tables import tables_for

__all__ = ["Found", "found_by_votes", "votes_page"]

AIM = 93.5
Member = TypeVar("Member")
TEXT = """\
# Do several searches find better cells than one?

`archgrad search --voters N` searches with N seeds, and the mean of their mixtures decides. Here `gaea-simultaneous`
searched with the size of [the main study](main.md), about four and a half minutes of one core a search, with seeds that
no other study has used. The rule was fixed before (`studies/vote.toml`), twenty seeds are planned. `python
studies/publish.py` writes this page.

| what decides | core minutes | n | CIFAR-10 | worst | below {aim} | CIFAR-100 | worse cells | agreement |
|---|---|---|---|---|---|---|---|---|
{rows}

n: how many independent results there are; each search is in one vote of its row. Accuracies are those of the cell in
NAS-Bench-201's table after 200 epochs, with the 95 % interval of the mean. Worse cells: of the 4,096 without `none`.
Agreement: the share of the choices that a search would make by itself, too.

The differences on CIFAR-10, in points, with the 95 % interval of the mean:

{differences}

A vote takes away what a single seed gets wrong, and leaves what all of them have in common: the more voters, the nearer
to the cell that all together choose, {limit:.2f} %. More voters are no cure for the bias of a small supernet on few
images. That votes find better cells than one search is not shown, so one search stays the default.
"""


class Found(NamedTuple):
    """The accuracies of a cell in the table, and how far the searches behind it agree."""

    cifar10: float
    cifar100: float
    agreement: float | None = None


def found_by_votes(runs: Sequence[Path], voters: int) -> list[Found]:
    """Let consecutive runs vote, ``voters`` at a time; a rest does not vote."""
    return [_found(group) for group in _groups(runs, voters)]


def _groups(members: Sequence[Member], size: int) -> list[Sequence[Member]]:
    """Return consecutive groups of one size, without a rest."""
    return [members[at : at + size] for at in range(0, len(members) - size + 1, size)]


def _found(group: Iterable[Path]) -> Found:
    voted = vote(*group)
    (table,) = tables_for(voted.space.name)
    known = table.accuracies(voted.genotype)
    return Found(known[CIFAR10], known[CIFAR100], voted.agreement)


def _row(title: str, minutes: str, found: Sequence[Found], worse: Callable[[float], float]) -> str:
    own = [one.cifar10 for one in found]
    agreement = [one.agreement for one in found if one.agreement is not None]
    cells = (
        title,
        minutes,
        str(len(found)),
        spread(own),
        f"{min(own):.2f}",
        str(sum(one < AIM for one in own)),
        f"{mean(one.cifar100 for one in found):.2f}",
        f"{mean(map(worse, own)):.1f} %",
        f"{mean(agreement):.0%}" if agreement else "–",
    )
    return row_of(cells)


def votes_page(
    runs: Sequence[Path], ends: Sequence[Found], twice: Sequence[Found], worse: Callable[[float], float]
) -> str:
    """Return the page; ``ends`` are the last cells of the searches, ``twice`` those of searches of twice the images."""
    votes, together = {count: found_by_votes(runs, count) for count in (1, 2, 4)}, found_by_votes(runs, len(runs))
    shown = (
        ("one search, its last epoch", "4.5", ends),
        ("one search, its last quarter", "4.5", votes[1]),
        ("one search of 8,000 images, its last epoch", "9", twice),
        ("**two voters**", "9", votes[2]),
        ("**four voters**", "18", votes[4]),
        (f"all {len(runs)} voters", f"{4.5 * len(runs):.0f}", together),
    )
    rows = [_row(title, minutes, found, worse) for title, minutes, found in shown if found]
    lines = [
        f"- {name} minus the mean of what they end with alone: {signed(_gains(votes[count], ends, count))}"
        for name, count in (("Two voters", 2), ("Four voters", 4))
        if votes[count]
    ]
    if twice and votes[2]:
        ahead = [one.cifar10 - other.cifar10 for one, other in zip(votes[2], twice, strict=False)]
        lines.append(f"- Two voters minus one search of twice the images: {signed(ahead)}")
    return TEXT.format(aim=AIM, rows="\n".join(rows), differences="\n".join(lines), limit=together[0].cifar10)


def _gains(votes: Sequence[Found], ends: Sequence[Found], count: int) -> list[float]:
    groups = _groups([one.cifar10 for one in ends], count)
    return [one.cifar10 - mean(group) for one, group in zip(votes, groups, strict=False)]
