"""Read an exported ``.onnx`` file, and run it with onnxruntime."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from archgrad.errors import UserError, shortened
from archgrad.models.classifier import Classifier
from archgrad.models.model_file import read_description
from archgrad.models.preprocessing import Preprocessing
from archgrad.system.files import as_path, read_regular, shown_path

__all__ = ["ENTRY", "OnnxModel", "check_installed", "open_session", "run_session"]

ENTRY = "model.json"
"""The name of the metadata with the model's description."""
_LARGEST = 1 << 31
_SILENT = 4
_NOWHERE = "/dev/null/no-folder"
"""Where a file may name other files with tensors; the files that are exported here name none."""


@dataclass(frozen=True, eq=False)
class OnnxModel(Classifier):
    """A model that :func:`~archgrad.models.export.export_model` wrote as ``.onnx``; it runs on the CPU."""

    session: Any = field(repr=False)
    preprocessing: Preprocessing
    classes: tuple[str, ...]
    about: Mapping[str, Any] = field(default_factory=dict)

    def logits(self, inputs: Tensor) -> Tensor:
        """Run the exported network."""
        try:
            return run_session(self.session, inputs)
        except Exception as error:  # onnxruntime has many kinds of errors
            raise UserError(f"onnxruntime cannot run the model ({_reason(error)}); export it again.") from error

    @classmethod
    def load(cls, path: Path | str) -> OnnxModel:
        """Read a file and the description in it; nothing but onnxruntime's own operators can run."""
        check_installed("onnxruntime")
        file = as_path("path", path)
        content = read_regular(file, "model", _LARGEST)
        try:
            session = open_session(content)
        except Exception as error:  # onnxruntime has many kinds of errors
            raise UserError(
                f"{shown_path(file)} is no ONNX model that onnxruntime can run ({_reason(error)}); export it again."
            ) from error
        found = session.get_modelmeta().custom_metadata_map.get(ENTRY)
        if found is None:
            raise UserError(
                f"{shown_path(file)} does not tell its classes and its preprocessing; write it with `archgrad export`."
            )
        told = read_description(found, file)
        images = Preprocessing.from_dict(told["preprocessing"])
        return cls(session, images, tuple(told["classes"]), told["about"])


def check_installed(*libraries: str) -> None:
    """Raise a UserError if a library for ONNX is missing."""
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"ONNX needs {', '.join(missing)}; install them with `pip install 'archgrad[export]'`.")


def open_session(content: bytes) -> Any:
    """Return a session of onnxruntime with as many threads as PyTorch has; it reads no tensors from other files."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = _SILENT
    # Since onnxruntime 1.21; before, such tensors are looked for in the current folder.
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", _NOWHERE)
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def run_session(session: Any, inputs: Tensor) -> Tensor:
    """Compute the only output of the only input."""
    (name,) = (one.name for one in session.get_inputs())
    return torch.from_numpy(session.run(None, {name: inputs.numpy()})[0])


def _reason(error: Exception) -> str:
    return shortened((str(error).splitlines() or [type(error).__name__])[0], longest=120)[1:-1]
