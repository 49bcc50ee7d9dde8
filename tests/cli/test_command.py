"""The command as a user types it, in this process."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy
import pytest
import torch
from latencies import write_latencies

from archgrad.cli.listing import KINDS
from archgrad.config import SearchConfig, config_to_toml, read_config
from archgrad.config.naming import named_config
from archgrad.config.resolve import method_of, resolve
from archgrad.discretizers import DISCRETIZERS
from archgrad.recipes import RECIPE_GROUPS, RECIPES, described
from archgrad.spaces.nasbench201_cells import codes_by_name

BEST = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|"
TINY = ["--channels", "4", "--cells", "1", "--limit", "40", "--batch-size", "20", "--threads", "1"]


@pytest.fixture(scope="session")
def nasbench201_folder(tmp_path_factory) -> Path:
    """A data folder with a made-up accuracy table of all cells."""
    folder = tmp_path_factory.mktemp("data")
    header = "index,arch,cifar10_test,cifar100_test,imagenet16_test"
    rows = [f"{code},{name},{10 + code / 200:.4f},50.0,25.0" for name, code in codes_by_name().items()]
    (folder / "nasbench201").mkdir()
    (folder / "nasbench201" / "accuracy.csv").write_text("\n".join([header, *rows]) + "\n")
    return folder


@pytest.mark.parametrize(("space", "cells"), [("nasbench201", 1), ("s1", 3), ("nasbench1shot1-3", 3)])
def test_search_leaves_a_complete_run_directory(archgrad, space, cells):
    out = archgrad.run("search", "--space", space, *TINY, "--cells", cells, "--epochs", 2, "--seed", 3, "--out", "run")
    run = Path("run")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    assert {"train_loss", "train_accuracy", "entropy", "skips", "genotype", "seconds"} <= set(lines[0])
    summary = json.loads((run / "summary.json").read_text())
    assert summary["genotype"] == lines[-1]["genotype"]
    assert (run / "genotype.json").exists()
    assert (run / "checkpoint.pt").exists()
    assert (run / "cell.svg").exists()
    assert summary["genotype"] in out
    assert "\x1b" not in out


def test_json_output_is_one_document_and_progress_goes_elsewhere(archgrad):
    code, out, err = archgrad("search", *TINY, "--epochs", 1, "--json")
    assert code == 0
    summary = json.loads(out)
    assert summary["epochs"] == 1
    assert Path(summary["run"], "summary.json").exists()
    assert "epoch 1/1" in err


def test_runs_get_folders_of_their_own(archgrad):
    archgrad("search", *TINY, "--epochs", 1)
    archgrad("search", *TINY, "--epochs", 1)
    assert {path.name for path in Path("runs").iterdir()} == {
        "nasbench201-gaea-largest-digits-seed0",
        "nasbench201-gaea-largest-digits-seed0-2",
    }


def test_a_run_is_not_overwritten(archgrad):
    archgrad("search", *TINY, "--epochs", 1, "--out", "run")
    before = Path("run/config.toml").read_text()
    assert "archgrad resume run" in archgrad.error("search", *TINY, "--epochs", 1, "--seed", 9, "--out", "run")
    assert Path("run/config.toml").read_text() == before


def test_the_saved_configuration_repeats_the_run(archgrad):
    knobs = ["--set", "arch_optimizer.lr=0.01", "--set", "weights.nesterov=false"]
    archgrad("search", *TINY, "--epochs", 1, *knobs, "--out", "a")
    archgrad.run("search", "--config", "a/config.toml", "--out", "b")
    first, second = (torch.load(f"{name}/checkpoint.pt", weights_only=True) for name in "ab")
    for block, alpha in first["content"]["alpha"].items():
        assert torch.equal(alpha, second["content"]["alpha"][block])


@pytest.mark.parametrize(
    ("method", "added", "kinds"),
    [
        ("drnas", "+entropy", ["DirichletKL", "EntropyTerm"]),
        ("sdarts-rs", "+layer-alignment, +beta-decay", ["RandomPerturbation", "LayerAlignment", "BetaDecay"]),
        ("darts", "+auxiliary-skip", ["AuxiliarySkip"]),
        ("sdarts-rs", "layer-alignment", ["LayerAlignment"]),
        ("sdarts-rs", "none", []),
        ("sdarts-rs", None, ["RandomPerturbation"]),
    ],
)
def test_a_plus_adds_to_the_regularizers_of_the_method(method, added, kinds, tmp_path):
    config = SearchConfig(method=method, regularizer=added, limit=40)
    built = method_of(config)
    assert [type(member).__name__ for member in built.regularizers] == kinds
    assert same_again(config, tmp_path) == built


CHOSEN = {
    "relaxation and optimizer": (
        "--relaxation gumbel-hard --set relaxation.domain=simplex --set relaxation.tau=5,1 --alpha-budget off "
        "--arch-optimizer mirror-descent --set arch_optimizer.geometry=euclidean",
        {
            "relaxation": {"part": "archgrad.relaxations:GumbelHard", "domain": "simplex", "tau": [5.0, 1.0]},
            "arch_optimizer": {
                "part": "archgrad.arch_optimizers:MirrorDescent", "geometry": "euclidean", "lr": 0.1, "floor": None,
            },
        },
        {"settings": {"relaxation.domain": "simplex"}},
    ),
    "regularizer": (
        "--regularizer entropy --set entropy.weight=0.5",
        {"regularizers": [{"part": "archgrad.regularizers:EntropyTerm", "weight": 0.5}]},
        {"settings": {"entropy.weight": 0.5}},
    ),
    "knob of a regularizer": (
        "--method drnas --set dirichlet-kl.weight=0.25",
        {"regularizers": [{"part": "archgrad.regularizers:DirichletKL", "weight": 0.25}]},
        {},
    ),
    "no regularizer": ("--method drnas --regularizer none --relaxation softmax", {"regularizers": []}, {}),
    "added regularizer": (
        "--method sdarts-rs --regularizer +entropy --set entropy.weight=0.5 --set random-perturbation.end=0.25",
        {
            "regularizers": [
                {"part": "archgrad.regularizers:RandomPerturbation", "start": 0.03, "end": 0.25},
                {"part": "archgrad.regularizers:EntropyTerm", "weight": 0.5},
            ]
        },
        {"regularizer": "+entropy"},
    ),
    "discretizer": (
        "--discretizer best-sampled --set discretizer.samples=3",
        {"discretizer": {"samples": 3}},
        {"discretizer": "best-sampled"},
    ),
}  # fmt: skip


def assert_part(found, expected):
    """What is expected of a method is in its description, which may say more."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert_part(found[name], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_part(one, other)
    else:
        assert found == expected


