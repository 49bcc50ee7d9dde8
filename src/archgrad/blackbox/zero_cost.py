"""Search by a zero-cost score: what one batch tells of a network that nothing has trained.

Each score takes a new network ``x -> logits``, inputs ``[N, C, H, W]`` and targets ``[N]``, and changes none of them.
Higher is better. Batch norms use the statistics of the batch, as in training. A network whose output does not depend on
its input has the score −∞ where the formula has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from archgrad.blackbox.base import BlackboxSearch, Objective, Problem, Proposals, check_independent_rows
from archgrad.data import Batch, Data, Loader, normalization_of
from archgrad.errors import UserError
from archgrad.parts.fields import Count
from archgrad.spaces import Genotype, SearchSpace
from archgrad.spaces.cost import cost
from archgrad.system.random_streams import seed_of

__all__ = ["SCORES", "ZeroCost", "flops", "grad_norm", "jacov", "nwot", "params", "snip", "synflow"]

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


@dataclass(frozen=True)
class ZeroCost(BlackboxSearch):
    """The best of ``samples`` random architectures by a score of the untrained network on one batch.

    Every network starts from the same random numbers, at the size of the space. Without ``samples`` all architectures
    of the space are scored. It trains nothing: its simulated time is 0, and a query is a score. It is the floor that a
    search must beat.
    """

    needs_table: ClassVar[bool] = False

    score: Literal["params", "flops", "synflow", "jacov", "nwot", "grad-norm", "snip"] = "synflow"
    samples: Count | None = 100
    batch_size: Count = 64

    def check(self, space: SearchSpace) -> None:
        """Reject spaces whose architectures cannot be listed, if all are to be scored."""
        if self.samples is None:
            check_independent_rows("zero-cost without samples", space)

    def proposals(self, problem: Problem) -> Proposals:
        """Draw architectures, or list all of them."""
        draws = problem.stream("draw")
        if self.samples is None:
            yield from _all_genotypes(problem)
        for _ in range(self.samples or 0):
            yield problem.draw(draws)

    def objective(self, problem: Problem) -> Objective:
        """Return the score on a batch of the data."""
        images = problem.images()
        if not images.classes:
            raise UserError(f"zero-cost scores need classes, but the targets of {images.name!r} are none.")
        batch = _first_batch(images, self.batch_size, problem.seed)

        def value(genotype: Genotype) -> float:
            with torch.random.fork_rng([]):
                torch.default_generator.manual_seed(seed_of(problem.seed, "blackbox", "weights"))
                network = problem.space.network(
                    genotype, num_classes=images.num_classes, input_channels=images.channels
                )
            return SCORES[self.score](network, batch.inputs, batch.targets)

        source = f"{self.score} of untrained networks on {len(batch.targets)} images of {images.name}"
        return Objective(self.score.replace("-", "_"), value, lambda genotype: 0.0, source)


def _first_batch(images: Data, size: int, seed: int) -> Batch:
    everything = torch.arange(len(images))
    normalization = normalization_of(images, everything)
    return Loader(images, everything, size, normalization, seed=seed, stream="blackbox").batch(0)


def _all_genotypes(problem: Problem) -> Proposals:
    """Yield every architecture of a space whose rows are independent."""
    offered = [
        [(block.name, row, choice) for choice in block.allowed(row)]
        for block in problem.blocks
        for row in range(len(block.rows))
    ]
    for choices in product(*offered):
        chosen: dict[str, list[tuple[int, int]]] = {block.name: [] for block in problem.blocks}
        for name, row, place in choices:
            chosen[name].append((row, place))
        yield problem.space.genotype(chosen)
