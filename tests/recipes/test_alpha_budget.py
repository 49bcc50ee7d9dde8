"""A search that is shorter than the published one lets its architecture move as far."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from each_of import each_of
from experiments import experiment_of
from varied_spaces import VARIED_SPACES

import archgrad as ag
from archgrad import arch_optimizers, recipes, spaces
from archgrad.arch_optimizers import XNAS, ArchOptimizer
from archgrad.config import SearchConfig, read_config, read_run_config
from archgrad.config.resolve import method_of, resolve
from archgrad.loop.experiment import Experiment
from archgrad.method.alpha_budget import LARGEST_FACTOR, AlphaBudget
from archgrad.recipes import RECIPES, published_arch_steps
from archgrad.training.schedule import Schedule

DATA = ag.data.digits(limit=120)

# Epochs, of which so many warm up, and batches of an epoch, from the papers and the published code.
BY_HAND = {
    ("darts", "nasbench201"): 50 * 390,
    ("darts", "darts"): 50 * 390,
    ("darts", "nasbench1shot1-1"): 100 * 260,
    ("lambda-darts", "nasbench201"): 100 * 390,
    ("gaea-bilevel", "nasbench201"): 25 * 390,
    ("gaea-simultaneous", "nasbench201"): 25 * 781,
    ("gaea-largest", "nasbench201"): 25 * 781,
    ("pc-darts", "darts"): 35 * 97,
    ("gdas", "nasbench201"): 250 * 390,
    ("p-darts", "darts"): 15 * 260,
    ("idarts", "nasbench201"): 30 * 390,
    ("amended", "amended-a1"): 100 * 260,
}


@pytest.mark.parametrize(("recipe", "space"), BY_HAND)
def test_the_published_steps_are_those_of_the_papers(recipe: str, space: str) -> None:
    method = recipes.named(recipe, space)
    assert published_arch_steps(method, spaces.SPACES.constructor(space)()) == BY_HAND[recipe, space]


def stages_of(name: str, space: spaces.SearchSpace) -> list[tuple[spaces.SearchSpace, ag.Method]]:
    method = recipes.named(name, space)
    if method.progressive is None:
        return [(space, method)]
    counts = range(len(method.progressive.stages))
    return [(sized := method.progressive.sized(space, n), method.in_stage(n, sized)) for n in counts]


def drift(optimizer: Any, steps: int) -> float:
    """Return steps × rate, for a row of 5 choices."""
    alpha = {"cell": torch.full((1, 5), 0.2)}
    if isinstance(optimizer, XNAS):
        return steps * optimizer.init(alpha, steps)["rate"]["cell"].item()
    return steps * optimizer.lr


def fits(recipe: str, space: spaces.SearchSpace) -> bool:
    try:
        recipes.named(recipe, space).check(space)
    except ag.UserError:  # cells that decide alone cannot be aligned
        return False
    return True


VARIED = [spaces.SPACES.create(name) for name in VARIED_SPACES]
SIZED = [(name, replace(space, **recipes.sized(name, space))) for name in RECIPES for space in VARIED]


@each_of(pair for pair in SIZED if fits(*pair))
def test_the_scaled_rate_has_the_published_drift(recipe: str, space: spaces.SearchSpace) -> None:
    for sized, method in stages_of(recipe, space):
        epochs = method.schedule.warmup_epochs + 160  # enough steps for a factor below the largest
        setup = experiment_of(sized, method, DATA, SearchConfig(epochs=epochs, batch_size=8))
        if not method.arch_optimizer.moves:
            assert setup.method.arch_optimizer == method.arch_optimizer
            continue
        published = published_arch_steps(method, sized)
        assert setup.arch_steps < published
        moved = setup.method.arch_optimizer
        if isinstance(moved, arch_optimizers.Annealed):  # from twice the rate to zero
            moved = moved.optimizer.scaled(0.5)
        found, wanted = drift(moved, setup.arch_steps), drift(method.arch_optimizer, published)
        assert found == pytest.approx(wanted, rel=1e-12)


def setup_of(**settings: Any) -> Experiment:
    space = spaces.NASBench201(channels=2, cells_per_stage=1)
    return experiment_of(
        space, settings.pop("method", recipes.darts()), DATA, SearchConfig(epochs=2, batch_size=20, **settings)
    )


def test_off_keeps_the_bare_rate_and_a_number_multiplies_it() -> None:
    assert setup_of(alpha_budget="off").method == recipes.darts()
    assert setup_of(alpha_budget=2.5).method.arch_optimizer.lr == 2.5 * 3e-4
    assert setup_of(alpha_budget="off").budget.factor == 1


def test_a_search_longer_than_the_published_one_is_not_scaled_down() -> None:
    adam = arch_optimizers.Adam()
    assert AlphaBudget.of("published", adam, published=100, own=200).factor == 1
    assert AlphaBudget.of("published", adam, published=100, own=50).factor == 2


def test_a_run_goes_on_with_the_factor_that_it_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = spaces.NASBench201(channels=2, cells_per_stage=1)
    with ag.Search(space, recipes.darts(), DATA, epochs=2, batch_size=20) as begun:
        begun.save(tmp_path / "run")
    assert begun.experiment.budget.factor > 1
    monkeypatch.setattr("archgrad.loop.experiment.published_arch_steps", lambda *_: 1)  # as another version may say
    with ag.Search.load(tmp_path / "run", data=DATA) as loaded:
        assert loaded.experiment.method == begun.experiment.method


def test_no_published_factor_is_larger_than_what_was_studied() -> None:
    adam = arch_optimizers.Adam()
    assert AlphaBudget.of("published", adam, published=19500, own=15).factor == LARGEST_FACTOR
    assert AlphaBudget.of(1000, adam, published=19500, own=15).factor == 1000  # whoever asks for it gets it


def test_a_method_of_ones_own_counts_as_published_at_the_settings_of_the_space() -> None:
    own = replace(recipes.darts(level="single"), name="mine", weights={})
    assert published_arch_steps(own, spaces.NASBench201()) == 50 * 781


@dataclass(frozen=True)
class Rateless(ArchOptimizer):
    """Moves by the sign of the gradient."""

    domain: ClassVar[Any] = "real"

    def init(self, alpha: Any, steps: int) -> Any:
        return {}

    def step(self, alpha: Any, gradient: Any, state: Any) -> Any:
        return {name: value - 0.1 * gradient[name].sign() for name, value in alpha.items()}, state


def test_what_is_not_scaled_is_said() -> None:
    setup = setup_of(method=replace(recipes.darts(), arch_optimizer=Rateless()))
    assert setup.method.arch_optimizer == Rateless()
    assert "its own" in setup.budget_line
    assert "does not move" in setup_of(method=recipes.random_nas()).budget_line
    with pytest.raises(ag.UserError, match="Fixed has no learning rate to multiply"):
        setup_of(method=recipes.random_nas(), alpha_budget=5)
    assert setup_of(method=recipes.xnas(), alpha_budget=4).method.arch_optimizer.scale == 4


def test_an_optimizer_of_ones_own_that_cannot_be_scaled_is_refused_with_a_sentence() -> None:
    @dataclass(frozen=True)
    class Constant(Rateless):
        lr = 0.1

    own = replace(recipes.darts(), arch_optimizer=Constant())
    with pytest.raises(ag.UserError, match=r"Constant cannot be scaled .* scaled\(factor\)"):
        setup_of(method=own, alpha_budget="always")
    assert [setup_of(method=own, alpha_budget=word).budget.factor for word in ("published", "off")] == [1, 1]


# --- a rate that the user sets is taken literally --------------------------------------------------------------------

RECIPE = recipes.darts()
OWN = replace(RECIPE, arch_optimizer=arch_optimizers.Adam(lr=1e-3))
ASSEMBLED = ag.Method(
    relaxation=RECIPE.relaxation, hypergradient=RECIPE.hypergradient, discretizer=RECIPE.discretizer,
    arch_optimizer=arch_optimizers.Adam(), name="darts",
)  # fmt: skip


@pytest.mark.parametrize(
    ("method", "settings", "rate"),
    [
        (RECIPE, {}, 125 * 3e-4),
        (replace(RECIPE, schedule=replace(RECIPE.schedule, inner_steps=2)), {}, 125 * 3e-4),
        (recipes.lambda_darts(space="darts"), {}, 125 * 3e-4),  # at the settings of another space
        (recipes.lambda_darts(base=recipes.gaea()), {}, 125 * 0.1),  # by recipes, under a name of its own
        (recipes.gaea(updates="random"), {}, 125 * 0.1),
        (OWN, {}, 1e-3),
        (replace(RECIPE, arch_optimizer=arch_optimizers.Adam(lr=3e-4)), {}, 3e-4),  # the recipe's value, but explicit
        (replace(RECIPE, arch_optimizer=replace(RECIPE.arch_optimizer, betas=(0.9, 0.9))), {}, 3e-4),
        (replace(RECIPE, arch_optimizer=arch_optimizers.TorchOptimizer(lr=3e-4)), {}, 3e-4),
        (ASSEMBLED, {}, 3e-4),
        (RECIPE, {"arch_optimizer.lr": "0.001"}, 1e-3),
        (RECIPE, {"arch_optimizer.lr": 3e-4}, 3e-4),
        (RECIPE, {"arch_optimizer.betas": (0.9, 0.9)}, 125 * 3e-4),
    ],
)
def test_a_rate_of_the_user_is_literal_and_that_of_a_recipe_is_scaled(
    method: ag.Method, settings: dict[str, Any], rate: float
) -> None:
    config = SearchConfig(method=method, epochs=2, batch_size=20, settings=settings)
    space = spaces.NASBench201(channels=2, cells_per_stage=2)
    setup = experiment_of(space, method_of(config), DATA, config)
    assert setup.method.arch_optimizer.lr == pytest.approx(rate, rel=1e-12)
    assert ("as you set it" in setup.budget_line) == (setup.budget.factor == 1)


def test_the_scale_of_xnas_is_a_rate() -> None:
    assert setup_of(method=recipes.xnas()).method.arch_optimizer.scale > 1
    config = SearchConfig(method="xnas", epochs=2, batch_size=20, settings={"arch_optimizer.scale": 1.0})
    setup = experiment_of(spaces.NASBench201(channels=2, cells_per_stage=1), method_of(config), DATA, config)
    assert (setup.method.arch_optimizer.scale, setup.budget.factor) == (1, 1)


def test_always_and_a_factor_scale_also_what_the_user_set() -> None:
    assert setup_of(method=OWN, alpha_budget="always").method.arch_optimizer.lr == 125 * 1e-3
    assert setup_of(method=OWN, alpha_budget=2.5).method.arch_optimizer.lr == 2.5 * 1e-3
    assert "as you set it" not in setup_of(method=OWN, alpha_budget="always").budget_line


def test_every_stage_has_the_rate_that_the_user_set(caplog: pytest.LogCaptureFixture) -> None:
    plan = ag.Progressive(cells=(None, None), keep=(5, 3), skip_dropout=(0.0, 0.0))
    space = spaces.NASBench201(channels=2, cells_per_stage=1)
    with caplog.at_level("INFO", "archgrad"):
        found = ag.search(space, replace(OWN, progressive=plan), DATA, epochs=1, batch_size=20, on_collapse="switch")
    assert [setup.method.arch_optimizer.lr for setup, _ in found.stages.runs] == [1e-3, 1e-3]
    assert caplog.text.count("α's learning rate is 0.001, as you set it") == 2


SMALL = ["--channels", 2, "--cells", 1, "--epochs", 1, "--limit", 80, "--method", "lambda-darts", "--threads", 1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "α's learning rate is 0.0001 × 125 = 0.0125"),
        (["--arch-optimizer", "adam"], "α's learning rate is 0.0003 × 125 = 0.0375"),  # the part's, which nobody set
        (["--set", "arch_optimizer.lr=0.0001"], "α's learning rate is 0.0001, as you set it"),
    ],
)
def test_the_file_of_a_run_repeats_its_rate(archgrad: Any, tmp_path: Any, options: list[Any], said: str) -> None:
    small = [*SMALL[:2], "--cells", 2, *SMALL[4:]]
    assert said in archgrad.run("search", *small, *options, "--out", tmp_path / "run")
    written = tmp_path / "run" / "config.toml"
    assert read_run_config(tmp_path / "run").budget == ("published" if "--set" in options else "always")
    assert said in archgrad.run("search", "--config", written, "--out", tmp_path / "again")
    assert (tmp_path / "again" / "config.toml").read_text() == written.read_text()
    assert "α's learning rate is 0.01, as you set it" in archgrad.run(
        "search", "--config", written, "--set", "arch_optimizer.lr=0.01", "--out", tmp_path / "set"
    )
    assert "α's learning rate is 0.0003 × 125" in archgrad.run(
        "search", "--config", written, "--method", "darts", "--out", tmp_path / "darts"
    )


def test_always_in_a_file_of_the_user_scales_also_a_rate_of_the_command(archgrad: Any, tmp_path: Any) -> None:
    (tmp_path / "own.toml").write_text('alpha_budget = "always"\n')
    rate = ["--set", "arch_optimizer.lr=0.001", "--method", "darts"]
    assert "α's learning rate is 0.001 × 125 = 0.125" in archgrad.run(
        "search", *SMALL[:8], *rate, "--config", tmp_path / "own.toml"
    )


def test_a_file_takes_a_rate_literally(archgrad: Any, tmp_path: Any) -> None:
    (tmp_path / "own.toml").write_text("[set.arch_optimizer]\nlr = 0.002\n")
    assert "α's learning rate is 0.002, as you set it" in archgrad.run(
        "search", *SMALL[:8], "--method", "darts", "--config", tmp_path / "own.toml"
    )


def test_a_python_user_hears_of_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "archgrad"):
        ag.search(spaces.NASBench201(channels=2, cells_per_stage=1), recipes.darts(), DATA, epochs=1, batch_size=20)
    assert "α's learning rate is 0.0003 × 125 = 0.0375" in caplog.text


def test_one_line_says_the_factor_and_the_steps() -> None:
    setup = setup_of()
    assert setup.budget_line == (
        "α's learning rate is 0.0003 × 125 = 0.0375: 6 α steps here, 19,500 in the published search, and no more than "
        "× 125 (--alpha-budget off: 0.0003)"
    )


@pytest.mark.parametrize("choice", ["much", 0, -1.0, math.inf, math.nan, True])
def test_what_is_no_budget_is_refused(choice: Any) -> None:
    with pytest.raises(ag.UserError, match=r"alpha_budget is .*; it must be 'published' or .* a number greater than 0"):
        setup_of(alpha_budget=choice)


def test_the_command_keeps_the_budget_in_the_configuration(archgrad: Any, tmp_path: Any) -> None:
    run = ["search", "--channels", 2, "--cells", 1, "--epochs", 1, "--limit", 80, "--method", "darts"]
    assert "0.0003 × 12.5 = 0.00375" in archgrad.run(*run, "--alpha-budget", "12.5", "--out", tmp_path / "run")
    assert SearchConfig(**read_config(tmp_path / "run" / "config.toml")).budget == 12.5
    (tmp_path / "run.toml").write_text("alpha_budget = 2.5\n")
    assert SearchConfig(**read_config(tmp_path / "run.toml")).budget == 2.5
    assert "alpha_budget is 'more'" in archgrad.error(*run, "--alpha-budget", "more")


@pytest.mark.parametrize("name", sorted(arch_optimizers.ARCH_OPTIMIZERS))
def test_every_optimizer_scales_its_drift(name: str) -> None:
    optimizer = arch_optimizers.ARCH_OPTIMIZERS.create(name)
    if not optimizer.moves:
        assert optimizer.scaled(4.0) == optimizer
        return
    same = optimizer.scaled(optimizer.drift_factor(4.0))
    assert drift(same, 50) == pytest.approx(drift(optimizer, 200), rel=1e-12)
    assert drift(optimizer.scaled(4.0), 50) == pytest.approx(4 * drift(optimizer, 50), rel=1e-12)
    if isinstance(optimizer, XNAS):
        assert replace(optimizer, lr=0.1).drift_factor(4.0) == 4


def test_the_factor_of_an_optimizer_is_capped_and_not_the_ratio_of_steps() -> None:
    factors = [AlphaBudget.of("published", XNAS(), ratio, 1).factor for ratio in (400, 10**6)]
    assert factors == [20, LARGEST_FACTOR]


def schedule_of(config: SearchConfig) -> Schedule:
    return Experiment.of(resolve(replace(config, batch_size=8, channels=2, cells=1, data=DATA)), DATA).method.schedule


def test_a_share_of_the_epochs_is_a_warm_up_of_as_many_epochs() -> None:
    share, epochs = (
        schedule_of(SearchConfig(epochs=20, settings={f"schedule.{knob}": value}))
        for knob, value in (("warmup_share", 0.3), ("warmup_epochs", 6))
    )
    moves = [[one.moves(index, steps=5) for index in range(100)] for one in (share, epochs)]
    assert moves[0] == moves[1]
    assert [one.architecture for one in moves[0]].index(True) == 30


def test_a_share_stays_one_in_the_file_of_a_run(tmp_path: Path) -> None:
    config = SearchConfig(
        epochs=10, batch_size=8, channels=2, cells=1, data=DATA,
        settings={"schedule.warmup_share": 0.3, "schedule.anneal": True},
    )  # fmt: skip
    (tmp_path / "config.toml").write_text(Experiment.of(resolve(config), DATA).describe())
    again = replace(read_run_config(tmp_path), needs=())
    found = [schedule_of(replace(again, epochs=epochs)).warmup_epochs for epochs in (10, 20, 2)]
    assert found == [3, 6, 0]


def test_a_share_does_not_shorten_the_published_search_of_a_method_of_ones_own() -> None:
    plain = replace(recipes.darts(), name="own")
    methods = [replace(plain, schedule=replace(plain.schedule, warmup_share=share)) for share in (0.0, 0.5)]
    config, space = SearchConfig(epochs=4, batch_size=8), spaces.NASBench201(channels=2, cells_per_stage=1)
    found = [experiment_of(space, one, DATA, config).budget.published for one in methods]
    assert found[0] == found[1] == 50 * 390


def test_an_annealed_rate_begins_at_twice_its_value_and_ends_at_zero_with_the_same_sum() -> None:
    config = SearchConfig(epochs=5, batch_size=8, channels=2, cells=1, settings={"schedule.anneal": True}, data=DATA)
    found = Experiment.of(resolve(config), DATA)
    plain = Experiment.of(resolve(replace(config, settings={})), DATA).method.arch_optimizer
    annealed, steps = found.method.arch_optimizer, found.arch_steps
    assert isinstance(annealed, arch_optimizers.Annealed)
    assert annealed.optimizer == plain.scaled(2.0)
    factors = [(1 + math.cos(math.pi * index / steps)) / 2 for index in range(steps)]
    assert 2 * sum(factors) == pytest.approx(steps + 1)


@pytest.mark.parametrize("optimizer", [XNAS(), arch_optimizers.Annealed(arch_optimizers.ExponentiatedGradient())])
def test_what_sets_its_own_rate_is_not_annealed(optimizer: ArchOptimizer) -> None:
    method = recipes.gaea()
    method = replace(method, arch_optimizer=optimizer, schedule=replace(method.schedule, anneal=True))
    with pytest.raises(ag.UserError, match=r"schedule\.anneal lowers .* but (XNAS|Annealed) sets its rate by itself"):
        resolve(SearchConfig(method=method))
