"""The network of NAS-Bench-101: its size to the digit, and its forward pass against a plain computation."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archgrad.errors import UserError
from archgrad.operations import ConvBNReLU
from archgrad.spaces.nasbench101 import (
    CONV1X1,
    CONV3X3,
    INPUT,
    MAXPOOL3X3,
    OUTPUT,
    Module,
    NASBench101Net,
    network,
    vertex_channels,
)

REAL = Path(os.environ.get("ARCHGRAD_DATA") or "absent", "nasbench101", "models-1k.jsonl")


def module(edges: str, *operations: str) -> Module:
    """A module by its edges, written "01 12 23"."""
    pairs = {(int(i), int(j)) for i, j in edges.split()}
    vertices = range(len(operations) + 2)
    return Module(tuple(tuple(int((i, j) in pairs) for j in vertices) for i in vertices), (INPUT, *operations, OUTPUT))


MODULES = {
    "a single edge": module("01"),
    "a line": module("01 12", CONV3X3),
    "input enters the output": module("01 12 02", CONV3X3),
    "a loose end": module("01 12 13 24 04", CONV3X3, MAXPOOL3X3, CONV1X1),
    "a loose beginning": module("02 12 23 13", CONV3X3, MAXPOOL3X3),
    "truncation": module("01 02 12 13 23 14 24 34 04", CONV3X3, MAXPOOL3X3, CONV1X1),
    "a wide vertex feeds narrow ones": module("01 13 12 24 34 14", MAXPOOL3X3, CONV1X1, CONV3X3),
    "deep": module("01 12 23 34 45 56 03 25 16", CONV3X3, CONV1X1, MAXPOOL3X3, CONV3X3, CONV1X1),
}


def parameters(net: nn.Module) -> int:
    return sum(weights.numel() for _, weights in net.named_parameters(remove_duplicate=False))


def test_the_size_of_a_real_model_is_the_benchmark_s() -> None:
    cell = module("01 04 05 12 23 26 35 45 56", CONV3X3, MAXPOOL3X3, CONV3X3, CONV3X3, CONV1X1)
    with torch.device("meta"):
        assert parameters(NASBench101Net(cell)) == 8_555_530


@pytest.mark.skipif(not REAL.is_file(), reason="needs nasbench101/models-1k.jsonl under ARCHGRAD_DATA")
def test_every_size_of_the_real_models_is_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "ConvBNReLU", functools.cache(ConvBNReLU))  # to build each kind of layer once
    lines = REAL.read_text(encoding="utf-8").splitlines()
    with torch.device("meta"):
        counted = [parameters(NASBench101Net(Module.parse(line))) for line in lines]
    assert len(counted) == 1000
    assert counted == [json.loads(line)["params"] for line in lines]


@pytest.mark.parametrize(
    ("name", "outputs", "expected"),
    [
        ("a single edge", 9, (5, 9)),
        ("input enters the output", 9, (5, 9, 9)),
        ("truncation", 8, (5, 3, 3, 2, 8)),
        ("a wide vertex feeds narrow ones", 8, (5, 3, 3, 2, 8)),
        ("deep", 9, (5, 5, 4, 4, 4, 4, 9)),
    ],
)
def test_the_output_s_channels_are_divided(name: str, outputs: int, expected: tuple[int, ...]) -> None:
    assert vertex_channels(MODULES[name].matrix, 5, outputs) == expected


def test_a_vertex_is_as_wide_as_the_widest_that_it_feeds() -> None:
    fed = module("01 12 13 24 34", CONV1X1, CONV1X1, CONV1X1)
    assert vertex_channels(fed.matrix, 4, 7) == (4, 4, 4, 3, 7)


def test_more_vertices_than_channels_are_refused() -> None:
    with pytest.raises(UserError, match=r"3 vertices share the 2 channels .* at least 3"):
        NASBench101Net(MODULES["truncation"], channels=2)


def conv_bn_relu(weights: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    kernel = weights[f"{name}.conv.weight"]
    out = F.conv2d(x, kernel, padding=(kernel.shape[-1] - 1) // 2)
    mean, variance, scale, shift = (
        weights[f"{name}.norm.{part}"][:, None, None] for part in ("running_mean", "running_var", "weight", "bias")
    )
    return ((out - mean) / (variance + 1e-5).sqrt() * scale + shift).clamp(min=0)


def plain_module(cell: Module, weights: dict[str, Tensor], name: str, x: Tensor, outputs: int) -> Tensor:
    """What a module computes, from its output backwards; its vertices are numbered as in the pruned module."""
    last = cell.vertices - 1

    @functools.cache
    def value(vertex: int) -> Tensor:
        total: Tensor | None = None
        for source in range(vertex):
            if cell.matrix[source][vertex]:
                term = conv_bn_relu(weights, f"{name}.projections.{vertex}", x) if source == 0 else value(source)
                if total is None:
                    total = term
                else:
                    width = min(total.shape[1], term.shape[1])
                    total = total[:, :width] + term[:, :width]
        assert total is not None
        if cell.operations[vertex] == MAXPOOL3X3:
            return F.max_pool2d(total[:, : widths[vertex]], 3, stride=1, padding=1)
        return conv_bn_relu(weights, f"{name}.operations.{vertex - 1}", total[:, : widths[vertex]])

    widths = vertex_channels(cell.matrix, x.shape[1], outputs)
    parts = [value(source) for source in range(1, last) if cell.matrix[source][last]]
    shortcut = conv_bn_relu(weights, f"{name}.projections.{last}", x) if cell.matrix[0][last] else None
    if not parts:
        assert shortcut is not None
        return shortcut
    joined = torch.cat(parts, 1)
    return joined if shortcut is None else joined + shortcut


def shaken(net: nn.Module, seed: int) -> nn.Module:
    """Random statistics, scales and shifts, so that no part of a batch norm goes unseen."""
    generator = torch.Generator().manual_seed(seed)
    for tensor in net.state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand(tensor.shape, generator=generator, dtype=torch.float64) - 0.3)
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_var.add_(0.5)
    return net.double().eval()


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("size", [8, 5])
def test_the_forward_pass_is_the_plain_computation(name: str, size: int) -> None:
    cell = MODULES[name]
    net = shaken(NASBench101Net(cell, channels=7, cells=3, input_channels=2, num_classes=3).double(), seed=size)
    weights = dict(net.state_dict())
    images = torch.randn(2, 2, size, size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    stem = {key.replace("stem.0", "s.conv").replace("stem.1", "s.norm"): value for key, value in weights.items()}
    x = conv_bn_relu(stem, "s", images)
    for layer, outputs in ((0, 7), (2, 14), (4, 28)):
        x = plain_module(cell.pruned(), weights, f"layers.{layer}", x, outputs)
        x = F.max_pool2d(x, 2, ceil_mode=True) if layer < 4 else x
    expected = F.linear(x.mean((2, 3)), weights["classifier.weight"], weights["classifier.bias"])
    logits = net(images)
    assert logits.shape == (2, 3)
    torch.testing.assert_close(logits, expected, rtol=1e-10, atol=1e-10)
