"""A supernet in the middle of its training, as the bilevel problem that a search poses there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from archgrad import random_streams
from archgrad.autodiff.gradients import gradients, leaves
from archgrad.benchmarks.speed import Case
from archgrad.bilevel import BilevelProblem
from archgrad.data import Batch
from archgrad.descent import Descent
from archgrad.hypergradients import Batches, Hypergradient, evaluate_at
from archgrad.relaxations import Softmax
from archgrad.spaces import SearchSpace
from archgrad.tensors import Alpha, Weights

__all__ = ["TRAINING_STEPS", "Midway"]

TRAINING_STEPS = 20
_TRAINING_BATCH = 16
_CLASSES = 10
_SEED = 0


@dataclass(frozen=True, eq=False)
class Midway:
    """The problem, where its variables are, how the weights got there, and the batches that follow."""

    problem: BilevelProblem
    weights: Weights
    alpha: Alpha
    descent: Descent
    inner: Batches
    outer: Batch

    @classmethod
    def of(cls, case: Case, inner_batches: int, training_steps: int = TRAINING_STEPS) -> Midway:
        """Train a new supernet a little; the same case gives the same bits."""
        space, pictures = case.build(), _Pictures(case.image_size)
        supernet = _supernet_of(space)
        inner = Batches(pictures.batch(case.batch, "inner", step) for step in range(inner_batches))
        start = cls(
            _problem_of(space, supernet),
            Weights({name: weight.detach() for name, weight in supernet.named_parameters()}),
            Softmax().init(space.blocks, random_streams.generator(_SEED, "alpha")),
            Descent(lr=0.025, momentum=0.9, weight_decay=5e-4, nesterov=True),
            inner,
            pictures.batch(case.batch, "outer", 0),
        )
        return start.trained(pictures.batch(_TRAINING_BATCH, "training", step) for step in range(training_steps))

    def trained(self, batches: Iterable[Batch]) -> Midway:
        """Take one step of the weights for each batch."""
        weights, descent = self.weights, self.descent
        for batch in batches:
            weights, descent = descent.step(weights, self._gradient(weights, batch))
        return replace(self, weights=weights, descent=descent)

    def estimate(self, hypergradient: Hypergradient) -> Alpha:
        """Return dL2/dα as the estimator sees it."""
        return hypergradient(self.problem, self.weights, self.alpha, self.inner, self.outer, descent=self.descent)

    def first_term(self, hypergradient: Hypergradient) -> Alpha:
        """Return ∂L2/∂α where the estimator takes it."""
        at = evaluate_at(self.problem, self.weights, self.alpha, self.inner, self.outer, self.descent)
        with at as point:
            return hypergradient.direct(point)

    def _gradient(self, weights: Weights, batch: Batch) -> Weights:
        at = leaves(weights)
        return gradients(lambda: self.problem.inner(at, self.alpha, batch), at)[0]


def _supernet_of(space: SearchSpace) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        return space.supernet()


def _problem_of(space: SearchSpace, supernet: nn.Module) -> BilevelProblem:
    relaxation = Softmax()

    def loss(weights: Weights, alpha: Alpha, batch: Batch) -> Tensor:
        mixture = relaxation.relax(space.blocks, alpha, None, 0.0).mixture
        return F.cross_entropy(functional_call(supernet, weights, (batch.images, mixture)), batch.labels)

    return BilevelProblem(loss, loss)


@dataclass(frozen=True)
class _Pictures:
    """Noise around one random picture for each class: something to learn, without a data set."""

    size: int

    def batch(self, count: int, purpose: str, number: int) -> Batch:
        shape = (3, self.size, self.size)
        stream = random_streams.generator(_SEED, purpose, number)
        labels = torch.randint(0, _CLASSES, (count,), generator=stream)
        classes = torch.randn(_CLASSES, *shape, generator=random_streams.generator(_SEED, "classes"))
        images = classes[labels] + torch.randn(count, *shape, generator=stream)
        return Batch(images.contiguous(memory_format=torch.channels_last), labels)
