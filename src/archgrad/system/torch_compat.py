"""Private functions of PyTorch with public fallbacks, and two memory errors of PyTorch with their workarounds.

Everything else in the package uses the public interface of PyTorch only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

__all__ = ["apply_function", "dense_norm_weight", "every_pixel", "function_places", "will_execute"]


_transforms_active: Callable[[], bool] | None = getattr(torch._C, "_are_functorch_transforms_active", None)
_will_execute: Callable[[Any], bool] | None = getattr(torch._C, "_will_engine_execute_node", None)
_private_functions: Any = getattr(torch._C, "_nn", None)
_has_unwrapped_apply = hasattr(super(Function, Function), "apply")


def apply_function(function: type[Function], inputs: tuple[Any, ...]) -> Any:
    """Do what ``function.apply(*inputs)`` does, but faster.

    The public ``apply`` inspects signatures for longer than a small tensor operation takes. It is the fallback, and it
    is used under ``torch.compile`` and function transforms.
    """
    public = _transforms_active is None or not _has_unwrapped_apply
    if public or torch.compiler.is_compiling() or (_transforms_active is not None and _transforms_active()):
        return function.apply(*inputs)  # type: ignore[no-untyped-call]
    if not torch.is_grad_enabled():
        return function.forward(*inputs)
    return super(Function, function).apply(*inputs)  # type: ignore[misc]


def will_execute(node: Any) -> bool:
    """Tell whether the running backward pass executes a node of the graph.

    The fallback is yes, which costs time but changes no gradient.
    """
    return True if _will_execute is None else bool(_will_execute(node))


def function_places() -> list[Any]:
    """Return the places where PyTorch keeps its functions: three public ones and ``torch._C._nn`` if there is one."""
    return [F, torch, Tensor, *([] if _private_functions is None else [_private_functions])]


def dense_norm_weight(weight: Tensor) -> Tensor:
    """Return the weight of a batch norm in memory of its own, which works around a read beyond the end of an array.

    On the CPU, the gradient of a channels-last batch norm reads ``C`` numbers from where the weight begins. Of an
    expanded weight that is beyond its end. Seen in PyTorch 2.13.0:

        x = torch.randn(4, 64, 8, 8).to(memory_format=torch.channels_last).requires_grad_()
        weight = torch.tensor(0.5).expand(64)
        y = F.batch_norm(x, None, None, weight, None, training=True)
        torch.autograd.grad(y, x, torch.randn_like(y))  # arbitrary numbers; right with weight.contiguous()
    """
    return weight.contiguous()


def every_pixel(step: int, x: Tensor) -> Tensor:
    """Return every ``step``-th pixel for a 1×1 convolution without stride, which works around a write beyond an array.

    On the CPU, a strided 1×1 convolution in channels-last layout with fewer than eight input channels writes beyond the
    end of its memory when it computes the gradient of its weights. Seen in PyTorch 2.13.0 with AVX2, where valgrind
    reports an invalid write in oneDNN's ``jit_avx2_1x1_convolution_bwd_weights_t``:

        x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
        weight = torch.randn(16, 3, 1, 1).to(memory_format=torch.channels_last).requires_grad_()
        F.conv2d(x, weight, stride=2).sum().backward()
    """
    return x if step == 1 else x[:, :, ::step, ::step]
