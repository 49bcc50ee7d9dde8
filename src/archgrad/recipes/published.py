"""What is published about each method in each space: value and source of every setting. Data only.

``SETTINGS[recipe][family]`` maps a knob to its value and source; the family "any" stands for all spaces. A recipe that
does not name a knob has it from those in ``BASES``; the space itself has the weights' training. "Code" is the search
code that the authors published; where it contradicts its paper, the paper holds and the source says so.
"""

from __future__ import annotations

from typing import Any

__all__ = ["BASES", "PUBLISHED_IN", "SETTINGS", "WEIGHT_SOURCES"]

Settings = dict[str, tuple[Any, str]]

_DARTS, _NB201, _1SHOT1 = "DARTS, code", "NAS-Bench-201, code", "NAS-Bench-1Shot1, code"
_BOTH = "DARTS and NAS-Bench-201, code"
_GAEA = "GAEA, C.3"
_LAMBDA = "Λ-DARTS, A.9.1"
_SMOOTH, _BETA, _PT, _DRNAS = "SDARTS, code", "β-DARTS, code", "DARTS+PT, code", "DrNAS, code"
_ROBUST, _PDARTS, _MINUS = "R-DARTS, code", "P-DARTS, code", "DARTS-, code"
_PRODUCTS = "ours: one-sided differences with frozen kinks; the papers take central ones across them"
_PYTORCH = "PyTorch's default"

_AMENDED = "Amended-DARTS, Section 4.1.1"
WEIGHT_SOURCES: dict[str, dict[str, str]] = {
    "nasbench201": {"any": _NB201},
    "darts": {"any": _DARTS},
    "amended": {"any": _DARTS, "batch_size": _AMENDED, "epochs": _AMENDED},
    "nasbench1shot1": {"any": _1SHOT1},
}
"""Where a space has the settings of its weights' training from, which it says itself: of a knob, or of any other."""

BASES: dict[str, tuple[str, ...]] = {
    "darts-2nd": ("darts",),
    "darts-erm": ("gaea-darts", "darts"),
    "idarts": ("darts",),
    "amended": ("darts",),
    "gaea": ("gaea-darts", "gaea-step", "darts"),
    "gaea-simultaneous": ("gaea",),
    "gaea-bilevel": ("gaea",),
    "gaea-pc-darts": ("gaea-step", "pc-darts"),
    "gaea-gdas": ("gaea-step", "gdas"),
    "pc-darts": ("darts",),
    "gdas": ("darts",),
    "snas": ("darts",),
    "drnas": ("darts",),
    "xnas": ("darts",),
    "sdarts-rs": ("darts",),
    "sdarts-adv": ("sdarts-rs",),
    "beta-darts": ("darts",),
    "darts-minus": ("darts",),
    "r-darts-l2": ("r-darts",),
    "r-darts-drop-path": ("r-darts",),
    "r-darts-es": ("r-darts",),
    "r-darts": ("darts",),
    "darts-pt": ("darts",),
    "p-darts": ("darts",),
    "random-nas": ("darts",),
    "lambda-darts": ("darts",),
    "lambda-darts-paper": ("lambda-darts",),
    "lambda-sign-darts": ("lambda-darts",),
    "lambda-gaea-simultaneous": ("gaea-simultaneous", "lambda-darts"),
    "lambda-sdarts-rs": ("sdarts-rs", "lambda-darts"),
    "lambda-p-darts": ("p-darts", "lambda-darts"),
}
"""Whose settings a recipe has where it names none."""

_BOTH_SPACES, _ALL = ("nasbench201", "darts"), ("nasbench201", "darts", "nasbench1shot1")
PUBLISHED_IN: dict[str, tuple[str, ...]] = {
    "darts": ("nasbench201", "darts", "amended", "nasbench1shot1"),
    "darts-2nd": ("nasbench201", "darts", "amended", "nasbench1shot1"),
    "darts-erm": ("nasbench201",),
    "idarts": _ALL,
    "amended": ("darts", "amended"),
    "gaea-step": _ALL,
    "gaea": ("nasbench201",),
    "gaea-bilevel": ("nasbench201",),
    "gaea-pc-darts": ("darts", "nasbench1shot1"),
    "gaea-gdas": ("nasbench201",),
    "pc-darts": _ALL,
    "gdas": _ALL,
    "snas": ("darts",),
    "drnas": _BOTH_SPACES,
    "xnas": ("darts",),
    "sdarts-rs": _ALL,
    "beta-darts": _BOTH_SPACES,
    "darts-minus": ("darts",),
    "r-darts": ("darts",),
    "r-darts-l2": ("darts",),
    "r-darts-drop-path": ("darts",),
    "r-darts-es": ("darts",),
    "darts-pt": _BOTH_SPACES,
    "p-darts": ("darts",),
    "random-nas": _ALL,
    "lambda-darts": _BOTH_SPACES,
    "lambda-darts-paper": _BOTH_SPACES,
    "lambda-sign-darts": ("darts",),
    "lambda-p-darts": ("darts",),
}
"""The spaces that a method's settings "any" are published for; elsewhere they are ours."""

