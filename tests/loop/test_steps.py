from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from listening import StepFinished, Trace, listening, on
from spying import spied
from tiny_space import Tiny
from torch import Tensor

import archgrad as ag
from archgrad.arch_optimizers import ArchOptimizer, ArchState
from archgrad.autodiff.tensors import Alpha, Weights
from archgrad.data import Batch, Loader, measure
from archgrad.errors import DivergedError
from archgrad.hypergradients import EvaluationPoint, Hypergradient
from archgrad.loop.steps import Stepper
from archgrad.regularizers import OuterStep, PerturbStep, Regularizer, WeightStep
from archgrad.relaxations import Relaxation, Relaxed, Softmax, expand_to_cells
from archgrad.relaxations.base import Domain
from archgrad.spaces import DecisionBlock, SearchSpace
from archgrad.supernet import Supernet

DATA = ag.data.digits(limit=64)
SEED = 3
TRAINING = ag.WeightTraining(lr=0.05, weight_decay=5e-4, nesterov=True, clip=0.5, batch_size=16, epochs=2)
ONE_STEP = replace(TRAINING, batch_size=32, epochs=1)


def cell_space() -> SearchSpace:
    return Tiny(channels=4, cells_per_stage=1)


def loaders(training: ag.WeightTraining) -> tuple[Loader, Loader]:
    """The batches that a search with this seed sees: weights, architecture."""
    parts = ag.data.split(DATA.labels, (0.5, 0.5), SEED)
    normalization = measure(DATA, parts.weights)
    streams = (("weights", parts.weights), ("architecture", parts.architecture))
    first, second = (
        Loader(DATA, indices, training.batch_size, normalization, DATA.augmentation, SEED, stream)
        for stream, indices in streams
    )
    return first, second


def traced(method: ag.Method, training: ag.WeightTraining = ONE_STEP, space: SearchSpace | None = None) -> Trace:
    trace = Trace()
    ag.search(
        space or cell_space(),
        method,
        DATA,
        seed=SEED,
        weights=training,
        held_out=0,
        callbacks=listening(trace),
        standard_callbacks=False,
        alpha_budget="off",
    )
    return trace


def weights_of(network: Supernet) -> dict[str, Tensor]:
    return {name: value.detach() for name, value in network.named_parameters()}


def close(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=1e-4, atol=1e-6)


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("space", "training"),
    [(cell_space(), TRAINING), (ag.spaces.S2(channels=2, cells=3), replace(TRAINING, nesterov=False, clip=5.0))],
    ids=["tiny", "s2"],
)
def test_steps_are_those_of_a_plain_loop(space: SearchSpace, training: ag.WeightTraining) -> None:
    trace = traced(ag.recipes.darts(), training, space)
    network = copy.deepcopy(trace.networks[0])
    cells = {block.name: block.cells for block in space.blocks}
    alpha = {name: value.clone().requires_grad_() for name, value in trace.alphas[0].items()}
    adam = torch.optim.Adam(alpha.values(), lr=3e-4, betas=(0.5, 0.999), weight_decay=1e-3)
    sgd = torch.optim.SGD(
        network.parameters(), lr=training.lr, momentum=0.9, weight_decay=5e-4, nesterov=training.nesterov
    )
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(sgd, training.epochs, training.lr_min)
    inner, outer = loaders(training)

    def loss(batch: Batch) -> Tensor:
        mixture = {name: F.softmax(value, -1).expand(cells[name], -1, -1) for name, value in alpha.items()}
        return F.cross_entropy(network(batch.inputs, mixture), batch.targets)

    for index in range(4):
        adam.zero_grad()
        loss(outer.batch(index)).backward()
        adam.step()
        sgd.zero_grad()
        loss(inner.batch(index)).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), training.clip)
        sgd.step()
        close({name: value.detach() for name, value in alpha.items()}, trace.alphas[index + 1])
        close(weights_of(network), weights_of(trace.networks[index + 1]))
        if index % 2:
            cosine.step()


