"""Export a model: ONNX, an exported PyTorch program, or a standalone Python file."""

from __future__ import annotations

import copy
import importlib.util
import io
import json
import keyword
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from archgrad.errors import UserError, check_number, unknown
from archgrad.models.classifier import CLASSES
from archgrad.models.model import Model
from archgrad.models.model_file import describe_model
from archgrad.models.onnx_model import ENTRY, check_installed, open_session, run_session
from archgrad.models.standalone_file import to_python
from archgrad.system.files import as_path, atomic_write, exists, shown_path
from archgrad.system.warn_once import silenced

__all__ = ["SUFFIXES", "TOLERANCE", "Exported", "export_model"]

TOLERANCE = 1e-4
"""The largest error of an exported model, as a share of its largest output, which counts as 1 if it is less."""
_OPSET = 18
_IMPORTED = {"torch", "safetensors", "numpy", "PIL", *sys.stdlib_module_names}

Run = Callable[[Tensor], Tensor]
Draft = tuple[dict[str, bytes], Run]
"""Files by name, and the model in them, to compare."""


class Exported(NamedTuple):
    """The files that were written, and the largest difference of their outputs from PyTorch's."""

    files: tuple[Path, ...]
    error: float


def export_model(model: Model, path: Path | str, tolerance: float = TOLERANCE) -> Exported:
    """Write a model in the format of the path's suffix: ``.onnx``, ``.pt2`` or ``.py`` with ``.safetensors``.

    It is compared with the network on random inputs before it is written: if it differs by more than the ``tolerance``,
    an older file stays as it is. Its batch size is free. The description of the model (classes, image size, resize,
    mean, deviation) is stored with it.
    """
    target = as_path("path", path)
    if target.suffix not in SUFFIXES:
        raise unknown("format of a model:", target.suffix or target.name, SUFFIXES)
    check_number("tolerance", tolerance)
    here = replace(model, network=_on_cpu(model.network).eval())
    try:
        contents, run = SUFFIXES[target.suffix](here, target)
        error = _checked_error(here, run, tolerance)
        with ExitStack() as files:  # all are complete before the first replaces an older one
            for name, content in contents.items():
                files.enter_context(atomic_write(target.with_name(name))).write(content)
    except OSError as problem:
        reason = problem.strerror or problem
        raise UserError(f"{shown_path(target)} cannot be written ({reason}); choose another file.") from problem
    return Exported(tuple(target.with_name(name) for name in contents), error)


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


def _to_pt2(model: Model, path: Path) -> Draft:
    program = torch.export.export(model.network, (_inputs(model),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    file = io.BytesIO()
    torch.export.save(program, file, extra_files={ENTRY: json.dumps(describe_model(model))})
    content = file.getvalue()
    return {path.name: content}, torch.export.load(io.BytesIO(content)).module()


def _to_onnx(model: Model, path: Path) -> Draft:
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
    return {path.name: content}, lambda inputs: run_session(session, inputs)


def _to_py(model: Model, path: Path) -> Draft:
    from safetensors.torch import save

    if model.about.get("predicts", CLASSES) != CLASSES:
        raise UserError("a .py file classifies images, but this model predicts numbers; export it to .onnx or .pt2.")
    if not path.stem.isidentifier() or keyword.iskeyword(path.stem) or path.stem in _IMPORTED:
        raise UserError(
            f"{path.name[:100]!r} is no name of a module that can be imported; use letters, digits and underscores, "
            f"and no name that Python or PyTorch has."
        )
    weights = path.with_suffix(".safetensors").name
    if weights == "weights.safetensors" and exists(path.with_name("model.json")):
        raise UserError(f"{shown_path(path)} would replace the weights of the model in this folder; rename it.")
    tensors = {name: one.contiguous() for name, one in model.network.state_dict().items()}
    contents = {weights: save(tensors), path.name: to_python(model, weights).encode()}
    with tempfile.TemporaryDirectory() as folder:
        for name, content in contents.items():
            Path(folder, name).write_bytes(content)
        return contents, _loaded(Path(folder, path.name))


def _loaded(path: Path) -> Run:
    """Return the network of a standalone file that was just written."""
    spec = importlib.util.spec_from_file_location("_exported_model", path)
    assert spec is not None and spec.loader is not None  # noqa: PT018, S101 - for the type checker
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    network: Run = module.load()
    return network


SUFFIXES: dict[str, Callable[[Model, Path], Draft]] = {
    ".onnx": _to_onnx,
    ".pt2": _to_pt2,
    ".py": _to_py,
}
"""What makes the files of each format."""
