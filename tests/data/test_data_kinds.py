"""What every kind of data does: in memory, arrays, datasets, Hugging Face, folders and parquet files read lazily."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets_of_all_kinds import HuggingFace, Pairs, Pictures
from image_files import png, write_folder, write_parquet
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from archgrad.data import Augmentation, Data, DatasetData, ImageData, Loader, folder, from_dataset, measure, parquet
from archgrad.errors import UserError

IMAGES = torch.randint(0, 256, (24, 3, 8, 10), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(24) // 8
AUGMENTATION = Augmentation(2, True, 4)
Make = Callable[[Path], Data]


@pytest.fixture
def always_lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archgrad.data.sources.encoded.MOST_IN_MEMORY", 0)


def of_folder(root: Path) -> Data:
    arrays = {
        f"{'abc'[label]}/{number:02}.png": image.permute(1, 2, 0).contiguous().numpy()
        for number, (image, label) in enumerate(zip(IMAGES, LABELS.tolist(), strict=True))
    }
    return folder(write_folder(root / "folder", arrays))


def of_parquet(root: Path) -> Data:
    encoded = [png(image.permute(1, 2, 0).contiguous().numpy()) for image in IMAGES]
    write_parquet(root / "train-0.parquet", 16, encoded=encoded[:16], labels=LABELS[:16].tolist(), names=list("abc"))
    write_parquet(root / "train-1.parquet", 8, encoded=encoded[16:], labels=LABELS[16:].tolist(), names=list("abc"))
    return parquet(root)


KINDS: dict[str, Make] = {
    "tensors": lambda root: from_dataset((IMAGES, LABELS), classes="abc"),
    "arrays": lambda root: from_dataset((IMAGES.numpy(), LABELS.numpy().astype(np.uint8)), classes="abc"),
    "tensor dataset": lambda root: from_dataset(TensorDataset(IMAGES, LABELS), classes="abc"),
    "with transform": lambda root: from_dataset((IMAGES, LABELS), classes="abc", transform=lambda image: image),
    "pairs": lambda root: from_dataset(Pairs(IMAGES, LABELS), classes="abc"),
    "pictures": lambda root: from_dataset(Pictures(IMAGES, LABELS)),
    "part": lambda root: from_dataset(Subset(Pictures(IMAGES.flip(0), LABELS.flip(0)), range(23, -1, -1))),
    "joined": lambda root: from_dataset(
        ConcatDataset([Pictures(IMAGES[:9], LABELS[:9]), Pictures(IMAGES[9:], LABELS[9:])]), classes="abc"
    ),
    "hugging face": lambda root: from_dataset(HuggingFace(IMAGES, LABELS)),
    "folder": of_folder,
    "parquet": of_parquet,
}


@pytest.fixture(params=KINDS)
def data(request: pytest.FixtureRequest, tmp_path: Path, always_lazy: None) -> Data:
    return KINDS[request.param](tmp_path)


def loader(data: Data, shard: tuple[int, int] = (0, 1), workers: int = 0) -> Loader:
    chosen = torch.arange(2, 23)
    return Loader(data, chosen, 7, measure(data, chosen), AUGMENTATION, 5, "weights", workers=workers, shard=shard)


def test_the_same_items_make_the_same_batches(data: Data) -> None:
    expected = ImageData("expected", IMAGES, LABELS, ("a", "b", "c"))
    assert (len(data), data.shape, data.classes, data.channels) == (24, (3, 8, 10), ("a", "b", "c"), 3)
    assert torch.equal(data.targets, LABELS)
    assert data.lazy != isinstance(data, ImageData)
    ours, theirs = loader(data), loader(expected)
    for index in (4, 0, 1, 4):
        assert torch.equal(ours.batch(index).inputs, theirs.batch(index).inputs)
        assert torch.equal(ours.batch(index).targets, theirs.batch(index).targets)


@pytest.mark.parametrize("world", [2, 9])
def test_shards_together_are_the_batch(data: Data, world: int) -> None:
    whole = loader(data)
    parts = [loader(data, (rank, world)) for rank in range(world)]
    for index in (3, 0):
        batch, shards = whole.batch(index), [part.batch(index) for part in parts]
        assert torch.equal(torch.cat([shard.inputs for shard in shards]), batch.inputs)
        assert [len(shard.inputs) for shard in shards] == [len(one) for one in torch.arange(7).tensor_split(world)]
        assert all(torch.equal(shard.targets, batch.targets) for shard in shards)


def test_limits_and_sizes(data: Data) -> None:
    expected = ImageData("expected", IMAGES, LABELS, ("a", "b", "c")).limited(6, 1).resized(4)
    some = data.limited(6, 1).resized(4)
    assert torch.equal(some.read(torch.arange(6)), expected.images)
    assert torch.equal(some.targets, expected.targets)
    assert some.augmentation == data.augmentation.scaled(8, 4)


def test_the_digest_tells_data_apart_and_repeats(data: Data, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    kind = request.node.callspec.params["data"]
    assert KINDS[kind](tmp_path).digest() == data.digest()
    assert data.limited(6, 1).digest() != data.digest() != data.resized(4).digest()


@pytest.mark.parametrize("source", ["folder", "parquet"])
def test_lazy_sources_read_what_they_would_keep(
    source: str, tmp_path: Path, always_lazy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, reader = {"folder": (of_folder, folder), "parquet": (of_parquet, parquet)}[source]
    write(tmp_path)
    path = tmp_path / "folder" if source == "folder" else tmp_path
    lazy = reader(path, limit=9, image_size=5, resize="pad", seed=3)
    monkeypatch.setattr("archgrad.data.sources.encoded.MOST_IN_MEMORY", 1 << 28)
    kept = reader(path, limit=9, image_size=5, resize="pad", seed=3)
    assert isinstance(lazy, DatasetData)
    assert isinstance(kept, ImageData)
    assert torch.equal(lazy.read(torch.arange(9)), kept.images)
    assert torch.equal(lazy.targets, kept.targets)
    assert (lazy.augmentation, lazy.classes, lazy.name) == (kept.augmentation, kept.classes, kept.name)
    assert lazy.origin == kept.origin


@pytest.mark.parametrize("channels", [1, 12])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.uint8], ids=["float32", "float64", "uint8"])
@pytest.mark.parametrize("lazy", [False, True])
def test_any_number_of_channels(channels: int, kind: torch.dtype, lazy: bool) -> None:
    values = torch.rand(20, channels, 6, 9, generator=torch.Generator().manual_seed(1)) * 200 - 100
    inputs = values.abs().to(kind) if kind == torch.uint8 else values.to(kind)
    data = from_dataset(Pairs(inputs, LABELS[:20]) if lazy else (inputs, LABELS[:20]))
    batch = Loader(data, torch.arange(20), 20, measure(data)).batch(0)
    assert batch.inputs.dtype == torch.float32
    assert batch.inputs.shape == (20, channels, 6, 9)
    assert torch.allclose(batch.inputs.mean((0, 2, 3)), torch.zeros(channels), atol=1e-5)
    assert torch.allclose(batch.inputs.std((0, 2, 3), correction=0), torch.ones(channels), atol=1e-5)


def test_a_normalization_can_be_given_or_left_out() -> None:
    from archgrad.data import Normalization, normalization_of

    inputs = torch.randn(6, 2, 4, 4)
    left = from_dataset((inputs, LABELS[6:12]), normalization=None)
    found = normalization_of(left, torch.arange(6))
    assert torch.equal(found(inputs), inputs)
    assert torch.equal(found(IMAGES[:, :2]), IMAGES[:, :2].float().mul(1 / 255))
    given = Normalization((1.0, 2.0), (2.0, 4.0))
    assert normalization_of(from_dataset((inputs, LABELS[6:12]), normalization=given), torch.arange(6)) is given
    with pytest.raises(UserError, match="has 2 means, but the inputs of 'arrays' have 3 channels"):
        from_dataset((IMAGES, LABELS), normalization=given)
    with pytest.raises(UserError, match="normalization is 'no'; it must be"):
        from_dataset((inputs, LABELS[6:12]), normalization="no")


def test_many_lazy_inputs_are_measured_by_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    data = from_dataset(Pairs(IMAGES, LABELS))
    exact = measure(data)
    monkeypatch.setattr("archgrad.data.normalize._MOST_MEASURED", 12)
    sampled = measure(data)
    assert sampled == measure(data) != exact
    assert sampled.mean == pytest.approx(exact.mean, abs=0.03)
    assert measure(ImageData("memory", IMAGES, LABELS, ("a", "b", "c"))) == exact


def test_targets_that_are_no_classes() -> None:
    many = torch.rand(24, 5)
    for given in ((IMAGES, many), Pairs(IMAGES, many)):
        data = from_dataset(given)
        assert (data.classes, data.num_classes, tuple(data.targets.shape)) == ((), 0, (24, 5))
        batch = loader(data).batch(0)
        assert batch.targets.shape == (7, 5)
        assert batch.targets.dtype == torch.float32
        assert len(data.limited(10, 0)) == 10
    multi_hot = from_dataset((IMAGES, np.eye(24, 4, dtype=bool)))
    assert multi_hot.targets.dtype == torch.float32
    ages = from_dataset(Pairs(IMAGES, LABELS * 20), classes=())
    assert (ages.classes, ages.targets.dtype) == ((), torch.float32)
    assert loader(ages).batch(0).targets.max() == 40