@pytest.mark.parametrize("case", CHOSEN)
def test_parts_are_chosen_by_name_and_resumed(archgrad, case):
    options, method, written = CHOSEN[case]
    out = archgrad.run("search", *TINY, *options.split(), "--epochs", 1, "--out", "run", "--json")
    assert_part(json.loads(out)["method"], method)
    assert_part(read_config(Path("run/config.toml")), written)
    archgrad.run("resume", "run")
    again = archgrad.run("search", "--config", "run/config.toml", "--out", "again", "--json")
    assert json.loads(again)["method"] == json.loads(out)["method"]


def same_again(config, folder):
    """The method that a run directory's configuration stands for."""
    resolved = named_config(resolve(config), config.load_data())
    (folder / "config.toml").write_text(config_to_toml(resolved))
    return method_of(SearchConfig(**read_config(folder / "config.toml")))


@pytest.mark.parametrize("name", DISCRETIZERS)
def test_another_discretizer_can_be_given_to_a_method(name, tmp_path):
    config = SearchConfig(space="darts", method="gaea", discretizer=name, limit=40)
    built = method_of(config)
    assert built.discretizer == DISCRETIZERS[name]()
    assert same_again(config, tmp_path) == built


def test_what_is_refused_before_training_leaves_nothing_behind(archgrad):
    assert "builds the dense Hessian of" in archgrad.error(
        "search", "--method", "gaea", "--hypergradient", "exact-implicit", "--limit", 60, "--epochs", 1
    )
    assert not Path("runs").exists()


