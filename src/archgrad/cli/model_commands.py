"""The commands that use a trained model: ``export`` and ``predict``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from archgrad.cli.options import AsJson
from archgrad.errors import UserError, escaped

if TYPE_CHECKING:
    from archgrad.models import Classifier
    from archgrad.models.image_files import FilePrediction

__all__ = ["export", "predict"]


def export(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Folder of a model, or the run directory of a training.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="FILE.onnx or FILE.pt2 (torch.export).")],
    tolerance: Annotated[
        float | None,
        typer.Option(help="Largest error of the exported outputs, as a share of the largest output or of 1. [0.0001]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a trained model for use elsewhere, and check that it computes the same."""
    from archgrad.cli.console import print_result
    from archgrad.models import Model
    from archgrad.models.export import TOLERANCE, export_model

    written = export_model(Model.load(model), out, TOLERANCE if tolerance is None else tolerance)
    print_result({"file": str(written.file), "max_error": written.error}, _show_export, as_json)


def _show_export(content: Mapping[str, Any]) -> str:
    return f"{content['file']}\nthe outputs differ from PyTorch's by at most {content['max_error']:.1e}"


def predict(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="Folder of a model, run directory of a training, or exported FILE.onnx."),
    ],
    images: Annotated[
        list[Path], typer.Argument(metavar="IMAGES...", help="Image files, or folders: all images in them.")
    ],
    top: Annotated[int | None, typer.Option(min=1, help="Show this many classes for each image. [1]")] = None,
    batch_size: Annotated[int, typer.Option(min=1, max=100_000, help="Images per batch.")] = 64,
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda|cuda:N|mps", help="Where the model runs.")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Predict the class, the labels or the numbers of images with a trained model.

    Images that cannot be read are named on standard error, and the exit code is then 2.
    """
    from archgrad.callbacks.progress import reading_progress
    from archgrad.cli.console import errors, print_result, say
    from archgrad.models.image_files import find_images, predict_files

    files, loaded = find_images(images), _load(model, device)
    with reading_progress(errors(), images=True) as progress:
        found = list(predict_files(loaded, files, batch_size, progress))
    broken = [one.result for one in found if isinstance(one.result, UserError)]
    for error in broken:
        say(f"error: {error}", errors())
    print_result(_content(found, loaded.classes, top), _show_predictions, as_json)
    if broken:
        raise UserError(f"{len(broken)} of {len(found)} images cannot be read; replace or remove them.")


def _load(path: Path, device: str) -> Classifier:
    """Return the model of a folder or of an ``.onnx`` file; refuse formats that run code when they are read."""
    from archgrad.models import Model, OnnxModel
    from archgrad.system.devices import AUTO, usable_device
    from archgrad.system.files import shown_path

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


def _content(found: Sequence[FilePrediction], classes: Sequence[str], top: int | None) -> list[dict[str, Any]]:
    """Return the predictions as plain objects."""
    from archgrad.models.classifier import LabelsPrediction, NumbersPrediction

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


def _show_predictions(content: Sequence[Mapping[str, Any]]) -> str:
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
