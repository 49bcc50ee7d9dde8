"""A search to the letter of its paper: its numbers, what is refused beside it, and what its first lines say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from experiments import experiment_of

import archgrad as ag
from archgrad.cli.listing import published_texts
from archgrad.cli.search import duration
from archgrad.config import SearchConfig, read_run_config
from archgrad.config.images import published_lines
from archgrad.config.naming import named_config
from archgrad.config.resolve import method_of, resolve, space_of
from archgrad.data import ImageData
from archgrad.loop import estimate
from archgrad.loop.experiment import Experiment


def noise(count: int, name: str = "cifar10") -> ImageData:
    images = torch.randint(256, (count, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    return ImageData(name, images, torch.arange(count) % 10, tuple("abcdefghij"))


CIFAR = noise(50_000)


def setup_of(method: str, space: str = "nasbench201", data: ImageData = CIFAR) -> Experiment:
    config = SearchConfig(space=space, method=method, data=data, published=True)
    resolve(config)
    return Experiment.of(resolve(config), config.load_data())


def sizes(setup: Experiment) -> tuple[Any, ...]:
    space: Any = setup.space
    return space.channels, getattr(space, space.depth_knob), setup.weights.epochs, setup.weights.batch_size


def images_of(setup: Experiment) -> tuple[int, int]:
    return len(setup.weight_loader.indices), len(setup.arch_loader.indices)


def test_gaea_in_nasbench201_is_that_of_appendix_c3() -> None:
    setup = setup_of("gaea")
    assert sizes(setup) == (16, 5, 25, 64)
    weights = setup.weights
    assert (weights.lr, weights.lr_min, weights.weight_decay, weights.clip) == (0.025, 0.001, 3e-4, 5.0)
    assert "none" not in setup.space.choices  # type: ignore[attr-defined]
    assert setup.method.arch_optimizer.lr == 0.1  # type: ignore[attr-defined]
    assert images_of(setup) == (50_000, 50_000)
    assert setup.held_out_loader is None
    assert setup.arch_steps == 25 * 781


def test_darts_in_nasbench201_halves_the_images() -> None:
    setup = setup_of("darts")
    assert sizes(setup) == (16, 5, 50, 64)
    assert setup.method.arch_optimizer == ag.arch_optimizers.Adam(lr=3e-4, betas=(0.5, 0.999), weight_decay=1e-3)
    assert images_of(setup) == (25_000, 25_000)
    assert setup.held_out_loader is None
    assert setup.arch_steps == 50 * 390


def test_lambda_darts_in_nasbench201_is_that_of_appendix_a9() -> None:
    setup = setup_of("lambda-darts")
    assert sizes(setup) == (16, 5, 100, 64)
    assert setup.method.arch_optimizer.lr == 1e-4  # type: ignore[attr-defined]
    assert images_of(setup) == (25_000, 25_000)


def test_the_space_of_darts_has_its_published_sizes() -> None:
    assert sizes(setup_of("darts", "darts")) == (16, 8, 50, 64)
    assert sizes(setup_of("drnas", "darts"))[:2] == (36, 20)


def test_the_rate_of_alpha_stays_bare_on_little_data() -> None:
    setup = setup_of("darts", data=noise(300))
    assert setup.method.arch_optimizer.lr == 3e-4  # type: ignore[attr-defined]
    assert setup.budget_line.startswith("α's learning rate is 0.0003: ")


def test_no_size_is_chosen() -> None:
    assert SearchConfig(published=True).is_sized
    assert not SearchConfig().is_sized


def test_an_object_is_augmented_as_the_paper_says() -> None:
    config = SearchConfig(space="darts", method="r-darts-drop-path", data=noise(40), published=True)
    assert config.load_data().augmentation.cutout == 4  # 16 of 32 pixels
    assert replace(config, published=False).load_data().augmentation.cutout == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 5),
        ("channels", 8),
        ("cells", 2),
        ("batch_size", 32),
        ("limit", 100),
        ("image_size", 16),
        ("held_out", 0.1),
        ("split", "0.4:0.4"),
        ("alpha_budget", "published"),
        ("alpha_budget", 2.0),
        ("time_limit", 5.0),
        ("weights", ag.WeightTraining()),
        ("arch_optimizer", "adam"),
        ("regularizer", "+layer-alignment"),
        ("on_collapse", "switch"),
        ("settings", {"weights.lr": 0.1}),
        ("settings", {"space.exclude": "none"}),
        ("settings", {"arch_optimizer.lr": 3e-4}),
        ("settings", {"augmentation.cutout": 4}),
    ],
)
def test_what_would_change_it_is_refused(name: str, value: Any) -> None:
    with pytest.raises(
        ag.UserError, match=r"published is True \(--published\), which takes .* leave one of the two out"
    ):
        SearchConfig(**{"method": "darts", "published": True, name: value})


def test_what_changes_nothing_stays() -> None:
    config = SearchConfig(
        published=True, held_out=0, alpha_budget="off", on_collapse="ignore", seed=3, precision="bf16",
        callback="layer-agreement", settings={"layer-agreement.every": 2},
    )  # fmt: skip
    resolve(config)
    assert replace(config, threads=2).held_out == 0


def test_published_is_true_or_false() -> None:
    with pytest.raises(ag.UserError, match="published is 'yes'"):
        SearchConfig(published="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("space", "method"),
    [
        ("nasbench201", replace(ag.recipes.darts(), name="mine")),
        ("nasbench201", replace(ag.recipes.darts(), arch_optimizer=ag.arch_optimizers.Adam(lr=1e-3))),
        ("darts", ag.recipes.lambda_darts()),  # at the settings of another space
        ("nasbench201", ag.recipes.lambda_darts(base=ag.recipes.gaea())),
    ],
)
def test_a_method_that_is_no_recipe_is_refused(space: str, method: ag.Method) -> None:
    with pytest.raises(
        ag.UserError, match=r"is not a recipe as it was published for this space, but published is True"
    ):
        resolve(SearchConfig(space=space, method=method, published=True))


def test_objects_are_taken_at_the_published_size_only() -> None:
    config = SearchConfig(space=ag.spaces.NASBench201(exclude=("none",)), method=ag.recipes.gaea(), published=True)
    resolve(config)
    with pytest.raises(ag.UserError, match=r"space is .*channels=4.* give space='nasbench201'"):
        resolve(replace(config, space=ag.spaces.NASBench201(channels=4, exclude=("none",))))
    with pytest.raises(ag.UserError, match="give space='nasbench201'"):  # GAEA leaves `none` out
        resolve(replace(config, space=ag.spaces.NASBench201()))


def lines(method: str, space: str, data: ImageData = CIFAR) -> list[str]:
    return published_lines(resolve(SearchConfig(space=space, method=method, data=data, published=True)), data)


def test_the_first_lines_say_what_it_is_and_what_no_paper_says() -> None:
    assert lines("darts", "nasbench201") == [
        "as published: 16 channels, 5 cells per stage, 50 epochs, batches of 64; 25,000 images train the weights and "
        "25,000 others α, none is held out; α's rate 0.0003, 19,500 α steps",
        "no image is held out, so train_* measures each epoch, and arch_* on the images of α (docs/command.md)",
    ]
    assert "train_* measures each epoch, on images that train weights too" in lines("gaea", "nasbench201")[-1]
    assert lines("gaea", "s1")[1] == (
        "gaea was published in NAS-Bench-201: its settings in DARTS and S1 to S4 are ours"
    )
    assert lines("gaea-simultaneous", "nasbench201")[1].startswith("no paper has published gaea-simultaneous")
    assert "ours (docs/recipes.md): layer-alignment.eps, layer-alignment.kinks" in lines("lambda-darts", "darts")[1]
    assert lines("darts", "nasbench201", noise(300, "mine"))[-1] == (
        "the papers search the 50,000 images of CIFAR-10, 32×32 pixels; this is mine, 300 images, 8×8 pixels"
    )
    assert "8 cells without `none`, 50 epochs" in lines("lambda-darts", "darts")[0]  # A.9.2: seven operations
    assert "8 cells, 50 epochs" in lines("darts", "darts")[0]
    assert "3 stages" in lines("p-darts", "darts")[0]
    assert "5, 11, 17 cells" in lines("p-darts", "darts")[0]


def test_a_space_that_already_leaves_an_operation_out_keeps_it_out() -> None:
    space = ag.spaces.DARTS(exclude=("none",))
    assert ag.recipes.published_run("lambda-darts", space).space.exclude == ("none",)


def test_no_space_of_a_paper_is_called_ours() -> None:
    known = "these settings of gaea-pc-darts are ours (docs/recipes.md): relaxation.skip_zero"
    assert lines("gaea-pc-darts", "nasbench1shot1-1")[1] == known  # GAEA, C.2
    assert lines("gaea-pc-darts", "darts")[1] == known  # GAEA, C.1
    assert "was published in DARTS and S1 to S4, NAS-Bench-1Shot1" in lines("gaea-pc-darts", "nasbench201")[1]
    assert "these settings of snas are ours" in lines("snas", "nasbench201")[1]  # others by the code of DrNAS
    assert lines("dsnas", "darts")[1].startswith("dsnas was published in none of our spaces")


def test_a_run_is_written_out_in_full() -> None:
    config = SearchConfig(method="gaea", published=True)
    space, method = space_of(config), method_of(config)
    images = config.load_data()
    written = named_config(resolve(config), images)
    assert (written.published, written.held_out, written.alpha_budget) == (False, 0.0, "off")
    assert (written.channels, written.cells, written.epochs) == (16, 5, 25)
    assert method_of(written) == method
    same = Experiment.of(resolve(written), written.load_data())
    assert same.identity.digest == experiment_of(space, method, images, config).identity.digest  # a resume accepts it


class Stopped(ag.callbacks.Callback):
    """Ends a search before its first step."""

    def on_search_start(self, search: Any) -> None:
        raise KeyboardInterrupt


def test_python_searches_as_published(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "archgrad"), pytest.raises(KeyboardInterrupt):
        ag.search(
            "nasbench201", "gaea", noise(100, "mine"), published=True, out=tmp_path / "run", callbacks=[Stopped()]
        )
    assert "as published: 16 channels, 5 cells per stage without `none`, 25 epochs" in caplog.text
    assert "this is mine, 100 images" in caplog.text
    assert "α's learning rate is 0.1: " in caplog.text
    written = read_run_config(tmp_path / "run")
    assert (written.epochs, written.held_out, written.budget) == (25, 0.0, "off")


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_searches_as_published(archgrad: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "step_seconds", lambda *given: 0.01)
    (tmp_path / "paper.toml").write_text('published = true\nmethod = "gaea"\n')
    found = json.loads(archgrad.run("search", "--config", "paper.toml", "--dry-run", "--json"))
    assert (found["channels"], found["depth"], found["epochs"], found["batch_size"]) == (16, 5, 25, 64)
    assert found["weight_steps"] == found["arch_steps"] == 25 * 28  # all 1,797 digits
    out = archgrad.run("search", "--method", "gaea", "--published", "--dry-run")
    assert "as published: 16 channels" in out
    assert "this is digits, 1,797 images, 8×8 pixels" in out


def test_the_command_refuses_other_sizes(archgrad: Any, tmp_path: Path) -> None:
    assert "epochs is 3, but published is True (--published)" in archgrad.error("search", "--published", "--epochs", 3)
    (tmp_path / "paper.toml").write_text("published = true\n[set.weights]\nlr = 0.1\n")
    assert "the setting 'weights.lr' is given, but published is True" in archgrad.error(
        "search", "--config", "paper.toml"
    )


def test_the_list_says_what_published_does_without_timing(archgrad: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "step_seconds", None)  # nothing may be timed
    out = archgrad.run("list", "methods", "gaea", "--space", "nasbench201")
    assert (
        "--published in nasbench201: 16 channels, 5 cells per stage without `none`, 25 epochs, batches of 64; all "
        "50,000 images train weights and α, none is held out; α's rate 0.1, 19,525 α steps\n"
    ) in out
    out = archgrad.run("list", "methods", "lambda-darts")
    assert [line.partition(":")[0] for line in out.splitlines() if line.startswith("--published")] == [
        "--published in nasbench201",
        "--published in darts",
    ]
    for options in (["all", "--markdown"], ["all"]):
        assert "--published in" not in archgrad.run("list", "methods", *options)


@pytest.mark.parametrize(
    ("recipe", "space", "seconds"),
    [
        ("gaea", "nasbench201", 25 * 781 * 0.08 * 1.25),
        ("darts", "darts", 50 * 390 * 0.08 * 1.25),
        ("idarts", "nasbench201", 30 * 390 * 4 * 0.08 * 1.25),  # T = 4 weight steps for each batch
        ("p-darts", "darts", 3 * 25 * 260 * 0.08 * 1.25),  # three stages
    ],
)
def test_the_list_on_a_terminal_says_how_long_it_takes(
    recipe: str, space: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "step_seconds", lambda *given: 0.01)  # with an eighth of the batch
    assert estimate.published_seconds(recipe, space) == pytest.approx(seconds)
    *_, text = published_texts(recipe, space, timed=True)
    assert text.startswith(f"  about {duration(seconds)} on this machine")
