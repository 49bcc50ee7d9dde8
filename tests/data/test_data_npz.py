"""NumPy archives."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from image_files import STACK, Y

from archgrad.data import npz
from archgrad.errors import UserError

COLOR = STACK.transpose(0, 3, 1, 2)


@pytest.mark.parametrize(
    ("images", "expected", "names"),
    [
        (STACK, COLOR, ("x", "y")),
        (COLOR, COLOR, ("images", "labels")),
        (STACK[..., 0], STACK[:, None, :, :, 0], ("x_train", "y_train")),
        ((STACK / 255).astype(np.float32), COLOR, ("train_images", "train_labels")),
        (STACK.astype(np.float64), COLOR, ("x", "y")),
        (STACK.astype(np.int64), COLOR, ("x", "y")),
    ],
)
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
    np.savez(tmp_path / "few.npz", x_train=STACK, y_train=Y, x_test=STACK[:2], y_test=Y[:2] + 18)
    assert npz(tmp_path / "few.npz", train=False).targets.tolist() == (Y[:2] + 18).tolist()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": STACK}, "no array called y_train or .* it has x"),
        ({"x": STACK, "y": Y[:5]}, "8 images but 5 labels"),
        ({"x": STACK, "y": np.zeros((8, 2, 2))}, "one integer per image .*one-hot"),
        ({"x": STACK, "y": Y - 1}, "mislabeled"),
        ({"x": STACK, "y": Y * 0}, "1 class"),
        ({"x": STACK, "y": Y * 7}, r"no images of 6 of its 8 classes \(1, 2, 3, 4, 5, 6\); .* without gaps"),
        ({"x": STACK * 2.0, "y": Y}, "values from"),
        ({"x": np.where(STACK > 9, np.nan, 0), "y": Y}, "values from nan"),
        ({"x": STACK[..., :2], "y": Y}, r"shape \[8, 8, 8, 2\]"),
        ({"x": STACK[:, 0, 0], "y": Y}, r"shape \[8, 3\]"),
        ({"x": np.array([{}] * 8), "y": Y}, "Object arrays cannot be loaded"),
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
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": (10**6, 32, 32)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", stream.getvalue() + bytes(100))
    with pytest.raises(UserError, match="is truncated"):
        npz(path)


@pytest.mark.parametrize("targets", [Y.astype("float64") / 2, np.eye(len(Y), 3, dtype=np.int64)])
def test_targets_of_other_tasks_are_floats(targets, tmp_path):
    np.savez(tmp_path / "a.npz", x=STACK, y=targets)
    data = npz(tmp_path / "a.npz")
    assert data.classes == ()
    assert data.targets.dtype == torch.float32
    assert torch.equal(data.targets.double(), torch.from_numpy(targets.astype("float64")))
