"""Export a model to ONNX, or to a program of ``torch.export``: neither needs archgrad."""

from __future__ import annotations

import copy
import io
import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from archgrad.errors import UserError, unknown
from archgrad.models.model import Model
from archgrad.models.model_file import describe_model
from archgrad.models.onnx_model import ENTRY, check_installed, open_session, run_session
from archgrad.parts.fields import NonNegative, check_value
from archgrad.system.files import as_path, shown_path, write_bytes
from archgrad.system.warn_once import silenced

__all__ = ["SUFFIXES", "TOLERANCE", "Exported", "export_model"]

TOLERANCE = 1e-4
"""The largest error of an exported model, as a share of its largest output, which counts as 1 if it is less."""
_OPSET = 18
_COMPUTED = 10
"""About so many images are computed for an export, and to check it."""

Run = Callable[[Tensor], Tensor]
Draft = tuple[bytes, Run]
"""The content of a file, and the model in it, to compare."""


class Exported(NamedTuple):
    """The file that was written, and the largest difference of its outputs from PyTorch's."""

    file: Path
    error: float


def export_model(model: Model, path: Path | str, tolerance: float = TOLERANCE) -> Exported:
    """Write a model in the format of the path's suffix: ``.onnx`` or ``.pt2``.

    It is compared with the network on random inputs before it is written: if it differs by more than the ``tolerance``,
    an older file stays as it is. Its batch size is free. The description of the model (classes, image size, resize,
    mean, deviation) is stored with it.
    """
    target = as_path("path", path)
    if target.suffix not in SUFFIXES:
        raise unknown("format of a model:", target.suffix or target.name, SUFFIXES)
    check_value("tolerance", tolerance, NonNegative)
    here = replace(model, network=_on_cpu(model.network).eval())
    here.check_size(_COMPUTED)
    try:
        content, run = SUFFIXES[target.suffix](here)
        error = _checked_error(here, run, tolerance)
        write_bytes(target, content)
    except OSError as problem:
        reason = problem.strerror or problem
        raise UserError(f"{shown_path(target)} cannot be written ({reason}); choose another file.") from problem
    return Exported(target, error)


def _on_cpu(network: torch.nn.Module) -> torch.nn.Module:
    on_cpu = next(network.parameters()).device.type == "cpu"
    return network if on_cpu else copy.deepcopy(network).cpu()


def _checked_error(model: Model, run: Run, tolerance: float) -> float:
    """Return the largest error for batches of one and of three images; raise a UserError if it is too large."""
    largest, allowed = 0.0, tolerance
    with torch.inference_mode():
        for inputs in (_inputs(model, count) for count in (1, 3)):
            outputs = model.network(inputs)
            if not bool(outputs.isfinite().all()):
                raise UserError("the model computes NaN or infinite outputs; train it again.")
            largest = max(largest, float((run(inputs) - outputs).abs().nan_to_num(float("inf")).max()))
            allowed = max(allowed, tolerance * float(outputs.abs().max()))
    if largest > allowed:
        raise UserError(
            f"the exported model differs from the PyTorch one by {largest:.1e}, and at most {allowed:.1e} is allowed; "
            f"nothing is written. Give a larger tolerance if that will do."
        )
    return largest


def _inputs(model: Model, count: int = 2) -> Tensor:
    about = model.preprocessing
    shape = (count, about.channels, about.image_size, about.image_size)
    return torch.randn(shape, generator=torch.Generator().manual_seed(count))


def _to_pt2(model: Model) -> Draft:
    program = torch.export.export(model.network, (_inputs(model),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    file = io.BytesIO()
    torch.export.save(program, file, extra_files={ENTRY: json.dumps(describe_model(model))})
    content = file.getvalue()
    return content, torch.export.load(io.BytesIO(content)).module()


def _to_onnx(model: Model) -> Draft:
    check_installed("onnx", "onnxscript", "onnxruntime")
    with warnings.catch_warnings(), silenced("torch.onnx"):
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            model.network, (_inputs(model),), dynamo=True, opset_version=_OPSET, input_names=["images"],
            output_names=["logits"], dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False,
        )  # fmt: skip
    assert program is not None  # noqa: S101 - for the type checker
    proto: Any = program.model_proto
    entry = proto.metadata_props.add()
    entry.key, entry.value = ENTRY, json.dumps(describe_model(model))
    content: bytes = proto.SerializeToString()
    session = open_session(content)
    return content, lambda inputs: run_session(session, inputs)


SUFFIXES: dict[str, Callable[[Model], Draft]] = {
    ".onnx": _to_onnx,
    ".pt2": _to_pt2,
}
"""What makes a file of each format."""
