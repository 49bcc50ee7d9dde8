"""How networks are trained: the settings of the papers, and one for a quick answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from archgrad.spaces import SearchSpace
from archgrad.training import WeightTraining

__all__ = ["PRESETS", "Preset"]


@dataclass(frozen=True)
class Preset:
    """Settings for the training of one architecture.

    ``cutout`` is a number of pixels in images of 32, and grows with the images. ``drop_path`` grows linearly over the
    epochs. ``auxiliary_head`` is the weight of the second head's loss. These apply where the network can have them.
    With ``trains_on_all`` no images are held out if there are test images. ``minutes`` chooses the number of epochs, if
    that is not given.
    """

    about: str
    weights: WeightTraining
    sizes: Mapping[str, int] = field(default_factory=dict)
    stem: str = "cifar"
    cutout: int = 0
    drop_path: float = 0.0
    auxiliary_head: float = 0.0
    label_smoothing: float = 0.0
    trains_on_all: bool = False
    minutes: float | None = None

    def sizes_of(self, space: SearchSpace) -> dict[str, Any]:
        """Return width, depth and stem of the network: those of the preset, or those of the literature."""
        published = {"channels": space.channels, space.depth_knob: getattr(space, space.depth_knob)}
        published |= space.compared_at
        depth = self.sizes.get(space.depth_knob, published[space.depth_knob])
        stem = {"stem": self.stem} if "stem" in {one.name for one in fields(space)} else {}
        return {"channels": self.sizes.get("channels", published["channels"]), "cells": depth, **stem}

    def settings(self, network: Any) -> dict[str, Any]:
        """Return the settings of the supernet for this :class:`SingleArchitecture`."""
        heads = self.auxiliary_head if network.base.has_auxiliary_head else 0.0
        return {"drop_path": self.drop_path if network.has_drop_path else 0.0, "auxiliary_head": heads}


PRESETS: Mapping[str, Preset] = {
    "cifar": Preset(
        "600 epochs, 20 cells, 36 channels (DARTS, Liu et al., 2019; batch 96, cutout 16, drop-path 0.2)",
        WeightTraining(lr=0.025, lr_min=0.0, weight_decay=3e-4, clip=5.0, batch_size=96, epochs=600),
        cutout=16,
        drop_path=0.2,
        auxiliary_head=0.4,
        trains_on_all=True,
    ),
    "imagenet": Preset(
        "250 epochs, 14 cells, 48 channels (PC-DARTS, Xu et al., 2020; batch 1024, linear rate, smoothing 0.1)",
        WeightTraining(
            lr=0.5, lr_min=0.0, weight_decay=3e-5, clip=5.0, batch_size=1024, epochs=250, lr_schedule="linear",
            lr_warmup_epochs=5,
        ),
        sizes={"channels": 48, "cells": 14},
        stem="imagenet",
        auxiliary_head=0.4,
        label_smoothing=0.1,
        trains_on_all=True,
    ),
    "quick": Preset(
        "16 channels, 8 cells (or 2 per stage), as many epochs as fit into --time-limit, 5 minutes by default",
        WeightTraining(lr=0.05, lr_min=0.0, nesterov=True, weight_decay=3e-4, clip=5.0, batch_size=64, epochs=300),
        sizes={"channels": 16, "cells": 8, "cells_per_stage": 2},
        minutes=5.0,
    ),
}  # fmt: skip
"""The presets by name."""
