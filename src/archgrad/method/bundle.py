"""A method: relaxation × hypergradient × architecture optimizer × regularizers × discretizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from archgrad import callbacks
from archgrad.arch_optimizers import Annealed, ArchOptimizer
from archgrad.callbacks import Callback
from archgrad.discretizers import Discretizer, LimitedSkips
from archgrad.errors import UserError, unknown
from archgrad.hypergradients import Hypergradient
from archgrad.method.progressive import Progressive
from archgrad.parts.fields import check_fields, checked
from archgrad.regularizers import Regularizer, name_of
from archgrad.relaxations import Relaxation
from archgrad.spaces import SKIP, SearchSpace
from archgrad.supernet import Modifier, SupernetOptions
from archgrad.training.schedule import Schedule
from archgrad.training.weight_training import WeightTraining

__all__ = ["Method"]


@dataclass(frozen=True, kw_only=True)
class Method:
    """A frozen bundle of five parts, any of which may be exchanged with :func:`dataclasses.replace`.

    ``schedule`` says when the architecture moves and on which data. ``supernet`` says how the supernet is built.
    ``weights`` overrides the space's weight-training settings, by name. ``stop`` is a callback that may end a search
    early (None: never). ``progressive`` is the plan of a search in stages (None: one stage). ``recipe_optimizer`` is
    the optimizer that the recipe came with (None: it is no recipe): only the learning rate of this object may be scaled
    to the length of a search, because any other, even an equal one, is the user's.
    """

    relaxation: Relaxation
    hypergradient: Hypergradient
    arch_optimizer: ArchOptimizer
    discretizer: Discretizer
    regularizers: tuple[Regularizer, ...] = ()
    schedule: Schedule = field(default_factory=Schedule)
    supernet: SupernetOptions = field(default_factory=SupernetOptions)
    weights: Mapping[str, float | int | bool] = field(default_factory=dict, hash=False)
    stop: Callback | None = None
    progressive: Progressive | None = None
    name: str = "custom"
    recipe_optimizer: ArchOptimizer | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.regularizers, list):
            object.__setattr__(self, "regularizers", tuple(self.regularizers))
        check_fields(self)
        if self.relaxation.domain != self.arch_optimizer.domain:
            raise UserError(
                f"{type(self.relaxation).__name__} keeps architecture parameters in the {self.relaxation.domain!r} "
                f"domain, but {type(self.arch_optimizer).__name__} moves them in the {self.arch_optimizer.domain!r} "
                f"domain; choose a relaxation and an optimizer of one domain (some have it as a knob, domain)."
            )
        self._check_simplex()
        self._check_motion()
        if self.stop is not None:
            self.stop.check(self.relaxation, self.arch_optimizer, self.discretizer)
        self._check_stages()
        self._check_hypergradient()
        self._check_regularizers()
        self._check_weights()

    def _check_simplex(self) -> None:
        """Reject what needs rows that sum to one, if the relaxation's do not."""
        if self.relaxation.on_simplex:
            return
        needing = [type(part).__name__ for part in self.regularizers if part.needs_simplex]
        if self.discretizer.needs_simplex:
            needing.append(type(self.discretizer).__name__)
        if self.supernet.partial > 1 and not self.supernet.edge_weights:
            needing.append("supernet.partial without edge_weights")
        if needing:
            raise UserError(
                f"{needing[0]} needs rows of probabilities that sum to one, but those of "
                f"{type(self.relaxation).__name__} do not (on_simplex is False); leave {needing[0]} out, or choose "
                f"another relaxation, such as Softmax."
            )

    def _check_regularizers(self) -> None:
        """Reject regularizers that do not fit the relaxation, and two of one kind: their knobs would share a name."""
        for place, regularizer in enumerate(self.regularizers):
            kind, name = type(regularizer).__name__, name_of(regularizer)
            if name is not None and name in map(name_of, self.regularizers[:place]):
                raise UserError(
                    f"{kind} is among the regularizers twice, and the knobs of both would have the name {name!r}; "
                    f"leave one of them out, and set the knobs of the other."
                )
            regularizer.check(self.relaxation)
            schedule = self.schedule
            if regularizer.watches and not (
                (schedule.level, schedule.updates) == ("bilevel", "alternate") and self.arch_optimizer.moves
            ):
                raise UserError(
                    f"{kind} compares the gradients of the weights on training images and on those of the "
                    f"architecture, so a search must have both and step on both in turn; set schedule.level=bilevel "
                    f"and schedule.updates=alternate with an optimizer that moves the architecture, or leave {kind} "
                    f"out."
                )

    def _check_weights(self) -> None:
        """Reject unknown weight-training settings; sort the others, so that equal ones compare equal."""
        known = [knob.name for knob in fields(WeightTraining)]
        for knob in self.weights:
            if knob not in known:
                raise unknown("setting in the method's weights:", knob, known)
        object.__setattr__(self, "weights", dict(sorted(self.weights.items())))
        self.trained(WeightTraining())

    def _check_motion(self) -> None:
        """Reject parts and settings that have no effect if the architecture never moves."""
        optimizer, relaxation = type(self.arch_optimizer).__name__, type(self.relaxation).__name__
        if self.arch_optimizer.moves:
            if not self.relaxation.learns:
                raise UserError(
                    f"{relaxation} does not depend on its architecture parameters, so {optimizer} cannot move "
                    f"them; use arch_optimizers.Fixed(), or another relaxation."
                )
            return
        for knob in ("inner_steps", "warmup_epochs", "warmup_share", "anneal", "updates"):
            value, default = getattr(self.schedule, knob), getattr(Schedule(), knob)
            if value != default:
                raise UserError(
                    f"schedule.{knob} is {value!r}, but {optimizer} never moves the architecture; leave it at "
                    f"{default!r}, or choose an optimizer that moves it."
                )
        for regularizer in self.regularizers:
            if regularizer.adds_to_outer_loss:
                raise UserError(
                    f"{type(regularizer).__name__} adds to the loss of the architecture, but {optimizer} never moves "
                    f"the architecture; leave it out, or choose an optimizer that moves it."
                )
        if not self.hypergradient.is_plain:
            raise UserError(
                f"{optimizer} never moves the architecture, so {type(self.hypergradient).__name__} would have "
                f"nothing to do; use FirstOrder, or choose an optimizer that moves it."
            )

    def _check_stages(self) -> None:
        """Reject stages that cannot choose what to drop, and settings that both method and stages give."""
        if self.progressive is None:
            return
        if not self.arch_optimizer.moves:
            raise UserError(
                f"a progressive search drops the weakest choices after each stage, but "
                f"{type(self.arch_optimizer).__name__} never moves the architecture; leave progressive out, or choose "
                f"an optimizer that moves it."
            )
        if self.stop is not None:
            raise UserError(
                f"{type(self.stop).__name__} ends a stage of a progressive search after its architecture has gone "
                f"wrong, and the next stage would keep its choices; leave stop or progressive out."
            )
        for regularizer in self.regularizers:
            if regularizer.depends_on_size:
                raise UserError(
                    f"{type(regularizer).__name__} depends on the size of the networks, but the stages of a "
                    f"progressive search differ in size; leave {type(regularizer).__name__} or progressive out."
                )
        if self.supernet.skip_dropout is not None:
            raise UserError(
                f"supernet.skip_dropout is {self.supernet.skip_dropout}, but the stages of a progressive search have "
                f"their own; leave it out and set theirs (progressive.skip_dropout)."
            )
        if self.supernet.partial > 1 and any(stage.partial for stage in self.progressive.stages):
            raise UserError(
                f"supernet.partial is {self.supernet.partial}, but the stages of a progressive search have their own; "
                f"leave it out and set theirs (progressive.partial)."
            )
        if self.progressive.max_skips is not None:
            LimitedSkips(self.discretizer, self.progressive.max_skips)

    def _check_hypergradient(self) -> None:
        """Reject a hypergradient that does not fit the schedule or the relaxation."""
        name = type(self.hypergradient).__name__
        if self.schedule.updates == "simultaneous" and not self.hypergradient.is_plain:
            raise UserError(
                f"simultaneous updates take one backward pass for weights and architecture, which gives the "
                f"first-order gradient, not {name}; set schedule.updates=alternate, or hypergradient FirstOrder."
            )
        for regularizer in self.regularizers:
            if regularizer.differentiates_outer_loss and self.schedule.updates == "simultaneous":
                raise UserError(
                    f"{type(regularizer).__name__} on the outer objective differentiates the architecture's loss, "
                    f"which simultaneous updates never evaluate; set schedule.updates=alternate, or objective=inner."
                )
        if self.relaxation.sampled and self.hypergradient.per_image:
            raise UserError(
                f"{name} gives each image its own architecture parameters, but {type(self.relaxation).__name__} "
                f"draws one architecture for all of them; choose a relaxation that does not sample."
            )

    @property
    def measures(self) -> tuple[Callback, ...]:
        """The callbacks that measure a search by this method, besides the standard ones and its stop rule."""
        parts = [callbacks.CALLBACKS.create(name, **knobs) for name, knobs in self.hypergradient.callbacks.items()]
        bends = self.arch_optimizer.moves and not self.relaxation.sampled
        return (*([callbacks.ArchCurvature()] if bends else []), *parts)

    @checked
    def check(self, space: SearchSpace) -> None:
        """Raise a UserError, before any training, if the method cannot search this space or a stage of it."""
        self._check_annealing()
        plan, stages = self.progressive, [(self, space)]
        if plan is not None:
            plan.check(space)
            sizes = [plan.sized(space, number) for number in range(len(plan.stages))]
            stages = [(self.in_stage(number, sized), sized) for number, sized in enumerate(sizes)]
        for method, sized in stages:
            try:
                options = method.supernet_options(sized)
            except UserError as error:
                if method.supernet.partial == self.supernet.partial:
                    raise
                raise UserError(f"{error} The stages of this method set it: change progressive.partial.") from error
            self.discretizer.check(sized)
            for regularizer in self.regularizers:
                regularizer.check_blocks(sized.searched_blocks(options))

    def _check_annealing(self) -> None:
        """Reject an optimizer of which another rate at each step makes nothing: one that sets its rate by itself."""
        optimizer = self.arch_optimizer
        if self.schedule.anneal and (
            optimizer.finite or isinstance(optimizer, Annealed) or optimizer.scaled(2.0) == optimizer
        ):
            raise UserError(
                f"schedule.anneal lowers the learning rate of α step by step, but {type(optimizer).__name__} sets its "
                f"rate by itself; leave schedule.anneal out, or choose another optimizer."
            )

    def in_stage(self, number: int, space: SearchSpace) -> Method:
        """Return the method of one stage, counted from 0, that searches this space; it has no stages itself.

        Dropout on skip connections is 0 where the space offers none.
        """
        if self.progressive is None:
            return self
        stage = self.progressive.stages[number]
        partial = self.supernet.partial if stage.partial is None else stage.partial
        rate = stage.skip_dropout if space.offers(SKIP) else 0.0
        return replace(self, supernet=replace(self.supernet, partial=partial, skip_dropout=rate), progressive=None)

    def supernet_options(self, space: SearchSpace) -> SupernetOptions:
        """Return the supernet options: those of the space, the method and its regularizers."""
        built: dict[str, Any] = {}
        for modifier in self.modifiers:
            built |= modifier.builds
        if self.supernet.auxiliary_skip and "auxiliary_skip" not in built:
            raise UserError(
                "supernet.auxiliary_skip is True, but nothing in the method uses these connections; add the "
                "regularizer AuxiliarySkip, or leave auxiliary_skip out."
            )
        return space.completed_options(replace(self.supernet, **built))

    @property
    def modifiers(self) -> tuple[Modifier, ...]:
        """The modifiers of the supernet's forward pass that the regularizers bring."""
        return tuple(modifier for regularizer in self.regularizers for modifier in regularizer.modifiers)

    @checked
    def trained(self, training: WeightTraining) -> WeightTraining:
        """Return the space's weight-training settings with those of the method in their place."""
        return replace(training, **self.weights)  # type: ignore[arg-type]
