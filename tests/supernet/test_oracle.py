"""The fused supernet computes what a plain one computes, one module per operation per edge."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from reference import reference_supernet
from torch import Tensor, nn
from varied_spaces import VARIED_SPACES

from archgrad.spaces import SPACES, SearchSpace
from tests.supernet.supernets import assert_same_gradients, assert_same_hessian_products

CLASSES = 4

# Every space with both reductions, an odd width, and more than one cell of each kind.
NETS = [
    pytest.param("nasbench201", {"channels": 4, "cells_per_stage": 1}, 8, id="nasbench201-1"),
    pytest.param("nasbench201", {"channels": 3, "cells_per_stage": 2}, 8, id="nasbench201-2-odd-width"),
    *(pytest.param(name, {"channels": 4, "cells": 5}, 8, id=name) for name in VARIED_SPACES if name != "nasbench201"),
    pytest.param("macro", {"channels": 3, "cells": 8}, 9, id="macro-odd-width"),
    pytest.param("darts", {"channels": 3, "cells": 5}, 12, id="darts-odd-width"),
    pytest.param("darts-single-all-skip", {"channels": 3, "cells": 1}, 8, id="darts-single-all-skip"),
    pytest.param("mobile", {"channels": 4, "cells": 16}, 16, id="mobile-all-layers"),
    pytest.param("darts", {"channels": 2, "cells": 3}, 16, id="darts-begins-with-a-reduction"),
    pytest.param("s1", {"channels": 3, "cells": 6}, 8, id="s1-odd-width"),
    pytest.param("amended-a2", {"channels": 3, "cells": 7}, 8, id="amended-a2-odd-width"),
]
TINY = [
    pytest.param(name, {"channels": 2, **({"cells_per_stage": 1} if name == "nasbench201" else {"cells": 3})}, id=name)
    for name in VARIED_SPACES
]
Mixture = dict[str, Tensor]


def pair(name: str, sizes: dict[str, int], dtype: torch.dtype) -> tuple[SearchSpace, nn.Module, nn.Module]:
    """Return a space, its fused supernet and the plain one with the same weights."""
    torch.manual_seed(0)
    space = SPACES.constructor(name)(**sizes)
    fused = space.supernet(num_classes=CLASSES, input_channels=2).to(dtype)
    for norm in (module for module in fused.modules() if isinstance(module, nn.BatchNorm2d) and module.affine):
        nn.init.normal_(norm.weight, 1.0, 0.3)
        nn.init.normal_(norm.bias, 0.0, 0.3)
    reference = reference_supernet(space, num_classes=CLASSES, input_channels=2).to(dtype)
    reference.load_state_dict(fused.state_dict())
    return space, fused, reference


def batch(size: int, dtype: torch.dtype, count: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(count, 2, size, size, generator=generator, dtype=torch.float64)
    return images.to(dtype), torch.randint(CLASSES, (count,), generator=generator)


def mixture_of(space: SearchSpace, dtype: torch.dtype, seed: int = 2) -> Mixture:
    """Draw a mixture that differs in every cell; entries of choices that a row has not are numbers too."""
    generator = torch.Generator().manual_seed(seed)
    mixture = {}
    for block in space.blocks:
        logits = torch.randn(block.cells, *block.shape, generator=generator, dtype=torch.float64)
        mixture[block.name] = logits.softmax(-1).to(dtype).requires_grad_()
    return mixture


@pytest.mark.parametrize(("name", "sizes", "image_size"), NETS)
def test_logits_and_all_gradients_are_those_of_the_plain_supernet(
    name: str, sizes: dict[str, int], image_size: int
) -> None:
    space, fused, reference = pair(name, sizes, torch.float64)
    images, labels = batch(image_size, torch.float64)
    assert_same_gradients(fused, reference, images, labels, mixture_of(space, torch.float64))


def test_entries_of_choices_that_a_row_has_not_are_never_read() -> None:
    """Rows of unequal length share one tensor; what stands in the padding does not matter, not even NaN."""
    space, fused, _ = pair("nasbench201", {"channels": 2, "cells_per_stage": 1}, torch.float64)
    images, _ = batch(8, torch.float64)
    mixture = mixture_of(space, torch.float64)
    expected = fused(images, mixture)
    fused.shapes = {"cell": (3, 6, 7)}
    padded = F.pad(mixture["cell"].detach(), (0, 2), value=torch.nan).requires_grad_()
    logits = fused(images, {"cell": padded})
    assert torch.equal(logits, expected)
    (gradient,) = torch.autograd.grad(logits.sum(), padded)
    assert not gradient[..., 5:].any()


@pytest.mark.parametrize(("name", "sizes"), TINY)
def test_hessian_products_are_those_of_the_plain_supernet(name: str, sizes: dict[str, int]) -> None:
    space, fused, reference = pair(name, sizes, torch.float64)
    images, labels = batch(4 if name != "nasbench201" else 8, torch.float64, count=3)
    assert_same_hessian_products(fused, reference, images, labels, mixture_of(space, torch.float64))
