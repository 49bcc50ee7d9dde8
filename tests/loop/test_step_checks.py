"""A part of a user's own that returns something wrong is named, together with what was expected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import archgrad as ag
from archgrad.arch_optimizers import Adam
from archgrad.callbacks import Callback
from archgrad.discretizers import Argmax
from archgrad.errors import DivergedError, UserError
from archgrad.hypergradients import FirstOrder
from archgrad.regularizers import Regularizer
from archgrad.relaxations import Relaxed, Softmax

DATA = ag.data.digits(limit=64)
SPACE = ag.spaces.NASBench201(channels=2, cells_per_stage=1)
NAN = float("nan")


def run(space: Any = SPACE, callbacks: Any = (), **parts: Any) -> ag.SearchResult:
    method = replace(ag.recipes.darts(), **parts)
    return ag.search(space, method, DATA, epochs=1, batch_size=16, callbacks=callbacks, on_collapse="ignore")


def wrong(base: type, method: str, change: Callable[[Any], Any], *given: Any) -> Any:
    """Return a member of a family whose ``method`` returns something else than that of its base."""

    def changed(self: Any, *args: Any, **more: Any) -> Any:
        return change(getattr(base, method)(self, *args, **more))

    kind = dataclass(frozen=True)(type("Own", (base,), {method: changed, "__annotations__": {}}))
    return kind(*given)


def scaled(factor: float) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    return lambda found: {name: value * factor for name, value in found.items()}


def narrow(found: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value[..., :-1] for name, value in found.items()}


def on_first(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Change the first of two results."""
    return lambda found: (change(found[0]), found[1])


def nothing(found: Any) -> None:
    return None


CASES: list[tuple[str, str, Callable[[Any], Any], str]] = [
    ("relaxation", "init", nothing, r"Own.init returned None; it must return tensors of these shapes: 'cell' \[6, 5\]"),
    ("relaxation", "init", narrow, r"a dictionary with 'cell' \[6, 4\]; it must return .*'cell' \[6, 5\]"),
    ("relaxation", "init", scaled(NAN), "Own.init returned numbers in 'cell' that are not finite"),
    ("relaxation", "probabilities", narrow, r"Own.probabilities returned a dictionary with 'cell' \[6, 4\]"),
    ("relaxation", "relax", nothing, "Own.relax returned None; it must return an object of type Relaxed"),
    ("relaxation", "relax", lambda found: Relaxed(narrow(found.mixture)), r"relax returned .*'cell': \[3, 6, 5\]"),
    (
        "relaxation",
        "relax",
        lambda found: Relaxed({name: value.detach() for name, value in found.mixture.items()}),
        "Own.relax returned a mixture without gradient; it must return one that is differentiable in α",
    ),
    ("hypergradient", "estimate", nothing, "Own.estimate returned None; it must return an object of type tuple"),
    ("hypergradient", "estimate", on_first(narrow), r"Own.estimate returned a dictionary with 'cell' \[6, 4\]"),
    ("hypergradient", "estimate", on_first(scaled(NAN)), "gradient by Own of 'cell' became not finite"),
    ("hypergradient", "estimate", lambda found: (found[0], None), "estimate returned None; .* of type dict"),
    ("hypergradient", "init", nothing, "Own.init returned None; it must return an object of type dict"),
    ("arch_optimizer", "init", nothing, "Own.init returned None; it must return an object of type dict"),
    ("arch_optimizer", "step", nothing, "Own.step returned None; it must return an object of type tuple"),
    ("arch_optimizer", "step", on_first(narrow), r"Own.step returned .*\[6, 4\]"),
    (
        "arch_optimizer",
        "step",
        on_first(scaled(NAN)),
        "step of Own in .*'cell' became not finite at step 1",
    ),
    ("discretizer", "select", nothing, "Own.interim returned None; it must return an object of type Genotype"),
]
BASES: dict[str, type] = {
    "relaxation": Softmax, "hypergradient": FirstOrder, "arch_optimizer": Adam, "discretizer": Argmax
}  # fmt: skip