def test_the_architecture_step_comes_first_and_each_batch_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[tuple[str, int]] = []

    def note(self: Stepper, state: Any, *args: Any, name: str) -> None:
        happened.append((name, state.index))

    spied(monkeypatch, Loader, "batch", lambda self, index: happened.append((self.stream, index)))
    spied(monkeypatch, Stepper, "architecture_step", partial(note, name="α"))
    spied(monkeypatch, Stepper, "weight_step", partial(note, name="w"))
    traced(ag.recipes.darts(), TRAINING)
    one = ("α", "architecture", "weights", "w")
    assert happened == [(name, index) for index in range(4) for name in one]


def test_each_step_records_only_the_gradients_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    def needed(self: Supernet, x: Tensor, mixture: dict[str, Tensor], **extra: Any) -> tuple[bool, bool]:
        return any(w.requires_grad for w in self.parameters()), mixture["cell"].requires_grad

    recorded = spied(monkeypatch, Supernet, "forward", needed)
    traced(ag.recipes.darts())
    assert recorded == [(False, True), (True, False)]
    recorded.clear()
    traced(replace(ag.recipes.darts(), regularizers=(Watch(),)))
    assert recorded[:2] == [(False, True), (True, True)]


@dataclass(frozen=True)
class Both(Hypergradient):
    """Keeps the batches it was given."""

    seen: list[tuple[Batch | None, Batch]] = field(default_factory=list, repr=False)

    def estimate(self, point: EvaluationPoint, state: Any) -> tuple[Alpha, Any]:
        (inner_batch,) = point.inner_batch
        self.seen.append((inner_batch, point.outer_batch))
        assert math.isfinite(point.inner()(point.weights, point.alpha).item())
        return point.direct(), state


def test_an_estimator_that_needs_the_inner_batch_gets_that_of_the_weight_step() -> None:
    estimator = Both()
    trace = traced(replace(ag.recipes.darts(), hypergradient=estimator), TRAINING)
    inner, outer = loaders(TRAINING)
    for index, (first, second) in enumerate(estimator.seen):
        assert first is not None
        assert torch.equal(first.inputs, inner.batch(index).inputs)
        assert torch.equal(second.inputs, outer.batch(index).inputs)
    assert equal(trace.alphas[-1], traced(ag.recipes.darts(), TRAINING).alphas[-1])


@dataclass(frozen=True)
class Descent(ArchOptimizer):
    """α ← α − g, which shows the gradient."""

    domain: ClassVar[Domain] = "real"

    gradients: list[Alpha] = field(default_factory=list, repr=False)

    def init(self, alpha: Alpha, steps: int) -> ArchState:
        return {}

    def step(self, alpha: Alpha, gradient: Alpha, state: ArchState) -> tuple[Alpha, ArchState]:
        self.gradients.append(gradient)
        return {name: value - gradient[name] for name, value in alpha.items()}, state


def shown(*regularizers: Regularizer, relaxation: Relaxation | None = None) -> tuple[ag.Method, list[Alpha]]:
    """A method that keeps its gradients, and where."""
    descent = Descent()
    parts = {"relaxation": relaxation or Softmax(init_scale=1.0), "arch_optimizer": descent}
    return replace(ag.recipes.darts(), regularizers=regularizers, **parts), descent.gradients


@dataclass(frozen=True)
class Quadratic(Regularizer):
    """alpha_weight·Σα² + mixture_weight·Σp² + progress·Σα."""

    alpha_weight: float = 0.0
    mixture_weight: float = 0.0

    def outer_term(self, step: OuterStep) -> Tensor:
        alpha = step.alpha["cell"]
        first = self.alpha_weight * alpha.square().sum() + step.progress * alpha.sum()
        return first + self.mixture_weight * step.mixture["cell"].square().sum()


def test_outer_terms_are_added_to_the_architecture_gradient() -> None:
    plain, without = shown()
    method, gradients = shown(Quadratic(alpha_weight=0.5), Quadratic(mixture_weight=2.0))
    start = traced(plain).alphas[0]["cell"]
    traced(method)
    p = start.softmax(-1)
    slope = 2 * p * (p - p.square().sum(-1, keepdim=True))
    expected = without[0]["cell"] + 0.5 * 2 * start + 2.0 * 3 * slope
    torch.testing.assert_close(gradients[0]["cell"], expected)


