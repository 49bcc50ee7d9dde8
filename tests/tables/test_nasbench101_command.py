from __future__ import annotations

import io
import json

import pytest
from records101 import REAL, converted, needs_real, record, write
from rich.console import Console

from archgrad.callbacks.progress import reading_progress
from archgrad.spaces.nasbench101 import Module
from archgrad.spaces.nasbench201_cells import codes_by_name

GENOTYPE = "[conv3x3-bn-relu~0][conv3x3-bn-relu~0,1][maxpool3x3~0,1][maxpool3x3~0,1][output~0,2]"
MODULE = {
    "matrix": [[0, 1, 1, 1], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]],
    "ops": ["input", "conv3x3-bn-relu", "conv3x3-bn-relu", "output"],
}
"""What is left of GENOTYPE without its loose ends."""
CELL_201 = "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|"


@pytest.fixture
def table(tmp_path):
    """Two cells after 4 epochs, and two runs of one of them after 108."""
    cell, skip = Module.parse(json.dumps(MODULE)), Module(((0, 1), (0, 0)), ("input", "output"))
    runs = [(cell, 0.5, 4), (skip, 0.75, 4), (cell, 0.875, 108), (cell, 0.9375, 108)]
    records = [record(module, valid - 0.125, valid, epochs, parameters=99) for module, valid, epochs in runs]
    return converted(write(tmp_path / "some.tfrecord", *records))


@pytest.mark.parametrize("asked", [GENOTYPE, json.dumps(MODULE)])
def test_query_of_a_genotype_and_of_a_module(archgrad, table, asked):
    code, out, err = archgrad("query", asked, "--table", table, "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert {name: answer[name] for name in ("matrix", "ops", "parameters", "cells")} == MODULE | {
        "parameters": 99,
        "cells": 2,
    }
    assert [(found["epochs"], found["cells"], found["valid"]["rank"]) for found in answer["trained"]] == [
        (4, 2, 2),
        (108, 1, 1),
    ]
    assert answer["trained"][1]["valid"] == {"mean": 90.625, "std": 4.4194, "runs": [87.5, 93.75], "rank": 1}
    assert answer["trained"][1]["test"]["mean"] == 78.125
    regret = answer["regret"]["nasbench1shot1-1"]
    assert (regret["test"], regret["valid"]) == (16.426, 4.447)
    assert set(answer["regret"]) >= {"nasbench1shot1-1"}
    code, out, err = archgrad("query", asked, "--table", table)
    assert (code, err) == (0, "")
    assert "0 1 1 1   input" in out
    assert "99 trainable parameters" in out
    assert "108 epochs   valid  90.62 ± 4.42 %, rank 1   test  78.12 ± 4.42 %, rank 1   of 1" in out
    assert "regret in nasbench1shot1-1: test 16.43 %, valid 4.45 % to the published optimum" in out


def test_query_of_files_and_run_directories(archgrad, table, tmp_path):
    (tmp_path / "cell.json").write_text(json.dumps(MODULE | {"hash": "whatever"}))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "genotype.json").write_text(GENOTYPE)
    answers = [archgrad.run("query", name, "--table", table, "--json") for name in ("cell.json", "run")]
    assert json.loads(answers[0])["hash"] == json.loads(answers[1])["hash"]


def test_a_module_is_drawn_without_its_loose_ends(archgrad):
    matrix = [[0, 1, 1, 0, 1], [0, 0, 1, 0, 0], [0, 0, 0, 1, 1], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]]
    operations = ["input", "conv3x3-bn-relu", "maxpool3x3", "conv1x1-bn-relu", "output"]
    code, out, err = archgrad("draw", json.dumps({"matrix": matrix, "ops": operations}))
    assert (code, err) == (0, "")
    assert out.split("\n")[1:5] == [
        "  0  (input)",
        "  1  [conv3x3-bn-relu]  ◄── 0",
        "  2  [maxpool3x3]       ◄── 0, 1",
        "  3  (output)           ◄── 0, 2",
    ]
    code, _, err = archgrad("draw", '{"matrix": [[0]], "ops": ["input"]}')
    assert (code, err[:6]) == (2, "error:")


def test_query_of_the_best_cell(archgrad, table):
    assert json.loads(archgrad.run("query", "--best", "--table", table, "--json"))["matrix"] == MODULE["matrix"]


