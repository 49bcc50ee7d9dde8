"""What a user or a stranger may do to the command: one test for each kind of mistake."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from archgrad.config import read_config
from archgrad.config.search_config import KINDS
from archgrad.loop.run import Run
from tests.cli.fuzz import DAMAGED, ESCAPES, HOSTILE, STORED, _begin, damage

TINY = ["--channels", "4", "--cells", "1", "--limit", "40", "--batch-size", "20", "--threads", "1"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--cells", 1000, "--channels", 1000], "GB of memory"),
        (["--channels", 10**6], "is 1000000; it must be at most 10,000"),
        (["--channels", 10**4], "GB of memory"),
        (["--threads", 10**5], "threads is 100000; there are"),
        (["--threads", 10**18], "threads is 1000000000000000000"),
        (["--image-size", 10**7], "image_size is 10000000"),
        (["--set", f"augmentation.cutout={'9' * 30}"], "augmentation.cutout is 9"),
        (["--method", "r-darts-es", "--set", "stop.steps=1000000000"], "stop.steps is 1000000000"),
        (["--set", "weights.lr=inf"], "weights.lr is inf; it must be a number greater than 0"),
        (["--data-dir", "\udcff"], "which is not valid UTF-8"),
        (["--set", "space.exclude=\udcff"], "which is not valid UTF-8"),
        (["--device", "mps"], "the device 'mps' cannot be used"),
    ],
)
def test_absurd_values_are_sentences_and_leave_nothing_behind(archgrad, options, sentence):
    assert sentence in archgrad.error("search", *TINY, "--epochs", 1, *options)
    assert not list(Path.cwd().iterdir())


@pytest.mark.parametrize("value", ["nan", "[[1]]", "{a = 1}", "2020-01-01", '"\\u001b[31m"', '"' + "a b " * 5000 + '"'])
def test_wrong_values_of_every_option_in_a_file_are_sentences(value, archgrad, tmp_path, monkeypatch):
    monkeypatch.setattr(Run, "start", _begin)
    for name in [*KINDS, "set"]:
        (tmp_path / "bad.toml").write_text(f"{name} = {value}\n")
        code, _, err = archgrad("search", *TINY, "--epochs", 1, "--config", "bad.toml", "--dry-run")
        assert code in (1, 2), name
        assert "\x1b" not in err
        assert max(map(len, err.splitlines()), default=0) < 1000


@pytest.mark.parametrize("way", [*DAMAGED, *HOSTILE])
def test_damaged_and_hostile_files_are_sentences(way, archgrad, tmp_path):
    path = tmp_path / "file.toml"
    damage(path, way, b"")
    for arguments in (["search", "--config", path], ["draw", path], ["query", path], ["resume", path], ["plot", path]):
        if (way, arguments[0]) != ("empty", "search"):
            code, out, err = archgrad(*arguments)
            assert (code, "\x1b" in out + err, "error: " in err) == (2, False, True), arguments


def test_a_number_beyond_all_floats_is_a_sentence(archgrad):
    Path("big.toml").write_text(f"time_limit = 1{'0' * 400}\n")
    assert "error: time_limit in big.toml is 1000" in archgrad.error("search", "--config", "big.toml", "--dry-run")


@pytest.mark.parametrize("command", ["status", "compare", "resume", "plot", "draw", "list"])
def test_no_message_echoes_a_long_value(command, archgrad):
    code, out, err = archgrad(command, "a b " * 2000)
    assert (code, "a b " * 51 in out + err) == (2, False)


def test_run_names_are_shown_escaped(archgrad, tmp_path):
    shutil.copytree(STORED, tmp_path / f"run{ESCAPES}")
    for command in (["inspect"], ["resume"], ["plot", "--measure", "train_loss"]):
        code, out, err = archgrad(*command, f"run{ESCAPES}")
        assert code == 0, err
        assert "\x1b" not in out + err


def test_another_method_drops_the_settings_of_the_first_and_names_them(archgrad):
    archgrad.run("search", "--method", "gaea", *TINY, "--epochs", 1, "--seed", 3, "--out", "run")
    code, _, err = archgrad("search", "--config", "run/config.toml", "--method", "darts", "--out", "other")
    assert code == 0, err
    assert "dropped: relaxation.skip_zero, arch_optimizer.lr, arch_optimizer.floor" in err
    first, second = (read_config(Path(name) / "config.toml") for name in ("run", "other"))
    assert second["settings"]["arch_optimizer.lr"] == 3e-4
    assert {name: second[name] for name in ("seed", "epochs", "channels")} == {"seed": 3, "epochs": 1, "channels": 4}
    assert first["settings"]["weights.lr"] == second["settings"]["weights.lr"]


def test_another_part_drops_the_settings_of_that_part_only(archgrad, tmp_path):
    (tmp_path / "c.toml").write_text("[set.arch_optimizer]\nfloor = 0.1\n[set.weights]\nlr = 0.5\n")
    arguments = ["search", *TINY, "--epochs", 1, "--config", "c.toml", "--dry-run", "--json", "--method", "darts"]
    code, _, err = archgrad(*arguments, "--arch-optimizer", "adam")
    assert code == 0, err
    assert "these settings of it are dropped: arch_optimizer.floor\n" in err


def test_a_finished_run_says_that_it_is_finished(archgrad):
    first = archgrad.run("search", *TINY, "--epochs", 1, "--out", "run", "--json")
    code, second, err = archgrad("resume", "run", "--json")
    assert code == 0
    assert "the search in run is finished" in err
    assert json.loads(first)["genotype"] == json.loads(second)["genotype"]


def test_a_second_interrupt_ends_cleanly_and_the_run_goes_on(archgrad, monkeypatch):
    step, taken = Run._step, []

    def interrupted(self):
        if len(taken) == 2:
            raise KeyboardInterrupt
        taken.append(step(self))

    monkeypatch.setattr(Run, "_step", interrupted)
    code, _, err = archgrad("search", *TINY, "--epochs", 3, "--out", "run")
    assert (code, err) == (130, "stopped.\n")
    monkeypatch.setattr(Run, "_step", step)
    archgrad.run("resume", "run")
    assert len(json.loads(Path("run/summary.json").read_text())["last_epoch"]) > 5


def test_missing_memory_is_a_sentence(archgrad, monkeypatch):
    def fail(*arguments):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: 9 bytes")

    monkeypatch.setattr(Run, "step", fail)
    code, _, err = archgrad("search", *TINY, "--epochs", 1)
    assert code == 1
    assert "--checkpoint-cells" in err
    monkeypatch.setattr(Run, "step", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        archgrad("search", *TINY, "--epochs", 1)


@pytest.mark.parametrize(
    ("settings", "knob"),
    [
        (["--set", "weights.lr=1e30", "--set", "weights.clip=1e30"], "weights.lr"),
        (["--method", "darts", "--set", "arch_optimizer.lr=1e300"], "arch_optimizer.lr"),
        (["--method", "lambda-darts", "--cells", 2, "--set", "layer-alignment.weight=1e30"], "LayerAlignment"),
    ],
)
def test_a_divergence_names_what_to_lower(settings, knob, archgrad):
    code, _, err = archgrad("search", *TINY, "--epochs", 3, "--out", "run", *settings)
    assert code == 1
    assert knob in err
    assert all(word in err for word in ("step", "epoch", "run"))
    assert torch.load("run/checkpoint.pt", weights_only=True)["format"].startswith("archgrad")


def test_new_runs_are_named_after_their_data(archgrad, tmp_path):
    import numpy

    for name in ("cats", "dogs"):
        images = numpy.random.default_rng(0).integers(0, 256, (60, 8, 8, 3), dtype=numpy.uint8)
        numpy.savez(tmp_path / f"{name}.npz", x=images, y=numpy.arange(60) % 3)
        archgrad.run("search", *TINY, "--epochs", 1, "--data", f"npz:{name}.npz")
    found = sorted(path.name for path in Path("runs").iterdir())
    assert found == [f"nasbench201-gaea-largest-npz-{name}-seed0" for name in ("cats", "dogs")]
