"""Spaces at a small size, and random architectures in them, for several tests."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from varied_spaces import VARIED_SPACES

from archgrad.discretizers import Argmax
from archgrad.spaces import SPACES, Chain, Genotype, SearchSpace

CHAINS = [name for name in SPACES if isinstance(SPACES.create(name), Chain)]
every_space = pytest.mark.parametrize("name", VARIED_SPACES)


def images(size: int = 8, channels: int = 3) -> Tensor:
    return torch.randn(4, channels, size, size, generator=torch.Generator().manual_seed(1))


def random_genotype(space: SearchSpace, seed: int = 0) -> Genotype:
    generator = torch.Generator().manual_seed(seed)
    return Argmax().select(space, {b.name: torch.rand(b.shape, generator=generator) for b in space.blocks})
