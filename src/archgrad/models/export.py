"""Export a model: ONNX, an exported PyTorch program, or a standalone Python file."""

from __future__ import annotations

import importlib.util
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from archgrad.errors import UserError, unknown
from archgrad.files import as_path, atomic_write, write_bytes, write_text
from archgrad.models.model import Model
from archgrad.models.model_file import describe_model
from archgrad.models.standalone_file import to_python

__all__ = ["SUFFIXES", "export_model"]

_OPSET = 18


def export_model(model: Model, path: Path | str) -> float:
    """Write a model in the format of the path's suffix, and return the largest error of its outputs.

    The written file is read again and compared with the network on random inputs. Its batch size is free. The
    description of the model (classes, image size, mean, deviation) is stored with it.
    """
    target = as_path("path", path)
    if target.suffix not in SUFFIXES:
        raise unknown("format of a model:", target.suffix or target.name, SUFFIXES)
    model.network.eval()
    run = SUFFIXES[target.suffix](model, target)
    with torch.inference_mode():
        return max(float((run(x) - model.network(x)).abs().max()) for x in (_inputs(model, count) for count in (1, 3)))


def _inputs(model: Model, count: int = 2) -> Tensor:
    about = model.preprocessing
    shape = (count, about.channels, about.image_size, about.image_size)
    return torch.randn(shape, generator=torch.Generator().manual_seed(count))


def _exported(model: Model) -> torch.export.ExportedProgram:
    return torch.export.export(model.network, (_inputs(model),), dynamic_shapes=({0: torch.export.Dim("batch")},))


def _to_pt2(model: Model, path: Path) -> Callable[[Tensor], Tensor]:
    with atomic_write(path) as file:
        torch.export.save(_exported(model), file, extra_files={"model.json": json.dumps(describe_model(model))})
    return torch.export.load(path).module()


def _to_onnx(model: Model, path: Path) -> Callable[[Tensor], Tensor]:
    missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"ONNX needs {', '.join(missing)}; install them with `pip install 'archgrad[export]'`.")
    import onnxruntime

    with warnings.catch_warnings(), _quiet("torch.onnx"):
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            model.network, (_inputs(model),), dynamo=True, opset_version=_OPSET, input_names=["images"],
            output_names=["logits"], dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False,
        )  # fmt: skip
    assert program is not None  # noqa: S101 - for the type checker
    content: Any = program.model_proto
    entry = content.metadata_props.add()
    entry.key, entry.value = "model.json", json.dumps(describe_model(model))
    write_bytes(path, content.SerializeToString())
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda x: torch.from_numpy(session.run(None, {"images": x.numpy()})[0])


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Silence a logger inside the block."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _to_py(model: Model, path: Path) -> Callable[[Tensor], Tensor]:
    from safetensors.torch import save

    if not path.stem.isidentifier():
        raise UserError(
            f"{path.name[:100]!r} is no name of a module that can be imported; use letters, digits and underscores."
        )
    weights = path.with_suffix(".safetensors")
    text = to_python(model, weights.name)
    write_bytes(weights, save({name: one.cpu().contiguous() for name, one in model.network.state_dict().items()}))
    write_text(path, text)
    spec = importlib.util.spec_from_file_location("_exported_model", path)
    assert spec is not None and spec.loader is not None  # noqa: PT018, S101 - it was just written
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    network: Callable[[Tensor], Tensor] = module.load()
    return network


SUFFIXES: dict[str, Callable[[Model, Path], Callable[[Tensor], Tensor]]] = {
    ".onnx": _to_onnx,
    ".pt2": _to_pt2,
    ".py": _to_py,
}
"""What writes each format, and returns the written model to compare."""
