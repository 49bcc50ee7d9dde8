"""Predict image files with a trained model: read it, and write what it says of each image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from archgrad.errors import UserError, escaped
from archgrad.models import Classifier, Model, OnnxModel
from archgrad.models.classifier import LabelsPrediction, NumbersPrediction
from archgrad.models.image_files import FilePrediction
from archgrad.system.devices import AUTO, usable_device
from archgrad.system.files import shown_path

__all__ = ["load_model", "predictions_content", "show_predictions"]


def load_model(path: Path, device: str) -> Classifier:
    """Return the model of a folder or of an ``.onnx`` file; refuse formats that run code when they are read."""
    place, suffix = usable_device(device), path.suffix.lower()
    if suffix == ".onnx":
        if place.type != "cpu" and device != AUTO:
            raise UserError(f"--device is {device!r}, but an .onnx file runs on the cpu here; leave --device out.")
        return OnnxModel.load(path)
    if suffix == ".pt2":
        raise UserError(
            f"{shown_path(path)} is not read: torch.export.load unpickles, so a stranger's file could run code here; "
            f"give the model's folder, or export it to .onnx."
        )
    loaded = Model.load(path)
    loaded.network.to(place)
    return loaded


def predictions_content(
    found: Sequence[FilePrediction], classes: Sequence[str], top: int | None
) -> list[dict[str, Any]]:
    """Return the predictions as plain objects."""
    content: list[dict[str, Any]] = []
    for path, result in found:
        if isinstance(result, UserError):
            continue
        if top is not None and not hasattr(result, "label"):
            raise UserError(f"--top is {top}, but this model does not choose one class of an image; leave it out.")
        if isinstance(result, NumbersPrediction):
            content.append({"path": str(path), "numbers": list(result.numbers)})
            continue
        order = sorted(range(len(classes)), key=result.probabilities.__getitem__, reverse=True)
        likely = [{"label": classes[one], "probability": result.probabilities[one]} for one in order]
        if isinstance(result, LabelsPrediction):
            content.append({"path": str(path), "labels": likely[: len(result.labels)]})
        else:
            content.append({"path": str(path), **likely[0], "top": likely[: top or 1]})
    return content


def show_predictions(content: Sequence[Mapping[str, Any]]) -> str:
    """Return a line for each image, in columns: its path, and labels with their probabilities, or numbers."""
    rows = []
    for one in content:
        likely = one.get("top", one.get("labels", ()))
        shown = ((escaped(each["label"], keep=""), f"{100 * each['probability']:5.1f} %") for each in likely)
        numbers = (f"{number:.6g}" for number in one.get("numbers", ()))
        rows.append([escaped(one["path"], keep=""), *chain.from_iterable(shown), *numbers])
    columns = zip_longest(*rows, fillvalue="")
    widths = [max(map(len, column)) for column in columns]
    return "\n".join("  ".join(map(str.ljust, row, widths)) for row in rows)
