"""What a training returns, starts from, and refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import archgrad as ag
from archgrad.errors import UserError
from archgrad.models.classifier import LabelsPrediction, NumbersPrediction
from archgrad.spaces import DARTS, Cost, Genotype, NASBench201
from archgrad.tasks import ACCURACY, MetricInfo
from archgrad.workflows import Training
from archgrad.workflows.train_result import TrainedSeed, TrainResult, mean_and_deviation
from tests.workflows.small import CELL, TINY, assert_same_bits, tensors, trained

PIXELS = np.random.default_rng(0).integers(0, 255, (60, 8, 8), np.uint8)


def test_the_result(tmp_path: Path) -> None:
    found = trained(seeds=2, epochs=1, out=tmp_path)
    assert (found.space, found.epochs, found.metric.name) == (NASBench201(channels=4, cells_per_stage=1), 1, "accuracy")
    values = found.values("heldout")
    assert found.values("test") == []
    assert found.model is found.runs[int(values[1] > values[0])].model
    content = found.to_dict()
    assert content["heldout"] == mean_and_deviation(values)
    assert "test" not in content
    assert content["parameters"] == sum(one.numel() for one in found.model.network.parameters())
    assert [one["model"] for one in content["seeds"]] == [str(tmp_path / f"seed-{seed}" / "model") for seed in (0, 1)]
    assert not found.model.network.training


def test_progress_is_shown_where_it_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    trained(epochs=1)
    assert capsys.readouterr().err == ""
    trained(epochs=1, progress=True)
    assert "epoch 1/1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("metric", "best"), [(ACCURACY, 1), (MetricInfo("rmse", higher_is_better=False), 2)], ids=["accuracy", "rmse"]
)
def test_held_out_images_choose_the_seed_and_test_images_do_not(metric: MetricInfo, best: int) -> None:
    models: list[Any] = [object(), object(), object()]
    values = zip((80.0, 90.0, 70.0), (90.0, 70.0, 80.0), strict=True)
    runs = [
        TrainedSeed(seed, models[seed], (), 0.0, {metric.name: held}, {metric.name: test})
        for seed, (held, test) in enumerate(values)
    ]
    found = TrainResult(NASBench201(), Genotype.parse(CELL), 1, Cost(0, 0), metric, tuple(runs))
    assert found.model is models[best]


def test_other_data_than_that_of_the_model(tmp_path: Path) -> None:
    """The features start from the model's; the classifier of other classes is new."""
    first = trained(epochs=1, out=tmp_path / "first", settings={"weights.ema_decay": 0.5})
    training = Training.of("nasbench201", CELL, start_from=tmp_path / "first", channels=4, cells=1)
    for classes in (10, 3):
        torch.manual_seed(7)
        own = training.network.supernet(num_classes=classes, input_channels=1).state_dict()
        same = {name for name, value in tensors(first.model).items() if _equal(value, own[f"body.{name}"])}
        new = set(tensors(first.model)) - same
        assert new == (set() if classes == 10 else {"classifier.weight", "classifier.bias"})
    sized = Training.of("nasbench201", CELL, start_from=tmp_path / "first").network
    assert (sized.channels, sized.cells) == (4, 1)
    labels = np.arange(60) % 3
    found = ag.train("nasbench201", CELL, (PIXELS, labels), **{**TINY, "limit": None}, start_from=tmp_path / "first")
    assert found.model.network(torch.zeros(1, 1, 8, 8)).shape == (1, 3)


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)


@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize(
    ("bad", "wanted"),
    [
        ({"start_from": "missing"}, "missing"),
        ({"start_from": "loop"}, "loop"),
        ({"start_from": "empty"}, "is no model: it has no model.json"),
        ({"start_from": "damaged"}, "is damaged, or belongs to another"),
        ({"start_from": "other"}, "tensors of the model fit this network"),
        ({"settings": {"supernet.partial": 4}}, "supernet.partial is for searches, not for one architecture"),
        ({"settings": {"supernet.auxiliary_head": 0.4}}, "have no auxiliary head; set it to 0"),
        ({"data": (PIXELS, np.zeros(60, np.int64)), "limit": None}, "class"),
        (
            {"data": (PIXELS[:, :4], np.arange(60) % 2), "limit": None},
            "8 pixels, but a trained model takes square ones",
        ),
        ({"batch_size": 1000}, "batch_size"),
        ({"genotype": "darts-v2"}, "'nasbench201'"),
        ({"genotype": 7}, "the genotype is 7; give a Genotype"),
        ({"channels": 0}, "channels of the space 'network' is 0"),
        ({"stem": "wide"}, "stem"),
        ({"space": "resnet", "genotype": "resnet", "stem": "imagenet"}, "have one kind of stem; leave the stem out"),
        (
            {"space": "resnet", "genotype": "resnet", "settings": {"supernet.drop_path": 0.2}},
            "no operations on edges to drop; set it to 0",
        ),
        ({"settings": {"weights.lr_warmup_epochs": 2}}, "weights.lr_warmup_epochs is 2, but there are only 2 epochs"),
    ],
)
def test_bad_input_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: dict[str, Any], wanted: str, seeds: int
) -> None:
    monkeypatch.chdir(tmp_path)
    if "start_from" in bad:
        Path("empty").mkdir()
        Path("loop").symlink_to("loop")
        damaged = _model().save("damaged") / "weights.safetensors"
        damaged.write_bytes(damaged.read_bytes()[:-8] + bytes(8))
        _model(channels=7).save("other")
    options: dict[str, Any] = {"space": "nasbench201", "genotype": CELL, **TINY, "seeds": seeds, **bad}
    before = torch.get_rng_state()
    with pytest.raises(UserError, match=wanted):
        ag.train(out="run", **options)
    assert not Path("run").exists()
    assert torch.equal(before, torch.get_rng_state())


