"""Published methods, each a few lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from archgrad.arch_optimizers import XNAS, Adam, ExponentiatedGradient, Fixed
from archgrad.discretizers import Argmax, BestSampled, Perturbation
from archgrad.errors import UserError, chosen
from archgrad.hypergradients import Amended, FirstOrder, Hypergradient, Neumann, PerExample, Unrolled
from archgrad.method import Method, SupernetOptions
from archgrad.regularizers import (
    AdversarialPerturbation,
    AuxiliarySkip,
    BetaDecay,
    DirichletKL,
    LayerAlignment,
    RandomPerturbation,
    Regularizer,
)
from archgrad.regularizers.layers import Kind as AlignmentKind
from archgrad.relaxations import Concrete, Dirichlet, GumbelHard, Simplex, Softmax, Uniform
from archgrad.schedule import Level, Schedule, Updates
from archgrad.spaces import Progressive, Stage
from archgrad.stopping import EigenvalueStop

__all__ = [
    "RECIPES",
    "amended",
    "beta_darts",
    "darts",
    "darts_minus",
    "darts_pt",
    "drnas",
    "gaea",
    "gdas",
    "idarts",
    "lambda_darts",
    "named",
    "p_darts",
    "pc_darts",
    "r_darts",
    "random_nas",
    "sdarts",
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


def sdarts(kind: str = "rs") -> Method:
    """Weights trained at random (``rs``) or the worst (``adv``) mixtures nearby: SDARTS (Chen & Hsieh, 2020).

    >>> sdarts("adv").regularizers[0].steps
    7
    """
    perturbation = chosen("kind of SDARTS:", kind, _PERTURBATIONS)()
    return replace(darts(), name=f"sdarts-{kind}", regularizers=(perturbation,))


_PERTURBATIONS: dict[str, Callable[[], Regularizer]] = {"rs": RandomPerturbation, "adv": AdversarialPerturbation}


def beta_darts(weight: float = 50.0) -> Method:
    """Log-sum-exp in the place of weight decay on the architecture: β-DARTS (Ye et al., 2022).

    >>> beta_darts().arch_optimizer.weight_decay, beta_darts().regularizers[0].weight
    (0.0, 50.0)
    """
    return replace(darts(), name="beta-darts", arch_optimizer=Adam(weight_decay=0.0), regularizers=(BetaDecay(weight),))


def darts_minus() -> Method:
    """DARTS with a skip connection beside every edge that fades over the search: DARTS- (Chu et al., 2021).

    >>> darts_minus().regularizers[0].start
    1.0
    """
    return replace(darts(), name="darts-minus", regularizers=(AuxiliarySkip(),))


def r_darts(weight_decay: float = 81e-4, drop_path: float = 0.2, early_stop: bool = True) -> Method:
    """Stronger regularisation of the weights, and a stop before the loss bends too much: R-DARTS (Zela et al., 2020).

    The paper tries L2 factors of 3, 9, 27, 81 and 243·1e-4, and drop-path, which grows to 0, 0.2, 0.4 or 0.6 at the end
    of the search, there together with cutout: a setting of the data, ``augmentation.cutout=16`` for 32 pixels.

    >>> r_darts().training, r_darts().supernet.drop_path
    ({'weight_decay': 0.0081}, 0.2)
    """
    return replace(
        darts(),
        name="r-darts",
        supernet=SupernetOptions(drop_path=drop_path),
        training={"weight_decay": weight_decay},
        stop=EigenvalueStop() if early_stop else None,
    )


def p_darts(priors: bool = True) -> Method:
    """Deeper supernets with fewer operations, in three stages: P-DARTS (Chen et al., 2019).

    Without its ``priors`` it has neither dropout on skip connections nor a limit of two of them in a normal cell, as
    Λ-DARTS combines with it: ``lambda_darts(base=p_darts(priors=False))``. Each stage has 25 epochs, the first 10
    without α. The settings of the weights that the paper does not name are those of the space.

    >>> [stage.keep for stage in p_darts().progressive.stages], p_darts(priors=False).progressive.max_skips
    ([8, 5, 3], None)
    """
    plan = Progressive()
    if not priors:
        plan = Progressive(tuple(Stage(stage.cells, stage.keep) for stage in plan.stages), max_skips=None)
    return replace(
        darts(),
        name="p-darts",
        arch_optimizer=Adam(lr=6e-4),
        schedule=Schedule(warmup_epochs=10),
        training={"epochs": 25, "batch_size": 96},
        progressive=plan,
    )


def darts_pt() -> Method:
    """DARTS that ends by keeping what its supernet cannot do without: DARTS+PT (Wang et al., 2021).

    >>> darts_pt().discretizer.tune_epochs
    5
    """
    return replace(darts(), name="darts-pt", discretizer=Perturbation())


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


def lambda_darts(kind: AlignmentKind = "cosine", base: Method | None = None, weight: float | None = None) -> Method:
    """Train the weights so that all cells want the same architecture: Λ-DARTS (Movahedi et al., 2023).

    ``base`` is the method that it is added to, by default DARTS as the paper searches NAS-Bench-201: 100 epochs with
    an α learning rate of 1e-4. ``weight`` is λ, by default 0.125; the paper has 0.25 for Λ in the DARTS space.

    >>> lambda_darts(base=gaea()).name, lambda_darts("sign").regularizers[0].kind
    ('lambda-gaea', 'sign')
    """
    term = LayerAlignment(kind) if weight is None else LayerAlignment(kind, weight)
    if base is None:
        base = replace(darts(), arch_optimizer=Adam(lr=1e-4), training={"epochs": 100})
    name = f"lambda-{base.name}" if kind == "cosine" else f"lambda-sign-{base.name}"
    return replace(base, name=name, regularizers=(*base.regularizers, term))


def _variant(sentence: str, recipe: Callable[..., Method], *args: object, **knobs: object) -> Callable[[], Method]:
    """Return a recipe at other settings, with a sentence of its own."""
    variant = partial(recipe, *args, **knobs)
    variant.__doc__ = sentence
    return variant


RECIPES: dict[str, Callable[[], Method]] = {
    "darts": _variant("Softmax, Adam and the gradient of first order: DARTS (Liu et al., 2019).", darts),
    "darts-2nd": _variant("DARTS with the gradient through one virtual step of the weights.", darts, order=2),
    "darts-erm": _variant("DARTS whose weights and architecture share all the data.", darts, level="single"),
    "idarts": idarts,
    "amended": amended,
    "gaea": _variant(
        "Exponentiated gradient on the simplex, weights and architecture in turns on all the data: GAEA "
        "(Li et al., 2021).",
        gaea,
    ),
    "gaea-simultaneous": _variant(
        "GAEA with one backward pass that moves weights and architecture at once.", gaea, updates="simultaneous"
    ),
    "gaea-bilevel": _variant("GAEA whose architecture has data of its own.", gaea, level="bilevel"),
    "gaea-pc-darts": _variant("GAEA on PC-DARTS: a quarter of the channels, and weights of edges.", gaea, "pc_darts"),
    "gaea-gdas": _variant("GAEA on GDAS: one sampled operation per edge.", gaea, "gdas"),
    "pc-darts": pc_darts,
    "gdas": gdas,
    "snas": snas,
    "drnas": drnas,
    "xnas": xnas,
    "sdarts-rs": _variant("Weights trained at random mixtures nearby: SDARTS-RS (Chen & Hsieh, 2020).", sdarts, "rs"),
    "sdarts-adv": _variant(
        "Weights trained at the worst of the mixtures nearby: SDARTS-ADV (Chen & Hsieh, 2020).", sdarts, "adv"
    ),
    "beta-darts": beta_darts,
    "darts-minus": darts_minus,
    "r-darts": r_darts,
    "darts-pt": darts_pt,
    "p-darts": p_darts,
    "random-nas": random_nas,
    "lambda-darts": lambda_darts,
    "lambda-sign-darts": _variant(
        "Λ-DARTS that asks the cells for equal signs only, not for equal strengths: Λ±.", lambda_darts, "sign"
    ),
    "lambda-gaea-simultaneous": _variant(
        "Λ-DARTS on top of gaea-simultaneous.", lambda_darts, base=gaea(updates="simultaneous")
    ),
    "lambda-sdarts-rs": _variant("Λ-DARTS on top of sdarts-rs.", lambda_darts, base=sdarts("rs")),
    "lambda-p-darts": _variant(
        "Λ-DARTS on top of p-darts without dropout on skip connections and without their limit.",
        lambda_darts,
        base=p_darts(priors=False),
    ),
}
"""The names on the command line; the first line of each one's docstring says what it is."""


def named(name: str) -> Method:
    """Return a recipe by its name, at its published settings."""
    return chosen("method", name, RECIPES)()
