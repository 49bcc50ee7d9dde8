"""Small files of images for the tests of data sources."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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


def write_folder(root: Path, arrays: dict[str, np.ndarray]) -> Path:
    for name, array in arrays.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(array).save(root / name)
    return root


STACK = np.stack([pixels(number) for number in range(8)])
Y = np.arange(8) % 2
