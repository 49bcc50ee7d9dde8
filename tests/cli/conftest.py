"""A small world for the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from archgrad.benchmarks.cells import codes_by_name


@pytest.fixture(scope="session")
def nasbench201_folder(tmp_path_factory) -> Path:
    """A data folder with a made-up accuracy table of all cells."""
    folder = tmp_path_factory.mktemp("data")
    header = "index,arch,cifar10_test,cifar100_test,imagenet16_test"
    rows = [f"{code},{name},{10 + code / 200:.4f},50.0,25.0" for name, code in codes_by_name().items()]
    (folder / "nasbench201").mkdir()
    (folder / "nasbench201" / "accuracy.csv").write_text("\n".join([header, *rows]) + "\n")
    return folder
