"""What one iteration of the search loop costs with each recipe, in iterations of first-order bilevel DARTS.

Times are process CPU time on one thread, the fastest of the repeats, and every recipe is measured in turns with DARTS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from archgrad import randomness
from archgrad.benchmarks.speed import Case
from archgrad.benchmarks.timing import in_turns, one_thread
from archgrad.bilevel import Alpha
from archgrad.data import Augmentation, ImageData
from archgrad.errors import unknown
from archgrad.loop.setup import Setup
from archgrad.loop.state import SearchState
from archgrad.loop.step_batches import Drawn
from archgrad.loop.steps import Stepper
from archgrad.method import Method
from archgrad.recipes import RECIPES, named
from archgrad.regularizers import LayerAlignment, Regularizer
from archgrad.relaxations import GumbelHard
from archgrad.spaces import DecisionBlock, SearchSpace

__all__ = ["HEADER", "REFERENCE", "Kind", "Report", "Row", "Share", "cases", "measure", "run", "shares"]

REFERENCE = "darts"
"""The recipe whose iteration costs 1."""

Kind = Literal["architecture", "weights", "joint"]
"""A step of α, a step of the weights, or one pass for both."""

HEADER = (
    f"{'method':<24} | {'α step':>8} {'taken':>6} | {'weight step':>11} {'taken':>6} | {'iteration':>9} {'cost':>7} | "
    f"{'operations':>10} {'channels':>8}"
)

_CASES = (Case("nasbench201", 16, 1, 32, 64), Case("darts", 8, 5, 32, 16))
_CLASSES = 10
_BATCHES = 16
_SEED = 0
_PATIENCE = 8.0
_CERTAIN = 30.0

Marks = dict[str, Tensor] | None


@dataclass(frozen=True)
class Share:
    """How often an iteration takes a kind of step on average, and the milliseconds of one."""

    per_iteration: float
    milliseconds: float

    def __str__(self) -> str:
        return f"{self.milliseconds:.0f} ms"


@dataclass(frozen=True)
class Row:
    """One recipe on one space, at the beginning of its search and without warm-up.

    ``milliseconds`` is an iteration of the loop with the loading of its batches, the mean over the steps of its
    schedule, and ``cost`` the same in iterations of DARTS. ``operations`` is how many entries of the mixture a cell
    computes in a weight step, ``none`` among them, and ``channels`` the part of the channels that they see. Each loss
    is that of one batch; ``training_batches`` of them go into an α step besides its own.
    """

    space: str
    method: str
    steps: dict[Kind, Share]
    milliseconds: float
    cost: float
    operations: float
    channels: float
    images_per_architecture_step: int
    images_per_weight_step: int
    training_batches: int

    def __str__(self) -> str:
        weights = self.steps.get("joint") or self.steps["weights"]
        alpha = self.steps.get("architecture")
        shown = (str(alpha), f"x{alpha.per_iteration:g}") if alpha else ("joint" if "joint" in self.steps else "-", "")
        return (
            f"{self.method:<24} | {shown[0]:>8} {shown[1]:>6} | {weights!s:>11} {f'x{weights.per_iteration:g}':>6} | "
            f"{self.milliseconds:>6.0f} ms {self.cost:>6.2f}x | {self.operations:>10.4g} {self.channels:>8.4g}"
        )


@dataclass(frozen=True)
class Report:
    """All that was measured."""

    cases: list[Case]
    rows: list[Row]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def cases(space: str | None = None) -> list[Case]:
    """Return NAS-Bench-201 and DARTS, or one of them."""
    names = [case.space for case in _CASES]
    if space is not None and space not in names:
        raise unknown("space to measure methods on:", space, names)
    return [case for case in _CASES if space in (None, case.space)]


def run(space: str | None, repeats: int, tell: Callable[[str], object]) -> Report:
    """Measure every recipe, telling each line as soon as it is known."""
    chosen, rows = cases(space), []
    for case in chosen:
        tell(described(case, repeats))
        tell(HEADER)
        for row in measure(case, repeats):
            tell(str(row))
            rows.append(row)
        tell("")
    return Report(chosen, rows)


def measure(case: Case, repeats: int = 5, names: Iterable[str] = RECIPES) -> Iterator[Row]:
    """Measure the named recipes; one that has taken 8 seconds is not repeated any more."""
    with one_thread():
        reference = TimedSearch.of(case, named(REFERENCE))
        for name in names:
            yield _row(case, name, reference, repeats)


def shares(method: Method) -> dict[Kind, float]:
    """Return how often an iteration after the warm-up takes each kind of step, on average.

    >>> shares(named("idarts"))
    {'architecture': 1.0, 'weights': 4.0}
    """
    schedule = method.schedule
    if not method.arch_optimizer.moves:
        return {"weights": 1.0}
    if schedule.updates == "simultaneous":
        return {"joint": 1.0}
    if schedule.updates == "random":
        return {"architecture": 0.5, "weights": 0.5}
    return {"architecture": 1.0, "weights": float(schedule.inner_steps)}


def _row(case: Case, name: str, reference: TimedSearch, repeats: int) -> Row:
    searches = [reference] if name == REFERENCE else [reference, TimedSearch.of(case, named(name))]
    timed = in_turns([step for search in searches for step in search.steps().values()], repeats, _PATIENCE)
    found, times = searches[-1], [step.milliseconds for step in timed]
    first = reference.shared(times[: len(reference.shares)])
    steps = found.shared(times[-len(found.shares) :])
    milliseconds, setup = _iteration(steps), found.setup
    return Row(
        case.space,
        name,
        steps,
        milliseconds,
        milliseconds / _iteration(first),
        _operations(setup.space, timed[-1].result),
        1 / setup.options.partial,
        setup.arch_loader.batch_size,
        setup.weight_loader.batch_size,
        setup.method.hypergradient.inner_batches,
    )


def _iteration(steps: Mapping[Kind, Share]) -> float:
    return sum(step.per_iteration * step.milliseconds for step in steps.values())


@dataclass(frozen=True, eq=False)
class TimedSearch:
    """A search at its beginning, whose first steps are taken again and again.

    ``starts`` are the architecture parameters to take them from. What a drawn architecture costs depends on what was
    drawn, so there each edge takes each of its operations once, which is the mean over uniform draws.
    """

    setup: Setup
    state: SearchState
    stepper: Stepper
    starts: list[Alpha]
    shares: dict[Kind, float]
    seen: list[Marks]

    @classmethod
    def of(cls, case: Case, method: Method) -> TimedSearch:
        method = replace(method, schedule=replace(method.schedule, warmup_epochs=0))
        method = replace(method, regularizers=tuple(map(_begun, method.regularizers)))
        if not method.relaxation.learns:  # the same step, of operations that the starts can choose
            method = replace(method, relaxation=GumbelHard())
        setup = Setup.of(case.build(), method, _data(case), seed=_SEED, batch_size=case.batch)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_SEED)
            state = setup.initial_state()
        stepper, seen = setup.stepper(state), list[Marks]()

        def forward(*inputs: Any, active: Marks, **extra: Any) -> Any:
            seen.append(active)
            return stepper.forward(*inputs, active=active, **extra)

        watched = replace(stepper, forward=forward)
        return cls(setup, state, watched, _starts(setup, state.alpha), shares(method), seen)

    def steps(self) -> dict[Kind, Callable[[], list[Marks]]]:
        """Return what takes each kind of step once from every start, and returns what was computed."""
        stepper, state = self.stepper, self.state
        takes: dict[Kind, Callable[[Drawn], object]] = {
            "architecture": lambda batches: stepper.architecture_step(state, batches),
            "weights": lambda batches: stepper.weight_step(state, batches.inner(0)),
            "joint": lambda batches: stepper.joint_step(state, batches.inner(0)),
        }
        return {kind: self._from_every_start(takes[kind]) for kind in self.shares}

    def shared(self, times: Iterable[float]) -> dict[Kind, Share]:
        """Put the milliseconds of :meth:`steps` together with their shares."""
        pairs = zip(self.shares.items(), times, strict=True)
        return {kind: Share(share, time / len(self.starts)) for (kind, share), time in pairs}

    def _from_every_start(self, take: Callable[[Drawn], object]) -> Callable[[], list[Marks]]:
        setup, state, arch_state = self.setup, self.state, self.state.arch_state

        def steps() -> list[Marks]:
            self.seen.clear()
            for number, alpha in enumerate(self.starts):
                state.step, state.alpha, state.arch_state = number, alpha, arch_state
                take(Drawn(setup.weight_loader, setup.arch_loader, state.index))
            return list(self.seen)

        return steps


def _begun(regularizer: Regularizer) -> Regularizer:
    """Return layer alignment at its full strength: at 0, where a linear schedule begins, it would cost nothing."""
    return replace(regularizer, schedule="constant") if isinstance(regularizer, LayerAlignment) else regularizer


def _starts(setup: Setup, alpha: Alpha) -> list[Alpha]:
    """Return α itself, or, if operations are drawn from it, α that are certain of each operation in turn."""
    relaxation, space, blocks = setup.method.relaxation, setup.space, setup.blocks
    noise = relaxation.noise(blocks, randomness.generator(_SEED, "trial"))
    if not relaxation.sampled or relaxation.relax(blocks, alpha, noise, 0.0).active is None:
        return [alpha]
    width = max(block.shape[1] for block in space.blocks)
    certain = ({block.name: _certain(block, number) for block in space.blocks} for number in range(width))
    if relaxation.domain == "simplex":
        certain = ({name: torch.softmax(scores, -1) for name, scores in rows.items()} for rows in certain)
    return [{**alpha, **rows} for rows in certain]


def _certain(block: DecisionBlock, number: int) -> Tensor:
    """Return scores that all but rule out any choice but ``number`` + row, counted around."""
    chosen = torch.tensor([(number + index) % len(row.choices) for index, row in enumerate(block.rows)])
    return _CERTAIN * F.one_hot(chosen, block.shape[1]).float()


def _operations(space: SearchSpace, seen: Iterable[Marks]) -> float:
    """Return how many entries of the mixture were computed for each cell, on average."""
    counts = []
    for active in seen:
        every = {block.name: block.mask.expand(block.cells, -1, -1) for block in space.blocks}
        marks = [(active or {}).get(name, mask) & mask for name, mask in every.items()]
        counts.append(sum(int(mark.sum()) for mark in marks) / sum(block.cells for block in space.blocks))
    return sum(counts) / len(counts)


def _data(case: Case) -> ImageData:
    """Return random images, varied as photographs are."""
    count, stream = _BATCHES * case.batch, randomness.generator(_SEED, "images")
    shape = (count, 3, case.image_size, case.image_size)
    images = torch.randint(0, 256, shape, generator=stream, dtype=torch.uint8)
    augmentation = Augmentation(crop_padding=case.image_size // 8, flip=True)
    return ImageData("random", images, torch.arange(count) % _CLASSES, tuple("0123456789"), augmentation)


def described(case: Case, repeats: int) -> str:
    cells = f"{case.cells} {'cell per stage' if case.space == 'nasbench201' else 'cells'}"
    return (
        f"{case.space}: C={case.channels}, {cells}, {case.image_size}x{case.image_size}; {case.batch} images in each "
        f"α step and each weight step; the fastest of at most {repeats}"
    )
