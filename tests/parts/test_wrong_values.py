"""Every public constructor and function answers wrong arguments with a sentence that names them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import archgrad as ag
from archgrad import (
    arch_optimizers,
    callbacks,
    discretizers,
    hypergradients,
    operations,
    recipes,
    regularizers,
    relaxations,
    spaces,
    supernet,
    tables,
)
from archgrad.arch_optimizers import GEOMETRIES
from archgrad.errors import UserError
from archgrad.method.progressive import Stage
from archgrad.spaces import nasbench101
from archgrad.tables.nasbench201.cells import CELLS

FAMILIES = (
    relaxations.RELAXATIONS,
    hypergradients.HYPERGRADIENTS,
    arch_optimizers.ARCH_OPTIMIZERS,
    regularizers.REGULARIZERS,
    discretizers.DISCRETIZERS,
    callbacks.CALLBACKS,
    spaces.SPACES,
)
OTHERS = (
    ag.WeightTraining,
    ag.Schedule,
    ag.Progressive,
    Stage,
    ag.SupernetOptions,
    partial(ag.Descent, lr=0.1),
    partial(operations.Site, channels=4),
)
MAKERS: dict[str, Callable[..., Any]] = {name: member for family in FAMILIES for name, member in family.items()}
MAKERS |= {getattr(maker, "func", maker).__name__: maker for maker in OTHERS}

WRONG: list[Any] = [
    math.nan, math.inf, -math.inf, -1e300, 10**400, 10**5000, -1, "many", b"\xff", "", object(), [], {}, (),
    (math.nan,), torch.tensor(1.0), torch.nn.Linear, 1j,
]  # fmt: skip
"""Values that no number, word or tuple of a part may have; a field that takes one of them is named in ALLOWED."""
ALLOWED: dict[str, list[Any]] = {
    "EntropyTerm.weight": [-1, -1e300],
    "LayerAlignment.blocks": [()],
    "Doctor.cures": [()],
    "Doctor.after": [()],
    "Stationarity.blocks": [()],
    "Site.salt": [-1, 10**400, 10**5000],
    "TorchOptimizer.settings": [()],
    "WeightTraining.optimizer_settings": [()],
    "WandB.project": ["many", ""],
    "Descent.velocity": WRONG,  # a type that only mypy knows
}
ALLOWED |= {f"{type(make()).__name__}.restriction": [()] for make in spaces.SPACES.values()}
ALLOWED |= {f"{type(make()).__name__}.exclude": [(), []] for make in spaces.SPACES.values()}
ALLOWED |= {f"{name}.folder": ["many", ""] for name in ("CSVFile", "TensorBoard", "WandB")}
"""Fields that take some of these values."""


def same(value: object, other: object) -> bool:
    return value is other or (type(value) is type(other) and isinstance(value, int | tuple | list) and value == other)


@pytest.mark.parametrize("name", MAKERS)
def test_wrong_values_of_fields_are_named(name: str) -> None:
    make, draw = MAKERS[name], random.Random(name)  # noqa: S311 - an order of its own for each part
    part = make()
    assert is_dataclass(part)
    for field in (field for field in fields(part) if field.init):
        allowed = ALLOWED.get(f"{type(part).__name__}.{field.name}", [])
        wrong = [value for value in WRONG if not any(same(value, one) for one in allowed)]
        for value in draw.sample(wrong, len(wrong)):
            with pytest.raises(UserError) as caught:
                make(**{field.name: value})
            message = str(caught.value)
            assert field.name in message, message
            assert len(message) < 500, message


# --- wrong calls ----------------------------------------------------------------------------------------------------

SPACE = spaces.NASBench201(channels=4, cells_per_stage=1)
BLOCKS = SPACE.searched_blocks()
CELL = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|none~0|none~1|nor_conv_1x1~2|"
GENOTYPE = ag.Genotype.parse(CELL)
GENERATOR = torch.Generator()
REAL = relaxations.Softmax().init(BLOCKS, torch.Generator())
SIMPLEX = relaxations.Simplex().init(BLOCKS, torch.Generator())
TABLE = tables.AccuracyTable(((50.0,) * CELLS,) * 3, "accuracy", "made up", "test")
IMAGES = torch.zeros(2, 3, 8, 8)
PROBLEM = ag.BilevelProblem(lambda w, a, x: w["w"] * a["a"], lambda w, a, x: w["w"] * a["a"])
POINT = {"w": torch.tensor(1.0)}, {"a": torch.tensor(1.0)}
MODULE = nasbench101.Module(((0, 1), (0, 0)), ("input", "output"))
SITE = operations.Site(4)
NOT_A_NUMBER = {"cell": torch.full((6, 5), math.nan)}
NARROW = {"cell": torch.zeros(6, 4)}
WHOLE = {"cell": torch.zeros(6, 5, dtype=torch.int64)}
COMPLEX = {"cell": torch.zeros(6, 5, dtype=torch.complex64)}


def parts(**changes: object) -> Callable[[], object]:
    given: dict[str, Any] = {
        "relaxation": relaxations.Softmax(),
        "hypergradient": hypergradients.FirstOrder(),
        "arch_optimizer": arch_optimizers.Adam(),
        "discretizer": discretizers.Argmax(),
    }
    return lambda: ag.Method(**{**given, **changes})


def supernet_call(*args: Any, **settings: Any) -> Callable[[], object]:
    return lambda: SPACE.supernet()(*args, **settings)


MIXTURE = SPACE.one_hot(GENOTYPE)
CALLS: list[tuple[str, Callable[[], object]]] = [
    ("records", lambda: ag.diagnostics.diagnose(3, 5)),
    ("comparisons", lambda: ag.diagnostics.average([])),
    ("weights", lambda: ag.diagnostics.bregman_stationarity(print, {}, {}, GEOMETRIES["entropy"], 0.1)),
    ("geometry", lambda: ag.diagnostics.bregman_stationarity(print, {}, {}, None, 0.1)),
    ("labels", lambda: ag.data.split([1, 2], (0.5, 0.5))),
    ("settings", lambda: ag.SearchConfig(settings=3)),
    ("genotype", lambda: ag.report.draw(3, Path("x.svg"))),
    ("path", lambda: ag.report.draw(GENOTYPE, 4)),
    ("genotype", lambda: ag.report.to_text("cell")),
    ("histories", lambda: ag.report.curve_of(3, "train_loss")),
    ("curves", lambda: ag.report.draw_curves(3, "train_loss", Path("x.svg"))),
    ("records", lambda: ag.report.panels_of("records")),
    ("spec", lambda: ag.data.load(3)),
    ("path", lambda: ag.data.folder(3)),
    ("images", lambda: ag.data.ImageData("x", 3, 4, ())),
    ("classes", lambda: ag.data.ImageData("x", torch.zeros(1), torch.zeros(1), 4)),
    # the method
    ("relaxation", parts(relaxation="softmax")),
    ("relaxation", parts(relaxation=None)),
    ("relaxation", parts(relaxation=relaxations.Softmax)),
    ("hypergradient", parts(hypergradient=arch_optimizers.Adam())),
    ("arch_optimizer", parts(arch_optimizer=torch.optim.Adam)),
    ("discretizer", parts(discretizer=3)),
    ("regularizers", parts(regularizers=regularizers.BetaDecay())),
    ("regularizers", parts(regularizers=["beta-decay"])),
    ("schedule", parts(schedule={"level": "single"})),
    ("supernet", parts(supernet=4)),
    ("weights", parts(weights=[1])),
    ("weights", parts(weights={"lr": "fast"})),
    ("weights", parts(weights={"lr": math.nan})),
    ("weights", parts(weights={"rate": 1})),
    ("weights", parts(weights={3: 1})),
    ("stop", parts(stop=5)),
    ("progressive", parts(progressive=(5, 11))),
    ("name", parts(name=7)),
    ("space", lambda: parts()().check("nasbench201")),
    # spaces
    ("genotype", lambda: SPACE.network(CELL)),
    ("genotype", lambda: SPACE.network(None)),
    ("genotype", lambda: SPACE.network(ag.Genotype())),
    ("num_classes", lambda: SPACE.network(GENOTYPE, num_classes=0)),
    ("num_classes", lambda: SPACE.network(GENOTYPE, num_classes=10**9)),
    ("num_classes", lambda: SPACE.network(GENOTYPE, num_classes=2.0)),
    ("input_channels", lambda: SPACE.network(GENOTYPE, input_channels="rgb")),
    ("input_channels", lambda: SPACE.network(GENOTYPE, input_channels=10**9)),
    ("image_size", lambda: SPACE.cost(GENOTYPE, image_size=0)),
    ("image_size", lambda: SPACE.cost(GENOTYPE, image_size=math.inf)),
    ("image_size", lambda: SPACE.cost(GENOTYPE, image_size=10**6)),
    ("genotype", lambda: SPACE.cost(3)),
    ("options", lambda: SPACE.supernet(4)),
    ("options", lambda: SPACE.supernet({"partial": 2})),
    ("num_classes", lambda: SPACE.supernet(num_classes=-1)),
    ("input_channels", lambda: SPACE.supernet(input_channels=True)),
    ("options", lambda: SPACE.searched_blocks("edges")),
    ("options", lambda: SPACE.completed_options(3)),
    ("genotype", lambda: SPACE.check(CELL)),
    ("genotype", lambda: SPACE.one_hot(CELL)),
    ("options", lambda: SPACE.one_hot(GENOTYPE, 3)),
    ("name", lambda: SPACE.block(3)),
    ("name", lambda: SPACE.block(["cell"])),
    ("choices", lambda: SPACE.offers(3)),
    ("choices", lambda: SPACE.offers(["none"])),
    ("selection", lambda: SPACE.genotype({})),
    ("selection", lambda: SPACE.genotype(None)),
    ("selection", lambda: SPACE.genotype({"cell": [(0, 9)]})),
    ("selection", lambda: SPACE.genotype({"cell": [(9, 0)]})),
    ("selection", lambda: SPACE.genotype({"cell": [3]})),
    ("selection", lambda: SPACE.genotype({"cell": [("a", "b")]})),
    ("choices", lambda: SPACE.restricted(None)),
    ("choices", lambda: SPACE.restricted({"cell": 3})),
    ("choices", lambda: SPACE.restricted({"cell": [3] * 6})),
    ("choices", lambda: SPACE.restricted({"cell": [[["none"]]] * 6})),
    ("restriction", lambda: spaces.NASBench201(restriction=((),))),
    ("exclude", lambda: spaces.NASBench201(exclude="none")),
    ("exclude", lambda: spaces.NASBench201(exclude=("none", 3))),
    ("number", lambda: spaces.NASBench1Shot1(number=4)),
    ("network", lambda: spaces.cost("net")),
    ("network", lambda: spaces.cost(torch.nn.ReLU())),
    ("image_size", lambda: spaces.cost(torch.nn.Conv2d(3, 4, 3), image_size=-1)),
    ("input_channels", lambda: spaces.cost(torch.nn.Conv2d(3, 4, 3), input_channels=None)),
    # genotypes and blocks
    ("text", lambda: ag.Genotype.parse(None)),
    ("text", lambda: ag.Genotype.parse(b"{}")),
    ("text", lambda: ag.Genotype.parse(GENOTYPE)),
    ("genotype", lambda: ag.Genotype.parse("x" * 10**7)),
    ("blocks", lambda: ag.Genotype("cell")),
    ("blocks", lambda: ag.Genotype((("cell", 3),))),
    ("blocks", lambda: ag.Genotype.of([("cell", 3)])),
    ("blocks", lambda: ag.Genotype.of({"cell": CELL})),
    ("block", lambda: GENOTYPE["normal"]),
    ("block", lambda: GENOTYPE[0]),
    ("name", lambda: GENOTYPE.format(3)),
    ("notation", lambda: GENOTYPE.format("xml")),
    ("choices", lambda: GENOTYPE.count(3)),
    ("decisions", lambda: spaces.CellGenotype([3])),
    ("concat", lambda: spaces.CellGenotype((), "2345")),
    ("target", lambda: spaces.Decision("1", 0, "none")),
    ("source", lambda: spaces.Decision(1, 0.5, "none")),
    ("choice", lambda: spaces.Decision(1, 0, None)),
    ("target", lambda: spaces.Row(None, 0, ("none",))),
    ("choices", lambda: spaces.Row(1, 0, "none")),
    ("picks", lambda: spaces.Row(1, 0, ("none",), picks=1.5)),
    ("rows", lambda: spaces.DecisionBlock("cell", 1, 3)),
    ("cells", lambda: spaces.DecisionBlock("cell", 0, BLOCKS[0].rows)),
    ("kind", lambda: spaces.DecisionBlock("cell", 1, BLOCKS[0].rows, kind="node")),
    ("choices", lambda: spaces.edge_rows([(1, [0])], "none")),
    ("nodes", lambda: spaces.edge_rows([3], ("none",))),
    ("text", lambda: nasbench101.Module.parse(None)),
    ("matrix", lambda: nasbench101.Module(3, ("input", "output"))),
    ("operation", lambda: nasbench101.Module(((0, 1), (0, 0)), (1, 2))),
    ("genotype", lambda: nasbench101.module_of(MODULE)),
    ("module", lambda: nasbench101.pruned_genotype(GENOTYPE)),
    ("module", lambda: nasbench101.genotype_of(spaces.NASBench1Shot1(), GENOTYPE)),
    ("space", lambda: nasbench101.genotype_of("nasbench1shot1-1", MODULE)),
    ("channels", lambda: nasbench101.NASBench101Net(MODULE, channels=-1)),
    ("module", lambda: nasbench101.NASBench101Net("skip")),
    # relaxations
    ("blocks", lambda: relaxations.Softmax().init(3, GENERATOR)),
    ("blocks", lambda: relaxations.Softmax().init(["cell"], GENERATOR)),
    ("generator", lambda: relaxations.Softmax().init(BLOCKS, 0)),
    ("alpha", lambda: relaxations.Softmax().probabilities(BLOCKS, {})),
    ("alpha", lambda: relaxations.Softmax().probabilities(BLOCKS, None)),
    ("alpha", lambda: relaxations.Softmax().probabilities(BLOCKS, {"cell": [[0.0] * 5] * 6})),
    ("alpha", lambda: relaxations.Softmax().probabilities(BLOCKS, NARROW)),
    ("alpha", lambda: relaxations.Softmax().probabilities(BLOCKS, WHOLE)),
    ("alpha", lambda: relaxations.Simplex().probabilities(BLOCKS, {"cell": torch.zeros(5)})),
    ("alpha", lambda: relaxations.Simplex().probabilities(BLOCKS, COMPLEX)),
    ("alpha", lambda: relaxations.Dirichlet().probabilities(BLOCKS, NARROW)),
    ("alpha", lambda: relaxations.Uniform().probabilities(BLOCKS, {"normal": torch.zeros(6, 5)})),
    ("alpha", lambda: relaxations.GumbelHard().probabilities(BLOCKS, NARROW)),
    (
        "alpha",
        lambda: relaxations.GumbelHard().relax(BLOCKS, NARROW, relaxations.GumbelHard().noise(BLOCKS, GENERATOR), 0),
    ),
    ("noise", lambda: relaxations.GumbelHard().relax(BLOCKS, REAL, None, 0.0)),
    ("noise", lambda: relaxations.GumbelHard().relax(BLOCKS, REAL, 3, 0.0)),
    # optimizers of the architecture
    ("alpha", lambda: arch_optimizers.Adam().init(None, 1)),
    ("alpha", lambda: arch_optimizers.MirrorDescent().init({"cell": 3}, 1)),
    ("steps", lambda: arch_optimizers.XNAS().init(SIMPLEX, -1)),
    ("steps", lambda: arch_optimizers.XNAS().init(SIMPLEX, "many")),
    ("gradient", lambda: arch_optimizers.Adam().step(REAL, {}, arch_optimizers.Adam().init(REAL, 1))),
    ("gradient", lambda: arch_optimizers.Adam().step(REAL, NARROW, arch_optimizers.Adam().init(REAL, 1))),
    ("gradient", lambda: arch_optimizers.Adam().step(REAL, None, arch_optimizers.Adam().init(REAL, 1))),
    ("gradient", lambda: arch_optimizers.Adam().step(REAL, COMPLEX, arch_optimizers.Adam().init(REAL, 1))),
    ("state", lambda: arch_optimizers.Adam().step(REAL, REAL, {})),
    ("state", lambda: arch_optimizers.Adam().step(REAL, REAL, None)),
    ("gradient", lambda: arch_optimizers.ExponentiatedGradient().step(SIMPLEX, NARROW, {"support": SIMPLEX})),
    ("state", lambda: arch_optimizers.ExponentiatedGradient().step(SIMPLEX, SIMPLEX, {"mean": {}})),
    ("gradient", lambda: arch_optimizers.XNAS().step(SIMPLEX, {"cell": 1.0}, arch_optimizers.XNAS().init(SIMPLEX, 3))),
    ("state", lambda: arch_optimizers.XNAS().step(SIMPLEX, SIMPLEX, {})),
    # hypergradients
    ("problem", lambda: hypergradients.FirstOrder()("problem", *POINT, None, None)),
    ("weights", lambda: hypergradients.FirstOrder()(PROBLEM, None, POINT[1], None, None)),
    ("weights", lambda: hypergradients.FirstOrder()(PROBLEM, {"w": 1.0}, POINT[1], None, None)),
    ("alpha", lambda: hypergradients.FirstOrder()(PROBLEM, POINT[0], [1.0], None, None)),
    ("alpha", lambda: hypergradients.T1T2()(PROBLEM, POINT[0], {"a": torch.tensor(1)}, None, None)),
    ("descent", lambda: hypergradients.Unrolled()(PROBLEM, *POINT, None, None, descent=0.1)),
    ("inner", lambda: ag.BilevelProblem("loss", PROBLEM.outer)),
    ("outer", lambda: ag.BilevelProblem(PROBLEM.inner, None)),
    # discretizers
    ("space", lambda: discretizers.Argmax().select("nasbench201", SIMPLEX)),
    ("probabilities", lambda: discretizers.Argmax().select(SPACE, None)),
    ("probabilities", lambda: discretizers.Argmax().select(SPACE, {})),
    ("probabilities", lambda: discretizers.Argmax().select(SPACE, NARROW)),
    ("probabilities", lambda: discretizers.Argmax().select(SPACE, NOT_A_NUMBER)),
    ("probabilities", lambda: discretizers.Argmax().select(SPACE, {"cell": [[1.0]]})),
    ("probabilities", lambda: discretizers.LimitedSkips().select(SPACE, NARROW)),
    ("evaluation", lambda: discretizers.BestSampled().select(SPACE, SIMPLEX)),
    ("evaluation", lambda: discretizers.BestSampled().select(SPACE, SIMPLEX, 3)),
    ("evaluation", lambda: discretizers.Perturbation().select(SPACE, SIMPLEX, "evaluation")),
    ("derivation", lambda: discretizers.LimitedSkips(derivation="argmax")),
    # the supernet and its operations
    ("x", supernet_call("image", MIXTURE)),
    ("x", supernet_call(torch.zeros(3, 8, 8), MIXTURE)),
    ("x", supernet_call(torch.zeros(2, 3, 8, 8, dtype=torch.int64), MIXTURE)),
    ("mixture", supernet_call(IMAGES, None)),
    ("mixture", supernet_call(IMAGES, {"cell": [1.0]})),
    ("mixture", supernet_call(IMAGES, {"cell": torch.zeros(6, 5)})),
    ("active", supernet_call(IMAGES, MIXTURE, active={"cell": torch.ones(3, 6, 5)})),
    ("drop_path", supernet_call(IMAGES, MIXTURE, drop_path=1.0)),
    ("skip_dropout", supernet_call(IMAGES, MIXTURE, skip_dropout="half")),
    ("skip", supernet_call(IMAGES, MIXTURE, skip=math.nan)),
    ("stride", lambda: operations.Site(4, stride=3)),
    ("inputs", lambda: operations.ReLUConvBN("rgb", SITE, 3)),
    ("size", lambda: operations.ReLUConvBN(4, SITE, 0)),
    ("site", lambda: operations.ReLUConvBN(4, 8, 3)),
    ("site", lambda: operations.SeparableConv(None, 3)),
    ("size", lambda: operations.DilatedConv(SITE, 2.5)),
    ("site", lambda: operations.AveragePool("here")),
    ("site", lambda: operations.Zero(3)),
    ("site", lambda: operations.Noise(None)),
    ("inputs", lambda: operations.FactorizedReduce(-1, SITE)),
    ("inputs", lambda: operations.ConvBNReLU(0, SITE, 1)),
    ("groups", lambda: supernet.shuffle(IMAGES, 2)),
    # tables
    ("genotype", lambda: TABLE.query(None)),
    ("genotype", lambda: TABLE.query(MODULE)),
    ("genotype", lambda: TABLE.rank(3, "cifar10")),
    ("dataset", lambda: TABLE.rank(GENOTYPE, "mnist")),
    ("dataset", lambda: TABLE.best(0)),
    ("dataset", lambda: TABLE.query(GENOTYPE)["mnist"]),
    ("columns", lambda: tables.AccuracyTable("table", "a", "b", "c")),
    ("columns", lambda: tables.AccuracyTable(((math.nan,) * CELLS,) * 3, "a", "b", "c")),
    ("path", lambda: tables.open_table(3)),
    ("path", lambda: tables.open_cells(b"file")),
    ("space", lambda: tables.tables_for(3)),
    ("dataset", lambda: tables.AccuracyOracle(TABLE, "mnist")),
    ("table", lambda: tables.AccuracyOracle("table")),
    ("table", lambda: tables.CellOracle(TABLE, 1)),
    # recipes
    ("method", lambda: recipes.named("dart")),
    ("name", lambda: recipes.named(3)),
    ("space", lambda: recipes.darts(space=3)),
    ("space", lambda: recipes.named("darts", "mnist")),
    ("order", lambda: recipes.darts(order=3)),
    ("level", lambda: recipes.darts(level="both")),
    ("terms", lambda: recipes.idarts(terms=-1)),
    ("inner_steps", lambda: recipes.idarts(inner_steps="four")),
    ("lr", lambda: recipes.idarts(lr="fast")),
    ("eta", lambda: recipes.amended(eta=math.inf)),
    ("base", lambda: recipes.gaea("adam")),
    ("base", lambda: recipes.gaea(None)),
    ("updates", lambda: recipes.gaea(updates="never")),
    ("hypergradient", lambda: recipes.gaea(hypergradient="neumann")),
    ("kind", lambda: recipes.sdarts("worst")),
    ("kind", lambda: recipes.r_darts(["l2"])),
    ("weight", lambda: recipes.beta_darts(weight="heavy")),
    ("kind", lambda: recipes.lambda_darts("angle")),
    ("base", lambda: recipes.lambda_darts(base="gaea")),
    ("weight", lambda: recipes.lambda_darts(weight=-1)),
    ("space", lambda: recipes.declared("darts", 3)),
    ("method", lambda: recipes.published_arch_steps("darts", SPACE)),
    ("space", lambda: recipes.published_arch_steps(recipes.darts(), "nasbench201")),
    ("space", lambda: recipes.family_of(None)),
    # making parts by name
    ("relaxation", lambda: relaxations.RELAXATIONS.create("soft")),
    ("relaxation", lambda: relaxations.RELAXATIONS.create(3)),
    ("taus", lambda: relaxations.RELAXATIONS.create("gumbel-hard", taus=(1.0, 1.0))),
    ("lr", lambda: arch_optimizers.ARCH_OPTIMIZERS.create("adam", lr="0.1")),
]


def test_there_are_many_wrong_calls() -> None:
    assert len(CALLS) >= 120


@pytest.mark.parametrize(("argument", "call"), CALLS, ids=[f"{n}-{argument}" for n, (argument, _) in enumerate(CALLS)])
def test_wrong_calls_are_answered_with_a_sentence_that_names_the_argument(
    argument: str, call: Callable[[], object]
) -> None:
    with pytest.raises(UserError) as caught:
        call()
    message = str(caught.value)
    assert argument in message, message
    assert len(message) < 700, message
