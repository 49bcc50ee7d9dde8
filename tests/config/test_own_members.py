"""A toy member of each family, outside of the package, used from the command by ``module:Name``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

OWN = """
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

import archgrad as ag
from archgrad.arch_optimizers import Adam
from archgrad.callbacks import Callback
from archgrad.data import DataSource, ImageData
from archgrad.discretizers import Argmax
from archgrad.hypergradients import FirstOrder
from archgrad.regularizers import Regularizer
from archgrad.relaxations import Softmax
from archgrad.spaces import NASBench201

@dataclass(frozen=True)
class OwnRelaxation(Softmax):
    power: float = 1.0

@dataclass(frozen=True)
class OwnGradient(FirstOrder):
    size: float = 1.0

@dataclass(frozen=True)
class OwnOptimizer(Adam):
    decay: float = 0.0

@dataclass(frozen=True)
class OwnDiscretizer(Argmax):
    bold: bool = True

@dataclass(frozen=True)
class OwnRegularizer(Regularizer):
    weight: float = 1.0

    def outer_term(self, step: Any) -> Any:
        return self.weight * step.probabilities["cell"].square().sum()

@dataclass(frozen=True)
class OwnCallback(Callback):
    value: float = 1.0

    def measure_epoch(self, snapshot: Any, search: Any) -> dict[str, float]:
        return {"own_measure": self.value}

@dataclass(frozen=True, kw_only=True)
class OwnSpace(NASBench201):
    name: ClassVar[str] = "own-space"

@dataclass(frozen=True)
class OwnTask(ag.tasks.BaseTask):
    gamma: float = 2.0

    def loss(self, outputs: Any, targets: Any) -> Any:
        entropy = torch.nn.functional.cross_entropy(outputs, targets, reduction="none")
        return ((1 - (-entropy).exp()) ** self.gamma * entropy).mean()

class OwnData(DataSource):
    def read(self, path: Any, options: Any) -> Any:
        images = (torch.arange(120 * 64) % 251).to(torch.uint8).view(120, 1, 8, 8)
        return options.apply(ImageData("own-data", images, torch.arange(120) % 3, ("a", "b", "c")))

class OwnFile(OwnData):
    takes_path: ClassVar[bool] = True

    def read(self, path: Any, options: Any) -> Any:
        assert path.read_text() == "own"
        return super().read(path, options)
"""

TINY = ("--channels", 2, "--cells", 1, "--limit", 60, "--batch-size", 20, "--epochs", 1, "--method", "darts")


@pytest.mark.parametrize(
    ("option", "name", "settings"),
    [
        ("--relaxation", "OwnRelaxation", ("relaxation.power=2",)),
        ("--hypergradient", "OwnGradient", ("hypergradient.size=2",)),
        ("--arch-optimizer", "OwnOptimizer", ("arch_optimizer.decay=0.1",)),
        ("--discretizer", "OwnDiscretizer", ("discretizer.bold=false",)),
        ("--regularizer", "OwnRegularizer", ("own_members:OwnRegularizer.weight=3",)),
        ("--callback", "OwnCallback", ("own_members:OwnCallback.value=4",)),
        ("--space", "OwnSpace", ("space.exclude=none",)),
        ("--task", "OwnTask", ("task.gamma=1.5",)),
        ("--data", "OwnData", ("augmentation.cutout=2",)),
        ("--data", "OwnFile:own.txt", ("augmentation.cutout=2",)),
    ],
)
def test_a_member_of_ones_own_is_used_by_its_import_path(
    option: str, name: str, settings: tuple[str, ...], tmp_path: Path, archgrad: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_members.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own.txt").write_text("own", encoding="utf-8")
    given = [part for setting in settings for part in ("--set", setting)]
    archgrad.run("search", *TINY, option, f"own_members:{name}", *given, "--out", "run")
    kept = Path("run/config.toml").read_text(encoding="utf-8")
    assert f"own_members:{name.replace(':', f':{tmp_path}/')}" in kept
    archgrad.run("resume", "run")
    if option == "--callback":
        assert '"own_measure": 4.0' in Path("run/metrics.jsonl").read_text(encoding="utf-8")
