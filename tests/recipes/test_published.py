"""Recipes have the settings that papers and published code give them, per space, and say where these stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import archgrad as ag
from archgrad import recipes, spaces
from archgrad.cli.listing import methods_page
from archgrad.config import SearchConfig
from archgrad.config.naming import named_config
from archgrad.config.resolve import method_of, resolve, space_of
from archgrad.errors import UserError
from archgrad.recipes import RECIPES, SETTINGS, declared, listed, named

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"
EXAMPLES = ("nasbench201", "darts", "s3", "amended-a2", "nasbench1shot1-2")
NB201 = {"lr": 0.025, "lr_min": 0.001, "momentum": 0.9, "weight_decay": 5e-4, "nesterov": True, "batch_size": 64}
DARTS = {**NB201, "weight_decay": 3e-4, "nesterov": False}
ONE_SHOT = {
    **{f"weights.{name}": value for name, value in {**DARTS, "batch_size": 96, "epochs": 100}.items()},
    "arch_optimizer.lr": 3e-4,
    "arch_optimizer.weight_decay": 1e-3,
    "schedule.warmup_epochs": 0,
    "schedule.level": "bilevel",
}
AS_DRNAS = {"weights.weight_decay": 3e-4, "weights.nesterov": False, "weights.epochs": 100}  # of one code base
SAMPLED = {"weights.epochs": 100, "weights.clip": 0.25, "discretizer.samples": 1000, "discretizer.batches": 10}
CROSSED = {"hypergradient.products": "finite", "hypergradient.kinks": "crossed"}

# Written down from the papers and the published code, not from the table: recipe, space, settings.
PUBLISHED: list[tuple[str, str, dict[str, Any]]] = [
    ("darts", "nasbench201", {f"weights.{name}": value for name, value in {**NB201, "epochs": 50}.items()}),
    ("darts", "darts", {f"weights.{name}": value for name, value in {**DARTS, "epochs": 50}.items()}),
    ("darts", "nasbench201", {"arch_optimizer.lr": 3e-4, "arch_optimizer.betas": (0.5, 0.999)}),
    *((recipe, "nasbench1shot1-1", ONE_SHOT) for recipe in ("darts", "pc-darts", "gdas")),
    (
        "gaea-pc-darts",
        "nasbench1shot1-2",
        {**{path: ONE_SHOT[path] for path in ONE_SHOT if "arch" not in path}, "arch_optimizer.lr": 0.1},
    ),
    ("darts-2nd", "nasbench201", {"hypergradient.nesterov": False, "hypergradient.lr": None}),
    ("darts-2nd-paper", "darts", {**CROSSED, "hypergradient.lr": None, "weights.epochs": 50}),
    (
        "idarts-paper",
        "nasbench201",
        {
            "hypergradient.products": "exact-hessian",
            "hypergradient.kinks": "crossed",
            "hypergradient.terms": 2,
            "schedule.inner_steps": 4,
            "weights.lr": 0.01,
        },
    ),
    ("amended-paper", "darts", {**CROSSED, "hypergradient.eta": 0.1, "weights.batch_size": 96, "weights.epochs": 100}),
    ("amended-paper", "amended-a1", {**CROSSED, "augmentation.cutout": 16, "supernet.auxiliary_head": 0.4}),
    ("darts-erm", "nasbench201", {"schedule.level": "single", "weights.epochs": 25, "space.exclude": ("none",)}),
    (
        "idarts",
        "nasbench201",
        {
            "weights.lr": 0.01,
            "hypergradient.lr": None,
            "hypergradient.terms": 2,
            "schedule.inner_steps": 4,
            "weights.epochs": 30,
        },
    ),
    ("idarts", "darts", {"hypergradient.terms": 2, "schedule.inner_steps": 4, "weights.lr": 0.025}),
    ("idarts", "nasbench1shot1-3", {"hypergradient.terms": 3, "schedule.inner_steps": 5}),
    ("amended", "darts", {"hypergradient.eta": 0.1, "weights.batch_size": 96, "weights.epochs": 100}),
    ("amended", "s4", {"weights.batch_size": 96, "weights.epochs": 100, "relaxation.init_scale": 0.0}),
    ("amended", "amended-a1", {"weights.batch_size": 96, "weights.epochs": 100, "augmentation.cutout": 16}),
    ("amended", "amended-a2", {"supernet.drop_path": 0.2, "supernet.auxiliary_head": 0.4}),
    (
        "gaea",
        "nasbench201",
        {
            "arch_optimizer.lr": 0.1,
            "weights.nesterov": False,
            "weights.weight_decay": 3e-4,
            "weights.epochs": 25,
            "weights.batch_size": 64,
            "space.exclude": ("none",),
        },
    ),
    ("gaea-bilevel", "nasbench201", {"schedule.level": "bilevel", "weights.nesterov": False, "weights.epochs": 25}),
    ("gaea-simultaneous", "nasbench201", {"schedule.updates": "simultaneous", "weights.nesterov": False}),
    (
        "gaea-pc-darts",
        "darts",
        {
            "schedule.warmup_epochs": 10,
            "weights.lr": 0.1,
            "weights.lr_min": 0.0,
            "weights.batch_size": 256,
            "arch_optimizer.lr": 0.1,
            "supernet.partial": 4,
            "supernet.edge_weights": True,
        },
    ),
    ("gaea-gdas", "nasbench201", {"weights.epochs": 150, "weights.nesterov": False, "relaxation.tau": (10.0, 0.1)}),
    (
        "pc-darts",
        "darts",
        {
            "arch_optimizer.lr": 6e-4,
            "schedule.warmup_epochs": 15,
            "weights.lr": 0.1,
            "weights.lr_min": 0.0,
            "weights.batch_size": 256,
        },
    ),
    ("gdas", "nasbench201", {"weights.epochs": 250, "relaxation.tau": (10.0, 0.1)}),
    ("snas", "darts", {"weights.epochs": 150, "schedule.level": "single", "relaxation.tau": (1.0, 0.03)}),
    ("drnas", "nasbench201", {"dirichlet-kl.weight": 1e-3, "arch_optimizer.weight_decay": 0.0, "weights.epochs": 100}),
    (
        "drnas",
        "darts",
        {
            "weights.lr": 0.1,
            "arch_optimizer.lr": 6e-4,
            "arch_optimizer.weight_decay": 0.0,
            "progressive.partial": (6, 3),
            "progressive.keep": (8, 4),
            "space.exclude": ("none",),
            "space.channels": 36,
            "space.cells": 20,
        },
    ),
    ("sdarts-rs", "darts", {"random-perturbation.start": 0.03, "random-perturbation.end": 0.3, "weights.epochs": 50}),
    ("sdarts-adv", "nasbench201", {"adversarial-perturbation.steps": 7, "weights.epochs": 100}),
    ("beta-darts", "nasbench201", {"beta-decay.weight": 50.0, "weights.epochs": 100}),
    ("beta-darts-plus", "nasbench201", {"beta-decay.weight": 50.0, "weights.epochs": 100}),
    (
        "fair-darts",
        "darts",
        {
            "zero-one.weight": 10.0,
            "discretizer.least": 0.85,
            "arch_optimizer.lr": 3e-3,
            "arch_optimizer.betas": (0.9, 0.999),
            "weights.lr": 0.005,
            "weights.batch_size": 128,
            "weights.epochs": 50,
            "space.exclude": ("none",),
        },
    ),
    ("a2m", "nasbench201", {"hypergradient.rho": 0.1, "arch_optimizer.lr": 3e-4, "weights.epochs": 50}),
    (
        "oles",
        "darts",
        {
            "operation-stopping.threshold": 0.4,
            "operation-stopping.iterations": 20,
            "operation-stopping.against": "sum",
            "arch_optimizer.lr": 3e-4,
            "weights.epochs": 50,
        },
    ),
    ("sgas", "darts", {"greedy-decisions.begin": 0.2, "greedy-decisions.end": 0.9, "weights.epochs": 50}),
    ("darts-minus", "darts", {"auxiliary-skip.start": 1.0, "auxiliary-skip.end": 0.0, "weights.epochs": 50}),
    ("r-darts-l2", "s2", {"weights.weight_decay": 81e-4, "supernet.drop_path": None}),
    ("r-darts-drop-path", "s2", {"supernet.drop_path": 0.2, "augmentation.cutout": 16, "weights.weight_decay": 3e-4}),
    ("r-darts-es", "s2", {"stop.window": 5, "stop.ratio": 0.75, "weights.weight_decay": 3e-4}),
    ("darts-pt", "nasbench201", {"discretizer.tune_rate": 0.1, "discretizer.tune_epochs": 5, "weights.epochs": 100}),
    (
        "p-darts",
        "darts",
        {
            "weights.lr_min": 0.0,
            "weights.epochs": 25,
            "weights.batch_size": 96,
            "arch_optimizer.lr": 6e-4,
            "schedule.warmup_epochs": 10,
            "progressive.cells": (5, 11, 17),
            "progressive.keep": (8, 5, 3),
            "progressive.skip_dropout": (0.0, 0.4, 0.7),
            "progressive.max_skips": 2,
        },
    ),
    ("random-nas", "nasbench201", {"weights.epochs": 250, "discretizer.samples": 100}),
    (
        "lambda-darts",
        "nasbench201",
        {
            **{f"weights.{name}": value for name, value in {**NB201, "epochs": 100}.items()},
            "arch_optimizer.lr": 1e-4,
            "layer-alignment.weight": 0.125,
        },
    ),
    *(
        (recipe, "darts", {"space.exclude": ("none",), "arch_optimizer.lr": 3e-4})
        for recipe in ("lambda-darts", "lambda-darts-paper", "lambda-sign-darts", "lambda-sign-darts-paper")
    ),
    *((recipe, "darts", {"space.exclude": ("none",)}) for recipe in ("lambda-sdarts-rs", "lambda-p-darts")),
    *(("lambda-darts", space, {"space.exclude": ()}) for space in ("s1", "s2", "s3", "s4")),
    (
        "lambda-sign-darts-paper",
        "darts",
        {
            "layer-alignment.kind": "sign",
            "layer-alignment.weight": 0.125,
            "layer-alignment.difference": "central",
            "layer-alignment.eps": 1e-4,
            "layer-alignment.kinks": "crossed",
        },
    ),
    (
        "lambda-darts",
        "darts",
        {"arch_optimizer.lr": 3e-4, "weights.epochs": 50, "layer-alignment.weight": 0.25, "weights.nesterov": False},
    ),
    ("lambda-sign-darts", "darts", {"layer-alignment.weight": 0.125, "layer-alignment.kind": "sign"}),
    (
        "lambda-darts-paper",
        "nasbench201",
        {
            "layer-alignment.difference": "central",
            "layer-alignment.eps": 1e-4,
            "layer-alignment.kinks": "crossed",
            "layer-alignment.weight": 0.125,
            "arch_optimizer.lr": 1e-4,
        },
    ),
    ("lambda-p-darts", "darts", {"progressive.skip_dropout": (0.0, 0.0, 0.0), "progressive.max_skips": None}),
    ("darts", "nasbench201", {"supernet.edge_weights": False, "supernet.auxiliary_head": None}),
    ("darts", "darts", {"data.images": 50_000, "data.held_out": 0.0, "arch_optimizer.eps": 1e-8}),
    ("idarts", "nasbench201", {"weights.lr_min": 0.001}),
    ("idarts", "darts", {"hypergradient.lr": None}),
    ("amended", "amended-a2", {"relaxation.init_scale": 0.0}),
    ("gaea-pc-darts", "darts", {"weights.epochs": 50}),
    ("gaea-gdas", "nasbench201", {"weights.weight_decay": 3e-4, "arch_optimizer.floor": 1e-5}),
    ("xnas", "nasbench201", {"arch_optimizer.wipe_out": True}),
    *((recipe, "nasbench201", AS_DRNAS) for recipe in ("drnas", "snas", "sdarts-rs", "beta-darts", "darts-pt")),
    ("snas", "nasbench201", {"relaxation.tau": (10.0, 1.0), "supernet.drop_path": None}),
    ("snas", "darts", {"supernet.drop_path": 0.3, "schedule.updates": "simultaneous", "relaxation.per_cell": False}),
    ("drnas", "darts", {"weights.lr_min": 0.0, "weights.epochs": 25, "schedule.warmup_epochs": 10}),
    ("drnas", "darts", {"progressive.skip_dropout": (0.0, 0.0), "progressive.max_skips": None}),
    ("sdarts-adv", "darts", {"adversarial-perturbation.start": 0.03, "adversarial-perturbation.end": 0.3}),
    ("sdarts-rs", "nasbench1shot1-1", {"weights.epochs": 100}),
    ("darts-pt", "darts", {"discretizer.batches": None}),
    (
        "pc-darts",
        "nasbench201",
        {
            "weights.lr": 0.1,
            "weights.lr_min": 0.0,
            "weights.weight_decay": 3e-4,
            "weights.nesterov": False,
            "weights.batch_size": 256,
            "weights.epochs": 50,
        },
    ),
    (
        "gdas",
        "darts",
        {"weights.epochs": 250, "weights.batch_size": 256, "weights.weight_decay": 5e-4, "weights.nesterov": True},
    ),
    ("random-nas", "darts", {**SAMPLED, "schedule.level": "bilevel"}),
    ("random-nas", "nasbench1shot1-1", {**SAMPLED, "weights.batch_size": 64}),
    (
        "lambda-darts",
        "darts",
        {
            "weights.lr": 0.025,
            "weights.batch_size": 64,
            "layer-alignment.schedule": "linear",
            "layer-alignment.blocks": (),
            "layer-alignment.objective": "inner",
            "layer-alignment.difference": "interleaved",
            "layer-alignment.kind": "cosine",
        },
    ),
]


def settings_of(recipe: str, space: str) -> dict[str, tuple[Any, str]]:
    sized = spaces.SPACES.constructor(space)()
    return {one.path: (one.value, one.source) for one in listed(named(recipe, sized), sized)}


@pytest.mark.parametrize(
    ("recipe", "space", "expected"), PUBLISHED, ids=lambda one: one if isinstance(one, str) else ""
)
def test_a_recipe_has_its_published_settings(recipe: str, space: str, expected: dict[str, Any]) -> None:
    found = settings_of(recipe, space)
    assert {path: found[path][0] for path in expected} == expected


@pytest.mark.parametrize("space", EXAMPLES)
@pytest.mark.parametrize("recipe", RECIPES)
def test_what_is_declared_is_what_the_method_has_and_everything_has_a_source(recipe: str, space: str) -> None:
    sized = spaces.SPACES.constructor(space)()
    method, found = named(recipe, sized), settings_of(recipe, space)
    assert method.name == recipe
    assert all(source for _, source in found.values())
    known = declared(recipe, space)
    assert {path: found[path][0] for path in known if path in found} == {
        path: setting.value for path, setting in known.items() if path in found
    }
    assert {path for path in known if path.startswith(("weights.", "space.", "augmentation."))} <= set(found)
    assert named(recipe, space) == method


def test_no_setting_is_declared_that_no_method_has() -> None:
    """A knob that was renamed would leave its published value behind, unread."""
    had = {path for recipe in RECIPES for space in EXAMPLES for path in settings_of(recipe, space)}
    for recipe, by_family in SETTINGS.items():
        for family, settings in by_family.items():
            assert set(settings) <= had, (recipe, family)


def test_only_what_we_chose_ourselves_is_called_ours() -> None:
    ours = {
        path
        for recipe in RECIPES
        for space in ("nasbench201", "darts")
        for path, (_, source) in settings_of(recipe, space).items()
        if source == "ours"
    }
    assert ours <= {"relaxation.skip_zero", "stop.steps", "relaxation.per_cell", "arch_optimizer.domain"} | {
        "arch_optimizer.scale"  # the alpha budget of XNAS
    }


def test_the_page_of_the_documentation_is_that_of_the_recipes() -> None:
    assert PAGE.read_text(encoding="utf-8") == methods_page()


def test_a_method_elsewhere_has_the_weights_of_the_space_and_its_own_knobs() -> None:
    found = settings_of("lambda-darts", "nasbench1shot1-1")
    assert found["weights.batch_size"] == (96, "NAS-Bench-1Shot1, code")
    assert found["layer-alignment.weight"] == (0.25, "ours; DARTS and S1 to S4: Λ-DARTS, A.9.2")
    own = ag.recipes.lambda_darts(space="own")
    assert "batch_size" not in own.weights
    assert own.regularizers[0].weight == 0.125  # type: ignore[attr-defined]


def test_an_unknown_space_is_refused() -> None:
    with pytest.raises(UserError, match=r"unknown space 'nasbench202'"):
        named("darts", "nasbench202")


# --- the command ---------------------------------------------------------------------------------------------------


def test_the_command_searches_the_space_that_the_method_was_published_with() -> None:
    gaea = SearchConfig(method="gaea")
    assert space_of(gaea).choices == ("skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")  # type: ignore[attr-defined]
    assert len(space_of(SearchConfig(method="darts")).choices) == 5  # type: ignore[attr-defined]
    whole = space_of(SearchConfig(method="gaea", settings={"space.exclude": ""}))
    assert len(whole.choices) == 5  # type: ignore[attr-defined]
    wide = SearchConfig(method="drnas", space="darts")
    assert (space_of(wide).channels, space_of(wide).cells) == (36, 20)  # type: ignore[attr-defined]
    assert space_of(SearchConfig(method="drnas", space="darts", channels=12, cells=3)).channels == 12


def test_the_command_gives_each_space_its_own_settings() -> None:
    for space, lr, weight in (("nasbench201", 1e-4, 0.125), ("s1", 3e-4, 0.25)):
        method = method_of(SearchConfig(method="lambda-darts", space=space))
        assert method.arch_optimizer.lr == lr  # type: ignore[attr-defined]
        assert method.regularizers[0].weight == weight  # type: ignore[attr-defined]


@pytest.mark.parametrize(("size", "cutout"), [(None, 4), (16, 8), (32, 16)])
def test_cutout_that_a_method_was_published_with_is_scaled_to_the_images(size: int | None, cutout: int) -> None:
    config = SearchConfig(method="r-darts-drop-path", space="darts", limit=40, image_size=size)
    assert config.load_data().augmentation.cutout == cutout
    chosen = SearchConfig(method="r-darts-drop-path", space="darts", limit=40, settings={"augmentation.cutout": "1"})
    assert chosen.load_data().augmentation.cutout == 1
    assert SearchConfig(method="r-darts-es", space="darts", limit=40).load_data().augmentation.cutout == 0


def test_a_resolved_configuration_repeats_what_the_recipe_chose() -> None:
    config = SearchConfig(method="r-darts-drop-path", space="darts", limit=40)
    space, method, images = space_of(config), method_of(config), config.load_data()
    written = named_config(resolve(config), images)
    assert written.settings["augmentation.cutout"] == 4
    assert written.load_data().augmentation == images.augmentation
    gaea = SearchConfig(method="gaea", limit=40)
    space, method = space_of(gaea), method_of(gaea)
    again = named_config(resolve(gaea), gaea.load_data())
    assert space_of(again) == space
    assert method_of(again) == method


@pytest.mark.parametrize(("space", "choices"), [("darts", 7), ("s1", 2), ("s2", 2), ("s3", 3), ("s4", 2)])
def test_lambda_darts_searches_the_darts_space_without_none_and_the_reduced_ones_as_they_are(
    space: str, choices: int
) -> None:
    built = space_of(SearchConfig(method="lambda-darts", space=space))
    assert {block.shape for block in built.blocks} == {(14, choices)}
    assert {block.shape for block in space_of(SearchConfig(method="darts", space="darts")).blocks} == {(14, 8)}


def test_a_method_excludes_only_what_a_space_of_the_family_offers() -> None:
    class Mine(spaces.S2):
        name = "mine"

    assert recipes.sized("lambda-darts", Mine()) == {"exclude": ()}


@pytest.mark.parametrize("recipe", ["darts", "amended", "amended-paper", "pc-darts", "lambda-darts"])
def test_what_is_listed_of_drop_path_and_auxiliary_head_is_what_runs(recipe: str) -> None:
    for space in (spaces.AmendedA1(), spaces.AmendedA2()):
        method, found = named(recipe, space), settings_of(recipe, space.name)
        options = method.supernet_options(space)
        assert (options.drop_path, options.auxiliary_head) == (0.2, 0.4)
        for knob in ("drop_path", "auxiliary_head"):
            value, source = found[f"supernet.{knob}"]
            assert value == getattr(options, knob)
            assert source.startswith("Amended-DARTS, Section 4.1.2")


@pytest.mark.parametrize(
    ("recipe", "space", "path", "source"),
    [
        ("xnas", "nasbench201", "arch_optimizer.wipe_out", "GAEA, C.4"),
        ("xnas", "nasbench201", "arch_optimizer.bound", "ours"),
        ("xnas", "nasbench201", "hypergradient.bound", "ours"),
        ("xnas", "nasbench201", "arch_optimizer.lr", "ours"),
        ("xnas", "nasbench201", "relaxation.skip_zero", "ours"),
        ("xnas", "darts", "arch_optimizer.wipe_out", "ours; NAS-Bench-201: GAEA, C.4"),
        ("sgas", "nasbench201", "greedy-decisions.begin", "ours; DARTS and S1 to S4: SGAS, code"),
        ("gaea", "nasbench201", "schedule.level", "GAEA, Section 2.2, Eq. 3"),
        ("darts-erm", "nasbench201", "schedule.level", "GAEA, Section 2.2, Eq. 3"),
        ("gaea-gdas", "nasbench201", "relaxation.domain", "GAEA, Section 3.3"),
        ("gaea-pc-darts", "darts", "schedule.warmup_epochs", "GAEA, C.1.1"),
        ("gaea-pc-darts", "nasbench201", "schedule.warmup_epochs", "ours; DARTS and S1 to S4: GAEA, C.1.1"),
        ("gaea-pc-darts", "nasbench1shot1-3", "schedule.warmup_epochs", "GAEA, C.2"),
        ("idarts", "nasbench201", "weights.lr", "iDARTS, Appendix D: supernet learning rate γ, of NAS-Bench-201 only"),
        ("lambda-darts", "nasbench201", "weights.weight_decay", "Λ-DARTS, A.9.1; code: 3e-4"),
        ("lambda-darts", "nasbench201", "weights.nesterov", "Λ-DARTS, A.9.1; code: false"),
        ("lambda-darts", "nasbench201", "layer-alignment.weight", "Λ-DARTS, A.9.1; the script of its code: 0.25"),
        ("lambda-darts", "darts", "space.exclude", "Λ-DARTS, A.9.2: seven operations"),
        ("lambda-darts", "s2", "weights.batch_size", "DARTS, code; Λ-DARTS: 96 in S1 to S4 on CIFAR-100 and SVHN"),
        ("lambda-darts-paper", "s2", "layer-alignment.eps", "Λ-DARTS, A.9.1 and A.9.2; 1e-3 in S1 to S4"),
        ("lambda-darts", "darts", "layer-alignment.schedule", "Λ-DARTS, Section 4.1: λ·t/T in epoch t of T"),
    ],
)
def test_a_source_says_where_a_setting_stands(recipe: str, space: str, path: str, source: str) -> None:
    assert settings_of(recipe, space)[path][1].startswith(source)


def test_each_recipe_of_a_paper_differs_from_ours_in_its_differences_only() -> None:
    for name in ("darts-2nd", "idarts", "amended", "lambda-darts", "lambda-sign-darts"):
        for space in EXAMPLES:
            ours, theirs = (settings_of(recipe, space) for recipe in (name, f"{name}-paper"))
            changed = {path for path in ours if ours[path][0] != theirs[path][0]}
            parts = {f"hypergradient.{knob}" for knob in ("products", "kinks")}
            parts |= {f"layer-alignment.{knob}" for knob in ("difference", "eps", "kinks")}
            assert changed
            assert changed <= parts
        assert "kinks of ReLUs" in (RECIPES[f"{name}-paper"].__doc__ or "")
    with pytest.raises(UserError, match="the first order takes none; set order=2"):
        recipes.darts(paper=True)
    assert recipes.amended(0.5, paper=True).hypergradient.kinks == "crossed"  # type: ignore[attr-defined]


def test_the_settings_of_a_method_are_listed_with_their_sources(archgrad: Any) -> None:
    lines = [line.split() for line in archgrad.run("list", "methods", "lambda-darts", "--space", "darts").splitlines()]
    assert ["layer-alignment.weight", "0.25", "Λ-DARTS,", "A.9.2"] in lines
    out = archgrad.run("list", "methods", "lambda-darts")
    assert "Λ-DARTS, A.9.1" in out
    assert "Λ-DARTS, A.9.2" in out
    out = archgrad.run("list", "methods", "all", "--markdown")
    assert out == PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("methods", "lambda"), "unknown method 'lambda'"),
        (("methods", "darts", "--space", "dart"), "unknown space 'dart'"),
        (("spaces", "dart"), "unknown space 'dart'"),
        (("methods", "--space", "darts"), "--space works only with `archgrad list methods NAME`"),
        (("methods", "darts", "--markdown"), "--markdown works only with `archgrad list methods all`"),
    ],
)
def test_mistakes_are_sentences(archgrad: Any, arguments: tuple[str, ...], sentence: str) -> None:
    err = archgrad.error("list", *arguments)
    assert sentence in " ".join(err.split())


def test_recipes_are_frozen_data_that_a_user_may_change() -> None:
    method = recipes.amended(0.5, space="darts")
    assert method.hypergradient.eta == 0.5  # type: ignore[attr-defined]
    assert method.weights == {"batch_size": 96, "epochs": 100}


def test_the_share_of_channels_belongs_to_the_stages_where_they_have_one(archgrad: Any) -> None:
    asked = (
        "search",
        "--method",
        "drnas",
        "--space",
        "darts",
        "--channels",
        4,
        "--cells",
        3,
        "--limit",
        60,
        "--epochs",
        1,
    )
    err = archgrad.error(*asked)
    assert "supernet.partial is 6, which does not divide" in err
    assert "change progressive.partial" in err
    err = archgrad.error(*asked, "--set", "supernet.partial=2")
    assert "supernet.partial is 2, but the stages of a progressive search have their own" in " ".join(err.split())
    out = archgrad.run(
        *asked, "--set", "progressive.partial=2,1", "--set", "schedule.warmup_epochs=0", "--batch-size", 15
    )
    assert "stage 2 of 2" in out


def test_what_is_published_elsewhere_only_is_called_ours() -> None:
    found = settings_of("p-darts", "nasbench201")
    assert found["weights.batch_size"] == (96, "ours; DARTS and S1 to S4: P-DARTS, code")
    assert settings_of("p-darts", "s1")["weights.batch_size"] == (96, "P-DARTS, code")
