"""The loader: batches are pure functions of their number."""

from __future__ import annotations

import pytest
import torch

from archgrad.data import Augmentation, Batch, ImageData, Loader, Normalization
from archgrad.errors import UserError

IDENTITY = Normalization((0.0,), (1 / 255,))


def numbered(count: int = 50, size: int = 4) -> ImageData:
    """Make data in which image i has only pixels of the value i."""
    images = torch.arange(count, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, size, size).contiguous()
    return ImageData("numbered", images, torch.arange(count) % 2, ("even", "odd"))


def loader(batch_size: int = 8, seed: int = 0, stream: str = "weights", vary: Augmentation | None = None) -> Loader:
    return Loader(numbered(), torch.arange(10, 40), batch_size, IDENTITY, vary, seed, stream)


def shown(batch: Batch) -> list[int]:
    return batch.inputs[:, 0, 0, 0].round().int().tolist()


def test_a_pass_shows_every_image_at_most_once() -> None:
    batches = loader()
    assert batches.steps == 3
    seen = [number for index in range(3) for number in shown(batches.batch(index))]
    assert len(set(seen)) == 24
    assert set(seen) <= set(range(10, 40))
    assert shown(batches.batch(3)) != shown(batches.batch(0))


def test_labels_belong_to_their_images() -> None:
    batch = loader().batch(4)
    assert [number % 2 for number in shown(batch)] == batch.targets.tolist()


def test_batches_do_not_depend_on_what_was_asked_before() -> None:
    vary = Augmentation(crop_padding=1, flip=True, cutout=2)
    forwards = loader(vary=vary)
    in_order = [forwards.batch(index) for index in range(12)]
    backwards = loader(vary=vary)
    for index in (11, 0, 7, 7, 3):
        again = backwards.batch(index)
        assert torch.equal(again.inputs, in_order[index].inputs)
        assert torch.equal(again.targets, in_order[index].targets)


def test_seed_and_stream_change_the_order() -> None:
    first = shown(loader().batch(0))
    assert shown(loader(seed=1).batch(0)) != first
    assert shown(loader(stream="architecture").batch(0)) != first


def test_less_than_one_batch_is_one_batch() -> None:
    batches = loader(batch_size=64)
    assert batches.steps == 1
    assert sorted(shown(batches.batch(2))) == list(range(10, 40))


def test_crops_bring_in_black_and_cutout_the_mean() -> None:
    images = torch.full((4, 1, 8, 8), 200, dtype=torch.uint8)
    data = ImageData("flat", images, torch.tensor([0, 1, 0, 1]), ("a", "b"))
    normalization = Normalization((0.5,), (0.25,))
    white, black = normalization(torch.tensor([200, 0], dtype=torch.uint8).view(1, 1, 1, 2)).flatten().tolist()
    cropped = Loader(data, torch.arange(4), 4, normalization, Augmentation(crop_padding=4)).batch(0)
    assert set(cropped.inputs.unique().tolist()) == {white, black}
    cut = Loader(data, torch.arange(4), 4, normalization, Augmentation(cutout=4)).batch(0)
    assert set(cut.inputs.unique().tolist()) == {white, 0.0}


def test_images_are_channels_last_floats() -> None:
    images = torch.randint(0, 256, (6, 3, 8, 8), dtype=torch.uint8)
    data = ImageData("color", images, torch.arange(6) % 2, ("a", "b"))
    normalization = Normalization((0.5, 0.4, 0.3), (0.2, 0.2, 0.2))
    for vary in (None, Augmentation(1, True, 2)):
        batch = Loader(data, torch.arange(6), 3, normalization, vary).batch(0)
        assert batch.inputs.dtype == torch.float32
        assert batch.inputs.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("indices", "batch_size", "message"),
    [([0, 1], 0, "batch size is 0"), ([], 4, "no images"), ([0, 50], 4, "has 50 images"), ([-1], 4, "outside")],
)
def test_bad_arguments(indices: list[int], batch_size: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Loader(numbered(), torch.tensor(indices, dtype=torch.long), batch_size, IDENTITY)


def test_batches_are_numbered_from_zero() -> None:
    with pytest.raises(UserError, match="the batch number is -1; give a number from 0 on"):
        loader().batch(-1)
