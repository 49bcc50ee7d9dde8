"""Chains: NAS-Bench-Macro's sizes, the rows of their mixture, their notation, and what they refuse."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import archgrad as ag
from archgrad.errors import UserError
from archgrad.operations import InvertedResidual, Site
from archgrad.spaces import MOBILENET, Genotype, Macro, Mobile, MobileNet
from archgrad.spaces.cost import time_parts
from archgrad.spaces.notation import chain_form
from archgrad.supernet import SupernetOptions
from archgrad.tables.nasbench_macro import MacroTable

TABLE = Path(os.environ.get("ARCHGRAD_DATA", ""), "nasbench-macro", "cifar10.json")


def test_macro_as_published() -> None:
    (block,) = Macro().blocks
    assert (block.cells, block.shape, block.keep) == (1, (8, 3), None)
    assert [row.name for row in block.rows[:3]] == ["1<-0", "2<-1", "3<-2"]
    assert all(row.choices == chain_form.CODED for row in block.rows)
    assert [(layer.inputs, layer.outputs, layer.stride) for layer in Macro().layers] == [
        (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 128, 1), (128, 256, 2), (256, 256, 1),
        (256, 256, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "parameters", "multiply_adds"),
    [("00000000", 387_882, 7_713_280), ("02012100", 890_666, 47_327_744), ("11111221", 2_181_386, 65_012_224)],
)
def test_sizes_of_the_table(code: str, parameters: int, multiply_adds: int) -> None:
    found = Macro().cost(Genotype.parse(code))
    assert (found.parameters, found.multiply_adds) == (parameters, multiply_adds)


@pytest.mark.skipif(not TABLE.exists(), reason="needs the NAS-Bench-Macro table under ARCHGRAD_DATA")
def test_sizes_of_two_hundred_networks() -> None:
    table = json.loads(TABLE.read_text())
    for code in sorted(table)[::32]:
        found = Macro().cost(Genotype.parse(code))
        assert (found.parameters, found.multiply_adds) == (table[code]["params"], table[code]["flops"]), code


def plain(x: Tensor, weights: dict[str, Tensor], code: str, places: list[tuple[int, bool]]) -> Tensor:
    """Compute a network of NAS-Bench-Macro from its weights, with batch statistics."""

    def conv(x: Tensor, name: str, **how: int) -> Tensor:
        return F.batch_norm(F.conv2d(x, weights[name], **how), None, None, training=True)

    x = conv(x, "stem.0.weight", padding=1).relu()
    for number, (digit, (stride, first)) in enumerate(zip(code, places, strict=True)):
        name = f"layers.{number}.edges.0.0."
        if digit == "0":
            x = conv(x, f"{name}conv.weight", stride=stride) if first else x
            continue
        y = conv(x, f"{name}expand.weight").relu()
        how = {"stride": stride, "padding": int(digit), "groups": y.shape[1]}
        y = conv(conv(y, f"{name}depthwise.weight", **how).relu(), f"{name}project.weight")
        x = y if first else x + y
    x = conv(x, "head.0.weight").relu().mean((2, 3))
    return F.linear(x, weights["classifier.weight"], weights["classifier.bias"])


@pytest.mark.parametrize("code", ["01201201", "22210001", "10021120"])
def test_a_network_computes_what_its_layers_say(code: str) -> None:
    torch.manual_seed(0)
    space = Macro(channels=4)
    network = space.network(Genotype.parse(code), num_classes=3).double()
    x = torch.randn(5, 3, 16, 16, dtype=torch.float64)
    places = [(layer.stride, layer.first) for layer in space.layers]
    torch.testing.assert_close(network(x), plain(x, dict(network.named_parameters()), code, places))


def test_expansion_one_has_no_first_convolution() -> None:
    operation = InvertedResidual(4, Site(6, searching=False), 3, 1)
    assert [tuple(one.weight.shape) for one in operation.modules() if isinstance(one, nn.Conv2d)] == [
        (4, 1, 3, 3), (6, 4, 1, 1),
    ]  # fmt: skip
    assert operation(torch.randn(2, 4, 5, 5)).shape == (2, 6, 5, 5)
    assert (operation.residual, operation.droppable) == (False, False)


def test_a_silent_layer_has_the_size_of_its_output() -> None:
    space = Macro(channels=4)
    mixture = {"chain": torch.full((1, 8, 3), 1 / 3)}
    active = {"chain": torch.ones(1, 8, 3, dtype=torch.bool)}
    active["chain"][0, 2] = False
    logits = space.supernet(num_classes=3)(torch.randn(2, 3, 9, 9), mixture, active=active)
    assert torch.equal(logits[0], logits[1])


def test_drop_path_drops_residual_branches_only() -> None:
    """Dropped everywhere, the chain is that of its skip connections and of its first layers."""
    torch.manual_seed(0)
    network = Macro(channels=4).network(Genotype.parse("11111111"), num_classes=3).double()
    x = torch.randn(3, 4, 8, 8, dtype=torch.float64)
    first, second = network.layers[0], network.layers[1]
    for layer in (first, second):
        layer.drop_path = 1 - 1e-12
    assert first(x).abs().max() > 0
    y = first(x)
    assert torch.equal(second(y), y)
    supernet = Macro(channels=4).supernet(num_classes=3).body.layers[1]
    assert [operation.residual for operation in supernet.edge.operations] == [False, True, True]


@pytest.mark.parametrize("code", ["02012100", "22222222"])
def test_notations(code: str) -> None:
    genotype = Genotype.parse(code)
    text = "chain:" + ",".join(chain_form.CODED[int(digit)] for digit in code)
    assert str(genotype) == genotype.format("chain") == text
    assert Genotype.parse(text) == Genotype.parse(genotype.to_json()) == genotype
    assert chain_form.code_of(genotype) == code


@pytest.mark.parametrize(("text", "place"), [("chain:", 6), ("chain:a,,b", 8), ("chain:a,b c", 8), ("chain:a,1", 8)])
def test_a_malformed_chain_is_explained(text: str, place: int) -> None:
    with pytest.raises(UserError, match=rf"malformed genotype at position {place} .* write chain:op,op,op"):
        Genotype.parse(text)


def test_a_chain_of_another_length_is_told_its_depth() -> None:
    genotype = Genotype.parse("chain:mb3_3x3,mb3_3x3,skip_connect")
    with pytest.raises(UserError, match=r"this chain has 3 layers, but the space 'macro' has 8; give --cells 3"):
        Macro().check(genotype)
    assert Macro(cells=3).network(genotype, num_classes=2)(torch.randn(2, 3, 8, 8)).shape == (2, 2)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (SupernetOptions(partial=4), "supernet.partial is 4, but the space 'macro' is a chain whose layers change"),
        (SupernetOptions(edge_weights=True), "each layer of the space 'macro' has one input, so there are no edges"),
    ],
)
def test_options_of_cells_are_refused(options: SupernetOptions, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Macro().supernet(options)


# --- mobile and MobileNetV2 ----------------------------------------------------------------------------------------


def test_mobilenet_has_the_published_size() -> None:
    """Sandler et al., 2018, Table 4: 3.4 M parameters and 300 M multiply-adds; 3,504,872 in the usual code."""
    found = MobileNet(stem="imagenet").cost(MOBILENET, num_classes=1000, image_size=224)
    assert (found.parameters, round(found.multiply_adds / 1e6, 1)) == (3_504_872, 300.8)


@pytest.mark.parametrize(("stem", "pixels", "strides"), [("imagenet", 96, 32), ("imagenet", 224, 32), ("cifar", 32, 8)])
def test_mobile_divides_the_resolution_by_its_stem(stem: Any, pixels: int, strides: int) -> None:
    space = Mobile(channels=4, stem=stem)
    genotype = Genotype.parse("chain:" + ",".join(row.choices[-1] for row in space.blocks[0].rows))
    network = space.network(genotype, num_classes=3).to("meta")
    shapes: list[tuple[int, ...]] = []
    network.head.register_forward_pre_hook(lambda _, inputs: shapes.append(tuple(inputs[0].shape)))
    network.eval()(torch.zeros(1, 3, pixels, pixels, device="meta"))
    assert shapes == [(1, 40, pixels // strides, pixels // strides)]


def test_mobile_offers_skips_where_they_fit() -> None:
    (block,) = Mobile().blocks
    kinds = ("mb3_3x3", "mb3_5x5", "mb3_7x7", "mb6_3x3", "mb6_5x5", "mb6_7x7")
    first = [0, 2, 5, 9, 12, 15]
    assert [row.choices for row in block.rows] == [
        kinds if number in first else ("skip_connect", *kinds) for number in range(16)
    ]


def test_mobilenet_is_a_network_of_mobile() -> None:
    space, known = Mobile(channels=4), MobileNet(channels=4)
    genotype = Genotype.parse("chain:" + ",".join(["mb6_3x3"] * 16))
    one, other = space.network(genotype), known.network(MOBILENET)
    other.load_state_dict(one.state_dict())
    x = torch.randn(2, 3, 16, 16)
    torch.testing.assert_close(one.eval()(x), other.eval()(x))
    with pytest.raises(UserError, match="'mobilenet' has one architecture, so there is nothing to search"):
        known.supernet()


SMALL = ("--channels", 2, "--cells", 3, "--epochs", 1, "--limit", 60, "--batch-size", 20)


def test_the_command_trains_mobilenet(archgrad: Any) -> None:
    assert '"multiply_adds"' in archgrad.run("cost", "mobilenet", "--channels", 2, "--json")
    archgrad.run("train", "mobilenet", *SMALL, "--out", "run")
    model = ag.Model.load("run")
    assert (model.space, model.genotype) == (MobileNet(channels=2, cells=3), MOBILENET)


@pytest.mark.parametrize("space", ["macro", "mobile"])
def test_a_found_chain_is_drawn_trained_and_exported(archgrad: Any, space: str) -> None:
    """At the depth of its search, whatever depth a preset has."""
    archgrad.run("search", "--space", space, *SMALL, "--out", "found")
    for command in (["cost", "found"], ["draw", "found"], ["train", "found", *SMALL[4:], "--out", "run"]):
        archgrad.run(*command)
    archgrad.run("export", "run", "--out", "model.pt2")
    assert ag.Model.load("run").space.cells == 3  # type: ignore[attr-defined]


def test_the_best_chains_of_a_search_are_trained_on_other_data(archgrad: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table has no chains of three layers, and their text tells the depth."""
    table = MacroTable({}, "a table")
    monkeypatch.setattr("archgrad.tables.nasbench_macro.find_macro_table", lambda path=None: table)
    archgrad.run("search", "--space", "macro", *SMALL, "--out", "found")
    genotype = json.loads(archgrad.run("top", "found", "-k", 2, "--json"))["found"][1]["genotype"]
    np.savez("other.npz", images=np.zeros((60, 12, 12, 3), np.uint8), labels=np.arange(60) % 4)
    archgrad.run("train", genotype, "--data", "npz:other.npz", *SMALL[:2], *SMALL[4:], "--out", "run")
    model = ag.Model.load("run")
    assert (str(model.genotype), model.space, len(model.classes)) == (genotype, Macro(channels=2, cells=3), 4)