@pytest.mark.parametrize("what", KINDS)
def test_lists_have_a_line_for_each_and_all_settings_of_one(archgrad, what, tmp_path, monkeypatch):
    write_latencies(tmp_path / "nasbench201" / "latency.csv")
    monkeypatch.setenv("ARCHGRAD_DATA", str(tmp_path))
    *lines, empty, more = archgrad.run("list", what).splitlines()
    assert (empty, more) == ("", f"all settings of one: `archgrad list {what} NAME`")
    names = list(KINDS[what].rows())
    entries = [line.split(maxsplit=1) for line in lines if not line.endswith(":")]
    assert [name for name, _ in entries] == names
    assert all(len(sentence) > 10 and "partial(" not in sentence for _, sentence in entries)
    assert archgrad.run("list", what, names[0].removesuffix(":PATH")).startswith(names[0])


def test_methods_stand_below_what_they_change_with_their_papers(archgrad):
    assert re.search(r"spaces +\d+  nasbench201, darts, .*, …\n", archgrad.run("list"))
    out = archgrad.run("list", "methods")
    assert [line for line in out.splitlines() if line.endswith(":")] == [f"{group}:" for group in RECIPE_GROUPS]
    assert "  gaea-gdas          Li et al., 2021      GAEA on GDAS: one sampled operation per edge\n" in out
    assert {name for name in RECIPES if not described(name)[0]} == {"gaea-largest", "lambda-gaea-simultaneous"}
    out = archgrad.run("list", "regularizers", "layer-alignment")
    assert ["layer-alignment.weight", "0.125", "a", "number", "of", "0", "or", "more"] in map(
        str.split, out.splitlines()
    )


def test_the_command_line_wins_over_the_file(archgrad, tmp_path):
    (tmp_path / "c.toml").write_text('epochs = 5\nspace = "nasbench1shot1-3"\n[set]\narch_optimizer.lr = 0.5\n')
    options = ["--cells", 3, "--epochs", 1, "--set", "arch_optimizer.lr=0.25", "--json"]
    summary = json.loads(archgrad.run("search", "--config", "c.toml", *TINY, *options))
    assert summary["epochs"] == 1
    assert (summary["space"]["part"], summary["space"]["number"]) == ("archgrad.spaces:NASBench1Shot1", 3)
    assert summary["method"]["arch_optimizer"]["lr"] == 0.25


def test_oracle_accuracy_is_logged_when_a_table_is_at_hand(archgrad, monkeypatch, nasbench201_folder):
    monkeypatch.setenv("ARCHGRAD_DATA", str(nasbench201_folder))
    out = archgrad.run("search", *TINY, "--epochs", 1, "--oracle", "cifar10,cifar100", "--out", "run")
    record = json.loads(Path("run/metrics.jsonl").read_text())
    assert 0 < record["oracle_cifar10_test_200ep"] <= 100
    assert {name for name in record if name.startswith("oracle")} == {
        "oracle_cifar10_test_200ep",
        "oracle_cifar100_test_200ep",
    }
    assert "oracle accuracy: test accuracy after 200 epochs on cifar10, cifar100, from " in out
    assert f"{record['oracle_cifar10_test_200ep']:.2f} % in the table" in out
    assert Path("run/oracle.txt").read_text() in out


