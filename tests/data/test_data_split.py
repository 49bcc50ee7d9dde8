"""Splits: disjoint, stratified, repeatable, and refused with a sentence."""

from __future__ import annotations

import pytest
import torch

from archgrad.data import parse_split, split
from archgrad.errors import UserError


@pytest.mark.parametrize("fractions", [(0.5, 0.5), (0.1, 0.025), (0.7, 0.3), (0.333, 0.333), (0.9, 0.1)])
@pytest.mark.parametrize("counts", [(400, 400, 400), (1000, 500, 200), (401, 399, 203)])
def test_parts_are_disjoint_and_stratified(fractions: tuple[float, float], counts: tuple[int, ...]) -> None:
    labels = torch.arange(3).repeat_interleave(torch.tensor(counts))[torch.randperm(sum(counts))]
    parts = split(labels, fractions, seed=3)
    both = torch.cat([parts.weights, parts.architecture])
    assert len(both.unique()) == len(both)
    for indices, fraction in zip((parts.weights, parts.architecture), fractions, strict=True):
        assert abs(len(indices) - fraction * len(labels)) <= 1
        assert torch.equal(indices, indices.sort().values)
        for label, count in enumerate(counts):
            assert abs(int((labels[indices] == label).sum()) - fraction * count) <= 1.5


def test_every_class_is_in_both_parts_however_uneven() -> None:
    draws = torch.Generator().manual_seed(0)
    for trial in range(100):
        counts = torch.randint(2, 3 + trial, (1 + trial % 7,), generator=draws)
        labels = torch.arange(len(counts)).repeat_interleave(counts)
        parts = split(labels, seed=trial)
        assert sorted(parts.weights.tolist() + parts.architecture.tolist()) == list(range(len(labels)))
        assert len(labels[parts.weights].unique()) == len(labels[parts.architecture].unique()) == len(counts)


def test_the_seed_decides() -> None:
    labels = torch.arange(100) % 2
    assert torch.equal(split(labels, seed=1).weights, split(labels, seed=1).weights)
    assert not torch.equal(split(labels, seed=1).weights, split(labels, seed=2).weights)


def test_single_level_is_all_the_data_twice() -> None:
    parts = split(torch.tensor([0, 1, 1]), None)
    assert parts.weights.tolist() == parts.architecture.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("fractions", "message"),
    [
        ((0.8, 0.3), "0.8:0.3 takes 1.1 times the data"),
        ((0.5, 0.0), "both fractions must be above 0"),
        ((-0.5, 0.5), "both fractions must be above 0"),
        ((float("nan"), 0.5), r"fractions is \(nan, 0.5\); it must be a tuple of 2 values, each a finite number"),
        ((0.5, 0.01), "the architecture part of the split would have 0 of 40 images for 2 classes"),
        ((0.03, 0.5), "the weights part of the split would have 1 of 40 images for 2 classes"),
    ],
)
def test_splits_that_cannot_be(fractions: tuple[float, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        split(torch.arange(40) % 2, fractions)


def test_a_class_with_one_image_cannot_be_split() -> None:
    with pytest.raises(UserError, match="class 1 has one image"):
        split(torch.tensor([0] * 10 + [1]))
    with pytest.raises(UserError, match="class 'dog' has one image"):
        split(torch.tensor([0] * 10 + [1]), classes=("cat", "dog"))


@pytest.mark.parametrize("text", ["", "half", "0.5", "0.5:0.3:0.2", "0.5,0.5", "a:b", "1:1", "0:1", "inf:0.5", "nan:1"])
def test_parsing_refuses(text: str) -> None:
    with pytest.raises(UserError, match="split"):
        parse_split(text)


@pytest.mark.parametrize(("images", "classes", "held"), [(200, 100, 20), (500, 100, 50), (20, 10, 2), (1000, 10, 100)])
def test_no_more_is_held_out_than_asked_for(images: int, classes: int, held: int) -> None:
    labels = torch.arange(images) % classes
    parts = split(labels, None, seed=1, held_out=0.1)
    assert len(parts.held_out) == held
    assert len(parts.weights) == images - held
    assert not set(parts.held_out.tolist()) & set(parts.weights.tolist())
    assert len(labels[parts.weights].unique()) == classes
    bilevel = split(labels, (0.5, 0.5), seed=1, held_out=0.1)
    assert set(bilevel.held_out.tolist()) <= set(bilevel.architecture.tolist())
    assert len(bilevel.held_out) == held


def test_a_class_of_one_image_is_never_held_out() -> None:
    labels = torch.tensor([0] * 50 + [1])
    parts = split(labels, None, seed=0, held_out=0.2)
    assert 50 in parts.weights.tolist()
    assert len(parts.held_out) == 10
