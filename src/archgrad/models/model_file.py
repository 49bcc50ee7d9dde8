"""Write a model as ``model.json`` and ``weights.safetensors``, and read it without running anything in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from archgrad.errors import UserError, shortened
from archgrad.files import as_path, exists, read_regular, read_text, write_bytes, write_text
from archgrad.knobs import knobs_of
from archgrad.models.model import Model
from archgrad.models.preprocessing import Preprocessing
from archgrad.spaces import SPACES, Genotype, NASNet, SearchSpace

__all__ = ["describe_model", "load_model", "load_weights", "save_model"]

_FORMAT = "archgrad.model/1"
_DESCRIPTION, _WEIGHTS = "model.json", "weights.safetensors"
_FIELDS = ("format", "space", "genotype", "preprocessing", "classes", "weights_sha256", "about")
_LARGEST = 1 << 34


def save_model(model: Model, folder: Path | str) -> Path:
    """Write both files; each is replaced as a whole, and the description names the digest of the weights."""
    from safetensors.torch import save

    path = as_path("folder", folder)
    weights = save({name: value.cpu().contiguous() for name, value in model.network.state_dict().items()})
    content = describe_model(model) | {"weights_sha256": hashlib.sha256(weights).hexdigest()}
    try:
        path.mkdir(parents=True, exist_ok=True)
        write_bytes(path / _WEIGHTS, weights)
        write_text(path / _DESCRIPTION, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror or error}); choose another folder.") from error
    return path


def describe_model(model: Model) -> dict[str, Any]:
    """Return everything but the weights, as plain objects."""
    space = model.space
    named = space.name in SPACES or space.name == NASNet.name
    knobs = {name: value for name, value in knobs_of(space).items() if isinstance(value, int | str)}
    return {
        "format": _FORMAT,
        "space": {"name": space.name, **knobs} if named else None,
        "genotype": str(model.genotype),
        "preprocessing": model.preprocessing.to_dict(),
        "classes": list(model.classes),
        "about": dict(model.about),
    }


def load_model(folder: Path | str, space: SearchSpace | None = None) -> Model:
    """Read a model; every part of the description is checked before the network is built."""
    path = as_path("folder", folder)
    if not exists(path / _DESCRIPTION):
        raise UserError(f"{path} is no model: it has no {_DESCRIPTION}; train one with `archgrad train`.")
    content = _description(path / _DESCRIPTION)
    found = space or _space(content["space"], path)
    genotype = Genotype.parse(content["genotype"])
    preprocessing = Preprocessing.from_dict(content["preprocessing"])
    classes = tuple(content["classes"])
    with torch.device("meta"):
        network = found.network(genotype, num_classes=len(classes), input_channels=preprocessing.channels)
    weights = read_regular(path / _WEIGHTS, "file of weights", _LARGEST)
    if hashlib.sha256(weights).hexdigest() != content["weights_sha256"]:
        raise UserError(f"{path / _WEIGHTS} is damaged, or belongs to another {_DESCRIPTION}; export the model again.")
    network = network.to_empty(device="cpu")
    load_weights(network, weights, path / _WEIGHTS)
    return Model(network.eval(), found, genotype, preprocessing, classes, content["about"])


def load_weights(network: nn.Module, weights: bytes, path: Path) -> None:
    """Give a network the weights of a safetensors file; reject other names and shapes."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        found = load(weights)
    except (SafetensorError, ValueError, KeyError) as error:
        raise UserError(f"{path} is no file of weights ({str(error)[:100]}); get it again.") from error
    _check_weights(network.state_dict(), found, path)
    network.load_state_dict(found)


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


def _description(path: Path) -> dict[str, Any]:
    text = read_text(path, "description of a model", 1 << 26)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON; get the model again.") from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT or set(content) != set(_FIELDS):
        raise UserError(f"{path} does not describe a model in the format {_FORMAT!r}; get the model again.")
    kinds: dict[str, type] = {"genotype": str, "classes": list, "weights_sha256": str, "about": dict}
    for name, kind in kinds.items():
        if not isinstance(content[name], kind):
            raise UserError(f"{name} in {path} is {shortened(content[name])}; get the model again.")
    if not content["classes"] or not all(isinstance(one, str) for one in content["classes"]):
        raise UserError(f"classes in {path} is {shortened(content['classes'])}; it must be a list of names.")
    return content


def _space(content: Any, path: Path) -> SearchSpace:
    """Return the space that a file names; it names only spaces of this library, so nothing is imported for it."""
    if content is None:
        raise UserError(f"the space of {path} is its owner's own; load it in Python with Model.load(DIR, space=…).")
    if not isinstance(content, dict) or not isinstance(content.get("name"), str) or ":" in content["name"]:
        raise UserError(f"the space in {path} is {shortened(content)}; it must have a name and sizes.")
    sizes = {name: value for name, value in content.items() if name != "name"}
    if content["name"] == NASNet.name:
        return NASNet(**sizes)
    return SPACES.create(content["name"], **sizes)