@pytest.mark.parametrize(("part", "method", "change", "sentence"), CASES)
def test_a_wrong_part_is_named(part: str, method: str, change: Callable[[Any], Any], sentence: str) -> None:
    kind = DivergedError if "became not finite" in sentence else UserError
    if (part, method) == ("discretizer", "select"):
        sentence = sentence.replace("interim", "(interim|select)")
    with pytest.raises(kind, match=sentence):
        run(**{part: wrong(BASES[part], method, change)})


@pytest.mark.parametrize(
    ("method", "value", "sentence"),
    [
        ("outer_term", lambda step: 1.0, "Own.outer_term returned an object of type float; it must return a tensor"),
        ("outer_term", lambda step: step.alpha["cell"], r"returned a tensor of shape \[6, 5\]; it must return .* \[\]"),
        (
            "outer_term",
            lambda step: step.alpha["cell"].sum() * NAN,
            "the term of Own .* became nan at step 1",
        ),
        ("perturb", lambda step: None, "Own.perturb returned None; it must return tensors of these shapes: 'cell'"),
        (
            "weight_gradient",
            lambda step: {"x": torch.ones(1)},
            r"Own.weight_gradient returned a dictionary with 'x' \[1\]",
        ),
        (
            "weight_gradient",
            lambda step: {name: value * NAN for name, value in step.weights.items()},
            "the gradient of the weights by Own became nan at step 1 of epoch 1",
        ),
    ],
)
def test_a_wrong_regularizer_is_named(method: str, value: Callable[[Any], Any], sentence: str) -> None:
    own = type("Own", (Regularizer,), {method: lambda self, step: value(step)})
    with pytest.raises(DivergedError if "became nan" in sentence else UserError, match=sentence):
        run(regularizers=(own(),))


@dataclass(frozen=True)
class Space(ag.spaces.NASBench201):
    network: Any = None

    def supernet(self, *args: Any, **more: Any) -> Any:
        return self.network if self.network is None else self.network(super().supernet(*args, **more))


def shortened_logits(supernet: nn.Module) -> nn.Module:
    supernet.register_forward_hook(lambda module, given, logits: logits[:, :-1])
    return supernet


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (None, "Space.supernet returned None; it must return an object of type Module"),
        (shortened_logits, r"Space.supernet returned a tensor of shape \[16, 9\]; it must return .* \[16, 10\]"),
    ],
)
def test_a_wrong_supernet_is_named(network: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        run(space=Space(channels=2, cells_per_stage=1, network=network))


@pytest.mark.parametrize(
    ("method", "value", "sentence"),
    [
        ("measure_epoch", None, "Own.measure_epoch returned None; it must return an object of type Mapping"),
        ("measure_epoch", {"x": [1]}, r"Own.measure_epoch records 'x' as \[1\]; it must return numbers or texts"),
        ("measure_epoch", {"x": torch.ones(2)}, "Own.measure_epoch records 'x' as tensor"),
        *(
            ("measure_epoch", {name: 1}, f"records '{name}', but the search itself")
            for name in ("epoch", "genotype", "lr")
        ),
        ("measure_end", {"train_loss": 0.0}, "records 'train_loss', but the search itself records that"),
        ("measure_point", {"heldout_accuracy": 100.0}, "records 'heldout_accuracy', but the search itself"),
        ("stop", "enough", "Own.stop returned the text 'enough'; it must return an object of type Stop"),
    ],
)
def test_a_wrong_measure_is_named(method: str, value: Any, sentence: str) -> None:
    own = type("Own", (Callback,), {method: lambda self, *args: value})
    with pytest.raises(UserError, match=sentence):
        run(callbacks=[own()])


def test_a_search_works_with_another_default_dtype() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        result = run()
    finally:
        torch.set_default_dtype(torch.float32)
    assert {result.alpha["cell"].dtype, *(weight.dtype for weight in result.supernet.parameters())} == {torch.float64}