@pytest.mark.parametrize("name", ["table.csv", "TABLE.CSV"])
def test_query_of_the_best_cell_of_nasbench201(archgrad, tmp_path, name):
    rows = [f"{name},{code / 200},{code / 400},50.0" for name, code in codes_by_name().items()]
    (tmp_path / name).write_text("\n".join(["arch,cifar10_test,cifar100_test,imagenet16_test", *rows]))
    out = archgrad.run("query", "--best", "--table", name)
    assert "cifar10          78.12 %   rank 1 of 15625   regret 0.00" in out


def test_a_terminal_gets_a_bar_and_nothing_before_it_is_needed():
    silent, busy = (Console(file=io.StringIO(), force_terminal=True, width=80) for _ in range(2))
    with reading_progress(silent):
        pass
    with reading_progress(busy) as progress:
        progress(5, 10)
        progress(10, 10)
    assert "reading" not in silent.file.getvalue()
    assert "reading the table (only once)" in busy.file.getvalue()
    assert "100%" in busy.file.getvalue()


def test_elsewhere_there_is_a_line_for_every_tenth():
    console = Console(file=io.StringIO())
    with reading_progress(console) as progress:
        for done in range(0, 2_000_001, 1000):
            progress(done, 2_000_000)
        progress(0, 0)
    lines = console.file.getvalue().splitlines()
    assert [line.split(":")[1].split("%")[0].strip() for line in lines] == [str(10 * tenth) for tenth in range(11)]


def test_many_images_get_lines_too_and_few_get_none():
    console = Console(file=io.StringIO())
    for total in (100, 4000):
        with reading_progress(console, images=True) as progress:
            progress(total // 2, total)
    assert console.file.getvalue().splitlines() == ["reading images: 50 % of 4,000"]


@needs_real
def test_the_best_cell_of_the_real_file(archgrad):
    code, _, err = archgrad("convert", REAL, "-o", "real.parquet")
    assert code == 0
    assert "reading the table (only once): 100 %" in err
    out = archgrad.run("query", "--best", "--table", "real.parquet")
    assert "cell ea9270f536a1f1094f446246dad4fe89" in out
    assert "21,220,234 trainable parameters" in out
    assert "108 epochs   valid  94.25 ± 0.09 %, rank 1   test  93.35 ± 0.09 %, rank 1   of 91" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either a genotype to look up, or --best"),
        (["--best"], "--best with --table FILE"),
        ([GENOTYPE, "--best", "--table", "some.parquet"], "give either a genotype"),
        ([GENOTYPE], "no NAS-Bench-101 table was found; convert"),
        ([GENOTYPE, "--table", "absent.parquet"], "there is no table of NAS-Bench-101 at 'absent.parquet'"),
        ([GENOTYPE, "--table", "cut.parquet"], "is not a table of NAS-Bench-101"),
        (["--best", "--table", "cut.parquet"], "is not a table of NAS-Bench-101"),
        ([GENOTYPE, "--table", "some.tfrecord"], "some.tfrecord -o nasbench101.parquet, and then give --table"),
        (["--best", "--table", "some.tfrecord"], "becomes a table with: archgrad convert PATH"),
        ([GENOTYPE.replace("conv3x3-bn-relu~0,1", "conv1x1-bn-relu~0,1"), "--table", "some.parquet"], "is not in"),
        (['{"matrix": [[0]], "ops": []}', "--table", "some.parquet"], "the matrix of a module has 1 rows"),
        (["[conv3x3-bn-relu~0][output~1]", "--table", "some.parquet"], "is not a cell within NAS-Bench-101"),
        (["/dev/zero", "--table", "some.parquet"], "the file with a genotype '/dev/zero' is a device"),
        (
            ["long.json", "--table", "some.parquet"],
            "'long.json' has 1,000,001 bytes or more; at most",
        ),
        ([GENOTYPE, "--table", "a.CSV"], "the name of a.CSV says that it is a table of NAS-Bench-201, but"),
        ([json.dumps(MODULE), "--table", "a.csv"], "a table of NAS-Bench-201, but the cell is from NAS-Bench-101"),
        ([CELL_201, "--table", "some.parquet"], "a table of NAS-Bench-101, but the cell is from NAS-Bench-201"),
    ],
)
def test_mistakes_are_sentences(archgrad, table, arguments, message):
    (table.parent / "cut.parquet").write_bytes(table.read_bytes()[:100])
    (table.parent / "long.json").write_text(" " * 1_000_001)
    code, out, err = archgrad("query", *arguments)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())
    assert err.count("error: ") == 1
    assert "Traceback" not in err
