"""Wrong and odd command lines, drawn from what the commands and the parts declare, and how each of them ends.

`python -m tests.cli.fuzz --count 20000 --seed 1` tries as many as you like.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import inspect
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import typer
from PIL import Image
from sklearn import datasets

from archgrad.cli import app, cost, main
from archgrad.cli import inspect as inspecting
from archgrad.cli.listing import FAMILIES, KINDS
from archgrad.errors import ArchgradError
from archgrad.loop import estimate
from archgrad.loop.experiment import Experiment
from archgrad.loop.run import Run
from archgrad.models import export
from archgrad.pages import server
from archgrad.parts.knobs import knobs_of
from archgrad.recipes import RECIPES, listed, named
from archgrad.spaces import SPACES, NASBench201
from archgrad.studies import Benchmark, StudyPlan, Variant
from archgrad.studies import study as study_module
from archgrad.studies.folder import StudyFolder
from archgrad.system.warn_once import forget_warnings
from archgrad.tables.nasbench201 import measure_latency
from tests.models.trained import model_of

STORED = Path(__file__).parents[1] / "stored" / "run-1"
COUNT, SECONDS = 2000, 30
CELL = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|none~0|none~1|avg_pool_3x3~2|"

ESCAPES = "\x1b[31mred\x1b[0m\x07\x08"
ODD = [
    "", " ", "-", "--", "é", "a" * 5000, "a b " * 2000, ESCAPES, "\u202egnp", "\udcff", "%s%n", "{0}", "[bold]", "none",
    "auto", ",", "+", "a,b", "../..", "~nouser/x", "a\nb", "*", "a=b=c", ".", ":", "x:", "os:system", "raising:Part",
]  # fmt: skip
NUMBERS = [
    "-1", "0", "1", "2", "0.5", "1e3", "1e400", "nan", "-inf", "0x10", "1_000", "٣", "1000000000", "9" * 30, "9" * 5000,
    "1s", "5ms", "3M",
]  # fmt: skip
DAMAGED: dict[str, bytes] = {
    "empty": b"",
    "deep": b"[" * 100_000,
    "digits": b"9" * 6000,
    "null": b"null",
    "bytes": bytes(range(256)),
    "escapes": f'{{"{ESCAPES}": 1}}'.encode(),
    "long": f'x = "{"a b " * 5000}"'.encode(),
}
"""What may stand in a file of any kind; beside these there is its first half."""
HOSTILE: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "zero": lambda path: path.symlink_to("/dev/zero"),
    "circle": lambda path: path.symlink_to(path),
    "folder": Path.mkdir,
    "sparse": lambda path: (path.touch(), os.truncate(path, 2**40)),
}
"""What may stand in the place of a file."""

_RECORD = json.loads((STORED / "metrics.jsonl").read_text().splitlines()[0])
_WRONG: dict[str, list[Any]] = {
    "epoch": ["one", None, True, 1.5, -1, 10**400], "genotype": [7, True, []],
    "heldout_accuracy": [float("nan"), 10**400], "stopped_to": ["soon", 99, -5],
}  # fmt: skip
BAD_RECORDS = {
    "empty": "",
    "half": json.dumps(_RECORD)[:40],
    "deep": '{"epoch": 1, "genotype": ' + "[" * 100_000 + "}\n",
    "stopped": json.dumps({**_RECORD, "stopped_to": 99}) + "\n",
    "twice": 2 * (json.dumps(_RECORD) + "\n"),
    **{
        f"{name}-{n}": json.dumps({**_RECORD, name: one}) + "\n"
        for name, ones in _WRONG.items()
        for n, one in enumerate(ones)
    },
}
"""Records that another program has written."""


class Outcome(NamedTuple):
    """How a line ended: its kind (ok, sentence, traceback, hang, raw output), and what shows it."""

    kind: str
    detail: str


class Hang(BaseException):
    """Raised by the alarm in a line that takes too long."""


class Begun(ArchgradError):  # noqa: N818 - it is no error, it ends a line
    """Raised in place of the first step of a search."""


def make_folder(home: Path) -> None:
    """Fill a folder with a run, a study and a model, and with each of them damaged in every file and way."""
    shutil.copytree(STORED, home / "run")
    plan = StudyPlan((Variant("darts", "darts"),), (Benchmark("b", "nasbench201", "digits"),), (0,))
    folder = StudyFolder(home / "study")
    folder.write_plan(plan)
    folder.write_failures({})
    shutil.copytree(STORED, folder.run_folder(next(plan.runs())))
    model_of(NASBench201(channels=2, cells_per_stage=1), channels=1).save(home / "model")
    for name in ("run", "study", "model"):
        for file in [one.name for one in (home / name).iterdir() if one.suffix in (".json", ".toml", ".jsonl")]:
            content = (home / name / file).read_bytes()
            for way in (*DAMAGED, *HOSTILE, "half"):
                place = Path(shutil.copytree(home / name, home / f"{name}-{file}-{way}")) / file
                place.unlink()
                damage(place, way, content)
    for way in (*DAMAGED, *HOSTILE):
        for suffix in (".toml", ".json", ".csv", ".npz", ".onnx", ".svg", ".pt2"):
            damage(home / f"{way}{suffix}", way, b"")
    Image.new("L", (9, 12)).save(home / "picture.png")
    (home / "raising.py").write_text("1 / 0\n")
    (home / "runs").mkdir()


def damage(path: Path, way: str, content: bytes) -> None:
    """Write a file that is damaged in one of the ways, or is none."""
    if way in HOSTILE:
        HOSTILE[way](path)
    else:
        path.write_bytes(DAMAGED.get(way, content[: len(content) // 2]))


class Parameter(NamedTuple):
    """An argument or an option of a command, as its function declares it."""

    name: str
    kind: Any
    about: Any

    @classmethod
    def of(cls, one: inspect.Parameter) -> Parameter:
        """Read the annotation, ``Annotated[kind, typer.Option(…)]``."""
        kind, about = get_args(one.annotation)
        plain = [part for part in get_args(kind) if part is not type(None)] or [kind]
        return cls(one.name, (get_args(plain[0]) or plain)[0], about)

    @property
    def option(self) -> str | None:
        """How it is written; None for an argument."""
        if isinstance(self.about, typer.models.ArgumentInfo):
            return None
        written = self.about.param_decls or (f"--{self.name.replace('_', '-')}",)
        return str(written[0]).partition("/")[0]


SMALL = ["--limit", "40", "--epochs", "1", "--channels", "2", "--cells", "1", "--threads", "1"]
"""Sizes with which a search is quick to set up."""
FIRST = {"search": SMALL, "train": SMALL, "compare": SMALL, "select": [*SMALL[:4], "--threads", "1"]}
FIRST["fit"] = [*SMALL[:2], "--threads", "1", "--budget", "1s"]


class Lines:
    """A seeded generator of command lines over all commands and options."""

    def __init__(self, seed: int, home: Path) -> None:
        self.random = random.Random(seed)  # noqa: S311 - for tests
        functions = {one.__name__.removesuffix("_"): one for one in app._COMMANDS}
        self.commands = {
            name: [Parameter.of(each) for each in inspect.signature(one, eval_str=True).parameters.values()]
            for name, one in functions.items()
        }
        self.paths = [*(path.name for path in home.iterdir()), "/dev/full", "missing", "missing/x", "x" * 300]
        listed = [kind for what, kind in KINDS.items() if what != "devices"]  # which are those of a table
        self.names = [*KINDS, *(name for kind in listed for name in kind.rows()), CELL]
        self.knobs = list(_all_knobs())

    def line(self) -> list[str]:
        """Return a command with all of its arguments and some of its options."""
        draw = self.random
        if draw.random() < 0.02:
            return [draw.choice(ODD) for _ in range(draw.randint(0, 2))]
        command = draw.choices(list(self.commands), [6 if name in FIRST else 2 for name in self.commands])[0]
        line, options = [command, *FIRST.get(command, [])], []
        for one in self.commands[command]:
            if one.option is None:
                line.append(self._value(one))
            else:
                options.append(one)
        for one in draw.sample(options, min(len(options), draw.choice([0, 0, 1, 1, 2, 3]))):
            line += [one.option or ""] if one.kind is bool else [one.option or "", self._value(one)]
        return line if draw.random() < 0.98 else [*line, draw.choice(ODD)]

    def _value(self, one: Parameter) -> str:
        """Return a value of the declared kind, now and then any other."""
        draw = self.random
        words = (one.about.metavar or "").split("|")
        if one.name == "settings":
            return f"{draw.choice(self.knobs)}={draw.choice([*NUMBERS, *ODD])}"
        good = ["run", "study", "model", "new", "picture.png", CELL]
        pools = {Path: [self.paths, good, good], str: [self.names, words, self.paths, good]}
        pool = draw.choice([*2 * pools.get(one.kind, [NUMBERS, ["1", "2", "3"]]), ODD])
        return str(draw.choice(pool))


def _all_knobs() -> Iterator[str]:
    """Yield the paths of all knobs of all parts."""
    for family, prefix in FAMILIES.values():
        for name in family:
            yield from (f"{prefix or name}.{knob}" for knob in knobs_of(family.create(name)))
    for recipe in RECIPES:
        yield from (one.path for one in listed(named(recipe), SPACES.create("nasbench201")))


def run_line(line: list[str], seconds: float = SECONDS) -> Outcome:
    """Run one command line in this process, with a bound on its time."""
    out, err = io.StringIO(), io.StringIO()
    forget_warnings()
    faulthandler.dump_traceback_later(3 * seconds, exit=True)  # for a hang that no signal reaches
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
    except Exception as error:
        return Outcome("traceback", f"{type(error).__name__}: {str(error)[:80]!r} {_place(error.__traceback__)}")
    finally:
        faulthandler.cancel_dump_traceback_later()
    return _judged(code, out.getvalue(), err.getvalue())


def _judged(code: object, out: str, err: str) -> Outcome:
    """Return the kind of a line that ended by itself."""
    text = out + err
    odd = [place for place, letter in enumerate(text) if not (letter.isprintable() or letter in "\n\t")]
    if odd:
        return Outcome("raw output", f"control character in {text[max(odd[0] - 60, 0) : odd[0] + 30]!r}")
    if any(value in text for value in ("a" * 201, "9" * 201, "a b " * 51, "x" * 260)):
        return Outcome("raw output", f"a long value in {text[-600:][:200]!r}")
    if code not in (0, 1, 2) or "Traceback" in err:
        return Outcome("traceback", f"exit code {code!r}: {err[-300:]}")
    if code == 0 or "the first step" in err or "Commands:" in text:
        return Outcome("ok", "")
    return Outcome("sentence" if "error: " in err.lower() else "traceback", err.rstrip().rpartition("\n")[2])


def _place(trace: Any) -> str:
    """Return the last line of this package in a traceback."""
    frames = [one for one in traceback.extract_tb(trace) if "/archgrad/" in one.filename]
    return f"{frames[-1].filename.rpartition('/archgrad/')[2]}:{frames[-1].lineno}" if frames else "outside"


@contextlib.contextmanager
def _bounded(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def try_lines(count: int, seed: int, home: Path) -> tuple[Counter[str], list[str]]:
    """Run ``count`` lines in a folder; return the counts of outcomes by kind, and the lines that ended badly."""
    counts, bad = Counter[str](), list[str]()
    make_folder(home)
    before, lines = {path.name for path in home.iterdir()}, Lines(seed, home)
    for _ in range(count):
        line = lines.line()
        outcome = run_line(line)
        counts[outcome.kind] += 1
        if outcome.kind not in ("ok", "sentence"):
            bad.append(f"{outcome.kind}: {outcome.detail} <- {line!r:.300}")
        for path in [*(home / "runs").iterdir(), *(one for one in home.iterdir() if one.name not in before)]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return counts, bad


def _begin(*arguments: object) -> Any:
    raise Begun("the fuzz ends a search at the first step.")


def stub_training(replace: Callable[[object, str, Any], None]) -> None:
    """Let every search and every measurement of a run end where it would begin to compute."""
    build = Experiment.initial_state

    def begin_large(self: Experiment) -> Any:
        space: Any = getattr(self.space, "base", self.space)
        small = sum(block.cells for block in space.blocks) <= 12 and space.channels <= 100
        return build(self) if small else _begin()

    command, digits = typer.main.get_command(app.app), datasets.load_digits()
    replace(Experiment, "initial_state", begin_large)
    replace(typer.main, "get_command", lambda app: command)
    replace(datasets, "load_digits", lambda: digits)
    replace(cost, "measure_latency", lambda *args, **sizes: 1.0)
    replace(estimate, "_VARIABLES", ())  # the number of threads is chosen, whatever the environment says
    replace(estimate, "_seconds", lambda *args: 1.0)
    replace(export, "SUFFIXES", {**export.SUFFIXES, ".onnx": _begin, ".pt2": lambda model: (b"", model.network)})
    for place, name in (
        (Run, "start"), (study_module, "run_missing"), (inspecting, "evaluate_at_state"), (server.webbrowser, "open"),
        (inspecting, "supernet_evaluation"), (server, "run_server"), (measure_latency, "_seconds"),
    ):  # fmt: skip
        replace(place, name, _begin)


def fuzz() -> None:
    """Run as many lines as asked for, and print the counts and each bad outcome."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    stub_training(setattr)
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        sys.path.insert(0, name)
        counts, bad = try_lines(given.count, given.seed, Path(name))
        os.chdir("/")
    sys.stdout.write("\n".join([*bad, f"tried {given.count}: {dict(counts)}", ""]))


if __name__ == "__main__":
    fuzz()