def _model(channels: int = 4) -> ag.Model:
    from tests.models.trained import built

    return built(NASBench201(channels=channels, cells_per_stage=1), ag.Genotype.parse(CELL), channels=1)


def test_a_folder_with_anything_in_it_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("mine")
    for seeds in (1, 2):
        with pytest.raises(UserError, match=r"is not empty"):
            trained(epochs=1, seeds=seeds, out=tmp_path)
        assert [one.name for one in tmp_path.iterdir()] == ["kept.txt"]
    trained(epochs=1, out=tmp_path / "run")
    before = (tmp_path / "run" / "result.json").read_text()
    with pytest.raises(UserError, match=r"already holds a search; continue it with `archgrad resume"):
        trained(epochs=1, out=tmp_path / "run")
    assert (tmp_path / "run" / "result.json").read_text() == before


@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_other_tasks_have_their_metric_and_their_predictions(tmp_path: Path, task: str) -> None:
    shade = PIXELS.mean((1, 2)) / 255
    targets = shade if task == "regression" else np.stack([shade > 0.5, shade > 0.4, shade < 0.5], 1).astype(np.float32)
    found = ag.train("nasbench201", CELL, (PIXELS, targets), task=task, **{**TINY, "limit": None}, out=tmp_path)
    assert found.metric.name == ag.tasks.TASKS.create(task).main_metric.name
    assert np.isfinite(found.values("heldout")).all()
    model = ag.Model.load(tmp_path)
    assert model.about["task"] == task
    images = torch.from_numpy(PIXELS[:5])[:, None]
    assert model.logits(model.preprocessing(images)).shape == (5, 1 if task == "regression" else 3)
    kind = NumbersPrediction if task == "regression" else LabelsPrediction
    assert [type(one) for one in model.predict(images)] == [kind] * 5


def test_half_precision() -> None:
    found = trained(precision="bf16")
    assert all(value.dtype != torch.bfloat16 for value in tensors(found.model).values())
    assert found.runs[0].history[-1]["train_loss"] == pytest.approx(
        trained().runs[0].history[-1]["train_loss"], rel=0.1
    )


def test_a_batch_of_one_image_leaves_the_statistics_alone() -> None:
    """The check whether a batch norm can normalize one image is a pass of the network."""
    found = trained(batch_size=1, limit=12, epochs=1, held_out=0)
    assert int(tensors(found.model)["stem.1.num_batches_tracked"]) == 12


@pytest.mark.parametrize("space", ["darts", DARTS(channels=6, cells=4)], ids=["name", "object"])
def test_the_preset_brings_the_size_of_a_named_space_and_of_an_object(space: Any) -> None:
    def size(**options: Any) -> tuple[int, int]:
        network = Training.of(space, "darts-v2", **options).network
        assert network.of == "darts"
        return network.channels, network.cells

    assert (size(), size(preset="cifar-darts"), size(channels=6, cells=4)) == ((16, 8), (36, 20), (6, 4))


def test_a_restriction_of_the_search_is_dropped() -> None:
    restricted = DARTS().restricted({"normal": [("sep_conv_3x3", "none")] * 14})
    assert Training.of(restricted, "darts-v2").network == Training.of("darts", "darts-v2").network


def test_a_training_follows_a_search(tmp_path: Path) -> None:
    found = ag.search(
        NASBench201(channels=2, cells_per_stage=1), "gaea", "digits", epochs=1, limit=60, batch_size=24
    )  # fmt: skip
    one = found.train(**TINY)
    assert one.genotype == found.genotype
    assert one.model.about["data"] == "digits"
    assert_same_bits(one, ag.train("nasbench201", found.genotype, "digits", **TINY))
    with pytest.raises(UserError, match="genotype"):
        ag.train(found, found.genotype)
    with pytest.raises(UserError, match="genotype is missing"):
        ag.train("nasbench201")
