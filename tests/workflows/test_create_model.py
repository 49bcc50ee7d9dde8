"""Networks by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import archgrad as ag
from archgrad.errors import UserError
from archgrad.spaces import KNOWN_NETWORKS, known_cells

SMALL = ("--channels", 2, "--epochs", 1, "--limit", 60, "--batch-size", 20)


@pytest.mark.parametrize("name", [*known_cells(), *KNOWN_NETWORKS])
def test_every_listed_name_is_a_network(name: str) -> None:
    assert name in ag.list_models()
    network = ag.create_model(name, num_classes=3, input_channels=1, channels=4, cells=3)
    assert network.training
    assert network(torch.randn(2, 1, 16, 16)).shape == (2, 3)


def test_the_published_size_is_the_default() -> None:
    """3.3 M parameters at 20 cells and 36 channels (Liu et al., 2019), and those of MobileNetV2."""
    with torch.device("meta"):
        found = {
            name: sum(one.numel() for one in ag.create_model(name, **options).parameters())
            for name, options in {
                "darts-v2": dict[str, Any](),
                "resnet": {},
                "mobilenet": {"stem": "imagenet", "num_classes": 1000},
            }.items()
        }
    assert found == {
        "darts-v2": known_cells()["darts-v2"].ours[0].parameters,
        "resnet": 269_722,
        "mobilenet": 3_504_872,
    }


def test_a_genotype_and_an_auxiliary_head() -> None:
    text = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|avg_pool_3x3~0|nor_conv_1x1~1|skip_connect~2|"
    assert ag.create_model(text, channels=4, cells=1)(torch.randn(2, 3, 8, 8)).shape == (2, 10)
    network = ag.create_model("darts-v1", channels=4, cells=3, auxiliary_head=True)
    assert [one.shape for one in network(torch.randn(2, 3, 16, 16))] == [(2, 10), (2, 10)]


def test_the_network_is_that_of_a_training(archgrad: Any) -> None:
    archgrad.run("train", "darts-v1", *SMALL, "--cells", 3, "--out", "run")
    model = ag.Model.load("run")
    for name in ("run", "run/model"):
        again = ag.create_model(name)
        torch.testing.assert_close(again.state_dict(), model.network.state_dict(), rtol=0, atol=0)
    others = ag.create_model("run", num_classes=4, input_channels=3)
    assert others(torch.randn(2, 3, 8, 8)).shape == (2, 4)
    own, known = dict(others.named_parameters()), dict(model.network.named_parameters())
    assert [name for name in own if not own[name].equal(known[name])] == [
        "stem.0.weight", "classifier.weight", "classifier.bias",
    ]  # fmt: skip
    by_name = ag.create_model("darts-v1", weights="run")  # at the size of the model
    torch.testing.assert_close(by_name.state_dict(), model.network.state_dict(), rtol=0, atol=0)


def test_the_folder_of_a_search_gives_its_architecture(archgrad: Any) -> None:
    archgrad.run("search", "--space", "s2", *SMALL, "--cells", 3, "--out", "run")
    network = ag.create_model("run", num_classes=4)
    assert network(torch.randn(2, 3, 8, 8)).shape == (2, 4)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("darts-v3", {}, r"unknown well-known cell 'darts-v3'; did you mean 'darts-v2'\? Choose from: .*mobilenet"),
        ("darts_v2", {}, r"unknown well-known cell 'darts_v2'; did you mean 'darts-v2'\?"),
        ("runs/none", {}, "there is no file runs/none"),
        ("darts-v2", {"num_classes": 0}, "num_classes is 0"),
        ("darts-v2", {"channels": 0}, "channels of the space 'darts' is 0"),
        ("darts-v2", {"stem": "large"}, "unknown value of stem of the space 'darts': 'large'"),
        ("darts-v2", {"weights": "none"}, "none"),
        ("resnet", {"auxiliary_head": True}, "networks of the space 'resnet' have no auxiliary head"),
    ],
)
def test_mistakes_are_explained(name: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        ag.create_model(name, **options)


def test_weights_of_another_network_are_refused(archgrad: Any, tmp_path: Path) -> None:
    archgrad.run("train", "resnet", *SMALL, "--out", "run")
    with pytest.raises(UserError, match="tensors of the model fit this network; choose its space 'resnet'"):
        ag.create_model("darts-v1", channels=4, cells=3, weights=tmp_path / "run")


def test_names_are_filtered() -> None:
    assert ag.list_models("lambda-darts-s?-svhn") == [f"lambda-darts-s{number}-svhn" for number in (1, 2, 3, 4)]
    assert ag.list_models("nothing*") == []
