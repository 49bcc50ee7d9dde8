"""A seeded generator of wrong and odd command lines, and a runner that judges how each of them ends.

`python -m tests.cli.fuzz --count 20000 --seed 1` tries as many as you like; ``--fork`` survives a crash.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer
from PIL import Image
from sklearn import datasets

from archgrad.cli import cost, inspect, main
from archgrad.cli.app import app
from archgrad.cli.listing import FAMILIES, LISTS
from archgrad.data import SOURCES, Augmentation
from archgrad.errors import ArchgradError
from archgrad.loop import estimate
from archgrad.loop.experiment import Experiment
from archgrad.loop.run import Run
from archgrad.models import export
from archgrad.pages import server
from archgrad.parts.knobs import OPTIONAL_PARTS, PARTS, knobs_of
from archgrad.recipes import RECIPES
from archgrad.spaces import SPACES, NASBench201
from archgrad.studies import Benchmark, StudyPlan, Variant
from archgrad.studies import study as study_module
from archgrad.studies.folder import StudyFolder
from archgrad.system.warn_once import forget_warnings
from archgrad.training.weight_training import WeightTraining
from archgrad.workflows import PRESETS
from archgrad.workflows.select import PROTOCOLS
from tests.models.trained import model_of

STORED = Path(__file__).parents[1] / "stored" / "run-1"
COUNT, SECONDS = 2000, 10
MEMORY = 3 * 2**30
"""Bytes that a line may take beyond what the process has."""
CELL = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|none~0|none~1|avg_pool_3x3~2|"
MODULE = '{"matrix": [[0, 1, 0], [0, 0, 1], [0, 0, 0]], "ops": ["input", "conv3x3-bn-relu", "output"]}'

ESCAPES = "\x1b[31mred\x1b[0m\x07\x08"
ODD = [
    "", " ", "-", "--", "é", "名前", "a" * 300, "a" * 5000, "a b " * 2000, ESCAPES, "\u202egnp", "\udcff\udc80", "%s%n",
    "{0}", "[bold]", "none", "auto", "all", ",", ",,,", "+", "+,+", "a,b", "true", "0", "../..", "~nouser/x", "a\nb",
    "\r", "\x9b2J", "$HOME", "*", "=", "a=b=c", ".", "..", ":", "::", ":x", "x:",
]  # fmt: skip
NUMBERS = [
    "-1", "0", "1", "2", "3", "7", "-0", "+1", " 1", "1 ", "1.5", "1e3", "1e400", "-1e400", "nan", "NaN", "inf", "-inf",
    "Infinity", "0x10", "1_000", "٣", "1000000", "100000", "1000000000", "9" * 19, "9" * 30, "9" * 5000, "-" + "9" * 30,
    "1e-400", "", "none", "true", "0.5", "0.1", "1e-30", "1e30",
]  # fmt: skip
IMPORTS = [
    "nomodule:Name", "os:system", "os:path", "json:nothing", "json.decoder:JSONDecoder", "raising:Part", "exiting:Part",
    "interrupted:Part", "archgrad:", "archgrad:Method", "archgrad.relaxations:Softmax", "typing:Any", "a b:c", "..:x",
    ".:x", "os.:x", "x:y:z", "sys:", "demanding:Part", "notadataclass:Part", "recursive:Part", "archgrad.spaces:DARTS",
    f"{ESCAPES}:Part", "a" * 400 + ":Part", "\udcff:Part", "argumentative:Part",
]  # fmt: skip
MODULES = {
    "raising.py": "1 / 0\n",
    "exiting.py": "import sys\nsys.exit(0)\n",
    "interrupted.py": "raise KeyboardInterrupt\n",
    "recursive.py": "def f(): return f()\nf()\n",
    "demanding.py": "from archgrad.relaxations import Relaxation\nclass Part(Relaxation):\n"
    "    def __init__(self, needed): pass\n",
    "argumentative.py": "from archgrad.relaxations import Softmax\nclass Part(Softmax):\n"
    "    def __post_init__(self): raise RuntimeError('no\\x1b[31m')\n",
    "notadataclass.py": "from archgrad.relaxations import Softmax\nclass Part(Softmax): pass\n",
}

BAD_RECORDS = {
    "empty": "",
    "blank": "\n\n",
    "half": '{"epoch": 1, "genotype": "|nor_conv_3x',
    "list": "[1, 2]\n",
    "number": "7\n",
    "null": "null\n",
    "wrong-types": '{"epoch": "one", "genotype": 7, "heldout_accuracy": "high", "lr": {}}\n',
    "null-epoch": '{"epoch": null, "genotype": null, "seconds": null}\n',
    "negative": '{"epoch": -1, "genotype": "x", "stopped_to": -5}\n',
    "stopped": '{"epoch": 1, "genotype": "x", "stopped_to": 99}\n',
    "stopped-text": '{"epoch": 1, "genotype": "x", "stopped_to": "soon"}\n',
    "twice": '{"epoch": 1, "genotype": "x"}\n{"epoch": 1, "genotype": "x"}\n',
    "huge-epoch": '{"epoch": 1' + "0" * 400 + ', "genotype": "x", "heldout_accuracy": 1}\n',
    "huge-number": '{"epoch": 1, "genotype": "x", "heldout_accuracy": 1' + "0" * 400 + "}\n",
    "digits": '{"epoch": 1' + "0" * 5000 + ', "genotype": "x"}\n',
    "not-finite": '{"epoch": 1, "genotype": "x", "heldout_accuracy": NaN, "train_loss": Infinity, "entropy": NaN}\n',
    "escapes": json.dumps({"epoch": 1, "genotype": ESCAPES, ESCAPES: 1.0, "oracle_" + ESCAPES: 5.0}) + "\n",
    "deep": '{"epoch": 1, "genotype": ' + "[" * 100_000 + "}\n",
    "far": '{"epoch": 1, "genotype": "x", "heldout_accuracy": 1e308}\n{"epoch": 1e308, "genotype": "x"}\n',
    "probabilities": '{"epoch": 1, "genotype": "x", "probability_skip": {}, "skips": "many", "cells": 0}\n',
    "long-name": json.dumps({"epoch": 1, "genotype": "x", "a" * 5000: 1.0, "oracle_" + "b" * 5000: 1.0}) + "\n",
    "true": '{"epoch": true, "genotype": true, "heldout_accuracy": true}\n',
    "fraction": '{"epoch": 1.5, "genotype": "x", "heldout_accuracy": 1}\n',
    "zeros": '{"epoch": 0, "genotype": "", "entropy": 0, "entropy_max": 0, "heldout_accuracy": 0, "skip_share": 0}\n',
}
BAD_TOML = {
    "empty": "",
    "half": 'space = "nasb',
    "deep": "a = " + "[" * 2000 + "]" * 2000,
    "deep-tables": "[" + ".".join("a" * 2000) + "]\nx = 1\n",
    "integer": "seed = " + "9" * 5000,
    "not-finite": "held_out = nan\n",
    "infinite": "time_limit = inf\n",
    "infinite-knob": "[set.weights]\nlr = inf\n",
    "wrong-types": "epochs = 'many'\n",
    "date": "seed = 2020-01-01\n",
    "list": "space = ['darts']\n",
    "table": "[space]\nname = 'darts'\n",
    "set-list": "set = [1]\n",
    "set-flat": "[set]\nlr = 1\n",
    "set-deep": "[set.weights.lr.x]\ny = 1\n",
    "set-list-knob": "[set.weights]\nlr = [[[1]]]\n",
    "set-table-knob": "[set.weights]\nlr = {a = 1}\n",
    "set-date-knob": "[set.weights]\nlr = 2020-01-01\nepochs = 10:00:00\n",
    "unknown": f"{'z' * 3000} = 1\n",
    "escapes": f'"{"name"}\\u001b[31m" = 1\nspace = "\\u001b[31mred"\n',
    "escaped-space": 'space = "\\u001b[31mred"\n',
    "escaped-method": 'method = "\\u001b[31mred"\ndata = "npz:\\u001b[31mred"\n',
    "long": f'space = "{"a b " * 5000}"\n',
    "long-data": f'data = "{"a b " * 5000}"\n',
    "other-format": 'format = "archgrad.config/99"\n',
    "format-number": "format = 7\n",
    "needs": 'needs = ["space", "method", "data"]\n',
    "needs-odd": "needs = 7\n",
    "callback": 'callback = "raising:Part"\n',
    "regularizer": 'regularizer = "exiting:Part"\n',
    "negative": "epochs = -1\nchannels = -1\ncells = -1\nbatch_size = -1\n",
    "huge": "epochs = 9999999999999\nchannels = 1000000\n",
    "stages": "epochs = 2\n[set.progressive]\nkeep = 'x'\n",
    "stages-number": "epochs = 2\n[set.progressive]\nkeep = 7\n",
    "bom": "\ufeffspace = 'darts'\n",
}
BAD_GENOTYPES = {
    "empty.json": "",
    "half.json": '{"blocks": [[',
    "deep.json": "[" * 100_000,
    "number.json": "7",
    "null.json": "null",
    "list.json": "[]",
    "digits.json": "9" * 6000,
    "matrix.json": '{"matrix": 7, "ops": []}',
    "matrix-deep.json": '{"matrix": ' + "[" * 50_000 + "}",
    "big-matrix.json": json.dumps({"matrix": [[1] * 300] * 300, "ops": ["conv"] * 300}),
    "loop.json": '{"matrix": [[1, 1], [1, 1]], "ops": ["input", "output"]}',
    "escapes.txt": f"|{ESCAPES}~0|",
    "pipes.txt": "|" * 1000,
    "edge.txt": "|conv~99999999999999999999|",
    "minus.txt": "|conv~-1|",
    "darts.txt": "Genotype(normal=[('x', 9999999)], normal_concat=[], reduce=[], reduce_concat=[])",
    "long.txt": "a b " * 5000,
}
BAD_MODELS: dict[str, dict[str, Any]] = {
    "format": {"format": 7},
    "space": {"space": {"name": "nasbench201", "channels": 9999, "cells_per_stage": 1000}},
    "own-space": {"space": None},
    "module": {"space": {"name": "raising:Part"}},
    "genotype": {"genotype": ESCAPES},
    "other-genotype": {"genotype": "Genotype(normal=[], normal_concat=[], reduce=[], reduce_concat=[])"},
    "classes": {"classes": [ESCAPES, "a" * 5000]},
    "many-classes": {"classes": ["a"] * 9999},
    "preprocessing": {"preprocessing": {"channels": 3, "image_size": 10**9, "resize": "x", "mean": [], "std": []}},
    "not-finite": {"preprocessing": {"channels": 1, "image_size": 8, "resize": "pad", "mean": [1e400], "std": [0]}},
    "digest": {"weights_sha256": "0" * 64},
}
BAD_STUDIES = {
    "good": "seeds = 1\n[variant.darts]\n",
    "no-variant": "seeds = 3\n",
    "many": "seeds = 99999\n[variant.a]\n[variant.b]\n",
    "range": 'seeds = "0-999999999999"\n[variant.darts]\n',
    "seeds": "seeds = [1.5]\n[variant.darts]\n",
    "path": '[variant."../../x"]\nmethod = "darts"\n',
    "escapes": '[variant."\\u001b[31m"]\nmethod = "\\u001b[31m"\n',
    "device": '[variant.con]\nmethod = "darts"\n',
    "common": "common = 3\n[variant.darts]\n",
    "benchmark": "benchmark = 3\n[variant.darts]\n",
    "benchmarks": "benchmark = [3]\n[variant.darts]\n",
    "benchmark-name": "[[benchmark]]\nname = 3\n[variant.darts]\n",
    "benchmark-logs": '[[benchmark]]\nname = "logs"\n[variant.darts]\n',
    "spaces": "spaces = [1]\n[variant.darts]\n",
    "format": 'format = "archgrad.study/99"\n[variant.darts]\n',
    "part": '[variant.a]\nmethod = "raising:Part"\n',
    "set": "[variant.darts]\nset = 3\n",
    "data": 'data = ["npz:zero.npz"]\n[variant.darts]\n',
}
EXPORTS = [
    "a.onnx", "a.pt2", "folder.pt2", "fifo.pt2", "x" * 300 + ".pt2", "circle/a.pt2", "half.toml/a.pt2",
    f"{ESCAPES}.pt2", "\udcff.pt2", "\udcff.onnx", "a.h5",
]  # fmt: skip


class Outcome(NamedTuple):
    """How a line ended: its kind (ok, sentence, traceback, hang, raw output), and what shows it."""

    kind: str
    detail: str


class Hang(BaseException):
    """Raised by the alarm in a line that takes too long."""


class Begun(ArchgradError):  # noqa: N818 - it is no error, it ends a line
    """Raised in place of the first step of a search."""


def make_folder(home: Path) -> None:
    """Fill a folder with good, broken and hostile files, run directories and modules."""
    shutil.copytree(STORED, home / "run")
    shutil.copytree(STORED, home / "other" / "run")
    for name, text in BAD_RECORDS.items():
        shutil.copytree(STORED, home / f"records-{name}")
        (home / f"records-{name}" / "metrics.jsonl").write_text(text)
    for name, text in BAD_TOML.items():
        (home / f"{name}.toml").write_text(text)
        shutil.copytree(STORED, home / f"config-{name}")
        (home / f"config-{name}" / "config.toml").write_text(text)
    for name, text in BAD_GENOTYPES.items():
        (home / name).write_text(text)
        shutil.copytree(STORED, home / f"genotype-{name}")
        (home / f"genotype-{name}" / "genotype.json").write_text(text)
    for name, text in MODULES.items():
        (home / name).write_text(text)
    _make_studies(home)
    _make_models(home)
    _make_hostile(home)


def _make_studies(home: Path) -> None:
    """Add files of studies, folders that have them as plans, and a finished study."""
    for name, text in BAD_STUDIES.items():
        (home / f"study-{name}.toml").write_text(text)
        (home / f"study-{name}").mkdir()
        (home / f"study-{name}" / "study.toml").write_text(text)
    plan = StudyPlan((Variant("darts", "darts"),), (Benchmark("b", "nasbench201", "digits"),), (0, 1))
    folder = StudyFolder(home / "study")
    folder.write_plan(plan)
    for run in plan.runs():
        shutil.copytree(STORED, folder.run_folder(run))
    for name in ("heartbeat.json", "failures.json"):
        shutil.copytree(home / "study", home / f"study-{name}")
        (home / f"study-{name}" / name).write_text(BAD_GENOTYPES["deep.json"])


def _make_models(home: Path) -> None:
    """Add a model, damaged ones, some that lie, and images."""
    good = model_of(NASBench201(channels=2, cells_per_stage=1), channels=1).save(home / "model")
    about = json.loads((good / "model.json").read_text())
    for name, changes in BAD_MODELS.items():
        shutil.copytree(good, home / f"model-{name}")
        (home / f"model-{name}" / "model.json").write_text(json.dumps({**about, **changes}))
    for name, text in BAD_GENOTYPES.items():
        shutil.copytree(good, home / f"model-json-{name}")
        (home / f"model-json-{name}" / "model.json").write_text(text)
    for name, file in (("json", "model.json"), ("weights", "weights.safetensors")):
        shutil.copytree(good, home / f"model-zero-{name}")
        (home / f"model-zero-{name}" / file).unlink()
        (home / f"model-zero-{name}" / file).symlink_to("/dev/zero")
    shutil.copytree(good, home / "model-seeds" / "seed-0" / "model")
    for name in ("rubbish.onnx", "rubbish.pt2", "broken.png"):
        (home / name).write_bytes(bytes(range(256)))
    Image.new("L", (9, 12)).save(home / "picture.png")
    (home / "images").mkdir()
    shutil.copy(home / "picture.png", home / "images" / f"{ESCAPES}.png")
    (home / "images" / "circle").symlink_to(home / "images")


def _make_hostile(home: Path) -> None:
    """Add FIFOs, endless and sparse files, folders in place of files, odd names and bytes."""
    (home / "bytes.toml").write_bytes(b"\xff\xfe\x00space = 1")
    (home / "bytes.json").write_bytes(bytes(range(256)))
    (home / "a folder").mkdir()
    (home / "folder.svg").mkdir()
    (home / "folder.toml").mkdir()
    (home / "folder.pt2").mkdir()
    (home / "runs").mkdir()
    (home / ESCAPES.replace("/", "")).mkdir()
    shutil.copytree(STORED, home / f"run{ESCAPES}")
    for name in ("fifo", "fifo.toml", "fifo.json", "fifo.csv", "fifo.svg", "fifo.npz", "fifo.pt2"):
        os.mkfifo(home / name)
    for link in ("zero.toml", "zero.json", "zero.csv", "zero.tfrecord", "zero.parquet", "zero.npz"):
        (home / link).symlink_to("/dev/zero")
    (home / "circle").symlink_to("circle")
    with (home / "sparse.toml").open("wb") as file:
        file.truncate(2**40)
    for name in ("config.toml", "run.json", "metrics.jsonl", "genotype.json"):
        for kind, link in (("zero", "/dev/zero"), ("folder", str(home / "a folder")), ("fifo", str(home / "fifo"))):
            folder = home / f"run-{kind}-{name.partition('.')[0]}"
            shutil.copytree(STORED, folder)
            (folder / name).unlink()
            (folder / name).symlink_to(link)


class Lines:
    """A seeded generator of command lines over all commands and options."""

    def __init__(self, seed: int, home: Path) -> None:
        self.random = random.Random(seed)  # noqa: S311 - for tests
        command = typer.main.get_command(app)
        self.options = {name: one.params for name, one in command.commands.items()}  # type: ignore[attr-defined]
        self.paths = sorted(path.name for path in home.iterdir())
        self.paths += ["other/run", "/dev/zero", "/dev/full", "/proc/self/mem", "missing"]
        self.runs = [path for path in self.paths if re.match("run|records|config-|genotype-|other", path)]
        self.outs = [
            "new", "a.svg", "a.png", "a.pdf", "a.txt", "a", "folder.svg", "a folder", "fifo.svg", "missing/x",
            "x" * 300, "x" * 300 + ".svg", f"{ESCAPES}.svg", "\udcff.svg", "circle", "run", "records-empty",
            "circle/a.svg", "half.toml", "half.toml/x.svg", "runs",
        ]  # fmt: skip
        self.names = [*SPACES, *RECIPES, *SOURCES, *LISTS, *(name for kind, _ in FAMILIES.values() for name in kind)]
        self.knobs = list(_all_knobs())

    def line(self) -> list[str]:
        """Return one command line."""
        draw = self.random
        commands = [*self.options, "junk"]
        command = draw.choices(commands, [_SHARES.get(name, 2) for name in commands])[0]
        if command == "junk":
            return [draw.choice([*ODD, *self.options, "--version", "--help"]) for _ in range(draw.randint(0, 3))]
        line, params = [command], list(self.options[command])
        if command == "compare" and draw.random() < 0.5:
            line += ["--methods", self._value(command, "methods"), "-o", self._value(command, "out"), *self._small()]
            params = [one for one in params if one.param_type_name == "option"]
        if command in ("search", "train"):
            line += self._small()
        if command in ("select", "fit"):
            line += [
                "--limit",
                "40",
                "--threads",
                "1",
                *(["--budget", "1s"] if command == "fit" else ["--epochs", "1"]),
            ]
        for one in [one for one in params if one.param_type_name == "argument"]:
            for _ in range(draw.choice([1, 1, 1, 1, 1, 1, 2, 3, 0]) if one.nargs != 1 else 1):
                line.append(self._value(command, one.name))
        optional = [one for one in params if one.param_type_name == "option"]
        for _ in range(draw.choice([0, 0, 1, 2]) if command in ("search", "train") else 0):
            line += ["--set", self._setting()]
        if command == "export" and draw.random() < 0.9:
            line += ["-o", self._value(command, "out")]
        for one in draw.sample(optional, min(len(optional), draw.choice([0, 1, 1, 1, 2, 2, 3, 5]))):
            line += self._option(command, one)
        if draw.random() < 0.02:
            line.append(draw.choice([*ODD, "--nothing", "-x", "--epochs"]))
        return line

    def _small(self) -> list[str]:
        """Return sizes with which a search is quick to set up."""
        threads = self.random.choice([["--threads", "1"], []])
        return ["--limit", "40", "--epochs", "1", "--channels", "2", "--cells", "1", *threads]

    def _option(self, command: str, option: Any) -> list[str]:
        name = self.random.choice([*option.opts, *option.secondary_opts])
        if "bool" in str(option.type_descriptor.annotation) if hasattr(option, "type_descriptor") else option.is_flag:
            return [name]
        return [name, self._value(command, option.name)]

    def _value(self, command: str, name: str) -> str:
        """Return a value for an option or argument: mostly of its kind, sometimes of any."""
        draw, pools = self.random, self._pools(command, name)
        found = draw.choice(draw.choice(pools)) if draw.random() < 0.9 else draw.choice([*ODD, *NUMBERS, *self.paths])
        if draw.random() < 0.05 and found:  # a slip of the pen
            place = draw.randrange(len(found))
            found = found[:place] + draw.choice(["", "x", "\x1b", "é", ":", ","]) + found[place + 1 :]
        return found

    def _pools(self, command: str, name: str) -> list[Sequence[str]]:
        if name in ("study", "path") or (name == "folders" and self.random.random() < 0.2):
            studies = [path for path in self.paths if path.startswith("study")]
            return [studies, ["study"], self.runs, self.paths]
        if name in _STUDY_WORDS:
            return [_STUDY_WORDS[name], _STUDY_WORDS[name], ODD, NUMBERS]
        if name in ("folder", "folders"):
            return [self.runs, self.runs, self.runs, self.paths]
        if name == "config":
            return [[path for path in self.paths if path.endswith(".toml")], self.paths, ["run/config.toml"]]
        if name == "runs":
            return [[CELL, MODULE], self.runs, self.runs, list(BAD_GENOTYPES)]
        if name == "target":
            return [EXPORTS, EXPORTS, self.outs]
        if name in ("budget", "max_params", "max_madds", "max_latency"):
            return [NUMBERS, ["1s", "2s", "0s", "5ms", "10us", "1k", "3M", "1.5G", "1h1m"]]
        if name == "genotype":
            return [[CELL, MODULE], [*BAD_GENOTYPES, *BAD_GENOTYPES.values()], self.runs, self.paths, ODD]
        if name == "out":
            return [self.outs] if command != "export" else [EXPORTS, EXPORTS, self.outs]
        if name == "preset":
            return [list(PRESETS), self.names]
        if name == "protocol":
            return [list(PROTOCOLS), self.names]
        if name in ("model", "images", "start_from"):
            models = [path for path in self.paths if path.startswith("model") or path.endswith((".onnx", ".pt2"))]
            images = ["picture.png", "broken.png", "a folder", "images"]
            return [["picture.png", "images"], images, self.paths] if name == "images" else [models, self.paths]
        if command == "compare" and name == "table":
            return [["md", "latex", "csv", "json", "x"]]
        if name in ("table", "source"):
            return [self.paths, ["x.csv", "fifo.csv", "zero.csv", "zero.tfrecord", "zero.parquet", "half.json"]]
        if name in ("data", "data_dir", "test"):
            kinds = ["npz:", "folder:", "parquet:", "npz:zero.npz", "npz:missing", "folder:a folder"]
            return [list(SOURCES), kinds, [f"npz:{path}" for path in self.paths], self.paths, ODD]
        if name == "settings":
            return [[self._setting() for _ in range(4)]]
        if name in ("device", "split", "oracle", "on_collapse", "alpha_budget", "measure"):
            return [_WORDS[name], ODD, NUMBERS]
        if command == "cost" and name in ("channels", "cells", "image_size", "input_channels", "classes", "max_madds"):
            return [NUMBERS, ["4", "600M", "1k", "16"]]
        if command in ("search", "train", "compare") and name in (
            "epochs",
            "channels",
            "cells",
            "batch_size",
            "limit",
            "image_size",
            "seed",
        ):
            return [NUMBERS]
        if name in (
            "threads",
            "time_limit",
            "held_out",
            "batches",
            "steps",
            "tolerance",
            "top",
            "batch_size",
            "seeds",
            "processes",
            "minutes",
        ):
            return [NUMBERS]
        return [self.names, self.names, IMPORTS, ODD]

    def _setting(self) -> str:
        draw = self.random
        knob = draw.choice(self.knobs) if draw.random() < 0.9 else draw.choice(ODD)
        value = draw.choice([NUMBERS, NUMBERS, ODD, self.names])
        return f"{knob}{draw.choice(['=', '=', '=', '=', '=', '=', ''])}{draw.choice(list(value))}"


_SHARES = {
    "search": 12,
    "inspect": 3,
    "cost": 0.3,
    "export": 1,
    "predict": 1,
    "train": 3,
    "junk": 0.5,
    "select": 0.5,
    "fit": 0.5,
    "top": 1,
    "status": 1,
}
"""How often each command is tried; 2 if it is not named here."""
_WORDS = {
    "device": ["cpu", "cuda", "cuda:0", "cuda:99", "mps", "meta", "cpu:7", "xla", "vulkan", "hpu", "privateuseone"],
    "split": ["0.5:0.5", "1:1", "0:0", "nan:nan", "inf:1", "0.1", ":", "0.1:0.2:0.3", "-1:2", "1e-9:1e-9", "0.9:0.09"],
    "oracle": ["auto", "none", "cifar10", "cifar10,none", "auto,auto", "cifar10,cifar10"],
    "on_collapse": ["warn", "stop", "switch", "ignore", "WARN"],
    "alpha_budget": ["published", "always", "off", "2", "0", "-1", "nan", "inf", "1e300", "none"],
    "measure": ["heldout_accuracy", "train_loss", "epoch", "genotype", "seconds", "lr"],
}


_STUDY_WORDS = {
    "methods": ["darts", "darts,gaea", "darts,,gaea", "darts,darts", "a/b", "con", "../x", "raising:Part", ESCAPES],
    "spaces": [*SPACES, "nasbench201,darts", "x"],
    "against": ["epochs", "seconds", "arch_steps", "days"],
    "engine": ["local", "slurm", "ray", "x"],
    "k": ["1", "3", "100"],
    "partition": ["main", "--help", "a b"],
    "address": ["auto", "host:1", "x"],
}


def _all_knobs() -> Iterator[str]:
    """Yield the paths of all knobs of all parts."""
    prefixes = {"relaxations": "relaxation", "hypergradients": "hypergradient", "optimizers": "arch_optimizer"}
    for kind, (family, prefix) in FAMILIES.items():
        for name in family:
            part = prefix or prefixes.get(kind) or name
            yield from (f"{part}.{knob}" for knob in knobs_of(family.create(name)))
    for recipe in RECIPES.values():
        method = recipe()
        for part in (*PARTS, *OPTIONAL_PARTS):
            if (member := getattr(method, part)) is not None:
                yield from (f"{part}.{knob}" for knob in knobs_of(member))
    yield from (f"weights.{knob}" for knob in knobs_of(WeightTraining()))
    yield from (f"augmentation.{knob}" for knob in knobs_of(Augmentation()))
    for name in SPACES:
        yield from (f"space.{knob}" for knob in knobs_of(SPACES.create(name)))


def run_line(line: Sequence[str], seconds: float = SECONDS) -> Outcome:
    """Run one command line in this process, with a bound on its time and memory."""
    out, err = io.StringIO(), io.StringIO()
    forget_warnings()
    faulthandler.dump_traceback_later(3 * seconds, exit=True)  # for a hang that no signal reaches
    began = time.monotonic()
    try:
        with _bounded(seconds), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            sys.argv = ["archgrad", *line]
            try:
                main()
                code: object = 0
            except SystemExit as stop:
                code = stop.code or 0
    except Hang:
        return Outcome("hang", _place(sys.exc_info()[2]))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and "interrupted" not in " ".join(line):
            raise
        return Outcome("traceback", f"{type(error).__name__}: {str(error)[:80]!r} {_place(error.__traceback__)}")
    finally:
        faulthandler.cancel_dump_traceback_later()
    if time.monotonic() - began > seconds:
        return Outcome("hang", "slow")
    return _judged(code, out.getvalue(), err.getvalue(), "interrupted" in " ".join(line))


def _judged(code: object, out: str, err: str, interrupts: bool) -> Outcome:
    """Return the kind of a line that ended by itself."""
    text = out + err
    odd = [letter for letter in text if not (letter.isprintable() or letter == "\n" or letter == "\t")]
    if odd:
        return Outcome("raw output", f"control character {odd[0]!r} in {_around(text, odd[0])!r}")
    if "a" * 201 in text or "9" * 201 in text or "a b " * 51 in text or "x" * 260 in text:
        return Outcome("raw output", f"a long value in {text[-600:][:200]!r}")
    if code not in (0, 1, 2) and not (code == 130 and interrupts):
        return Outcome("traceback", f"exit code {code!r}: {err[-200:]}")
    if "Traceback" in err:
        return Outcome("traceback", err[-300:])
    if code == 0 or "the first step" in err or ("Usage: " in text and "Options:" in text):
        return Outcome("ok", "")
    said = err.rstrip().lower()
    if "error: " not in said and code != 130:
        return Outcome("traceback", f"exit code {code} without a sentence: {err[-200:]!r}")
    return Outcome("sentence", err.rstrip().rpartition("\n")[2])


def _around(text: str, letter: str) -> str:
    place = text.index(letter)
    return text[max(place - 60, 0) : place + 30]


def _place(trace: Any) -> str:
    """Return the last line of this package in a traceback."""
    frames = [one for one in traceback.extract_tb(trace) if "/archgrad/" in one.filename]
    return f"{frames[-1].filename.rpartition('/archgrad/')[2]}:{frames[-1].lineno}" if frames else "outside"


@contextlib.contextmanager
def _bounded(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, hard))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)


def run_in_child(line: Sequence[str]) -> Outcome:
    """Run one command line in a fork of this process, which may crash."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.write(writing, json.dumps(run_line(line)).encode()[:60_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    if not told:
        return Outcome("crash", f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {status}")
    return Outcome(*json.loads(told))


def try_lines(
    count: int,
    seed: int,
    home: Path,
    tell: Callable[[list[str], Outcome], None],
    run: Callable[[list[str]], Outcome] = run_line,
) -> Counter[str]:
    """Run ``count`` lines in a folder; return the counts of outcomes by kind, and tell of each line."""
    counts: Counter[str] = Counter()
    make_folder(home)
    lines = Lines(seed, home)
    for _ in range(count):
        line = lines.line()
        outcome = run(line)
        counts[outcome.kind] += 1
        tell(line, outcome)
        _tidy(home)
    return counts


def _tidy(home: Path) -> None:
    """Remove what a line has written, so that the next one finds the same folder."""
    for name in ("new", "runs/" + "x", "x" * 300, "studies"):
        shutil.rmtree(home / name, ignore_errors=True)
    for path in (home / "runs").iterdir() if (home / "runs").is_dir() else ():
        shutil.rmtree(path, ignore_errors=True)


def _begin(*arguments: object) -> Any:
    raise Begun("the fuzz ends a search at the first step.")


def stub_training(replace: Callable[[object, str, Any], None]) -> None:
    """Let every search and every measurement of a run end where it would begin to compute."""
    replace(Run, "start", _begin)
    replace(study_module, "run_missing", _begin)
    build = Experiment.initial_state

    def begin_large(self: Experiment) -> Any:
        space: Any = getattr(self.space, "base", self.space)
        small = sum(block.cells for block in space.blocks) <= 12 and space.channels <= 100
        return build(self) if small else _begin()

    replace(Experiment, "initial_state", begin_large)
    command, digits = typer.main.get_command(app), datasets.load_digits()
    replace(typer.main, "get_command", lambda app: command)
    replace(datasets, "load_digits", lambda: digits)
    replace(inspect, "evaluate_at_state", _begin)
    replace(inspect, "supernet_evaluation", _begin)
    replace(estimate, "_VARIABLES", ())  # the number of threads is chosen, whatever the environment says
    replace(estimate, "_seconds", lambda *args: 1.0)
    replace(server, "run_server", _begin)
    replace(server.webbrowser, "open", _begin)
    replace(cost, "measure_latency", lambda *args, **sizes: 1.0)
    replace(export, "SUFFIXES", {**export.SUFFIXES, ".onnx": _begin, ".pt2": lambda model: (b"", model.network)})


def fuzz() -> None:
    """Run as many lines as asked for, and print the counts and each kind of bad outcome."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fork", action="store_true", help="run each line in a child, which may crash")
    parser.add_argument("--show", action="store_true", help="print every line")
    given = parser.parse_args()
    stub_training(setattr)
    kinds: dict[str, list[str]] = {}
    slow: list[tuple[float, str]] = []
    began = last = time.monotonic()

    def tell(line: list[str], outcome: Outcome) -> None:
        nonlocal last
        slow.append((time.monotonic() - last, f"{line!r:.200}"))
        last = time.monotonic()
        if given.show:
            _say(f"{outcome} {line!r:.200}")
        if outcome.kind not in ("ok", "sentence"):
            kinds.setdefault(f"{outcome.kind}: {outcome.detail}", []).append(f"{line!r:.300}")

    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        sys.path.insert(0, name)
        run_line(["search", "--out", "first", "--epochs", "1"])  # imports what the children need
        counts = try_lines(given.count, given.seed, Path(name), tell, run_in_child if given.fork else run_line)
        os.chdir("/")
    for kind, lines in sorted(kinds.items(), key=lambda item: -len(item[1])):
        _say(f"{len(lines)} × {kind}\n    {lines[0]}")
    _say("\n    ".join(["slowest:", *(f"{seconds:.1f} s {line}" for seconds, line in sorted(slow, reverse=True)[:5])]))
    _say(f"tried {given.count} in {time.monotonic() - began:.0f} s: {dict(counts)}, {len(kinds)} bad kinds")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    fuzz()
