"""Write a model as ``model.json`` and ``weights.safetensors``, and read it without running anything in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from archgrad.errors import UserError, shortened, shown_names
from archgrad.models.card import write_card
from archgrad.models.model import Model
from archgrad.models.preprocessing import Preprocessing
from archgrad.parts.knobs import knobs_of
from archgrad.parts.registry import Registry
from archgrad.spaces import PLAIN_SPACES, SPACES, Genotype, SearchSpace
from archgrad.system.files import (
    as_path,
    existing_path,
    exists,
    list_folder,
    make_folder,
    read_regular,
    read_text,
    shown_path,
    write_bytes,
    write_text,
)

__all__ = [
    "describe_model",
    "has_model",
    "load_model",
    "load_weights",
    "model_folder",
    "read_description",
    "read_weights",
    "save_model",
]

_FORMAT = "archgrad.model/1"
_DESCRIPTION, _WEIGHTS = "model.json", "weights.safetensors"
_DIGEST = "weights_sha256"
_FIELDS = ("format", "space", "genotype", "preprocessing", "classes", "about")
_LARGEST = 1 << 34


def save_model(model: Model, folder: Path | str) -> Path:
    """Write both files and the card; each is replaced as a whole. The description names the digest of the weights."""
    from safetensors.torch import save

    path = as_path("folder", folder)
    weights = save({name: value.cpu().contiguous() for name, value in model.network.state_dict().items()})
    content = describe_model(model) | {_DIGEST: hashlib.sha256(weights).hexdigest()}
    try:
        make_folder(path)
        write_card(model, path)
        write_bytes(path / _WEIGHTS, weights)
        write_text(path / _DESCRIPTION, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror or error}); choose another folder.") from error
    return path


def describe_model(model: Model) -> dict[str, Any]:
    """Return everything but the weights, as plain objects."""
    space = model.space
    named = space.name in SPACES or space.name in PLAIN_SPACES
    knobs = {name: value for name, value in knobs_of(space).items() if isinstance(value, int | str)}
    return {
        "format": _FORMAT,
        "space": {"name": space.name, **knobs} if named else None,
        "genotype": str(model.genotype),
        "preprocessing": model.preprocessing.to_dict(),
        "classes": list(model.classes),
        "about": dict(model.about),
    }


def has_model(path: Path | str) -> bool:
    """Tell whether a folder is that of a model, or has one in ``model``."""
    given = as_path("folder", path)
    return any(exists(folder / _DESCRIPTION) for folder in (given, given / "model"))


def model_folder(path: Path | str) -> Path:
    """Return the folder of a model: the path itself, or ``model`` in it, as in the directory of a training run."""
    given = existing_path(as_path("folder", path), "model")
    if not given.is_dir():
        raise UserError(f"{shown_path(given)} is a file; give the folder of a model, with {_DESCRIPTION} in it.")
    for folder in (given, given / "model"):
        if exists(folder / _DESCRIPTION):
            return folder
    folders, files = list_folder(given)
    several = [folder for folder in folders if exists(folder / "model" / _DESCRIPTION)]
    if several:
        names = shown_names(folder.name for folder in several)
        raise UserError(f"{shown_path(given)} has several models, in {names}; give one of these folders.")
    if exists(given / "genotype.json"):
        raise UserError(f"{shown_path(given)} is a run without a trained model; train one with `archgrad train`.")
    raise UserError(
        f"{shown_path(given)} is no model: it has no {_DESCRIPTION}, only "
        f"{shown_names(one.name for one in (*folders, *files))}; train one with `archgrad train`."
    )


def load_model(folder: Path | str, space: SearchSpace | None = None) -> Model:
    """Read a model; every part of the description is checked before the network is built."""
    path = model_folder(folder)
    content = read_description(read_text(path / _DESCRIPTION, "description of a model", 1 << 26), path, _DIGEST)
    weights = read_regular(path / _WEIGHTS, "file of weights", _LARGEST)
    if hashlib.sha256(weights).hexdigest() != content[_DIGEST]:
        raise UserError(
            f"{shown_path(path / _WEIGHTS)} is damaged, or belongs to another {_DESCRIPTION}; get the model again."
        )
    found = space or _space(content["space"], path)
    genotype = Genotype.parse(content["genotype"])
    tensors = read_weights(weights, path / _WEIGHTS)
    preprocessing = Preprocessing.from_dict(content["preprocessing"])
    classes = tuple(content["classes"])
    with torch.device("meta"):
        network = found.network(genotype, num_classes=len(classes), input_channels=preprocessing.channels)
    load_weights(network, tensors, path / _WEIGHTS)
    return Model(network.eval(), found, genotype, preprocessing, classes, content["about"])


def read_weights(content: bytes, path: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file by name."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise UserError(f"{path} is no file of weights ({str(error)[:100]}); get it again.") from error


def load_weights(network: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Give a network, which may be on the device "meta", the tensors of a file; reject other names and shapes."""
    _check_weights(network.state_dict(), tensors, path)  # before memory is taken for them
    if next(network.parameters()).is_meta:
        network.to_empty(device="cpu")
    network.load_state_dict(tensors)


def _check_weights(own: Mapping[str, Tensor], found: Mapping[str, Tensor], path: Path) -> None:
    for name in sorted(set(own) ^ set(found)):
        has, lacks = ("network", "file") if name in own else ("file", "network")
        raise UserError(f"{path} does not fit: the {has} has {name[:100]!r}, but the {lacks} has not.")
    for name, value in own.items():
        if value.shape != found[name].shape or value.dtype != found[name].dtype:
            raise UserError(
                f"{path} does not fit: {name!r} is {list(found[name].shape)} of {found[name].dtype} there, but the "
                f"network needs {list(value.shape)} of {value.dtype}."
            )


def read_description(text: str, path: Path, *more: str) -> dict[str, Any]:
    """Read what :func:`describe_model` returned, and ``more`` texts; it may come from a stranger."""
    where = shown_path(path)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"the description of the model {where} is not valid JSON; get the model again.") from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT or set(content) != {*_FIELDS, *more}:
        raise UserError(f"{where} does not describe a model in the format {_FORMAT!r}; get the model again.")
    kinds: dict[str, type] = {"genotype": str, "classes": list, "about": dict, **dict.fromkeys(more, str)}
    for name, kind in kinds.items():
        if not isinstance(content[name], kind):
            raise UserError(f"{name} of the model {where} is {shortened(content[name])}; get the model again.")
    if not content["classes"] or not all(isinstance(one, str) for one in content["classes"]):
        raise UserError(f"classes of the model {where} is {shortened(content['classes'])}; it must be a list of names.")
    return content


def _space(content: Any, path: Path) -> SearchSpace:
    """Return the space that a file names; it names only spaces of this library, so nothing is imported for it."""
    if content is None:
        raise UserError(f"the space of {path} is its owner's own; load it in Python with Model.load(DIR, space=…).")
    if not isinstance(content, dict) or not isinstance(content.get("name"), str) or ":" in content["name"]:
        raise UserError(f"the space in {path} is {shortened(content)}; it must have a name and sizes.")
    sizes = {name: value for name, value in content.items() if name != "name"}
    spaces = Registry("space", SearchSpace, {**SPACES, **PLAIN_SPACES})
    return spaces.create(content["name"], **sizes)
