"""Plain PyTorch modules by their names, as timm makes them."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from torch import nn

from archgrad.models import Model, copy_matching_weights
from archgrad.models.model_file import has_model, model_folder
from archgrad.parts.fields import checked
from archgrad.spaces import KNOWN_NETWORKS, known_cells
from archgrad.spaces.space import Width
from archgrad.workflows.architecture import find_architecture, sized

__all__ = ["create_model", "list_models"]


@checked
def create_model(
    name: str,
    *,
    num_classes: Width | None = None,
    input_channels: Width | None = None,
    channels: int | None = None,
    cells: int | None = None,
    stem: str | None = None,
    space: str | None = None,
    weights: str | Path | None = None,
    auxiliary_head: bool = False,
) -> nn.Module:
    """Return the network of a known architecture, an ordinary module ``x -> logits`` in training mode.

    ``name`` is one of :func:`list_models`, the text of a genotype (with its ``space``, where the text does not tell),
    the folder of a search, or that of a trained model, whose weights the network then has. ``weights`` is the folder of
    a trained model for any other name. Classes and input channels may differ from the model's: the layers that fit get
    its weights, all others are new.

    Without ``channels``, ``cells`` and ``stem`` the network has the size of the model or the search, else the published
    one: 36 channels and 20 cells for cells of DARTS. ``num_classes`` is 10 and ``input_channels`` 3, unless a model has
    others. With an ``auxiliary_head`` it returns ``(logits, auxiliary logits)`` in training mode.

    >>> network = create_model("darts-v2", num_classes=100)
    >>> sum(one.numel() for one in network.parameters())
    3401272
    >>> create_model("resnet", channels=8, input_channels=1).classifier
    Linear(in_features=32, out_features=10, bias=True)
    """
    found = find_architecture(str(model_folder(name)) if has_model(name) else name, space, {})
    model = found.model if weights is None else Model.load(weights)
    base = model.space if model is not None and model.space.name == found.space.name else found.space
    inputs, classes = (3, 10) if model is None else (model.preprocessing.channels, len(model.classes))
    network = sized(base, {"channels": channels, "cells": cells, "stem": stem}).network(
        found.genotype, num_classes=num_classes or classes, input_channels=input_channels or inputs,
        auxiliary_head=auxiliary_head,
    )  # fmt: skip
    if model is not None:
        copy_matching_weights(network, model)
    return network


@checked
def list_models(pattern: str = "*") -> list[str]:
    """Return the names of known architectures that match a pattern, in order.

    >>> list_models("darts-*"), list_models("*esnet")
    (['darts-v1', 'darts-v2'], ['resnet'])
    """
    return sorted(name for name in (*known_cells(), *KNOWN_NETWORKS) if fnmatchcase(name, pattern))