def test_progress_counts_the_steps_that_are_done() -> None:
    plain, without = shown()
    method, gradients = shown(Quadratic())
    traced(plain, TRAINING)
    traced(method, TRAINING)
    torch.testing.assert_close(gradients[0]["cell"], without[0]["cell"])
    seen: list[float] = []

    class Progress(Regularizer):
        def perturb(self, step: PerturbStep) -> dict[str, Tensor]:
            seen.append(step.progress)
            return step.mixture

    traced(replace(ag.recipes.darts(), regularizers=(Progress(),)), TRAINING)
    assert seen == [0, 0.25, 0.5, 0.75]


@dataclass(frozen=True)
class Jitter(Regularizer):
    """Adds noise to the mixture, differently in every cell."""

    used: list[Tensor] = field(default_factory=list, repr=False)

    def perturb(self, step: PerturbStep) -> dict[str, Tensor]:
        noise = 0.3 * torch.rand(step.mixture["cell"].shape, generator=step.generator)
        self.used.append(step.mixture["cell"] + noise)
        return {"cell": self.used[-1]}


def test_a_perturbation_is_seen_by_the_weight_step_alone() -> None:
    plain, without = shown()
    jitter = Jitter()
    method, gradients = shown(jitter)
    before, after = traced(plain), traced(method)
    assert torch.equal(gradients[0]["cell"], without[0]["cell"])
    assert equal(before.alphas[1], after.alphas[1])
    assert not equal(weights_of(before.networks[1]), weights_of(after.networks[1]))
    close(weights_of(after.networks[1]), by_hand(after, jitter.used[0]))
    again = Jitter()
    traced(shown(again)[0])
    assert torch.equal(again.used[0], jitter.used[0])


def test_each_perturbation_has_its_own_stream_and_sees_the_one_before() -> None:
    first, second = Jitter(), Jitter()
    traced(shown(first, second)[0], TRAINING)
    added = [one - zero for one, zero in zip(second.used, first.used, strict=True)]
    assert len(added) == 4
    assert not torch.allclose(added[0], added[1])
    mixture = traced(shown()[0], TRAINING).alphas[1]["cell"].softmax(-1).expand(3, -1, -1)
    noise = first.used[0] - mixture
    assert ((noise > -1e-6) & (noise < 0.3 + 1e-6)).all()
    assert not torch.allclose(added[0], noise)


