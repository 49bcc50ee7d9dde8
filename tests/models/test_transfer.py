"""A new network that starts from a trained model's weights."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from varied_spaces import VARIED_SPACES, small_space

from archgrad.errors import UserError
from archgrad.models import Model, copy_matching_weights
from archgrad.spaces import DARTS, NASBench201, SearchSpace
from tests.models.trained import model_of


def double_model(space: SearchSpace) -> Model:
    model = model_of(space, seed=1)
    model.network.double()
    return model


def output(network: nn.Module, x: Tensor) -> Tensor:
    torch.manual_seed(7)  # for the noise of s4
    with torch.no_grad():
        found: Tensor = network.eval()(x)
    return found


def features(network: nn.Module, x: Tensor) -> Tensor:
    """Return what the classifier reads."""
    seen: list[Tensor] = []
    hook = network.classifier.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))  # type: ignore[union-attr, operator]
    output(network, x)
    hook.remove()
    return seen[0]


@pytest.mark.parametrize("name", VARIED_SPACES)
def test_a_network_of_the_same_shape_computes_the_same(name: str) -> None:
    model = double_model(small_space(name))
    network = model.space.network(model.genotype, num_classes=3).double()
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert not torch.equal(output(network, x), output(model.network, x))
    told = copy_matching_weights(network, model)
    assert torch.equal(output(network, x), output(model.network, x))
    assert (told.copied, told.new) == (tuple(model.network.state_dict()), ())


@pytest.mark.parametrize("name", VARIED_SPACES)
def test_with_other_classes_the_features_are_the_same(name: str) -> None:
    model = double_model(small_space(name))
    network = model.space.network(model.genotype, num_classes=7).double()
    before = network.classifier.weight.clone()  # type: ignore[union-attr, operator]
    told = copy_matching_weights(network, model)
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(features(network, x), features(model.network, x))
    assert told.new == ("classifier.weight", "classifier.bias")
    assert torch.equal(network.classifier.weight, before)  # type: ignore[union-attr, arg-type]
    total = len(network.state_dict())
    assert str(told) == f"{total - 2} of {total} tensors; new: classifier.weight, classifier.bias"


def test_only_what_the_images_change_is_new() -> None:
    model = double_model(NASBench201(channels=4, cells_per_stage=1))
    gray = model.space.network(model.genotype, num_classes=3, input_channels=1)
    assert copy_matching_weights(gray, model).new == ("stem.0.weight",)
    large = replace(model.space, stem="imagenet").network(model.genotype, num_classes=3)  # type: ignore[call-arg]
    assert {name.split(".")[0] for name in copy_matching_weights(large, model).new} == {"stem"}


def test_an_auxiliary_head_is_new() -> None:
    model = double_model(DARTS(channels=4, cells=4))
    network = model.space.network(model.genotype, num_classes=3, auxiliary_head=True)
    told = copy_matching_weights(network, model)
    assert {name.split(".")[0] for name in told.new} == {"auxiliary"}
    assert str(told).endswith(", …")


def test_another_stem_changes_the_cells_that_read_it() -> None:
    model = double_model(DARTS(channels=4, cells=6))
    network = replace(model.space, stem="imagenet").network(model.genotype, num_classes=3)  # type: ignore[call-arg]
    new = copy_matching_weights(network, model).new
    # The first cell halves its older input there; a batch norm of the same shape stays with its convolution.
    assert all(name.startswith(("stem.", "cells.0.preprocess.", "cells.1.preprocess.0.")) for name in new)
    assert "cells.0.preprocess.0.norm.weight" in new


def test_cells_of_another_width_or_stride_are_new() -> None:
    model = double_model(DARTS(channels=4, cells=8))  # reduces at 2 and 5
    deeper = replace(model.space, cells=9)  # reduces at 3 and 6
    network = deeper.network(model.genotype, num_classes=3)
    shapes = {name: value.shape for name, value in model.network.state_dict().items()}
    told = copy_matching_weights(network, model)
    assert all(network.state_dict()[name].shape == shapes[name] for name in told.copied)
    assert {name.split(".")[1] for name in told.new} >= {"2", "5", "8"}
    strides = {name: one.stride for name, one in model.network.named_modules() if isinstance(one, nn.Conv2d)}
    for name, one in network.named_modules():
        if isinstance(one, nn.Conv2d) and f"{name}.weight" in told.copied:
            assert one.stride == strides[name]


def test_weights_that_do_not_fit_are_refused_and_change_nothing() -> None:
    model = double_model(NASBench201(channels=4, cells_per_stage=1))
    network = NASBench201(channels=8, cells_per_stage=1).network(model.genotype, num_classes=3)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with pytest.raises(UserError, match=r"only 0 of \d+ tensors .* its width 4 and its depth 1, or train without"):
        copy_matching_weights(network, model)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    with pytest.raises(UserError, match="space 'nasbench201'"):
        copy_matching_weights(DARTS(channels=4, cells=4).network(double_model(DARTS()).genotype), model)
