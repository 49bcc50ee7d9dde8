"""Every constructor and checked function answers wrong arguments with a sentence that names them, as declared."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import partial
from inspect import signature
from typing import Any, get_type_hints

import pytest
import torch

import archgrad as ag
from archgrad import (
    arch_optimizers,
    discretizers,
    hypergradients,
    operations,
    recipes,
    relaxations,
    spaces,
    supernet,
    tables,
)
from archgrad.arch_optimizers import GEOMETRIES
from archgrad.cli.listing import FAMILIES
from archgrad.errors import UserError
from archgrad.method.progressive import Stage
from archgrad.parts.fields import check_value, checked
from archgrad.spaces import SPACES, nasbench101
from archgrad.spaces.nasbench201_cells import CELLS

OTHERS = (
    ag.WeightTraining, ag.Schedule, ag.Progressive, Stage, ag.SupernetOptions, partial(ag.Descent, lr=0.1),
    partial(operations.Site, channels=4),
)  # fmt: skip
REGISTRIES = [*(family for kind, (family, _) in FAMILIES.items() if kind not in ("blackbox", "tasks")), SPACES]
MAKERS: dict[str, Callable[..., Any]] = {name: make for family in REGISTRIES for name, make in family.items()}
MAKERS |= {getattr(maker, "func", maker).__name__: maker for maker in OTHERS}

WRONG: list[Any] = [
    math.nan, math.inf, -1e300, 10**400, 10**5000, -1, "many", b"\xff", object(), [1], {}, (math.nan,),
    torch.tensor(1.0), torch.nn.Linear, 1j,
]  # fmt: skip
UNBOUNDED = {"OperationStopping.threshold", "EntropyTerm.weight", "Site.salt", "Descent.velocity"}
"""The only fields that may be negative; of the last, only a type checker knows the type."""


POSITIVE = ("lr", "eps", "steps", "keep", "samples", "window", "channels", "cells", "epochs", "batch_size", "betas")
"""Names of fields that may not be 0 anywhere."""


def fits(kind: Any, value: object) -> bool:
    try:
        check_value("value", value, kind)
    except UserError:
        return False
    return True


@pytest.mark.parametrize("name", MAKERS)
def test_wrong_values_of_fields_are_named(name: str) -> None:
    make = MAKERS[name]
    part = make()
    assert is_dataclass(part)
    hints = get_type_hints(type(part), include_extras=True)
    for field in (field for field in fields(part) if field.init):
        kind, path = hints[field.name], f"{type(part).__name__}.{field.name}"
        low = (
            []
            if path in UNBOUNDED
            else [-1, -(10**6), *([0] if field.name in POSITIVE and path != "Descent.lr" else [])]
        )
        for value in (value for value in [*low, *WRONG] if any(value is one for one in low) or not fits(kind, value)):
            with pytest.raises(UserError) as caught:
                make(**{field.name: value})
            message = str(caught.value)
            assert field.name in message, message
            assert len(message) < 500, message


def checked_functions() -> Iterator[tuple[str, Any]]:
    """Yield all functions and methods of the package that check their arguments."""
    mark = checked(lambda: None).__code__
    for module in pkgutil.walk_packages(ag.__path__, "archgrad."):
        home = importlib.import_module(module.name) if not module.name.endswith("__main__") else ag
        owners = [home, *(one for one in vars(home).values() if isinstance(one, type))]
        for one in (one for owner in owners for one in vars(owner).values()):
            function = getattr(one, "__func__", one)
            if getattr(function, "__code__", None) is mark and function.__module__ == module.name:
                yield f"{module.name}.{function.__qualname__}", function


def test_checked_functions_name_their_first_wrong_argument() -> None:
    """An annotation that cannot be resolved would switch all checks of its function off."""
    found, nothing = dict(checked_functions()), object()
    assert len(found) > 80
    for function in found.values():
        hints = get_type_hints(function, include_extras=True)
        needed = [one.name for one in signature(function).parameters.values() if one.kind is not one.VAR_KEYWORD]
        first = next((one for one in needed if one in hints and not fits(hints[one], nothing)), None)
        if first is not None:
            with pytest.raises(UserError, match=first):
                function(**dict.fromkeys(needed, nothing))


SPACE = spaces.NASBench201(channels=4, cells_per_stage=1)
BLOCKS = SPACE.searched_blocks()
GENOTYPE = ag.Genotype.parse("|nor_conv_3x3~0|+|none~0|skip_connect~1|+|none~0|none~1|nor_conv_1x1~2|")
GENERATOR = torch.Generator()
REAL = relaxations.Softmax().init(BLOCKS, torch.Generator())
SIMPLEX = relaxations.Simplex().init(BLOCKS, torch.Generator())
TABLE = tables.AccuracyTable(((50.0,) * CELLS,) * 3, "accuracy", "made up", "test")
IMAGES = torch.zeros(2, 3, 8, 8)
PROBLEM = ag.BilevelProblem(lambda w, a, x: w["w"] * a["a"], lambda w, a, x: w["w"] * a["a"])
POINT = {"w": torch.tensor(1.0)}, {"a": torch.tensor(1.0)}
NOT_A_NUMBER = {"cell": torch.full((6, 5), math.nan)}
NARROW = {"cell": torch.zeros(6, 4)}
WHOLE = {"cell": torch.zeros(6, 5, dtype=torch.int64)}
COMPLEX = {"cell": torch.zeros(6, 5, dtype=torch.complex64)}


def supernet_call(*args: Any, **settings: Any) -> Callable[[], object]:
    return lambda: SPACE.supernet()(*args, **settings)


MIXTURE = SPACE.one_hot(GENOTYPE)
CALLS: list[tuple[str, Callable[[], object]]] = [
    ("comparisons", lambda: ag.diagnostics.average([])),
    ("weights", lambda: replace(recipes.darts(), weights={"rate": 1})),
    ("weights", lambda: ag.diagnostics.bregman_stationarity(print, {}, {}, GEOMETRIES["entropy"], 0.1)),
    ("genotype", lambda: SPACE.network(ag.Genotype())),
    ("selection", lambda: SPACE.genotype({})),
    ("selection", lambda: SPACE.genotype({"cell": [(0, 9)]})),
    ("choices", lambda: SPACE.restricted({"cell": [[["none"]]] * 6})),
    ("number", lambda: spaces.NASBench1Shot1(number=4)),
    ("genotype", lambda: ag.Genotype.parse("x" * 10**7)),
    ("block", lambda: GENOTYPE["normal"]),
    ("notation", lambda: GENOTYPE.format("xml")),
    ("nodes", lambda: spaces.edge_rows([3], ("none",))),
    ("matrix", lambda: nasbench101.Module(3, ("input", "output"))),
    ("alpha", lambda: relaxations.Softmax().probabilities(BLOCKS, {})),
    ("alpha", lambda: relaxations.Softmax().probabilities(BLOCKS, NARROW)),
    ("alpha", lambda: relaxations.Softmax().probabilities(BLOCKS, WHOLE)),
    ("alpha", lambda: relaxations.Simplex().probabilities(BLOCKS, {"cell": torch.zeros(5)})),
    ("alpha", lambda: relaxations.Dirichlet().probabilities(BLOCKS, NARROW)),
    ("alpha", lambda: relaxations.Uniform().probabilities(BLOCKS, {"normal": torch.zeros(6, 5)})),
    (
        "alpha",
        lambda: relaxations.GumbelHard().relax(BLOCKS, NARROW, relaxations.GumbelHard().noise(BLOCKS, GENERATOR), 0),
    ),
    ("noise", lambda: relaxations.GumbelHard().relax(BLOCKS, REAL, None, 0.0)),
    ("gradient", lambda: arch_optimizers.Adam().step(REAL, {}, arch_optimizers.Adam().init(REAL, 1))),
    ("gradient", lambda: arch_optimizers.Adam().step(REAL, NARROW, arch_optimizers.Adam().init(REAL, 1))),
    ("gradient", lambda: arch_optimizers.Adam().step(REAL, COMPLEX, arch_optimizers.Adam().init(REAL, 1))),
    ("state", lambda: arch_optimizers.Adam().step(REAL, REAL, {})),
    ("gradient", lambda: arch_optimizers.ExponentiatedGradient().step(SIMPLEX, NARROW, {"support": SIMPLEX})),
    ("state", lambda: arch_optimizers.ExponentiatedGradient().step(SIMPLEX, SIMPLEX, {"mean": {}})),
    ("problem", lambda: hypergradients.FirstOrder()("problem", *POINT, None, None)),
    ("weights", lambda: hypergradients.FirstOrder()(PROBLEM, None, POINT[1], None, None)),
    ("alpha", lambda: hypergradients.FirstOrder()(PROBLEM, POINT[0], [1.0], None, None)),
    ("alpha", lambda: hypergradients.T1T2()(PROBLEM, POINT[0], {"a": torch.tensor(1)}, None, None)),
    ("descent", lambda: hypergradients.Unrolled()(PROBLEM, *POINT, None, None, descent=0.1)),
    ("space", lambda: discretizers.Argmax().select("nasbench201", SIMPLEX)),
    ("probabilities", lambda: discretizers.Argmax().select(SPACE, None)),
    ("probabilities", lambda: discretizers.Argmax().select(SPACE, {})),
    ("probabilities", lambda: discretizers.Argmax().select(SPACE, NARROW)),
    ("probabilities", lambda: discretizers.Argmax().select(SPACE, NOT_A_NUMBER)),
    ("probabilities", lambda: discretizers.LimitedSkips().select(SPACE, NARROW)),
    ("evaluation", lambda: discretizers.BestSampled().select(SPACE, SIMPLEX)),
    ("evaluation", lambda: discretizers.Perturbation().select(SPACE, SIMPLEX, "evaluation")),
    ("x", supernet_call("image", MIXTURE)),
    ("x", supernet_call(torch.zeros(3, 8, 8), MIXTURE)),
    ("mixture", supernet_call(IMAGES, None)),
    ("mixture", supernet_call(IMAGES, {"cell": torch.zeros(6, 5)})),
    ("active", supernet_call(IMAGES, MIXTURE, active={"cell": torch.ones(3, 6, 5)})),
    ("drop_path", supernet_call(IMAGES, MIXTURE, drop_path=1.0)),
    ("skip_dropout", supernet_call(IMAGES, MIXTURE, skip_dropout="half")),
    ("skip", supernet_call(IMAGES, MIXTURE, skip=math.nan)),
    ("groups", lambda: supernet.shuffle(IMAGES, 2)),
    ("dataset", lambda: TABLE.rank(GENOTYPE, "mnist")),
    ("method", lambda: recipes.named("dart")),
    ("order", lambda: recipes.darts(order=3)),
    ("base", lambda: recipes.gaea("adam")),
    ("kind", lambda: recipes.sdarts("worst")),
    ("relaxation", lambda: relaxations.RELAXATIONS.create("soft")),
    ("taus", lambda: relaxations.RELAXATIONS.create("gumbel-hard", taus=(1.0, 1.0))),
]
"""Calls that are wrong in a way that no annotation tells: a shape, a name, what belongs together."""


@pytest.mark.parametrize(("argument", "call"), CALLS, ids=[f"{n}-{argument}" for n, (argument, _) in enumerate(CALLS)])
def test_wrong_calls_are_answered_with_a_sentence_that_names_the_argument(
    argument: str, call: Callable[[], object]
) -> None:
    with pytest.raises(UserError) as caught:
        call()
    assert argument in str(caught.value)
    assert len(str(caught.value)) < 700