def by_hand(trace: Trace, mixture: Tensor, extra: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
    """The weights after one step by torch.optim.SGD at this mixture, with ``extra`` added before clipping."""
    network = copy.deepcopy(trace.networks[0])
    batch = loaders(ONE_STEP)[0].batch(0)
    sgd = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    F.cross_entropy(network(batch.inputs, {"cell": mixture}), batch.targets).backward()
    for name, weight in network.named_parameters():
        if extra and name in extra:
            weight.grad = extra[name] if weight.grad is None else weight.grad + extra[name]
    torch.nn.utils.clip_grad_norm_(network.parameters(), ONE_STEP.clip)
    sgd.step()
    return weights_of(network)


@dataclass(frozen=True)
class Pull(Regularizer):
    """Adds strength·w to the gradient: the weights themselves, as a careless user would return them."""

    strength: float = 1.0

    def weight_gradient(self, step: WeightStep) -> Weights:
        assert step.mixture_gradient is None
        if self.strength == 1:
            return dict(step.weights)
        return {name: self.strength * weight for name, weight in step.weights.items()}


@pytest.mark.parametrize("strength", [1.0, 10.0])
def test_weight_gradients_are_added_before_clipping(strength: float) -> None:
    trace = traced(shown(Pull(strength))[0])
    start = weights_of(trace.networks[0])
    mixture = trace.alphas[1]["cell"].softmax(-1).expand(3, -1, -1)
    extra = {name: strength * value for name, value in start.items()}
    close(weights_of(trace.networks[1]), by_hand(trace, mixture, extra))
    moved = [(start[name] - value).norm() for name, value in weights_of(trace.networks[1]).items()]
    decay = 5e-4 * math.sqrt(sum(value.square().sum().item() for value in start.values()))
    norm = torch.stack(moved).norm().item()
    assert norm == pytest.approx(0.05 * 1.9 * ONE_STEP.clip, rel=0.02 + decay)


def test_the_weight_gradients_of_several_regularizers_are_read_at_the_same_state() -> None:
    twice, once = traced(shown(Pull(5.0), Pull(5.0))[0]), traced(shown(Pull(10.0))[0])
    close(weights_of(twice.networks[1]), weights_of(once.networks[1]))


@dataclass(frozen=True)
class Watch(Regularizer):
    """Asks for the gradient of the mixture and keeps what it is shown."""

    needs_mixture_gradient: ClassVar[bool] = True

    steps: list[WeightStep] = field(default_factory=list, repr=False)
    losses: list[float] = field(default_factory=list, repr=False)

    def weight_gradient(self, step: WeightStep) -> None:
        self.steps.append(step)
        self.losses.append(step.loss(step.weights, step.mixture).item())


@pytest.mark.parametrize("name", ["tiny", "s1"])
def test_the_mixture_gradient_is_that_of_every_cell(name: str) -> None:
    space = cell_space() if name == "tiny" else ag.spaces.S1(channels=2, cells=3)
    watch = Watch()
    trace = traced(shown(watch)[0], space=space)
    step, batch = watch.steps[0], loaders(ONE_STEP)[0].batch(0)
    leaves = {
        block.name: trace.alphas[1][block.name].softmax(-1).repeat(block.cells, 1, 1).requires_grad_()
        for block in space.blocks
    }
    loss = F.cross_entropy(trace.networks[0](batch.inputs, leaves), batch.targets)
    loss.backward()
    assert step.mixture_gradient is not None
    for block, leaf in leaves.items():
        assert leaf.grad is not None
        torch.testing.assert_close(step.mixture[block].detach(), leaf.detach())
        torch.testing.assert_close(step.mixture_gradient[block], leaf.grad, rtol=1e-4, atol=1e-6)
    assert watch.losses[0] == pytest.approx(loss.item(), rel=1e-5)
    assert step.progress == 0
    plain = traced(shown()[0], space=space)
    close(weights_of(trace.networks[1]), weights_of(plain.networks[1]))


@dataclass(frozen=True)
class OneHot(Relaxation):
    """One sampled choice per cell and row, p at its place for the gradient alone; only sampled choices are run."""

    domain: ClassVar[Domain] = "real"

    draws: list[Tensor] = field(default_factory=list, repr=False)

    def init(self, blocks: Sequence[DecisionBlock], generator: torch.Generator) -> Alpha:
        return Softmax().init(blocks, generator)

    def probabilities(self, blocks: Sequence[DecisionBlock], alpha: Alpha) -> dict[str, Tensor]:
        return Softmax().probabilities(blocks, alpha)

    def noise(self, blocks: Sequence[DecisionBlock], generator: torch.Generator) -> dict[str, Tensor]:
        return {block.name: -torch.empty(block.cells, *block.shape).exponential_(generator=generator).log()
                for block in blocks}  # fmt: skip

    def relax(
        self, blocks: Sequence[DecisionBlock], alpha: Alpha, noise: dict[str, Tensor] | None, progress: float
    ) -> Relaxed:
        assert noise is not None
        mixture, active = {}, {}
        for block in blocks:
            p = expand_to_cells(blocks, self.probabilities(blocks, alpha))[block.name]
            chosen = F.one_hot((p.detach().log() + noise[block.name]).argmax(-1), p.shape[-1])
            mixture[block.name] = chosen + p - p.detach()
            active[block.name] = chosen.bool()
        self.draws.append(next(iter(active.values())))
        return Relaxed(mixture, active)


@pytest.mark.parametrize("name", ["tiny", "s4"])
def test_a_sampled_relaxation_is_reproducible(name: str) -> None:
    space = cell_space() if name == "tiny" else ag.spaces.S4(channels=2, cells=3)
    relaxation = OneHot()
    first = traced(replace(ag.recipes.darts(), relaxation=relaxation), TRAINING, space)
    second = traced(replace(ag.recipes.darts(), relaxation=OneHot()), TRAINING, space)
    assert equal(first.alphas[-1], second.alphas[-1])
    assert equal(weights_of(first.networks[-1]), weights_of(second.networks[-1]))
    assert len(relaxation.draws) == 8
    assert all((draw.sum(-1) == 1).all() for draw in relaxation.draws)
    assert all(not torch.equal(*pair) for pair in zip(relaxation.draws, relaxation.draws[1:], strict=False))


def test_weights_that_no_cell_reads_are_left_alone_and_their_gradient_is_zero() -> None:
    watch = Watch()
    method = replace(ag.recipes.darts(), relaxation=OneHot(), regularizers=(watch,))
    trace = traced(method)
    moved = {
        name: not torch.equal(value, weights_of(trace.networks[1])[name])
        for name, value in weights_of(trace.networks[0]).items()
    }
    assert any(moved.values())
    assert not all(moved.values())
    gradient = watch.steps[0].mixture_gradient
    assert gradient is not None
    active = method.relaxation.draws[-1]
    assert (gradient["cell"][~active] == 0).all()
    assert (gradient["cell"][active] != 0).any()


class Shared(torch.nn.Module):
    """Two parameters whose gradients are the same tensor, one whose gradient has no memory of its own, one frozen."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.first = torch.nn.Parameter(torch.randn(10, generator=generator))
        self.second = torch.nn.Parameter(torch.randn(10, generator=generator))
        self.frozen = torch.nn.Parameter(torch.ones(10), requires_grad=False)

    def forward(self, x: Tensor, views: Any) -> Tensor:
        weight = sum(entry for row in views["cell"][0].weights for entry in row)
        scale = 100 * x.mean((1, 2, 3))[:, None] * weight
        return scale * ((self.first + self.second) * self.frozen) + 0 * self.second.sum()


@dataclass(frozen=True, kw_only=True)
class SharedSpace(ag.spaces.NASBench201(channels=4, cells_per_stage=1).__class__):  # type: ignore[misc]
    """The decisions of NAS-Bench-201 on that network."""

    def build(self, plan: Any, input_channels: int, num_classes: int) -> torch.nn.Module:
        return Shared()


def test_gradients_that_share_memory_are_clipped_once() -> None:
    space = SharedSpace(channels=4, cells_per_stage=1)
    trace = traced(ag.recipes.darts(), replace(ONE_STEP, weight_decay=0.0, clip=1e-3), space)
    start, end = weights_of(trace.networks[0]), weights_of(trace.networks[1])
    moved = {name: start[name] - end[name] for name in start}
    torch.testing.assert_close(moved["body.first"], moved["body.second"], rtol=1e-2, atol=1e-8)
    norm = torch.cat(list(moved.values())).norm().item()
    assert norm == pytest.approx(0.05 * 1.9 * 1e-3, rel=0.01)
    assert torch.equal(start["body.frozen"], end["body.frozen"])


@dataclass(frozen=True)
class Poison(Regularizer):
    """Breaks one of the three places from some progress on."""

    place: str
    value: Any = math.nan  # a number of any kind, which the type float would not allow
    start: float = 0.5

    def outer_term(self, step: OuterStep) -> Tensor | None:
        return self.value * step.alpha["cell"].sum() if self.place == "outer" and step.progress >= self.start else None

    def perturb(self, step: PerturbStep) -> dict[str, Tensor]:
        bad = self.place == "perturb" and step.progress >= self.start
        return {name: value * self.value for name, value in step.mixture.items()} if bad else step.mixture

    def weight_gradient(self, step: WeightStep) -> Weights | None:
        bad = self.place == "gradient" and step.progress >= self.start
        return {name: weight * self.value for name, weight in step.weights.items()} if bad else None


@pytest.mark.parametrize(
    ("place", "value", "what"),
    [
        ("outer", math.nan, "the term of Poison in the architecture's loss became nan"),
        ("outer", math.inf, "the term of Poison in the architecture's loss became -inf"),
        ("perturb", math.nan, "the train loss became nan"),
        ("gradient", math.nan, "the gradient of the weights by Poison became nan"),
        ("gradient", math.inf, "the gradient of the weights by Poison became (nan|inf)"),
    ],
)
def test_divergence_names_the_place_and_keeps_the_last_checkpoint(
    tmp_path: Path, place: str, value: float, what: str
) -> None:
    method = replace(ag.recipes.darts(), regularizers=(Poison(place, value),))
    settings = {"seed": SEED, "weights": TRAINING, "out": tmp_path}
    with pytest.raises(DivergedError, match=f"({what}) at step 1 of epoch 2; lower weights.lr") as caught:
        ag.search(cell_space(), method, DATA, **settings)
    assert str(tmp_path / "checkpoint.pt") in str(caught.value)
    assert f"`archgrad resume {tmp_path}` would come to the same point" in str(caught.value)
    content = torch.load(tmp_path / "checkpoint.pt", weights_only=True)["content"]
    assert content["position"]["epoch"] == 1
    assert all(torch.isfinite(weight).all() for weight in content["weights"].values())
    assert torch.isfinite(content["alpha"]["cell"]).all()
    with pytest.raises(DivergedError, match="at step 1 of epoch 2"):
        ag.search(cell_space(), method, DATA, resume=True, **settings)


def test_divergence_without_a_folder_names_none() -> None:
    method = replace(ag.recipes.darts(), regularizers=(Poison("perturb"),))
    with pytest.raises(DivergedError, match=r"start again\.$") as caught:
        ag.search(cell_space(), method, DATA, seed=SEED, weights=TRAINING)
    assert "checkpoint" not in str(caught.value)


def test_a_step_that_leaves_the_finite_numbers_is_noticed_before_the_checkpoint(tmp_path: Path) -> None:
    training = replace(ONE_STEP, lr=3e38, clip=1e6)
    method = replace(ag.recipes.darts(), regularizers=(Pull(100.0),))
    with pytest.raises(DivergedError, match=r"the weights 'body\.\S+' became not finite at step 1 of epoch 1"):
        ag.search(cell_space(), method, DATA, seed=SEED, weights=training, out=tmp_path)
    content = torch.load(tmp_path / "checkpoint.pt", weights_only=True)["content"]
    assert content["position"] == {"epoch": 0, "step": 0, "epochs": 1, "steps": 1}
    assert all(torch.isfinite(weight).all() for weight in content["weights"].values())


def test_a_huge_learning_rate_diverges_with_a_sentence() -> None:
    with pytest.raises(DivergedError, match=r"at step \d of epoch \d; lower weights.lr"):
        traced(ag.recipes.darts(), replace(TRAINING, lr=1e30, clip=1e9))


@pytest.fixture
def _fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


# Both warnings come from inside torch.compile, when it looks at inputs and at autograd functions.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.usefixtures("_fresh_dynamo")
def test_a_compiled_search_is_the_same_and_compiles_once_per_kind_of_step(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.utils import counters

    compile_, graphs = torch.compile, []

    def without_compiler(function: Callable[..., Any]) -> Callable[..., Any]:
        return compile_(function, backend="aot_eager")

    count = on(StepFinished, lambda event: graphs.append(counters["stats"]["unique_graphs"]))
    counters.clear()
    space = Tiny(channels=2, cells_per_stage=1)
    settings = {"seed": SEED, "weights": TRAINING, "alpha_budget": "off"}
    plain = ag.search(space, ag.recipes.darts(), DATA, **settings)
    monkeypatch.setattr(torch, "compile", without_compiler)
    compiled = ag.search(space, ag.recipes.darts(), DATA, compile=True, callbacks=count, **settings)
    close(compiled.alpha, plain.alpha)
    close(weights_of(compiled.supernet), weights_of(plain.supernet))
    assert len(set(graphs[1:])) == 1, "nothing is compiled again once each kind of step was taken"
    if torch.__version__ >= "2.13":  # earlier versions break the graph at our functions
        assert graphs == [2, 2, 2, 2]
        assert not counters["graph_break"]
