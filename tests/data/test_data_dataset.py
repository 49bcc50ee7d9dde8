"""The data set itself: checks, limits, sizes and normalization."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from archgrad.data import Augmentation, ImageData, Normalization, measure
from archgrad.data.resize import resize
from archgrad.errors import UserError


def toy(count: int = 60, classes: int = 3, size: int = 8, channels: int = 3) -> ImageData:
    images = torch.randint(0, 256, (count, channels, size, size), generator=torch.Generator().manual_seed(0))
    names = tuple(f"class {number}" for number in range(classes))
    return ImageData("toy", images.to(torch.uint8), torch.arange(count) % classes, names, Augmentation(2, True))


def test_properties() -> None:
    data = toy()
    assert (len(data), data.channels, data.image_size, data.num_classes) == (60, 3, 8, 3)
    assert "tensor" not in repr(data)


BYTES = torch.zeros(4, 3, 8, 8, dtype=torch.uint8)
LABELS = torch.tensor([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("images", "labels", "classes", "message"),
    [
        (BYTES.float(), LABELS, "ab", "are float32"),
        (BYTES[0], LABELS, "ab", "give uint8"),
        (BYTES, LABELS[:3], "ab", r"give int64 \[4\]"),
        (BYTES, LABELS.float(), "ab", "give int64"),
        (BYTES, LABELS - 1, "ab", "mislabeled: image 0 has the label -1"),
        (BYTES, LABELS * 2, "ab", "mislabeled: image 1 has the label 2, but the classes are 0 to 1"),
        (BYTES, LABELS * 0, "a", "has 1 class; give data with at least 2"),
        (BYTES[:0], LABELS[:0], "ab", "has no images"),
    ],
)
def test_bad_data_is_refused(images: Tensor, labels: Tensor, classes: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        ImageData("bad", images, labels, tuple(classes))


def test_images_need_not_be_square() -> None:
    data = ImageData("wide", torch.zeros(4, 3, 8, 12, dtype=torch.uint8), LABELS, ("a", "b"))
    assert (data.shape, data.image_size) == ((3, 8, 12), 8)
    assert data.resized(4).shape == (3, 4, 4)


def test_limited_is_stratified_and_repeatable() -> None:
    labels = torch.tensor([0] * 100 + [1] * 50 + [2] * 10)
    data = ImageData("uneven", torch.zeros(160, 1, 2, 2, dtype=torch.uint8), labels, ("a", "b", "c"))
    small = data.limited(32, seed=1)
    assert small.labels.bincount().tolist() == [20, 10, 2]
    images = torch.arange(160, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 2, 2)
    numbered = ImageData("numbered", images, labels, ("a", "b", "c"))
    assert torch.equal(numbered.limited(32, 1).images, numbered.limited(32, 1).images)
    assert not torch.equal(numbered.limited(32, 1).images, numbered.limited(32, 2).images)
    assert torch.equal(numbered.limited(160, 3).images, images)
    assert numbered.limited(3, 0).labels.tolist() == [0, 1, 2]


def test_limits_that_cannot_be() -> None:
    with pytest.raises(UserError, match="the limit is 61 images, but the data has 60"):
        toy().limited(61, 0)
    with pytest.raises(UserError, match="has 3 classes; use a limit of at least 3"):
        toy().limited(2, 0)


@pytest.mark.parametrize("factor", [2, 4, 8])
def test_integer_factors_average_exactly(factor: int) -> None:
    data = toy()
    blocks = data.images.numpy().astype(np.int64).reshape(60, 3, 8 // factor, factor, 8 // factor, factor)
    area = factor**2
    expected = (2 * blocks.sum((3, 5)) + area) // (2 * area)
    assert np.array_equal(data.resized(8 // factor).images.numpy(), expected)


def test_extremes_survive_every_size() -> None:
    for value in (0, 255):
        flat = torch.full((2, 3, 12, 12), value, dtype=torch.uint8)
        for size in (1, 4, 5, 7, 12, 20):
            assert torch.equal(resize(flat, size), torch.full((2, 3, size, size), value, dtype=torch.uint8))


def test_chunks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    images = toy().images
    whole = resize(images, 5), resize(images, 4)
    monkeypatch.setattr("archgrad.data.resize._PIXELS_AT_ONCE", 500)
    assert torch.equal(resize(images, 5), whole[0])
    assert torch.equal(resize(images, 4), whole[1])


def test_resizing_scales_the_augmentation() -> None:
    assert toy().resized(4).augmentation == Augmentation(1, True)
    with pytest.raises(UserError, match="image size is 0"):
        toy().resized(0)


def test_normalization_equals_numpy() -> None:
    data, chosen = toy(), torch.arange(0, 60, 7)
    found = measure(data, chosen)
    pixels = data.images[chosen].numpy().astype(np.float64) / 255
    assert np.allclose(found.mean, pixels.mean((0, 2, 3)), rtol=1e-12)
    assert np.allclose(found.std, pixels.std((0, 2, 3)), rtol=1e-12)
    result = found(data.images[chosen])
    assert result.dtype == torch.float32
    assert torch.allclose(result.mean((0, 2, 3)), torch.zeros(3), atol=1e-5)
    assert torch.allclose(result.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-5)


def test_a_constant_channel_becomes_zero() -> None:
    images = toy().images.clone()
    images[:, 1] = 77
    data = ImageData("flat", images, toy().labels, ("a", "b", "c"))
    assert measure(data)(images)[:, 1].abs().max() < 1e-6


def test_normalization_refuses_nonsense() -> None:
    with pytest.raises(UserError, match="greater than 0"):
        Normalization((0.5,), (0.0,))
    with pytest.raises(UserError, match="mean of Normalization"):
        Normalization((10**400,), (1.0,))
    with pytest.raises(UserError, match="one per channel"):
        Normalization((0.5,), (1.0, 1.0))
    with pytest.raises(UserError, match="3 channels, but the normalization was measured on 1"):
        Normalization((0.5,), (1.0,))(BYTES)
    with pytest.raises(UserError, match="no images"):
        measure(toy(), torch.tensor([], dtype=torch.long))


@pytest.mark.parametrize("turned", [False, True])
def test_images_that_are_not_square_are_cropped_padded_or_stretched(turned: bool, said: list[str]) -> None:
    columns = torch.arange(8, dtype=torch.uint8) * 30
    images = columns.expand(1, 1, 4, 8)  # 8 wide, 4 high, brighter to the right
    expected = {
        "crop": columns[2:6].expand(4, 4),
        "pad": torch.tensor([[0] * 4, [15, 75, 135, 195], [15, 75, 135, 195], [0] * 4], dtype=torch.uint8),
        "stretch": torch.tensor([15, 75, 135, 195], dtype=torch.uint8).expand(4, 4),
    }
    for fit, pixels in expected.items():
        found = resize(images.transpose(2, 3) if turned else images, 4, fit)[0, 0]
        assert torch.equal(found.T if turned else found, pixels), fit
    assert said == ["images that are not square are cut to their middle; --resize pad or --resize stretch shows all."]


def test_a_very_long_image_can_be_padded() -> None:
    assert resize(torch.full((1, 1, 1, 100_000), 7, dtype=torch.uint8), 8, "pad").sum() == 7 * 8