_OF_25_EPOCHS: Settings = {
    "weights.epochs": (25, _GAEA),
    "weights.weight_decay": (3e-4, _GAEA),
    "weights.nesterov": (False, "GAEA, code"),
    "space.exclude": (("none",), _GAEA),
}
_LIKE_DARTS_IN_201: Settings = {
    "weights.weight_decay": (3e-4, "{}"),
    "weights.nesterov": (False, "{}"),
    "weights.epochs": (100, "{}"),
}


def _like_darts_in_201(source: str) -> Settings:
    """Return how the code of several later methods trains the weights in NAS-Bench-201: as DARTS does, 100 epochs."""
    return {path: (value, source) for path, (value, _) in _LIKE_DARTS_IN_201.items()}


SETTINGS: dict[str, dict[str, Settings]] = {
    "darts": {
        "any": {
            "relaxation.init_scale": (1e-3, _BOTH),
            "arch_optimizer.lr": (3e-4, _BOTH),
            "arch_optimizer.betas": ((0.5, 0.999), _BOTH),
            "arch_optimizer.weight_decay": (1e-3, _BOTH),
            "arch_optimizer.eps": (1e-8, _PYTORCH),
            "schedule.level": ("bilevel", "DARTS, Algorithm 1"),
            "schedule.updates": ("alternate", "DARTS, Algorithm 1"),
            "schedule.inner_steps": (1, "DARTS, Algorithm 1"),
            "schedule.warmup_epochs": (0, _BOTH),
            "supernet.partial": (1, _BOTH),
            "supernet.edge_weights": (False, _BOTH),
            "supernet.drop_path": (None, _BOTH),
            "supernet.skip_dropout": (None, _BOTH),
            "supernet.auxiliary_head": (None, _BOTH),
        },
    },
    "darts-2nd": {
        "any": {
            "hypergradient.lr": (None, "DARTS, Section 2.3: the weights' current rate"),
            "hypergradient.products": ("forward", _PRODUCTS),
            "hypergradient.nesterov": (False, f"{_BOTH}: plain γ in the virtual step"),
        },
    },
    "darts-erm": {"any": {"schedule.level": ("single", "GAEA, Section 2.1 and Table 2")}},
    "idarts": {
        "any": {
            "hypergradient.lr": (None, "iDARTS, Eq. 3: γ is the weights' rate, here the current one"),
            "hypergradient.products": ("forward", _PRODUCTS),
        },
        "nasbench201": {
            "hypergradient.terms": (2, "iDARTS, Appendix D"),
            "schedule.inner_steps": (4, "iDARTS, Appendix D"),
            "weights.lr": (0.01, "iDARTS, Appendix D: supernet learning rate γ"),
            "weights.lr_min": (0.001, "iDARTS, code"),
            "weights.epochs": (30, "iDARTS, code"),
        },
        "darts": {
            "hypergradient.terms": (2, "iDARTS, Appendix D"),
            "schedule.inner_steps": (4, "iDARTS, Appendix D"),
            "weights.lr": (0.025, "iDARTS, Section 5.3: as DARTS; a γ of 0.01 is said of NAS-Bench-201 only"),
        },
        "nasbench1shot1": {
            "hypergradient.terms": (3, "iDARTS, Appendix D; code: 2"),
            "schedule.inner_steps": (5, "iDARTS, Section 5.1"),
            "weights.lr": (0.025, "iDARTS, code"),
        },
    },
    "amended": {
        "any": {
            "hypergradient.eta": (0.1, _AMENDED),
            "hypergradient.products": ("forward", _PRODUCTS),
        },
        "darts": {
            "relaxation.init_scale": (0.0, "Amended-DARTS, Section 4.1.1: equal initial weights"),
            "weights.batch_size": (96, _AMENDED),
            "weights.epochs": (100, _AMENDED),
        },
        "amended": {
            "relaxation.init_scale": (0.0, "Amended-DARTS, Section 4.1.1: equal initial weights"),
            "augmentation.cutout": (16, "Amended-DARTS, Section 4.1.2, without a number; DARTS has 16 of 32 pixels"),
        },
    },
    "gaea-step": {
        "any": {
            "arch_optimizer.lr": (0.1, "GAEA, C.1 to C.3"),
            "arch_optimizer.floor": (1e-5, "GAEA, code"),
            "relaxation.skip_zero": (False, "ours"),
        },
    },
    "gaea-darts": {"nasbench201": _OF_25_EPOCHS},
    "gaea": {"any": {"schedule.level": ("single", "GAEA, Section 2.1 and Table 2: its best in NAS-Bench-201")}},
    "gaea-simultaneous": {
        "any": {"schedule.updates": ("simultaneous", "ours: one backward pass for both; the paper alternates")},
    },
    "gaea-bilevel": {"any": {"schedule.level": ("bilevel", "GAEA, Section 2.1 and Table 2")}},
    "gaea-pc-darts": {
        "any": {"schedule.warmup_epochs": (10, "GAEA, C.1.1")},
        "darts": {
            "weights.lr": (0.1, "GAEA, C.1.1"),
            "weights.lr_min": (0.0, "GAEA, C.1.1"),
            "weights.batch_size": (256, "GAEA, C.1.1"),
            "weights.epochs": (50, "GAEA, C.1.1"),
        },
    },
    "gaea-gdas": {
        "any": {"relaxation.domain": ("simplex", "GAEA, Section 3.2"), "relaxation.tau": ((10.0, 0.1), "GAEA, code")},
        "nasbench201": {
            "weights.epochs": (150, _GAEA),
            "weights.weight_decay": (3e-4, _GAEA),
            "weights.nesterov": (False, "GAEA, code"),
        },
    },
    "pc-darts": {
        "any": {
            "arch_optimizer.lr": (6e-4, "PC-DARTS, code"),
            "schedule.warmup_epochs": (15, "PC-DARTS, code"),
            "supernet.partial": (4, "PC-DARTS, code"),
            "supernet.edge_weights": (True, "PC-DARTS, code"),
        },
        "nasbench201": {
            "weights.lr": (0.1, "Λ-DARTS, code"),
            "weights.lr_min": (0.0, "Λ-DARTS, code"),
            "weights.weight_decay": (3e-4, "Λ-DARTS, code"),
            "weights.nesterov": (False, "Λ-DARTS, code"),
            "weights.batch_size": (256, "Λ-DARTS, code"),
            "weights.epochs": (50, "Λ-DARTS, code"),
        },
        "darts": {
            "weights.lr": (0.1, "PC-DARTS, code"),
            "weights.lr_min": (0.0, "GAEA, C.1.1, of PC-DARTS; its code: 0.001"),
            "weights.batch_size": (256, "PC-DARTS, code"),
            "weights.epochs": (50, "PC-DARTS, code"),
        },
    },
    "gdas": {
        "any": {
            "relaxation.domain": ("real", "GDAS, code"),
            "relaxation.tau": ((10.0, 0.1), "GDAS, code"),
            "relaxation.per_cell": (False, "GDAS, code"),
            "weights.epochs": (250, "GDAS, code"),
        },
        "nasbench201": {"weights.epochs": (250, "GAEA, C.3; NAS-Bench-201, code: 240")},
        "darts": {
            "weights.batch_size": (256, "GDAS, code"),
            "weights.weight_decay": (5e-4, "GDAS, code"),
            "weights.nesterov": (True, "GDAS, code"),
        },
        "nasbench1shot1": {"weights.epochs": (100, _1SHOT1), "relaxation.tau": ((10.0, 1.0), _1SHOT1)},
    },
    "snas": {
        "any": {
            "relaxation.domain": ("real", "SNAS, code"),
            "relaxation.per_cell": (False, "SNAS, code"),
            "schedule.level": ("single", "SNAS, code"),
            "schedule.updates": ("simultaneous", "SNAS, code"),
            "relaxation.tau": ((1.0, 0.03), "SNAS, code"),
            "weights.epochs": (150, "SNAS, code"),
            "supernet.drop_path": (0.3, "SNAS, code"),
        },
        "nasbench201": {
            "relaxation.tau": ((10.0, 1.0), _DRNAS),
            "supernet.drop_path": (None, _DRNAS),
            **_like_darts_in_201(_DRNAS),
        },
    },
    "drnas": {
        "any": {
            "dirichlet-kl.weight": (
                1e-3,
                "ours: the paper's term at the scale of its code, whose default is decay of 1e-3 without it",
            ),
            "arch_optimizer.weight_decay": (0.0, "DrNAS, code: the KL term or decay, not both"),
            "relaxation.per_cell": (False, _DRNAS),
        },
        "nasbench201": _like_darts_in_201(_DRNAS),
        "darts": {
            "arch_optimizer.lr": (6e-4, _DRNAS),
            "weights.lr": (0.1, _DRNAS),
            "weights.lr_min": (0.0, _DRNAS),
            "weights.epochs": (25, "DrNAS, code, of each stage; its rate falls over both together"),
            "schedule.warmup_epochs": (10, "DrNAS, code, of each stage"),
            "space.channels": (36, _DRNAS),
            "space.cells": (20, _DRNAS),
            "progressive.keep": ((8, 4), "DrNAS, code, which has no `none` and keeps 4 of 7"),
            "progressive.partial": ((6, 3), "DrNAS, Section 3.4; code: 6, 4; the second stage begins with new weights"),
            "progressive.cells": ((None, None), _DRNAS),
            "progressive.skip_dropout": ((0.0, 0.0), _DRNAS),
            "progressive.max_skips": (None, _DRNAS),
        },
    },
    "xnas": {
        "any": {
            "arch_optimizer.lr": (None, "GAEA, C.4: by the number of steps"),
            "arch_optimizer.bound": (1.0, "GAEA, C.4"),
            "arch_optimizer.wipe_out": (True, "GAEA, C.4"),
            "hypergradient.bound": (1.0, "GAEA, C.4"),
            "relaxation.skip_zero": (True, "GAEA, C.4"),
        },
    },
    "sdarts-rs": {
        "any": {
            "random-perturbation.start": (0.03, _SMOOTH),
            "random-perturbation.end": (0.3, _SMOOTH),
            "adversarial-perturbation.start": (0.03, _SMOOTH),
            "adversarial-perturbation.end": (0.3, _SMOOTH),
            "adversarial-perturbation.steps": (7, _SMOOTH),
        },
        "nasbench201": _like_darts_in_201(_SMOOTH),
        "nasbench1shot1": {"weights.epochs": (100, _SMOOTH)},
    },
    "beta-darts": {
        "any": {"beta-decay.weight": (50.0, "β-DARTS, code: 0.5 times the epoch, of 100")},
        "nasbench201": _like_darts_in_201(_BETA),
        "darts": {"weights.epochs": (100, "ours: as in NAS-Bench-201, so that the term grows to 50; code: 50")},
        "nasbench1shot1": {
            "weights.epochs": (100, "ours: as in NAS-Bench-201, so that the term grows to 50; code: 50")
        },
    },
    "darts-minus": {
        "any": {"auxiliary-skip.start": (1.0, _MINUS), "auxiliary-skip.end": (0.0, _MINUS)},
    },
    "r-darts": {
        "any": {
            "hypergradient.lr": (None, _ROBUST),
            "hypergradient.products": ("forward", _PRODUCTS),
            "hypergradient.nesterov": (False, _ROBUST),
        },
    },
    "r-darts-l2": {
        "any": {"weights.weight_decay": (81e-4, "R-DARTS, code: of 3, 9, 27, 81, 243·1e-4, the best by retraining")},
    },
    "r-darts-drop-path": {
        "any": {
            "supernet.drop_path": (0.2, "R-DARTS, code: of 0, 0.2, 0.4, 0.6, grown over the search"),
            "augmentation.cutout": (16, "R-DARTS, code, which raises its chance over the search; here it is always 1"),
        },
    },
    "r-darts-es": {
        "any": {
            "stop.window": (5, "R-DARTS, Section 4.3; code: 5 measurements, one every 2 epochs"),
            "stop.ratio": (0.75, "R-DARTS, Section 4.3; code: 1/1.3"),
            "stop.steps": (5, "ours"),
        },
    },
    "darts-pt": {
        "any": {
            "discretizer.tune_epochs": (5, _PT),
            "discretizer.tune_rate": (0.1, _PT),
            "discretizer.batches": (None, _PT),
        },
        "nasbench201": _like_darts_in_201(_PT),
    },
    "p-darts": {
        "any": {
            "arch_optimizer.lr": (6e-4, _PDARTS),
            "schedule.warmup_epochs": (10, _PDARTS),
            "weights.epochs": (25, "P-DARTS, code, of each stage"),
            "weights.batch_size": (96, _PDARTS),
            "weights.lr_min": (0.0, _PDARTS),
            "progressive.cells": ((5, 11, 17), _PDARTS),
            "progressive.keep": ((8, 5, 3), _PDARTS),
            "progressive.partial": ((None,), _PDARTS),
            "progressive.skip_dropout": ((0.0, 0.4, 0.7), "P-DARTS, Section 4.1.2; its README: 0.1, 0.4, 0.7"),
            "progressive.max_skips": (2, "P-DARTS, Section 3.3"),
        },
    },
    "random-nas": {
        "any": {
            "schedule.level": ("bilevel", "RandomNAS, code: the other half measures what is drawn"),
            "discretizer.samples": (100, _NB201),
            "discretizer.batches": (1, _NB201),
        },
        "nasbench201": {"weights.epochs": (250, _NB201)},
        "darts": {
            "weights.epochs": (100, "RandomNAS, code"),
            "weights.clip": (0.25, "RandomNAS, code"),
            "discretizer.samples": (1000, "RandomNAS, code"),
            "discretizer.batches": (10, "RandomNAS, code"),
        },
        "nasbench1shot1": {
            "weights.epochs": (100, _1SHOT1),
            "weights.clip": (0.25, _1SHOT1),
            "weights.batch_size": (64, _1SHOT1),
            "discretizer.samples": (1000, _1SHOT1),
        },
    },
    "lambda-darts": {
        "any": {
            "layer-alignment.schedule": ("linear", "Λ-DARTS, Section 4"),
            "layer-alignment.blocks": ((), "Λ-DARTS, A.9.2: normal cells only"),
            "layer-alignment.objective": ("inner", "Λ-DARTS, Eq. 8"),
            "layer-alignment.difference": ("interleaved", "Λ-DARTS, A.8"),
            "layer-alignment.eps": (1e-3, "ours, because kinks are frozen; the paper has 1e-4: lambda-darts-paper"),
            "layer-alignment.kinks": ("frozen", "ours; the paper crosses them: lambda-darts-paper"),
            "layer-alignment.kind": ("cosine", "Λ-DARTS, Eq. 5"),
        },
        "nasbench201": {
            "arch_optimizer.lr": (1e-4, _LAMBDA),
            "weights.epochs": (100, _LAMBDA),
            "layer-alignment.weight": (0.125, _LAMBDA),
        },
        "darts": {
            "arch_optimizer.lr": (3e-4, "Λ-DARTS, A.9.2"),
            "weights.epochs": (50, "Λ-DARTS, A.9.2"),
            "layer-alignment.weight": (0.25, "Λ-DARTS, A.9.2"),
        },
    },
    "lambda-darts-paper": {
        "any": {
            "layer-alignment.difference": ("central", "Λ-DARTS, Eq. 13"),
            "layer-alignment.eps": (1e-4, "Λ-DARTS, A.9.1 and A.9.2"),
            "layer-alignment.kinks": ("crossed", "Λ-DARTS, code"),
        },
    },
    "lambda-sign-darts": {
        "any": {"layer-alignment.kind": ("sign", "Λ-DARTS, Eq. 7")},
        "darts": {"layer-alignment.weight": (0.125, "Λ-DARTS, A.9.2")},
    },
    "lambda-sdarts-rs": {},
    "lambda-p-darts": {
        "any": {
            "progressive.skip_dropout": ((0.0, 0.0, 0.0), "Λ-DARTS, A.5.1"),
            "progressive.max_skips": (None, "Λ-DARTS, A.5.1"),
        },
    },
}
