"""What ``--checkpoint-cells`` saves and costs: the same computation, plain and with cells computed again.

``gradient`` is forward and the gradients of all weights and of the mixture. ``difference`` is a Hessian product by a
one-sided difference of gradients, and ``exact`` one by double backward. ``search`` is a search of a few steps by iDARTS
with all that it measures. ``tensors`` is the most that all tensors hold at a time, in megabytes; ``resident`` is what
the process grows by, with the holes that the C library leaves. ``ms`` is processor time.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import archgrad as ag
from archgrad.autodiff.products import products_of
from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.supernet import Supernet, recompute_cells
from benchmarks.common import Case, Report, in_new_process, options, peak_memory, times
from benchmarks.search_steps import random_images
from benchmarks.supernets import full_step, inputs

Step = Callable[[], object]

CASES = [Case("darts", 16, 8, 32, 64), Case("nasbench201", 16, 5, 32, 64)]
LARGE = ("exact", "search")
"""Measured with a quarter of the batch: an exact product keeps several times as much, and a search takes long."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each kind of computation at every size."""
    chosen, report = options(__doc__, CASES, arguments), Report()
    for full in chosen.cases:
        for kind in ("gradient", "difference", "exact", "search"):
            case = replace(full, batch=max(full.batch // 4, 4)) if kind in LARGE else full
            peaks: list[tuple[float | None, ...]] = [(None, None, None)] * 2
            if chosen.memory:
                peaks = [in_new_process(measure, case, kind, again) for again in (False, True)]
            columns = {"tensors_mb": [one[0] for one in peaks], "resident_mb": [one[1] for one in peaks]}
            if kind == "search" and chosen.memory:  # once is enough
                columns["ms"] = [one[2] for one in peaks]
            else:
                columns["ms"] = [*times([step_of(case, kind, again) for again in (False, True)], chosen.repeats)]
            report.add(kind=kind, **vars(case), **compared(columns))
    report.store(chosen.json)


def compared(columns: Mapping[str, Sequence[float | None]]) -> dict[str, float | None]:
    """Return the columns of pairs of numbers and their ratios."""
    row: dict[str, float | None] = {}
    for name, (plain, again) in columns.items():
        row |= {
            f"plain_{name}": plain,
            f"again_{name}": again,
            "ratio_" + name: again / plain if plain and again else None,
        }
    return row


def step_of(case: Case, kind: str, again: bool) -> Step:
    """Return what computes a gradient or a product, or searches."""
    if kind == "search":
        return lambda: search(case, again)
    torch.manual_seed(0)
    space = case.build()
    supernet, (images, labels, mixture) = space.supernet(), inputs(space, case)
    if again:
        recompute_cells(supernet)
    if kind == "gradient":
        return full_step(supernet, images, labels, mixture)
    return lambda: product(supernet, images, labels, Alpha(mixture), exact=kind == "exact")


def product(supernet: Supernet, images: Tensor, labels: Tensor, mixture: Alpha, exact: bool) -> object:
    """Return the product of the inner Hessian with the gradient."""

    def loss(weights: Weights, alpha: Alpha) -> Tensor:
        return F.cross_entropy(functional_call(supernet, weights, (images, alpha)), labels)

    weights = Weights({name: weight.detach() for name, weight in supernet.named_parameters()})
    products = products_of("exact" if exact else "forward", loss, weights, mixture)
    return products.hessian(products.gradient())


def measure(case: Case, kind: str, again: bool) -> tuple[float, float, float]:
    """Return the peak of the tensors and of the process in megabytes, and the milliseconds of processor time."""
    torch.set_num_threads(1)
    step = step_of(case, kind, again)
    resident, began = peak_memory(), time.process_time()
    with TensorMemory() as tensors:
        step()
    return tensors.peak / 2**20, peak_memory() - resident, 1e3 * (time.process_time() - began)


def search(case: Case, again: bool) -> object:
    """Search for two steps."""
    images = random_images(replace(case, batch=max(case.batch // 4, 4)))
    sizes: dict[str, Any] = {"batch_size": case.batch, "epochs": 1, "held_out": 0.0}
    return ag.search(case.build(), "idarts", images, checkpoint_cells=again, **sizes)


class TensorMemory(TorchDispatchMode):
    """Counts the bytes of all tensors that are made inside and not freed yet; ``peak`` is the most."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        for one in tree_leaves(found):
            if isinstance(one, Tensor) and (storage := one.untyped_storage())._cdata not in self._known:
                self._known.add(storage._cdata)
                self.now += storage.nbytes()
                self.peak = max(self.peak, self.now)
                weakref.finalize(storage, self._forget, storage._cdata, storage.nbytes())
        return found

    def _forget(self, storage: int, size: int) -> None:
        self._known.discard(storage)
        self.now -= size


if __name__ == "__main__":
    main()
