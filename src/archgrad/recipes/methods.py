"""Published methods in a few lines each: their parts, with the settings published for a space."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal

from archgrad.arch_optimizers import XNAS, Adam, ExponentiatedGradient, Fixed
from archgrad.callbacks import EigenvalueStop
from archgrad.discretizers import Argmax, BestSampled, Evolved, Largest, Perturbation, Threshold
from archgrad.errors import UserError, look_up
from archgrad.hypergradients import (
    Amended,
    FirstOrder,
    Hypergradient,
    Neumann,
    PerExample,
    SharpnessAware,
    Unrolled,
)
from archgrad.method.bundle import Method
from archgrad.method.progressive import Progressive
from archgrad.parts.fields import checked
from archgrad.recipes.build import published
from archgrad.recipes.settings import family_of
from archgrad.regularizers import (
    AdversarialPerturbation,
    AuxiliarySkip,
    BetaDecay,
    DirichletKL,
    Flooding,
    GreedyDecisions,
    LayerAlignment,
    OperationStopping,
    RandomPerturbation,
    Regularizer,
    ZeroOne,
)
from archgrad.regularizers.gradient_alignment import Kind as AlignmentKind
from archgrad.relaxations import (
    Concrete,
    Dirichlet,
    GumbelHard,
    LogProbability,
    ReinMax,
    Relaxation,
    Sigmoid,
    Simplex,
    Softmax,
    Uniform,
)
from archgrad.spaces import SearchSpace
from archgrad.supernet import SupernetOptions
from archgrad.training.schedule import Level, Updates

__all__ = [
    "RECIPES", "RECIPE_GROUPS", "a2m", "amended", "beta_darts", "darts", "darts_minus", "darts_pt", "described",
    "drnas", "dsnas", "fair_darts", "gaea", "gaea_largest", "gdas", "idarts", "lambda_darts", "named", "oles",
    "p_darts", "pc_darts", "r_darts", "random_nas", "sdarts", "sgas", "snas", "spos", "xnas",
]  # fmt: skip

Space = SearchSpace | str
"""The space whose published settings a recipe has, or its name."""

_USUAL = "nasbench201"


def _darts(name: str, **changes: object) -> Method:
    """Return the parts of DARTS with some changed."""
    parts: dict[str, object] = {
        "relaxation": Softmax(),
        "hypergradient": FirstOrder(),
        "arch_optimizer": Adam(),
        "discretizer": Argmax(),
    }
    return Method(name=name, **{**parts, **changes})  # type: ignore[arg-type]


@checked
def darts(order: int = 1, level: Level = "bilevel", paper: bool = False, *, space: Space = _USUAL) -> Method:
    """Softmax, Adam and the gradient of first or second order: DARTS (Liu et al., 2019).

    ``paper`` takes the differences of second order as the paper does, across the kinks of ReLUs.

    >>> darts().arch_optimizer.lr, darts(order=2, paper=True).hypergradient.kinks
    (0.0003, 'crossed')
    """
    if order not in (1, 2):
        raise UserError(f"the order of DARTS is {order!r}; it must be 1 or 2.")
    if paper and order == 1:
        raise UserError("paper chooses how DARTS takes differences, but the first order takes none; set order=2.")
    second = _named("darts-2nd", paper)
    recipe = (second if order == 2 else "darts") + ("-erm" if level == "single" else "")
    method = _darts(recipe, hypergradient=FirstOrder() if order == 1 else Unrolled(products="forward"))
    method = published(method, space, second if order == 2 else None)
    return replace(method, schedule=replace(method.schedule, level=level))


def _named(recipe: str, paper: bool) -> str:
    """Return the name of a recipe, or of that with the differences of its paper."""
    return f"{recipe}-paper" if paper else recipe


@checked
def idarts(
    inner_steps: int | None = None,
    terms: int | None = None,
    lr: float | Literal["auto"] | None = None,
    paper: bool = False,
    *,
    space: Space = _USUAL,
) -> Method:
    """Neumann-series implicit gradient after every T weight steps: iDARTS (Zhang et al., 2021).

    ``inner_steps`` is T, ``terms`` K and ``lr`` γ, by default the learning rate that the weights have. ``paper``
    computes the products as the paper does: H·v by autograd, M·v by central differences across the kinks of ReLUs.

    >>> idarts().hypergradient.terms, idarts().schedule.inner_steps, idarts().weights["lr"]
    (2, 4, 0.01)
    """
    method = published(_darts(_named("idarts", paper), hypergradient=Neumann(products="forward")), space)
    series, schedule = method.hypergradient, method.schedule
    assert isinstance(series, Neumann)  # noqa: S101 - for the type checker
    return replace(
        method,
        hypergradient=replace(series, terms=series.terms if terms is None else terms, lr=lr),
        schedule=replace(schedule, inner_steps=schedule.inner_steps if inner_steps is None else inner_steps),
    )


@checked
def amended(eta: float | None = None, paper: bool = False, *, space: Space = _USUAL) -> Method:
    """DARTS with the amending term −η·M·H·∂L2/∂w: Amended-DARTS (Bi et al., 2019).

    ``paper`` takes central differences across the kinks of ReLUs, as the paper does.

    >>> amended().hypergradient.eta, amended(space="darts").weights["batch_size"]
    (0.1, 96)
    """
    method = published(_darts(_named("amended", paper), hypergradient=Amended(products="forward")), space)
    term = method.hypergradient
    assert isinstance(term, Amended)  # noqa: S101 - for the type checker
    return method if eta is None else replace(method, hypergradient=replace(term, eta=eta))


@checked
def pc_darts(*, space: Space = _USUAL) -> Method:
    """Quarter the channels and weigh the edges: PC-DARTS (Xu et al., 2020).

    >>> pc_darts().supernet.partial, pc_darts().schedule.warmup_epochs
    (4, 15)
    """
    return published(_darts("pc-darts"), space)


@checked
def gdas(estimate: str = "straight-through", *, space: Space = _USUAL) -> Method:
    """One sampled operation per edge, straight through: GDAS (Dong & Yang, 2019).

    ``estimate`` "reinmax" takes the gradient of second order instead, and computes all operations for it.

    >>> gdas().relaxation.tau, gdas("reinmax").relaxation.tau
    ((10.0, 0.1), (1.0, 1.0))
    """
    name, relaxation = look_up("estimate of GDAS:", estimate, _STRAIGHT)
    return published(_darts(name, relaxation=relaxation), space)


_STRAIGHT: dict[str, tuple[str, Relaxation]] = {
    "straight-through": ("gdas", GumbelHard()),
    "reinmax": ("gdas-reinmax", ReinMax()),
}


@checked
def gaea(
    base: str = "darts",
    level: Level | None = None,
    hypergradient: Hypergradient | None = None,
    updates: Updates = "alternate",
    *,
    space: Space = _USUAL,
) -> Method:
    """Exponentiated gradient on the simplex, on top of ``darts``, ``pc_darts`` or ``gdas``: GAEA (Li et al., 2021).

    ``level`` is by default that of the paper's best result: single for ``darts``, bilevel for the others. On ``darts``
    in NAS-Bench-201 the paper left ``none`` out of the space: ``NASBench201(exclude=("none",))``. It alternates;
    ``updates`` of a single-level search may be simultaneous or random as well.

    >>> gaea().schedule.level, gaea("pc_darts").schedule.level, gaea().arch_optimizer.lr
    ('single', 'bilevel', 0.1)
    """
    name, relaxation = look_up("base of GAEA:", base, _GEOMETRIC)
    method = published(_darts(name, relaxation=relaxation, arch_optimizer=ExponentiatedGradient()), space)
    schedule = replace(method.schedule, level=method.schedule.level if level is None else level, updates=updates)
    marks = [
        *([schedule.level] if schedule.level != method.schedule.level else []),
        *([updates] if updates != "alternate" else []),
    ]
    return replace(
        method,
        name="-".join([name, *marks]),
        schedule=schedule,
        hypergradient=method.hypergradient if hypergradient is None else hypergradient,
    )


_GEOMETRIC = {
    "darts": ("gaea", Simplex()),
    "pc_darts": ("gaea-pc-darts", Simplex()),
    "gdas": ("gaea-gdas", GumbelHard(domain="simplex")),
}


@checked
def gaea_largest(*, space: Space = _USUAL) -> Method:
    """GAEA (simultaneous) that takes the largest of nearly equally probable operations; no paper has it.

    >>> gaea_largest().discretizer.share, gaea_largest().schedule.updates
    (0.4, 'simultaneous')
    """
    method = gaea(updates="simultaneous", space=space)
    return published(replace(method, name="gaea-largest", discretizer=Largest()), space)


@checked
def snas(*, space: Space = _USUAL) -> Method:
    """Concrete samples, weights and architecture by one loss in one pass: SNAS (Xie et al., 2019).

    Its penalty on the size of the network is left out.

    >>> snas().schedule.updates
    'simultaneous'
    """
    return published(_darts("snas", relaxation=Concrete()), space)


@checked
def dsnas(*, space: Space = _USUAL) -> Method:
    """One sampled path, trained with its log-probability in one pass: DSNAS (Hu et al., 2020).

    >>> dsnas().schedule.updates
    'simultaneous'
    """
    return published(_darts("dsnas", relaxation=LogProbability()), space)


@checked
def drnas(*, space: Space = _USUAL) -> Method:
    """Mixtures drawn from a Dirichlet distribution that is kept near the uniform one: DrNAS (Chen et al., 2021).

    The KL term replaces weight decay on α. In the DARTS space it searches in two stages, the second with fewer
    operations and more channels. Here the second stage starts with new weights, while the paper widens the old ones.

    >>> drnas().regularizers[0].weight, [stage.partial for stage in drnas(space="darts").progressive.stages]
    (0.001, [6, 3])
    """
    stages = Progressive((None,), (8, 4), (0.0,), max_skips=None) if family_of(space) == "darts" else None
    return published(_darts("drnas", relaxation=Dirichlet(), regularizers=(DirichletKL(),), progressive=stages), space)


@checked
def xnas(*, space: Space = _USUAL) -> Method:
    """Exponentiated gradient clipped image by image, wiping out what cannot win: XNAS (Nayman et al., 2019).

    >>> xnas().arch_optimizer.wipe_out
    True
    """
    parts = {"relaxation": Simplex(), "hypergradient": PerExample(), "arch_optimizer": XNAS()}
    return published(_darts("xnas", **parts), space)


@checked
def sdarts(kind: str = "rs", *, space: Space = _USUAL) -> Method:
    """Weights trained at random (``rs``) or the worst (``adv``) mixtures nearby: SDARTS (Chen & Hsieh, 2020).

    >>> sdarts("adv").regularizers[0].steps
    7
    """
    perturbation = look_up("kind of SDARTS:", kind, _PERTURBATIONS)()
    return published(_darts(f"sdarts-{kind}", regularizers=(perturbation,)), space)


_PERTURBATIONS: dict[str, Callable[[], Regularizer]] = {"rs": RandomPerturbation, "adv": AdversarialPerturbation}


@checked
def beta_darts(weight: float | None = None, flooded: bool = False, *, space: Space = _USUAL) -> Method:
    """Log-sum-exp of the architecture parameters, growing from 0 over 100 epochs: β-DARTS (Ye et al., 2022).

    ``flooded`` is β-DARTS++: the weights' loss does not fall below a level.

    >>> beta_darts().regularizers[0].weight, beta_darts().weights["epochs"], beta_darts(flooded=True).name
    (50.0, 100, 'beta-darts-plus')
    """
    terms = (BetaDecay(), Flooding()) if flooded else (BetaDecay(),)
    method = published(_darts("beta-darts-plus" if flooded else "beta-darts", regularizers=terms), space)
    return method if weight is None else replace(method, regularizers=(BetaDecay(weight), *method.regularizers[1:]))


@checked
def fair_darts(*, space: Space = _USUAL) -> Method:
    """Weigh each operation by a sigmoid of its own, pushed to 0 or 1: FairDARTS (Chu et al., 2020).

    >>> fair_darts().regularizers[0].weight, fair_darts().discretizer.least
    (10.0, 0.85)
    """
    parts = {"relaxation": Sigmoid(), "regularizers": (ZeroOne(),), "discretizer": Threshold()}
    return published(_darts("fair-darts", **parts), space)


@checked
def a2m(of: Hypergradient | None = None, *, space: Space = _USUAL) -> Method:
    """Follow the gradient at the worst architecture nearby: A²M (Gambella et al., 2025).

    ``of`` is the hypergradient that is taken there, by default that of first order.

    >>> a2m().hypergradient.rho
    0.1
    """
    return published(_darts("a2m", hypergradient=SharpnessAware(of=FirstOrder() if of is None else of)), space)


@checked
def oles(*, space: Space = _USUAL) -> Method:
    """Each operation learns until its gradients on training and validation images disagree: OLES (Jiang et al., 2023).

    >>> oles().regularizers[0].threshold, oles().regularizers[0].iterations
    (0.4, 20)
    """
    return published(_darts("oles", regularizers=(OperationStopping(),)), space)


@checked
def sgas(*, space: Space = _USUAL) -> Method:
    """Decide edge after edge, the most important and certain first: SGAS (Li et al., 2020).

    >>> sgas().regularizers[0].begin, sgas().regularizers[0].end
    (0.2, 0.9)
    """
    return published(_darts("sgas", regularizers=(GreedyDecisions(),)), space)


@checked
def darts_minus(*, space: Space = _USUAL) -> Method:
    """DARTS with a skip connection beside every edge that fades over the search: DARTS- (Chu et al., 2021).

    >>> darts_minus().regularizers[0].start
    1.0
    """
    return published(_darts("darts-minus", regularizers=(AuxiliarySkip(),)), space)


@checked
def r_darts(kind: str = "l2", *, space: Space = _USUAL) -> Method:
    """Second-order DARTS, stabilized in one of three ways: R-DARTS (Zela et al., 2020).

    The ways are stronger weight decay (``l2``), drop-path with cutout (``drop-path``), and an early stop before the
    curvature of the loss grows too much (``es``). The authors run ``l2`` and ``drop-path`` at several strengths,
    retrain what each finds, and keep the best: weight decays of 3, 9, 27, 81 and 243·1e-4, drop-path of 0, 0.2, 0.4
    and 0.6. Cutout is a setting of the data, ``augmentation.cutout=16`` for 32 pixels, which the command sets itself.

    >>> r_darts("l2").weights["weight_decay"], r_darts("drop-path").supernet.drop_path, r_darts("es").stop.ratio
    (0.0081, 0.2, 0.75)
    """
    parts = look_up("kind of R-DARTS:", kind, _ROBUST)
    return published(_darts(f"r-darts-{kind}", hypergradient=Unrolled(products="forward"), **parts), space)


_ROBUST: dict[str, dict[str, object]] = {
    "l2": {},
    "drop-path": {"supernet": SupernetOptions(drop_path=0.2)},
    "es": {"stop": EigenvalueStop()},
}


@checked
def p_darts(priors: bool = True, *, space: Space = _USUAL) -> Method:
    """Deeper supernets with fewer operations, in three stages: P-DARTS (Chen et al., 2019).

    Without ``priors`` it has no dropout on skip connections and no limit of two of them in a normal cell. Λ-DARTS
    builds on that: ``lambda_darts(base=p_darts(priors=False))``. Each stage has 25 epochs; α moves after the first 10.

    >>> [stage.keep for stage in p_darts().progressive.stages], p_darts(priors=False).progressive.max_skips
    ([8, 5, 3], None)
    """
    method = _darts("p-darts", progressive=Progressive())
    return published(method, space, "p-darts" if priors else "lambda-p-darts")


@checked
def darts_pt(*, space: Space = _USUAL) -> Method:
    """DARTS that ends by keeping what its supernet cannot do without: DARTS+PT (Wang et al., 2021).

    >>> darts_pt().discretizer.tune_epochs, darts_pt().discretizer.tune_rate
    (5, 0.1)
    """
    return published(_darts("darts-pt", discretizer=Perturbation()), space)


@checked
def random_nas(*, space: Space = _USUAL) -> Method:
    """Train uniformly sampled architectures, then take the best of some: RandomNAS (Li & Talwalkar, 2019).

    >>> random_nas().discretizer.samples
    100
    """
    parts = {"relaxation": Uniform(), "arch_optimizer": Fixed(), "discretizer": BestSampled()}
    return published(_darts("random-nas", **parts), space)


@checked
def spos(*, space: Space = _USUAL) -> Method:
    """Train one uniformly drawn path per step, then evolve architectures on held-out images: SPOS (Guo et al., 2020).

    The paper draws each layer of a chain of layers; here the cells of a block share a draw, as they share a genotype.

    >>> spos().discretizer.population, spos().discretizer.rounds
    (50, 20)
    """
    parts = {"relaxation": Uniform(), "arch_optimizer": Fixed(), "discretizer": Evolved()}
    return published(_darts("spos", **parts), space)


@checked
def lambda_darts(
    kind: AlignmentKind = "cosine",
    base: Method | None = None,
    weight: float | None = None,
    paper: bool = False,
    *,
    space: Space = _USUAL,
) -> Method:
    """Train the weights so that all cells want the same architecture: Λ-DARTS (Movahedi et al., 2023).

    ``base`` is the method that it is added to, by default DARTS. ``weight`` is λ: by default 0.125, and for Λ in the
    DARTS space 0.25. There the paper left ``none`` out of the space: ``DARTS(exclude=("none",))``. ``paper`` computes
    ∇wΛ by the paper's differences (central, ε0 = 1e-4, across the kinks) instead of ours with frozen kinks.

    >>> lambda_darts(base=gaea()).name, lambda_darts("sign").regularizers[0].kind
    ('lambda-gaea', 'sign')
    >>> lambda_darts(space="darts").regularizers[0].weight, lambda_darts(paper=True).regularizers[0].kinks
    (0.25, 'crossed')
    """
    recipe = _named(f"lambda-{'sign-' if kind == 'sign' else ''}darts", paper)
    alone = published(_darts(recipe, regularizers=(LayerAlignment(kind),)), space)
    (term,) = alone.regularizers
    assert isinstance(term, LayerAlignment)  # noqa: S101 - for the type checker
    term = replace(term, weight=term.weight if weight is None else weight)
    if base is None:
        return replace(alone, regularizers=(term,))
    name = f"lambda-{base.name}" if kind == "cosine" else f"lambda-sign-{base.name}"
    return replace(base, name=name, regularizers=(*base.regularizers, term))


def _lambda_on(base: Callable[..., Method], space: Space = _USUAL, **knobs: object) -> Method:
    """Return Λ-DARTS on top of another recipe, both at the settings of one space."""
    return lambda_darts(base=base(space=space, **knobs), space=space)


def _variant(sentence: str, recipe: Callable[..., Method], *args: object, **knobs: object) -> Callable[..., Method]:
    """Return a recipe at other settings, with a sentence of its own."""
    variant = partial(recipe, *args, **knobs)
    variant.__doc__ = sentence
    return variant


RECIPE_GROUPS: dict[str, dict[str, Callable[..., Method]]] = {
    "base": {
        "darts": _variant("Softmax, Adam and the gradient of first order: DARTS (Liu et al., 2019).", darts),
        "darts-erm": _variant("DARTS whose weights and architecture share all the data.", darts, level="single"),
    },
    "implicit and second-order gradients": {
        "darts-2nd": _variant("DARTS with the gradient through one virtual step of the weights.", darts, order=2),
        "darts-2nd-paper": _variant(
            "darts-2nd by its paper's differences, across the kinks of ReLUs.", darts, order=2, paper=True
        ),
        "idarts": idarts,
        "idarts-paper": _variant("iDARTS by its paper's products, across the kinks of ReLUs.", idarts, paper=True),
        "amended": amended,
        "amended-paper": _variant(
            "Amended-DARTS by its paper's differences, across the kinks of ReLUs.", amended, paper=True
        ),
    },
    "geometry of the simplex": {
        "gaea": _variant(
            "Exponentiated gradient; weights and architecture take turns on all the data: GAEA (Li et al., 2021).", gaea
        ),
        "gaea-simultaneous": _variant(
            "GAEA with one backward pass that moves weights and architecture at once.", gaea, updates="simultaneous"
        ),
        "gaea-largest": gaea_largest,
        "gaea-bilevel": _variant("GAEA whose architecture has data of its own.", gaea, level="bilevel"),
        "gaea-pc-darts": _variant("GAEA on PC-DARTS: a quarter of the channels, weights of edges.", gaea, "pc_darts"),
        "gaea-gdas": _variant("GAEA on GDAS: one sampled operation per edge.", gaea, "gdas"),
        "xnas": xnas,
    },
    "sampling": {
        "gdas": gdas,
        "gdas-reinmax": _variant("GDAS with the gradient of second order: ReinMax; no paper has it.", gdas, "reinmax"),
        "snas": snas,
        "dsnas": dsnas,
        "drnas": drnas,
        "random-nas": random_nas,
        "spos": spos,
    },
    "part of the channels, and stages": {"pc-darts": pc_darts, "p-darts": p_darts, "sgas": sgas},
    "stabilizers": {
        "r-darts-l2": _variant(
            "Second-order DARTS with stronger weight decay: R-DARTS (Zela et al., 2020).", r_darts, "l2"
        ),
        "r-darts-drop-path": _variant("R-DARTS by drop-path and cutout.", r_darts, "drop-path"),
        "r-darts-es": _variant("R-DARTS by an early stop, before the loss bends too much.", r_darts, "es"),
        "sdarts-rs": _variant("Weights trained at random mixtures nearby: SDARTS (Chen & Hsieh, 2020).", sdarts, "rs"),
        "sdarts-adv": _variant(
            "Weights trained at the worst of the mixtures nearby: SDARTS (Chen & Hsieh, 2020).", sdarts, "adv"
        ),
        "darts-minus": darts_minus,
        "beta-darts": beta_darts,
        "beta-darts-plus": _variant(
            "β-DARTS whose training loss does not fall below a level: β-DARTS++ (Ye et al., 2023).",
            beta_darts,
            flooded=True,
        ),
        "fair-darts": fair_darts,
        "a2m": a2m,
        "oles": oles,
        "darts-pt": darts_pt,
        "lambda-darts": lambda_darts,
        "lambda-darts-paper": _variant(
            "Λ-DARTS by its paper's differences, across the kinks of ReLUs.", lambda_darts, paper=True
        ),
        "lambda-sign-darts": _variant(
            "Λ-DARTS that asks the cells for equal signs only, not for equal strengths: Λ±.", lambda_darts, "sign"
        ),
        "lambda-sign-darts-paper": _variant(
            "Λ± by its paper's differences, across the kinks of ReLUs.", lambda_darts, "sign", paper=True
        ),
        "lambda-sdarts-rs": _variant(
            "Λ-DARTS on top of sdarts-rs: Λ-DARTS (Movahedi et al., 2023).", _lambda_on, sdarts, kind="rs"
        ),
        "lambda-p-darts": _variant(
            "Λ-DARTS on top of p-darts without its rules on skip connections: Λ-DARTS (Movahedi et al., 2023).",
            _lambda_on,
            p_darts,
            priors=False,
        ),
        "lambda-gaea-simultaneous": _variant(
            "Λ-DARTS on top of gaea-simultaneous; no paper has it.", _lambda_on, gaea, updates="simultaneous"
        ),
    },
}
"""The recipes by what they change; the first line of each one's docstring says what it is."""
RECIPES = {name: recipe for group in RECIPE_GROUPS.values() for name, recipe in group.items()}
"""The names on the command line."""
_CITED = re.compile(r"(?::[^:]*)? \(([^()]*, \d{4})\)\.$")
"""The end of a sentence that names a paper: its method, its authors and its year."""


def described(name: str) -> tuple[str, str]:
    """Return the authors and the year of a recipe's paper, "" if it has none, and what the recipe changes.

    >>> described("gdas"), described("gaea-gdas")[0]
    (('Dong & Yang, 2019', 'One sampled operation per edge, straight through'), 'Li et al., 2021')
    """
    recipe = RECIPES[name]
    own, varied = (str(one.__doc__).strip().splitlines()[0] for one in (recipe, getattr(recipe, "func", recipe)))
    cited = _CITED.search(own) or _CITED.search(varied)
    return "" if cited is None else cited[1], _CITED.sub("", own).removesuffix(".")


@checked
def named(name: str, space: Space = _USUAL) -> Method:
    """Return a recipe by its name, at the settings published for a space.

    >>> named("lambda-darts", "darts").weights["epochs"]
    50
    """
    return look_up("method", name, RECIPES)(space=space)
