"""Gradients of named tensors: what they are taken by, and where they are left."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from archgrad.autodiff.gradients import (
    backward,
    constants,
    detached_parameters,
    gradients,
    leaves,
    split_trained,
)


def test_a_loss_that_does_not_depend_on_a_variable_has_a_zero_gradient() -> None:
    x, y = leaves({"a": torch.tensor([1.0, 2.0])}), leaves({"b": torch.tensor(3.0)})
    of_x, of_y = gradients(lambda: x["a"].square().sum(), x, y)
    assert of_x["a"].tolist() == [2.0, 4.0]
    assert of_y["b"].item() == 0.0
    assert gradients(lambda: torch.tensor(1.0), x)[0]["a"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("create_graph", [False, True])
def test_backward_leaves_one_gradient_and_returns_the_other(create_graph: bool) -> None:
    w, p = leaves({"w": torch.tensor(2.0)}), leaves({"p": torch.tensor(3.0)})
    found = backward(w["w"] ** 2 * p["p"], w, p, create_graph)
    assert w["w"].grad is not None
    assert (w["w"].grad.item(), found["p"].item(), found["p"].requires_grad) == (12.0, 4.0, create_graph)
    if create_graph:
        assert torch.autograd.grad(found["p"], w["w"])[0].item() == 4.0


def test_detached_parameters_share_weights_and_copy_buffers() -> None:
    module = nn.BatchNorm2d(2)
    found = detached_parameters(module, dict(module.named_parameters()))
    assert found["weight"].data_ptr() == module.weight.data_ptr()
    assert not found["weight"].requires_grad
    assert found["running_mean"].data_ptr() != module.running_mean.data_ptr()  # type: ignore[union-attr]


def test_frozen_weights_are_split_from_trained_ones() -> None:
    module = nn.Linear(2, 2)
    module.bias.requires_grad_(False)
    trained, frozen = split_trained(dict(module.named_parameters()))
    assert (list(trained), list(frozen)) == (["weight"], ["bias"])


def test_constants_of_inference_tensors_can_be_differentiated_by_others() -> None:
    with torch.inference_mode():
        value = torch.ones(2)
    found = constants({"x": value})["x"]
    assert not found.is_inference()
    assert not found.requires_grad
