"""How networks are trained: the settings of the papers, and one for a quick answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from archgrad.parts.knobs import knobs_of
from archgrad.spaces import KNOWN_NETWORKS, SearchSpace, named_space
from archgrad.training.weight_training import NETWORK_ONLY, WeightTraining

__all__ = ["PRESETS", "Preset"]


_LEFT_OFF = ("optimizer_settings", "weight_decay_end", *NETWORK_ONLY)
"""Settings of the weights that no preset uses."""


@dataclass(frozen=True)
class Preset:
    """Settings for the training of one architecture.

    ``cutout`` is a number of pixels in images of 32, and grows with the images. ``drop_path`` grows linearly over the
    epochs. ``auxiliary_head`` is the weight of the second head's loss. These apply where the network can have them.
    With ``top5`` records have the accuracy of the five best guesses too, if there are more than five classes. With
    ``trains_on_all`` no images are held out if there are test images. ``minutes`` chooses the number of epochs, if that
    is not given. ``source`` says where the settings stand, and ``elsewhere`` those that stand somewhere else, by path.
    """

    about: str
    weights: WeightTraining
    source: str
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    stem: str = "cifar"
    cutout: int = 0
    drop_path: float = 0.0
    auxiliary_head: float = 0.0
    label_smoothing: float = 0.0
    top5: bool = False
    trains_on_all: bool = False
    minutes: float | None = None

    def sizes_of(self, space: SearchSpace) -> dict[str, Any]:
        """Return width, depth and stem of the network: those of the preset, or those of the literature.

        >>> PRESETS["quick"].sizes_of(named_space("resnet"))  # ResNet-20
        {'channels': 16, 'cells': 3}
        """
        published = {"channels": space.channels, space.depth_knob: getattr(space, space.depth_knob)}
        published |= space.compared_at
        sizes = {} if space.name in KNOWN_NETWORKS else self.sizes
        depth = published[space.depth_knob]
        depth = depth if space.has_own_depth else sizes.get(space.depth_knob, depth)
        stem = {"stem": self.stem} if "stem" in {one.name for one in fields(space)} else {}
        return {"channels": sizes.get("channels", published["channels"]), "cells": depth, **stem}

    def settings(self, network: Any) -> dict[str, Any]:
        """Return the settings of the supernet for this :class:`SingleArchitecture`."""
        heads = self.auxiliary_head if network.base.has_auxiliary_head else 0.0
        return {"drop_path": self.drop_path if network.has_drop_path else 0.0, "auxiliary_head": heads}

    def listed(self) -> list[tuple[str, Any, str]]:
        """Return path, value and source of what is not off; the sizes are those of a network of the DARTS space."""
        own = {
            "supernet.drop_path": self.drop_path, "supernet.auxiliary_head": self.auxiliary_head,
            "augmentation.cutout": self.cutout, "task.label_smoothing": self.label_smoothing, "task.top5": self.top5,
        }  # fmt: skip
        weights = {f"weights.{name}": one for name, one in knobs_of(self.weights).items() if name not in _LEFT_OFF}
        found = {**self.sizes_of(named_space("darts")), **own, **weights}
        used = {path: value for path, value in found.items() if value or path == "weights.lr_min"}
        return [(path, value, self.elsewhere.get(path, self.source)) for path, value in used.items()]


_CIFAR: dict[str, Any] = {"lr": 0.025, "lr_min": 0.0, "weight_decay": 3e-4, "clip": 5.0, "epochs": 600}
_IMAGENET: dict[str, Any] = {"weight_decay": 3e-5, "clip": 5.0, "epochs": 250}
_LARGE: dict[str, Any] = {
    "sizes": {"channels": 48, "cells": 14}, "stem": "imagenet", "auxiliary_head": 0.4, "label_smoothing": 0.1,
    "top5": True, "trains_on_all": True,
}  # fmt: skip
_REGULAR: dict[str, Any] = {"cutout": 16, "auxiliary_head": 0.4, "trains_on_all": True}
_DARTS, _PC = "DARTS, Liu et al., 2019", "PC-DARTS, Xu et al., 2020"
_DARTS_CODE, _PC_CODE, _R_CODE = "code of DARTS", "code of PC-DARTS", "code of R-DARTS, defaults of its evaluation"
_AS_DARTS = "DARTS; iDARTS, 5.3: all settings as DARTS"

PRESETS: Mapping[str, Preset] = {
    "cifar-darts": Preset(
        "CIFAR as in DARTS: batch 96, drop-path 0.2",
        WeightTraining(**_CIFAR, batch_size=96), _DARTS, drop_path=0.2, **_REGULAR,
    ),
    "cifar-pc": Preset(
        "CIFAR as in PC-DARTS and GAEA: batch 128, drop-path 0.3",
        WeightTraining(**_CIFAR, batch_size=128), "GAEA, C.1.2, as PC-DARTS", drop_path=0.3, **_REGULAR,
    ),
    "reduced-r-darts": Preset(
        "cells of S1 to S4 on CIFAR-100 and SVHN as in R-DARTS: 8 cells, 16 channels (on CIFAR-10 take cifar-darts, as "
        "DARTS-PT does; not checked in the paper of R-DARTS)",
        WeightTraining(**_CIFAR, batch_size=96), _R_CODE,
        dict.fromkeys(("channels", "cells"), f"{_R_CODE}; code of DARTS-PT, whose authors name R-DARTS, App. C"),
        sizes={"channels": 16, "cells": 8}, drop_path=0.2, **_REGULAR,
    ),
    "imagenet-darts": Preset(
        "ImageNet as in DARTS: batch 128, rate 0.1 times 0.97 after each epoch",
        WeightTraining(**_IMAGENET, lr=0.1, lr_min=0.1 * 0.97**250, batch_size=128, lr_schedule="exponential"), _DARTS,
        {"weights.lr_min": "0.1 · 0.97^250", "weights.lr_schedule": f"{_DARTS}; {_DARTS_CODE}, gamma 0.97",
         **dict.fromkeys(("supernet.auxiliary_head", "task.label_smoothing", "weights.clip"), _DARTS_CODE)}, **_LARGE,
    ),
    "imagenet-pc": Preset(
        "ImageNet as in PC-DARTS: batch 1024, rate 0.5 falling linearly after a warm-up",
        WeightTraining(**_IMAGENET, lr=0.5, lr_min=0.0, batch_size=1024, lr_schedule="linear", lr_warmup_epochs=5), _PC,
        {"weights.lr_schedule": f"{_PC}; its code has linear-tail", "weights.clip": _PC_CODE}, **_LARGE,
    ),
    "imagenet-idarts": Preset(
        "ImageNet as in iDARTS: batch 128, linear rate with a smaller slope in the last five epochs",
        WeightTraining(**_IMAGENET, lr=0.1, lr_min=0.0, batch_size=128, lr_schedule="linear-tail"), _AS_DARTS,
        {"weights.lr_schedule": f"iDARTS, appendix: as P-DARTS and PC-DARTS; the slope is that of the {_PC_CODE}",
         "weights.lr_min": _PC_CODE, "weights.clip": _DARTS_CODE, "task.top5": "iDARTS, Table 2",
         **dict.fromkeys(("channels", "cells", "weights.batch_size"), "iDARTS, appendix")}, **_LARGE,
    ),
    "quick": Preset(
        "16 channels, 8 cells (or 2 per stage), as many epochs as fit into --time-limit, 5 minutes by default",
        WeightTraining(lr=0.05, lr_min=0.0, nesterov=True, weight_decay=3e-4, clip=5.0, batch_size=64, epochs=300),
        "ours", sizes={"channels": 16, "cells": 8, "cells_per_stage": 2}, minutes=5.0,
    ),
}  # fmt: skip
"""The presets by name."""
