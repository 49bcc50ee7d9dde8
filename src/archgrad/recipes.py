"""Published methods, each a few lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from archgrad.arch_optimizers import XNAS, Adam, ExponentiatedGradient, Fixed
from archgrad.discretizers import Argmax, BestSampled
from archgrad.errors import UserError, chosen
from archgrad.hypergradients import Amended, FirstOrder, Hypergradient, Neumann, PerExample, Unrolled
from archgrad.method import Method, SupernetOptions
from archgrad.regularizers import DirichletKL
from archgrad.relaxations import Concrete, Dirichlet, GumbelHard, Simplex, Softmax, Uniform
from archgrad.schedule import Level, Schedule, Updates

__all__ = [
    "RECIPES",
    "amended",
    "darts",
    "drnas",
    "gaea",
    "gdas",
    "idarts",
    "named",
    "pc_darts",
    "random_nas",
    "snas",
    "xnas",
]


def darts(order: int = 1, level: Level = "bilevel") -> Method:
    """Softmax, Adam and the gradient of first or second order: DARTS (Liu et al., 2019).

    >>> darts().arch_optimizer.lr
    0.0003
    """
    if order not in (1, 2):
        raise UserError(f"the order of DARTS is {order!r}; it must be 1 or 2.")
    return Method(
        name="darts" + ("-2nd" if order == 2 else "") + ("-erm" if level == "single" else ""),
        relaxation=Softmax(),
        hypergradient=FirstOrder() if order == 1 else Unrolled(products="forward"),
        arch_optimizer=Adam(),
        discretizer=Argmax(),
        schedule=Schedule(level=level),
    )


def idarts(inner_steps: int = 4, terms: int = 2, lr: float | str | None = 0.01) -> Method:
    """Neumann-series implicit gradient after every T weight steps: iDARTS (Zhang et al., 2021).

    >>> idarts().hypergradient.terms
    2
    """
    return replace(
        darts(),
        name="idarts",
        hypergradient=Neumann(terms, lr, products="forward"),
        schedule=Schedule(inner_steps=inner_steps),
    )


def amended(eta: float = 0.1) -> Method:
    """DARTS with the amending term −η·M·H·∂L2/∂w: Amended-DARTS (Bi et al., 2019).

    >>> amended().hypergradient.eta
    0.1
    """
    return replace(darts(), name="amended", hypergradient=Amended(eta, products="forward"))


def pc_darts() -> Method:
    """Quarter the channels and weigh the edges: PC-DARTS (Xu et al., 2020).

    >>> pc_darts().supernet.partial, pc_darts().schedule.warmup_epochs
    (4, 15)
    """
    return replace(
        darts(),
        name="pc-darts",
        arch_optimizer=Adam(lr=6e-4),
        schedule=Schedule(warmup_epochs=15),
        supernet=SupernetOptions(partial=4, edge_weights=True),
        training={"batch_size": 256, "lr": 0.1, "lr_min": 0.0, "weight_decay": 3e-4},
    )


def gdas() -> Method:
    """One sampled operation per edge, straight through: GDAS (Dong & Yang, 2019).

    >>> gdas().relaxation.tau
    (10.0, 0.1)
    """
    return replace(darts(), name="gdas", relaxation=GumbelHard(), training={"epochs": 250})


def gaea(
    base: str = "darts",
    level: Level | None = None,
    hypergradient: Hypergradient | None = None,
    updates: Updates = "alternate",
) -> Method:
    """Exponentiated gradient on the simplex, on top of ``darts``, ``pc_darts`` or ``gdas``: GAEA (Li et al., 2021).

    ``level`` is by default that of the paper's best result: single for ``darts``, bilevel for the others. The epochs
    and the weight decay are those of the paper's searches, on ``darts`` of NAS-Bench-201, which left ``none`` out of
    the space as well: ``nasbench201(exclude=("none",))``. It alternates; ``updates`` of a single-level search may be
    simultaneous or random as well.

    >>> gaea().schedule.level, gaea("pc_darts").schedule.level, gaea().arch_optimizer.lr
    ('single', 'bilevel', 0.1)
    """
    method = chosen("base of GAEA:", base, _GEOMETRIC)()
    schedule = replace(method.schedule, level=method.schedule.level if level is None else level, updates=updates)
    marks = [
        *([schedule.level] if schedule.level != method.schedule.level else []),
        *([updates] if updates != "alternate" else []),
    ]
    return replace(
        method,
        name="-".join([method.name, *marks]),
        schedule=schedule,
        hypergradient=method.hypergradient if hypergradient is None else hypergradient,
    )


def _gaea_darts() -> Method:
    training = {"epochs": 25, "weight_decay": 3e-4}
    return _on_the_simplex(darts(level="single"), name="gaea", relaxation=Simplex(), training=training)


def _gaea_pc_darts() -> Method:
    schedule = Schedule(warmup_epochs=10)
    return _on_the_simplex(pc_darts(), name="gaea-pc-darts", relaxation=Simplex(), schedule=schedule)


def _gaea_gdas() -> Method:
    relaxation, training = GumbelHard(domain="simplex"), {"epochs": 150, "weight_decay": 3e-4}
    return _on_the_simplex(gdas(), name="gaea-gdas", relaxation=relaxation, training=training)


def _on_the_simplex(method: Method, **changes: object) -> Method:
    return replace(method, arch_optimizer=ExponentiatedGradient(), **changes)  # type: ignore[arg-type]


_GEOMETRIC: dict[str, Callable[[], Method]] = {
    "darts": _gaea_darts,
    "pc_darts": _gaea_pc_darts,
    "gdas": _gaea_gdas,
}


def snas() -> Method:
    """Concrete samples, weights and architecture by one loss in one pass: SNAS (Xie et al., 2019).

    >>> snas().schedule.updates
    'simultaneous'
    """
    return replace(
        darts(),
        name="snas",
        relaxation=Concrete(),
        schedule=Schedule(level="single", updates="simultaneous"),
        training={"epochs": 150},
    )


def drnas() -> Method:
    """Mixtures drawn from a Dirichlet distribution that is kept near the uniform one: DrNAS (Chen et al., 2021).

    >>> drnas().regularizers[0].weight
    0.001
    """
    return replace(
        darts(), name="drnas", relaxation=Dirichlet(), regularizers=(DirichletKL(),), training={"epochs": 100}
    )


def xnas() -> Method:
    """Exponentiated gradient clipped image by image, wiping out what cannot win: XNAS (Nayman et al., 2019).

    >>> xnas().arch_optimizer.wipe_out
    True
    """
    return replace(
        darts(),
        name="xnas",
        relaxation=Simplex(skip_zero=True),
        hypergradient=PerExample(),
        arch_optimizer=XNAS(),
    )


def random_nas() -> Method:
    """Train uniformly sampled architectures, then take the best of some: RandomNAS (Li & Talwalkar, 2019).

    >>> random_nas().discretizer.samples
    100
    """
    return replace(
        darts(),
        name="random-nas",
        relaxation=Uniform(),
        arch_optimizer=Fixed(),
        discretizer=BestSampled(),
        training={"epochs": 250},
    )


RECIPES: dict[str, Callable[[], Method]] = {
    "darts": darts,
    "darts-2nd": partial(darts, order=2),
    "darts-erm": partial(darts, level="single"),
    "idarts": idarts,
    "amended": amended,
    "gaea": gaea,
    "gaea-simultaneous": partial(gaea, updates="simultaneous"),
    "gaea-bilevel": partial(gaea, level="bilevel"),
    "gaea-pc-darts": partial(gaea, "pc_darts"),
    "gaea-gdas": partial(gaea, "gdas"),
    "pc-darts": pc_darts,
    "gdas": gdas,
    "snas": snas,
    "drnas": drnas,
    "xnas": xnas,
    "random-nas": random_nas,
}
"""The names on the command line."""


def named(name: str) -> Method:
    """Return a recipe by its name, at its published settings."""
    return chosen("method", name, RECIPES)()
