"""Zero-cost scores: what one batch tells of a network that nothing has trained.

Each takes a new network ``x -> logits``, inputs ``[N, C, H, W]`` and targets ``[N]``, and changes none of them. Higher
is better. Batch norms use the statistics of the batch, as in training. A network whose output does not depend on its
input has the score −∞ where the formula has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from archgrad.spaces.cost import cost

__all__ = ["SCORES", "flops", "grad_norm", "jacov", "nwot", "params", "snip", "synflow"]

Score = Callable[[nn.Module, Tensor, Tensor], float]

_STABLE = 1e-5
"""The k of jacov, which keeps its logarithms finite."""
_RELUS = (F.relu, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_)


def params(network: nn.Module, inputs: Tensor, targets: Tensor) -> float:
    """Return the number of parameters."""
    return float(sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad))


def flops(network: nn.Module, inputs: Tensor, targets: Tensor) -> float:
    """Return the number of multiply-adds on one image."""
    height, width = inputs.shape[2:]
    return float(cost(network, inputs.shape[1], (height, width)).multiply_adds)


def grad_norm(network: nn.Module, inputs: Tensor, targets: Tensor) -> float:
    """Return Σ over layers of ‖∂L/∂θ_layer‖₂, L the cross-entropy (Abdelfattah et al., 2021, Section 3.2.1).

    Layers are convolutions and linear ones, by their weights without biases, as in all scores of that paper.
    """
    return sum(float(gradient.norm()) for _, gradient in _weight_gradients(network, inputs, targets))


def snip(network: nn.Module, inputs: Tensor, targets: Tensor) -> float:
    """Return Σ |∂L/∂θ ⊙ θ|, the saliency of all weights (Lee et al., 2019; Abdelfattah et al., 2021, Eq. 1)."""
    gradients = _weight_gradients(network, inputs, targets)
    return sum(float((gradient * weight).abs().sum()) for weight, gradient in gradients)


def synflow(network: nn.Module, inputs: Tensor, targets: Tensor) -> float:
    """Return Σ ∂R/∂θ ⊙ θ at |θ|, R = Σ outputs of an image of ones (Tanaka et al., 2020; Abdelfattah et al., Eq. 1).

    Batch norms are left out, and the arithmetic is in float64: R is a product over the depth. No data is used.
    """
    network = deepcopy(network).double().train()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.abs_()
    image = torch.ones_like(inputs[:1], dtype=torch.float64)
    with _without_norms(network):
        gradients = _gradients(network, network(image).sum())
    return sum(float((gradient * weight).sum()) for weight, gradient in gradients)


def jacov(network: nn.Module, inputs: Tensor, targets: Tensor) -> float:
    """Return −Σ_i [log(σ_i + k) + 1/(σ_i + k)], k = 1e-5 (Mellor et al., 2020, first version).

    σ_i are the eigenvalues of the correlations, between the images of the batch, of J_n = ∂(Σ outputs)/∂x_n.
    """
    images = inputs.clone().requires_grad_()
    outputs = deepcopy(network).train()(images)
    (jacobian,) = torch.autograd.grad(outputs.sum(), images, allow_unused=True, materialize_grads=True)
    rows = jacobian.double().flatten(1)
    rows = rows - rows.mean(1, keepdim=True)
    rows = rows / rows.norm(dim=1, keepdim=True)
    if not bool(rows.isfinite().all()):
        return -math.inf
    eigenvalues = torch.linalg.eigvalsh(rows @ rows.T).clamp_min(0) + _STABLE
    return -float((eigenvalues.log() + 1 / eigenvalues).sum())


def nwot(network: nn.Module, inputs: Tensor, targets: Tensor) -> float:
    """Return log|det K|, K_ij the number of ReLUs that are on, or off, for both images i and j (Mellor et al., 2021).

    Units of all ReLUs count that the output depends on, as often as they are computed.
    """
    with _ReLUs() as relus:
        total = deepcopy(network).train()(inputs).sum()
    outputs = [output for output in relus.outputs if output.requires_grad]  # not those of constant zeros
    gradients = torch.autograd.grad(total, outputs, allow_unused=True) if outputs else ()
    kernel = torch.zeros(len(inputs), len(inputs), dtype=torch.float64)
    for output, gradient in zip(outputs, gradients, strict=True):
        if gradient is not None:
            code = (output.detach() > 0).flatten(1).double().cpu()
            kernel += code @ code.T + (1 - code) @ (1 - code).T
    return float(torch.linalg.slogdet(kernel).logabsdet)


SCORES: dict[str, Score] = {
    "params": params,
    "flops": flops,
    "synflow": synflow,
    "jacov": jacov,
    "nwot": nwot,
    "grad-norm": grad_norm,
    "snip": snip,
}
"""All scores by name."""


def _weight_gradients(network: nn.Module, inputs: Tensor, targets: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return the weights of all layers, and the gradients of the cross-entropy."""
    network = deepcopy(network).train()
    return _gradients(network, F.cross_entropy(network(inputs), targets))


def _gradients(network: nn.Module, loss: Tensor) -> list[tuple[Tensor, Tensor]]:
    weights: list[Tensor] = [layer.weight for layer in network.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    gradients = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
    return list(zip((weight.detach() for weight in weights), gradients, strict=True))


@contextmanager
def _without_norms(network: nn.Module) -> Iterator[None]:
    """Make batch norms return their input inside the block."""
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    handles = [norm.register_forward_hook(lambda norm, inputs, output: inputs[0]) for norm in norms]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _ReLUs(TorchFunctionMode):
    """Keeps the outputs of all ReLUs, which our operations call as functions."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs: list[Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        if func in _RELUS:
            self.outputs.append(output)
        return output