def test_no_accuracy_of_another_data_set_is_shown_unasked(archgrad, monkeypatch, nasbench201_folder):
    monkeypatch.setenv("ARCHGRAD_DATA", str(nasbench201_folder))
    assert "oracle" not in archgrad.run("search", *TINY, "--epochs", 1, "--out", "run")
    assert "oracle" not in Path("run/metrics.jsonl").read_text()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ("cifar11", "did you mean 'cifar10'"),
        ("npz:absent.npz", "there is no data at"),
        ("cifar10", "no folder was given"),
    ],
)
def test_data_that_is_missing_is_refused_before_the_tables_are_read(archgrad, monkeypatch, data, sentence):
    monkeypatch.setattr("archgrad.tables.tables_for", lambda space: pytest.fail("the tables were read"))
    assert sentence in archgrad.error("search", *TINY, "--epochs", 1, "--data", data, "--oracle", "cifar100")
    assert not Path("runs").exists()


def test_a_table_that_is_asked_for_and_missing_is_said(archgrad):
    out = archgrad.run("search", "--space", "darts", *TINY, "--cells", 3, "--oracle", "cifar10", "--epochs", 1)
    assert "no oracle accuracy: there is no table of cifar10 for the space 'darts'" in out


def test_query_and_draw(archgrad, monkeypatch, nasbench201_folder):
    monkeypatch.setenv("ARCHGRAD_DATA", str(nasbench201_folder))
    answer = json.loads(archgrad.run("query", BEST, "--json"))
    assert answer["parameters"] == 1_289_050 or round(answer["parameters"] / 1e6, 3) == 1.289
    assert round(answer["multiply_adds"] / 1e6, 2) == 184.73
    assert set(answer["accuracy"]) == {"cifar10", "cifar100", "imagenet16-120"}
    out = archgrad.run("query", BEST)
    assert "1.289 M parameters, 184.73 M multiply-adds" in out
    assert archgrad("draw", "darts-v2")[0] == archgrad("draw", "resnet")[0] == 0
    assert "unknown well-known cell 'darts-v3'; did you mean 'darts-v2'?" in archgrad.error("draw", "darts-v3")
    assert "nor_conv_3x3" in archgrad.run("draw", BEST)
    assert archgrad.run("draw", BEST, "-o", "cell.txt").strip() == "cell.txt"


