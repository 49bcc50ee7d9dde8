"""Datasets that are wrong: one sentence that names the item, and the run directory can still be resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets_of_all_kinds import HuggingFace, Pairs
from torch.utils.data import IterableDataset, TensorDataset

import archgrad as ag
from archgrad.callbacks import Callback
from archgrad.data import from_dataset
from archgrad.errors import UserError

INPUTS = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))
TARGETS = torch.arange(40) % 2
SIZES: dict[str, Any] = {"channels": 4, "cells": 1, "epochs": 2, "batch_size": 8, "callbacks": (), "seed": 1}


class Bad(Pairs):
    """Gives ``wrong`` in place of item 17 once it is ``broken``."""

    broken = False
    targets = TARGETS

    def __init__(self, wrong: Any) -> None:
        super().__init__(INPUTS, TARGETS)
        self.wrong = wrong

    def __len__(self) -> int:
        return 39 if self.broken and self.wrong == "shorter" else 40

    def __getitem__(self, index: int) -> Any:
        if not (self.broken and index == 17):
            return super().__getitem__(index)
        if isinstance(self.wrong, Exception):
            raise self.wrong
        return self.wrong


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(())


class Lengthless(Pairs):
    def __len__(self) -> int:
        raise KeyError("n")


class Break(Callback):
    """Breaks a dataset after the first epoch."""

    def __init__(self, dataset: Bad) -> None:
        self.dataset = dataset

    def on_epoch_end(self, search: Any, record: Any) -> None:
        self.dataset.broken = True


NAN = INPUTS[0].clone()
NAN[0, 3, 3] = torch.nan
WRONG: dict[str, tuple[Any, str]] = {
    "raises": (KeyError("no such\nfile"), r"item 17 of 'Bad' cannot be read \(KeyError: 'no such.*file'\); correct"),
    "quits": (RuntimeError("x" * 9999), r"item 17 of 'Bad' cannot be read \(RuntimeError: x{106}\); correct"),
    "shorter": ("shorter", r"the dataset 'Bad' had 40 items at first and has 39 now"),
    "NaN": ((NAN, 1), "input 17 of 'Bad' has NaN or infinite values; correct or remove it"),
    "shape": (
        (INPUTS[0, :, :5], 1),
        r"input 17 of 'Bad' is float32 \[1, 5, 8\], but the inputs are float32 .1, 8",
    ),
    "bytes": ((INPUTS[0].to(torch.uint8), 1), r"input 17 of 'Bad' is uint8 \[1, 8, 8\], but the inputs are float32"),
    "integers": ((INPUTS[0].long(), 1), r"input 17 of 'Bad' is int64 \[1, 8, 8\]; give bytes \(uint8\) or floats"),
    "flat": ((INPUTS[0, 0, 0], 1), r"input 17 of 'Bad' is float32 \[8\]; give bytes"),
    "text": (("an image", 1), r"input 17 of 'Bad' is 'an image' \(str\); give a tensor"),
    "target": ((INPUTS[17], 0), "item 17 of 'Bad' has the target 0, but the targets known before are 1 there"),
    "no pair": (INPUTS[17], r"item 17 of 'Bad' is float32 \[1, 8, 8\]; a dataset must give pairs"),
    "three": ((1, 2, 3), r"item 17 of 'Bad' is \(1, 2, 3\) \(tuple\); a dataset must give pairs"),
    "dictionary": ({"audio": 1}, r"item 17 of 'Bad' is \{'audio': 1\} \(dict\); a dataset must give pairs"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_item_is_named(kind: str) -> None:
    dataset = Bad(WRONG[kind][0])
    data = from_dataset(dataset)
    data.read(torch.tensor([16, 17]))
    dataset.broken = True
    with pytest.raises(UserError, match=WRONG[kind][1]) as error:
        data.read(torch.tensor([16, 17]))
    assert len(str(error.value)) < 300
    assert "\n" not in str(error.value)


def test_a_search_that_meets_it_can_be_resumed(tmp_path: Path) -> None:
    dataset = Bad(WRONG["raises"][0])
    with pytest.raises(UserError, match=WRONG["raises"][1]):
        ag.search("nasbench201", "gaea", dataset, out=tmp_path / "run", **SIZES | {"callbacks": [Break(dataset)]})
    resumed = ag.resume(tmp_path / "run", data=Bad(None))
    assert [record["epoch"] for record in resumed.history] == [1, 2]
    whole = ag.search("nasbench201", "gaea", Bad(None), **SIZES)
    assert all(torch.equal(resumed.alpha[name], whole.alpha[name]) for name in whole.alpha)


@pytest.mark.parametrize(
    ("data", "settings", "sentence"),
    [
        (Pairs(torch.cat([INPUTS[:5], INPUTS[:1] / 0]), TARGETS[:6]), {}, "input 5 of 'Pairs' has NaN"),
        ((torch.cat([INPUTS[:5], INPUTS[:1] / 0]), TARGETS[:6]), {}, "input 5 of 'arrays' has NaN"),
        ((INPUTS, TARGETS[:39]), {}, "has 40 inputs but 39 targets"),
        ((INPUTS, TARGETS.float() / 0), {}, "target 0 of 'arrays' has NaN"),
        (Pairs(INPUTS, TARGETS.float() / 0), {}, "target 0 of 'Pairs' has NaN"),
        ((INPUTS, TARGETS - 1), {}, "mislabeled: image 0 has the label -1"),
        ((INPUTS, TARGETS * 1000), {}, "it has 40 images but a label 1000"),
        ((INPUTS, TARGETS), {"classes": ("a",)}, "image 1 has the label 1, but the classes are 0 to 0"),
        ((INPUTS, TARGETS.float()), {"classes": ("a", "b")}, "are floats, so they have no classes"),
        ((INPUTS.long(), TARGETS), {}, r"inputs of 'arrays' is int64 \[40, 1, 8, 8\]; give bytes"),
        ((INPUTS[:, 0, 0], TARGETS), {}, r"is float32 \[40, 8\]; give bytes"),
        ((INPUTS.to(torch.uint8).expand(-1, 8, -1, -1)[..., :3], TARGETS), {}, "looks like .height, width, channels."),
        ((INPUTS, INPUTS), {}, r"targets of 'arrays' is float32 \[40, 1, 8, 8\]; give \[N\] or \[N, K\]"),
        ((INPUTS, list("ab" * 20)), {}, "targets of 'arrays' is .*; give numbers"),
        ((np.array([object()]), TARGETS), {}, r"an array is object \[1\]; give bytes"),
        ((INPUTS, TARGETS, TARGETS), {}, "the data has 3 tensors; give two"),
        (TensorDataset(INPUTS), {}, "the data has 1 tensors; give two"),
        (Pairs(INPUTS, TARGETS), {"targets": TARGETS[:3]}, "has 40 inputs but 3 targets"),
        (Pairs(INPUTS, TARGETS), {"targets": 1 - TARGETS}, "item 0 of 'Pairs' has the target .* before are 1 there"),
        (Pairs(INPUTS[:0], TARGETS[:0]), {}, "the dataset 'Pairs' has no items; check where it reads them from"),
        ({"train": 1, "test": 2}, {}, r"the data is a dict of \['train', 'test'\]; give one of them"),
        (iter([]), {}, "so give a map-style dataset"),
        (Endless(), {}, "so give a map-style dataset"),
        (Lengthless(INPUTS, TARGETS), {}, r"'Lengthless' does not tell its length \(KeyError: 'n'\); correct"),
        (7, {}, "the data is 7; a search reads items by their number"),
        ([(1, "a")], {}, r"input 0 of 'list' is 1 \(int\); give a tensor"),
        ([(INPUTS[0], "a")], {}, r"the target of item 0 of 'list' is 'a' \(str\); give numbers"),
        ([(INPUTS[0], 0), (INPUTS[0], 0.5)], {}, r"the target of item 1 of 'list' is float32 \[\], but that of item 0"),
        (HuggingFace(INPUTS.to(torch.uint8), TARGETS), {"transform": 3}, "transform is 3; it must be a function"),
    ],
)  # fmt: skip
def test_wrong_data_is_refused_before_a_search(data: Any, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as error:
        from_dataset(data, **settings)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("transform", "sentence"),
    [
        (lambda given: given[:, 1:], r"input 3 of 'arrays' becomes by its transform float32 \[1, 7, 8\], but"),
        (lambda given: given / 0, r"input 3 of 'arrays \(transformed\)' has NaN or infinite values"),
        (lambda given: None, r"input 3 of 'arrays \(transformed\)' is None"),
        (lambda given: 1 / 0, r"the transform of 'arrays' fails on input 3 \(ZeroDivisionError: division by zero\)"),
        (lambda given, generator: given[0, 0, 0], r"input 3 of .* is float32 \[\]; give bytes"),
    ],
)
def test_wrong_transforms_name_the_input(transform: Any, sentence: str) -> None:
    data = from_dataset((INPUTS, TARGETS), transform=transform)
    data.read(torch.tensor([3]))
    with pytest.raises(UserError, match=sentence):
        data.read(torch.tensor([3]), training=True)


def test_data_is_compared_on_resume(tmp_path: Path) -> None:
    ag.search("nasbench201", "gaea", (INPUTS, TARGETS), out=tmp_path / "run", **SIZES)
    with pytest.raises(UserError, match=r"data that cannot be named in a file; .* archgrad\.resume\(DIR, data=…\)"):
        ag.resume(tmp_path / "run")
    with pytest.raises(UserError, match=r"belongs to another search: its data\.digest is"):
        ag.resume(tmp_path / "run", data=(INPUTS + 1, TARGETS))
    assert ag.resume(tmp_path / "run", data=(INPUTS.numpy(), TARGETS)).history[-1]["epoch"] == 2