@pytest.mark.parametrize("method", ["darts", "gaea-simultaneous", "gdas", "amended", "idarts"])
def test_methods_search_a_chain(archgrad: Any, method: str) -> None:
    small = ("--channels", 2, "--epochs", 1, "--limit", 60, "--batch-size", 20)
    out = archgrad.run("search", "--space", "macro", "--method", method, *small, "--out", "run")
    mixture = ag.SearchResult.load("run").mixture["chain"]
    assert mixture.shape == (1, 8, 3)
    assert "8  ◄──" in out


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("lambda-darts", "LayerAlignment aligns cells that share their decisions, but in this space no two do"),
        ("pc-darts", "layers change their width, so no channels can bypass them"),
        ("p-darts", "decides each cell separately, so cells added by a later stage have no probabilities"),
    ],
)
def test_methods_of_repeated_cells_say_why_not(archgrad: Any, method: str, reason: str) -> None:
    err = archgrad.error("search", "--space", "macro", "--method", method, "--epochs", 30, "--out", "run")
    assert reason in " ".join(err.split())


def test_the_layers_of_a_stage_are_compared(archgrad: Any) -> None:
    small = ("--channels", 2, "--epochs", 1, "--limit", 60, "--batch-size", 20)
    archgrad.run("search", "--space", "macro", *small, "--out", "run")
    stages = json.loads(archgrad.run("inspect", "run", "--layers", "--batches", 1, "--json"))["stages"]
    assert [(stage["channels"], stage["cells"]) for stage in stages] == [(8, 2), (16, 2)]
    assert all(-1 <= stage["convolutions"] <= 1 for stage in stages)


class Timed(nn.Module):
    """Takes as many seconds as it has outputs."""

    now = 0.0

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.conv(x)
        Timed.now += found.shape[1]
        return found


def test_operations_of_one_kind_and_input_but_other_outputs_have_times_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in Mobile, where a stage begins with more channels at the same resolution."""
    monkeypatch.setattr(time, "perf_counter", lambda: Timed.now)
    same, wider = Timed(2), Timed(3)
    whole, parts = time_parts(nn.Sequential(same, wider), dict.fromkeys((same, wider), "mb3_3x3"), 2, 4)
    assert (whole, parts) == (5.0, [2.0, 3.0])