def test_genotypes_are_read_from_files_and_run_directories(archgrad):
    archgrad("search", *TINY, "--epochs", 1, "--out", "run")
    texts = {archgrad.run("draw", place) for place in ("run", "run/genotype.json")}
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["search", "--space", "dart"], "did you mean 'darts'?"),
        (["search", "--method", "dart"], "did you mean 'darts'?"),
        (["search", "--data", "digit"], "did you mean 'digits'?"),
        (["search", "--set", "arch_optimizer.lrr=1"], "did you mean 'lr'?"),
        (["search", "--set", "arch_optimiser.lr=1"], "did you mean 'arch_optimizer'?"),
        (["search", "--set", "arch_optimizer.lr=fast"], "it must be a number greater than 0"),
        (["search", "--set", "lr"], "part.knob=value"),
        (["search", "--set", "hypergradient.terms=2"], "has no knobs"),
        (["search", "--space", "darts", "--cells", "1"], "give at least 2"),
        (["search", "--device", "tpu9"], "try 'auto' or 'cpu'"),
        (["search", "--method", "darts", "--split", "0.9:0.9"], "0.9"),
        (["search", "--method", "darts", "--split", "none"], "bilevel"),
        (["search", "--split", "0.5:0.5"], "single-level"),
        (["search", "--set", "space.partial=4"], "'partial'"),
        (["search", "--set", "supernet.partial=3", "--channels", "8"], "8 channels"),
        (["search", "--method", "pc-darts", "--epochs", "3"], "schedule.warmup_epochs"),
        (["search", "--method", "snas", "--hypergradient", "neumann"], "simultaneous"),
        (["search", "--relaxation", "gumbel-hard"], "of one domain"),
        (["search", "--method", "drnas", "--relaxation", "softmax"], "--regularizer none"),
        (["search", "--regularizer", "entropi"], "'entropi'; did you mean 'entropy'?"),
        (["search", "--set", "entropy.weight=1"], "--regularizer +entropy"),
        (["search", "--regularizer", "+entropy,layer-alignment"], "a plus before every name"),
        (["search", "--regularizer", "+none"], "unknown regularizer 'none'"),
        (["search", "--regularizer", "entropy,entropy"], "EntropyTerm"),
        (["search", "--method", "lambda-darts", "--regularizer", "+layer-alignment"], "the name 'layer-alignment'"),
        (["search", "--discretizer", "arg-max"], "'arg-max'; did you mean 'argmax'?"),
        (["search", "--discretizer", "limited-skips", "--set", "discretizer.most=-1"], "it must be at least 0"),
        (["search", "--discretizer", "limited-skips", "--set", "discretizer.derivation=x"], "Choose from: most"),
        (["search", "--method", "r-darts-es", "--discretizer", "perturbation"], "derives only one, at the end"),
        (["search", "--set", "entrop.weight=1"], "did you mean 'entropy'?"),
        (["search", "--method", "random-nas", "--set", "schedule.warmup_epochs=2"], "Fixed"),
        (["search", "--set", "schedule.updates=sometimes"], "Choose from: alternate, simultaneous, random"),
        (["search", "--limit", "99999"], "99999"),
        (["search", "--data", "folder:nowhere"], "nowhere"),
        (["search", "--data", "cifar10"], "ARCHGRAD_DATA"),
        (["search", "--config", "none.toml"], "none.toml"),
        (["search", "--epoch", "3"], "--epochs"),
        (["search", "--resize", "fill"], "unknown value of resize: 'fill'. Choose from: crop, pad, stretch"),
        (["search", "--oracle", "none,cifar10"], "none stands alone"),
        (["search", "--oracle", ""], "unknown data set"),
        (["draw", BEST, "-o", "/dev/null/x.txt"], "/dev/null"),
        (["resume", "nowhere"], "there is no folder"),
        (["list", "space"], "did you mean 'spaces'?"),
        (["query", "|a~0|"], "unknown"),
        (["query", BEST, "--table", "none.csv"], "none.csv"),
        (["draw", "|a~1|"], "position"),
        (["draw", "missing.json"], "missing.json"),
        (["draw", BEST, "-o", "cell.bmp"], "bmp"),
        (["serch"], "search"),
    ],
)
def test_mistakes_are_sentences_with_exit_code_2(archgrad, arguments, sentence):
    assert sentence in archgrad.error(*arguments)
    assert not list(Path("runs").glob("*"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("epoch = 3", "did you mean 'epochs'?"),
        ("epochs = 'three'", "whole number"),
        ("space = 3", "text in quotes"),
        ("compile = 1", "true or false"),
        ("[set]\nlr = 1", "by part"),
        ("x = = 1", "not valid TOML"),
    ],
)
def test_a_wrong_configuration_file_is_a_sentence(archgrad, tmp_path, text, sentence):
    (tmp_path / "c.toml").write_text(text)
    assert sentence in archgrad.error("search", "--config", "c.toml")


def test_configuration_round_trips(tmp_path):
    settings = {"weights.lr": 0.1, "relaxation.init_scale": "0"}
    config = SearchConfig(space="s2", epochs=3, compile=True, settings=settings)
    (tmp_path / "config.toml").write_text(config_to_toml(config))
    assert SearchConfig(**read_config(tmp_path / "config.toml")) == config


