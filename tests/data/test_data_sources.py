"""Parquet files, folders, NumPy archives, the digits, and data by name."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from archgrad.data import SOURCES, digits, folder, load, npz, parquet
from archgrad.errors import UserError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
Image = pytest.importorskip("PIL.Image")


def pixels(number: int, height: int = 8, width: int = 8, channels: int = 3) -> np.ndarray:
    array = np.random.default_rng(number).integers(0, 256, (height, width, channels), dtype=np.uint8)
    return array[:, :, 0] if channels == 1 else array


def png(array: np.ndarray, kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(array).save(stream, kind)
    return stream.getvalue()


def write_parquet(
    path: Path, count: int = 12, layout: str = "struct", label: str = "label", start: int = 0, **changes: Any
) -> Path:
    encoded = changes.get("encoded") or [png(pixels(number)) for number in range(start, start + count)]
    labels = pa.array(changes.get("labels") or [number % 3 for number in range(count)])
    if layout == "struct":
        columns = {"img": pa.array([{"bytes": item, "path": None} for item in encoded], changes.get("type"))}
    elif layout == "flat":
        columns = {"img.bytes": pa.array(encoded), "img.path": pa.array(["x"] * count)}
    else:
        columns = {"extra": pa.array([b"no"] * count), "image": pa.array(encoded)}
    table = pa.table({**columns, label: labels})
    if names := changes.get("names"):
        info = {"info": {"features": {label: {"names": names, "_type": "ClassLabel"}}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(info)})
    pq.write_table(table, path)
    return path


@pytest.mark.parametrize("layout", ["struct", "flat", "plain"])
@pytest.mark.parametrize("label", ["label", "labels", "fine_label", "y"])
def test_parquet_layouts(tmp_path: Path, layout: str, label: str) -> None:
    data = parquet(write_parquet(tmp_path / "some.parquet", layout=layout, label=label))
    expected = np.stack([pixels(number) for number in range(12)]).transpose(0, 3, 1, 2)
    assert np.array_equal(data.images.numpy(), expected)
    assert data.labels.tolist() == [number % 3 for number in range(12)]
    assert data.classes == ("0", "1", "2")
    assert data.name == "parquet:some.parquet"


def test_parquet_class_names(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", names=["ant", "bee", "cat"])
    assert parquet(path).classes == ("ant", "bee", "cat")
    assert parquet(path, classes=["x", "y", "z"]).classes == ("x", "y", "z")


def test_parquet_limit_and_size_equal_doing_it_afterwards(tmp_path: Path) -> None:
    write_parquet(tmp_path / "train-0.parquet", 300)
    write_parquet(tmp_path / "train-1.parquet", 300, start=300)
    whole = parquet(tmp_path)
    assert len(whole) == 600
    for size in (4, 5, 12):
        some = parquet(tmp_path, limit=31, image_size=size, seed=4)
        expected = whole.limited(31, 4).resized(size)
        assert torch.equal(some.images, expected.images)
        assert torch.equal(some.labels, expected.labels)
        assert some.augmentation == expected.augmentation


def test_parquet_decodes_only_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from archgrad.data.sources import decode

    decoded: list[str] = []
    original = decode._decode
    monkeypatch.setattr(decode, "_decode", lambda file: decoded.append(file.name) or original(file))
    parquet(write_parquet(tmp_path / "a.parquet", 300), limit=6)
    assert len(decoded) == 6


def test_parquet_folders_and_lists(tmp_path: Path) -> None:
    train = write_parquet(tmp_path / "train.parquet", 12)
    test = write_parquet(tmp_path / "test.parquet", 6, start=100)
    assert len(parquet(tmp_path)) == 12
    assert len(parquet(tmp_path, train=False)) == 6
    assert len(parquet([train, test])) == 18
    train.unlink()
    with pytest.raises(UserError, match=r"has test\.parquet; give it files that start with train"):
        parquet(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="has no parquet files"):
        parquet(tmp_path / "empty")
    with pytest.raises(UserError, match="list of parquet files is empty"):
        parquet([])
    with pytest.raises(UserError, match="no parquet file or folder at"):
        parquet(tmp_path / "absent.parquet")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": [0, 1, None] * 4}, "4 rows without a label"),
        ({"labels": ["a", "b", "c"] * 4}, "are string; number them"),
        ({"labels": [0, 1, -1] * 4}, "mislabeled: image 2 has the label -1"),
        ({"labels": [0, 1, 10**12] * 4}, "mislabeled: it has 12 images but a label 1000000000000"),
        ({"names": ["a", "b"]}, "mislabeled: image 2 has the label 2, but the classes are 0 to 1"),
        ({"encoded": [b"no image"] * 12}, r"the image in row 0 of 'a\.parquet' cannot be read"),
        ({"encoded": [png(pixels(0))] * 11 + [png(pixels(0))[:60]]}, "the image in row 11 of"),
        ({"encoded": [png(pixels(0))] * 11 + [None]}, "the image in row 11 of .* is missing"),
        ({"encoded": [png(pixels(0))] * 11 + [png(pixels(0, 9, 10))]}, "8×8 and in row 11 .* 9×10 .*--image-size 8"),
        ({"label": "target"}, "no label column; it has img, target. Name it one of: label"),
    ],
)
def test_parquet_mistakes(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        parquet(write_parquet(tmp_path / "a.parquet", **changes))


def test_parquet_without_images_or_truncated(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"label": [0, 1], "text": ["a", "b"]}), path)
    with pytest.raises(UserError, match="no column of encoded images; it has label, text"):
        parquet(path)
    whole = write_parquet(path).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"a\.parquet' is truncated"):
        parquet(path)


def test_decompression_bombs_are_refused(tmp_path: Path) -> None:
    bomb = png(np.zeros((10_000, 10_000), np.uint8))
    assert len(bomb) < 200_000
    with pytest.raises(UserError, match=r"row 11 of 'a\.parquet' cannot be read"):
        parquet(write_parquet(tmp_path / "a.parquet", encoded=[png(pixels(0))] * 11 + [bomb]), image_size=8)


def test_images_beyond_our_own_limit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archgrad.data.sources.decode._MOST_PIXELS", 63)
    with pytest.raises(UserError, match="8×8 pixels are too many"):
        parquet(write_parquet(tmp_path / "a.parquet"))


def test_missing_extras_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UserError, match=r'Pillow, which is not installed; run: pip install "archgrad\[images\]"'):
        parquet(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match="pyarrow, which is not installed"):
        parquet(path)


def write_folder(root: Path, arrays: dict[str, np.ndarray]) -> Path:
    for name, array in arrays.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(array).save(root / name)
    return root


def test_folder(tmp_path: Path) -> None:
    arrays = {f"{label}/{number}.png": pixels(number) for label in ("dog", "cat") for number in range(3)}
    write_folder(tmp_path, arrays)
    (tmp_path / "cat" / "notes.txt").write_text("ignored")
    (tmp_path / ".hidden").mkdir()
    data = folder(tmp_path)
    assert data.classes == ("cat", "dog")
    assert data.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert np.array_equal(data.images[4].numpy(), pixels(1).transpose(2, 0, 1))
    assert torch.equal(folder(tmp_path, limit=4, image_size=4).images, data.limited(4, 0).resized(4).images)


@pytest.mark.parametrize("suffix", ["png", "jpg", "jpeg", "bmp", "gif", "webp", "PNG"])
def test_folder_formats(tmp_path: Path, suffix: str) -> None:
    flat = np.full((8, 8, 3), 128, np.uint8)
    data = folder(write_folder(tmp_path, {f"a/1.{suffix}": flat, f"b/2.{suffix}": flat}))
    assert data.images.shape == (2, 3, 8, 8)
    assert (data.images.int() - 128).abs().max() <= 4


def test_folder_channels(tmp_path: Path) -> None:
    gray = write_folder(tmp_path / "gray", {"a/1.png": pixels(1, channels=1), "b/1.png": pixels(2, channels=1)})
    assert folder(gray).images.shape == (2, 1, 8, 8)
    assert not folder(gray).augmentation.flip
    mixed = write_folder(tmp_path / "mixed", {"a/1.png": pixels(1, channels=1), "b/1.png": pixels(2, channels=4)})
    images = folder(mixed).images
    assert torch.equal(images[0, 0], images[0, 2])
    assert np.array_equal(images[1].numpy(), pixels(2, channels=4)[:, :, :3].transpose(2, 0, 1))


def test_folder_modes(tmp_path: Path) -> None:
    deep = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1024
    write_folder(tmp_path, {"a/1.png": deep, "b/1.png": deep.astype(np.uint8)})
    assert np.array_equal(folder(tmp_path).images[0, 0].numpy(), deep >> 8)
    palette = Image.fromarray(pixels(3)).convert("P")
    palette.save(tmp_path / "b" / "2.png", transparency=b"\x00\x80\xff")
    assert folder(tmp_path).channels == 3


def test_folder_mixed_sizes(tmp_path: Path) -> None:
    write_folder(tmp_path, {"a/1.png": pixels(1), "b/1.png": pixels(2, 12, 16), "b/2.png": pixels(3, channels=1)})
    with pytest.raises(UserError, match=r"different sizes: .*1\.png is 8×8 and .*1\.png is 12×16"):
        folder(tmp_path)
    assert folder(tmp_path, image_size=4).images.shape == (3, 3, 4, 4)


def test_folder_with_parts(tmp_path: Path) -> None:
    for part in ("train", "test"):
        write_folder(tmp_path, {f"{part}/a/1.png": pixels(1), f"{part}/b/1.png": pixels(2)})
    assert folder(tmp_path).classes == folder(tmp_path, train=False).classes == ("a", "b")
    trains = write_folder(tmp_path / "vehicles", {"bus/1.png": pixels(1), "train/1.png": pixels(2)})
    assert folder(trains).classes == ("bus", "train")
    with pytest.raises(UserError, match="has no sub-folder test or val"):
        folder(trains, train=False)


def test_folder_mistakes(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no folder at"):
        folder(tmp_path / "absent")
    with pytest.raises(UserError, match="has 0 sub-folders; give at least 2"):
        folder(tmp_path)
    write_folder(tmp_path, {"a/1.png": pixels(1)})
    (tmp_path / "b").mkdir()
    with pytest.raises(UserError, match="b' has no images"):
        folder(tmp_path)
    (tmp_path / "b" / "broken.jpg").write_bytes(b"\xff\xd8 not really")
    with pytest.raises(UserError, match=r"broken\.jpg cannot be read"):
        folder(tmp_path)
    with pytest.raises(UserError, match="is a file"):
        folder(tmp_path / "a" / "1.png")


STACK = np.stack([pixels(number) for number in range(8)])
Y = np.arange(8) % 2


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (STACK, STACK.transpose(0, 3, 1, 2)),
        (STACK.transpose(0, 3, 1, 2), STACK.transpose(0, 3, 1, 2)),
        (STACK[..., 0], STACK[:, None, :, :, 0]),
        ((STACK / 255).astype(np.float32), STACK.transpose(0, 3, 1, 2)),
        (STACK.astype(np.float64), STACK.transpose(0, 3, 1, 2)),
        (STACK.astype(np.int64), STACK.transpose(0, 3, 1, 2)),
    ],
)
@pytest.mark.parametrize("names", [("x", "y"), ("images", "labels"), ("x_train", "y_train")])
def test_npz_layouts(tmp_path: Path, images: np.ndarray, expected: np.ndarray, names: tuple[str, str]) -> None:
    np.savez_compressed(tmp_path / "a.npz", **{names[0]: images, names[1]: Y})
    data = npz(tmp_path / "a.npz")
    assert np.array_equal(data.images.numpy(), expected)
    assert data.labels.tolist() == Y.tolist()
    some = npz(tmp_path / "a.npz", limit=4, image_size=4)
    assert torch.equal(some.images, data.limited(4, 0).resized(4).images)


def test_npz_parts(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=STACK, y_train=Y[:, None], x_test=STACK[:4], y_test=Y[:4])
    assert len(npz(tmp_path / "a.npz")) == 8
    assert len(npz(tmp_path / "a.npz", train=False)) == 4


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": STACK}, "no array called y_train or .* it has x"),
        ({"x": STACK, "y": Y[:5]}, "8 images but 5 labels"),
        ({"x": STACK, "y": Y.astype(float)}, "one integer per image"),
        ({"x": STACK, "y": np.eye(2, dtype=int)[Y]}, "one-hot"),
        ({"x": STACK, "y": Y - 1}, "mislabeled"),
        ({"x": STACK, "y": Y * 0}, "1 class"),
        ({"x": STACK * 2.0, "y": Y}, "values from"),
        ({"x": np.where(STACK > 9, np.nan, 0), "y": Y}, "values from nan"),
        ({"x": STACK[..., :2], "y": Y}, r"shape \[8, 8, 8, 2\]"),
        ({"x": STACK[:, 0, 0], "y": Y}, r"shape \[8, 3\]"),
        ({"x": np.array([{}] * 8), "y": Y}, "has the type object"),
        ({"x": np.array(["a"] * 8), "y": Y}, "has the type <U1"),
    ],
)
def test_npz_mistakes(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(UserError, match=message):
        npz(tmp_path / "a.npz")


def test_npz_truncated_or_lying(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=STACK, y=Y)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"a\.npz' is truncated or is no NumPy archive"):
        npz(path)
    damaged = bytearray(whole)
    damaged[400] ^= 255
    path.write_bytes(damaged)
    with pytest.raises(UserError, match="truncated or is no NumPy archive"):
        npz(path)
    encrypted = bytearray(whole)
    for signature, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        encrypted[whole.index(signature) + offset] |= 1
    path.write_bytes(encrypted)
    with pytest.raises(UserError, match="is encrypted"):
        npz(path)
    for shape, message in (((10**6, 1000, 1000), "takes .* MiB; the most is"), ((10**6, 32, 32), "is truncated")):
        stream = io.BytesIO()
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", stream.getvalue() + bytes(100))
        with pytest.raises(UserError, match=message):
            npz(path)


def test_digits() -> None:
    data = digits()
    assert data.images.shape == (1797, 1, 8, 8)
    assert (int(data.images.min()), int(data.images.max())) == (0, 255)
    assert data.augmentation.crop_padding == 1
    assert not data.augmentation.flip


def test_load_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=STACK, y=Y)
    assert load(f"npz:{tmp_path / 'a.npz'}", limit=4).images.shape == (4, 3, 8, 8)
    assert load(f"parquet:{write_parquet(tmp_path / 'a.parquet')}", image_size=4).image_size == 4
    assert load("digits", limit=20, seed=1).labels.bincount().tolist() == [2] * 10
    assert list(SOURCES) == ["digits", "cifar10", "cifar100", "parquet:PATH", "folder:PATH", "npz:PATH"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cifar", "did you mean 'cifar10'"),
        ("digit", "did you mean 'digits'"),
        ("folders:x", "did you mean 'folder:PATH'"),
        ("parquet", "has no path; write parquet:PATH"),
        ("npz:", "has no path; write npz:PATH"),
        ("digits:x", "takes no path"),
        ("folder:/absent/really", "no folder at"),
        ("", "unknown data"),
    ],
)
def test_load_mistakes(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load(spec)


def test_digits_have_no_test_part() -> None:
    with pytest.raises(UserError, match="no test images"):
        load("digits", train=False)


def test_load_uses_the_data_folder(tmp_path: Path) -> None:
    (tmp_path / "cifar10").mkdir()
    encoded = [png(pixels(number, 32, 32)) for number in range(12)]
    write_parquet(tmp_path / "cifar10" / "train.parquet", encoded=encoded)
    data = load("cifar10", data_dir=tmp_path, limit=6, image_size=16)
    assert data.images.shape == (6, 3, 16, 16)
    assert data.classes[0] == "airplane"
    write_parquet(tmp_path / "cifar10" / "train.parquet")
    with pytest.raises(UserError, match="is not CIFAR-10"):
        load("cifar10", data_dir=tmp_path)


def test_importing_is_light() -> None:
    code = "import sys, archgrad.data; sys.exit(any(name in sys.modules for name in ('pyarrow', 'PIL', 'sklearn')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
