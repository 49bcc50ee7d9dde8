"""Spaces by name, with those that cannot be searched."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from archgrad.registry import Registry
from archgrad.spaces.nasnet import NASNet
from archgrad.spaces.resnet import ResNet
from archgrad.spaces.space import SearchSpace

__all__ = ["PLAIN_SPACES", "find_space"]

PLAIN_SPACES: Mapping[str, Callable[..., SearchSpace]] = {NASNet.name: NASNet, ResNet.name: ResNet}
"""Spaces for plain networks, which have no supernet."""


def find_space(name: str, searchable: Registry[SearchSpace]) -> SearchSpace:
    """Return a space by its name, at its default size."""
    return PLAIN_SPACES[name]() if name in PLAIN_SPACES else searchable.create(name)