def test_how_images_become_square_is_kept(archgrad, tmp_path):
    images = torch.randint(0, 256, (40, 12, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8).numpy()
    numpy.savez(tmp_path / "toy.npz", x=images, y=numpy.arange(40) % 2)
    options = ["--data", "npz:toy.npz", "--image-size", 8, "--resize", "pad", "--epochs", 1]
    archgrad.run("search", *TINY, *options, "--out", "run")
    assert 'resize = "pad"' in Path("run/config.toml").read_text()
    archgrad.run("resume", "run")


def test_a_folder_with_other_things_in_it_is_left_alone(archgrad):
    Path("mine").mkdir()
    Path("mine/config.toml").write_text("epochs = 1\n")
    Path("mine/metrics.jsonl").write_text("precious")
    assert "config.toml" in archgrad.error("search", *TINY, "--epochs", 1, "--out", "mine")
    assert Path("mine/metrics.jsonl").read_text() == "precious"


def test_the_saved_configuration_is_resolved(archgrad, monkeypatch, tmp_path):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (60, 8, 8, 3), generator=generator, dtype=torch.uint8).numpy()
    numpy.savez(tmp_path / "toy.npz", x=images, y=numpy.arange(60) % 3)
    options = ["--data", "npz:toy.npz", "--channels", 4, "--cells", 1, "--epochs", 1, "--threads", 1]
    archgrad.run("search", *options, "--out", "run", "--set", "augmentation.cutout=2")
    saved = read_config(Path("run/config.toml"))
    assert saved["data"] == f"npz:{tmp_path / 'toy.npz'}"
    assert saved["settings"]["arch_optimizer.lr"] == 0.1
    assert saved["settings"]["weights.batch_size"] == 64
    assert saved["settings"]["weights.weight_decay"] == 3e-4  # as the method says, not the space
    assert saved["settings"]["schedule.level"] == "single"
    assert saved["settings"]["supernet.partial"] == 1
    assert not [knob for knob in saved["settings"] if knob in ("space.partial", "space.edge_weights")]
    assert "split" not in saved
    assert saved["settings"]["augmentation.cutout"] == 2
    assert "weights.epochs" not in saved["settings"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    archgrad.run("resume", tmp_path / "run")
    archgrad.run("search", "--config", tmp_path / "run" / "config.toml", "--out", "again")
    first, second = (json.loads((path / "summary.json").read_text()) for path in (tmp_path / "run", Path("again")))
    assert first["genotype"] == second["genotype"]
    assert first["data"]["classes"] == 3


def test_names_are_printed_as_they_are(archgrad):
    assert json.loads(archgrad.run("search", *TINY, "--epochs", 1, "--out", ":dog:", "--json"))["run"] == ":dog:"


def test_version(archgrad):
    assert archgrad.run("--version") == "archgrad 0.1.0\n"


def test_another_hypergradient_can_be_given_to_a_method(archgrad):
    settings = ["--hypergradient", "neumann", "--set", "hypergradient.terms=1", "--set", "hypergradient.lr=none"]
    archgrad.run("search", "--method", "gaea", *TINY, "--epochs", 1, *settings, "--out", "run")
    config = read_config(Path("run/config.toml"))
    method = method_of(SearchConfig(**config))
    assert (method.hypergradient.terms, method.hypergradient.lr) == (1, None)
    assert "unknown hypergradient 'newton'" in archgrad.error("search", *TINY, "--hypergradient", "newton")


def test_a_learning_rate_set_to_none_stays_none_in_the_written_configuration(tmp_path):
    config = SearchConfig(method="idarts", settings={"hypergradient.lr": "none"}, limit=40)
    assert same_again(config, tmp_path).hypergradient.lr is None


def test_it_takes_an_optimizer_a_device_and_a_precision(archgrad):
    options = ["--method", "darts", "--device", "auto", "--precision", "bf16", "--deterministic"]
    options += ["--set", "weights.optimizer=adamw", "--set", "weights.optimizer_settings=betas=0.9,0.95"]
    options += ["--channels", 2, "--cells", 1, "--limit", 60, "--batch-size", 20, "--threads", 1, "--epochs", 1]
    out = archgrad.run("search", *options, "--set", "weights.lr=0.001", "--out", "run")
    assert "searching on cpu (--device)" in out
    written = Path("run/config.toml").read_text(encoding="utf-8")
    for line in ('device = "auto"', 'precision = "bf16"', "deterministic = true", 'optimizer = "adamw"'):
        assert line in written
    archgrad.run("resume", "run")
    assert "weights.optimizer is 'adamw'" in archgrad.error(
        "search", "--method", "idarts", "--set", "weights.optimizer=adamw", *options[-10:]
    )


def test_the_help_has_whole_sentences(archgrad):
    assert "..." not in archgrad.run("--help").partition("Commands:")[2]
