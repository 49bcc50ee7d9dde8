"""The way from an architecture to a trained model."""

from archgrad.workflows.presets import PRESETS, Preset
from archgrad.workflows.single_architecture import SingleArchitecture
from archgrad.workflows.train import resume_training, run_training, train
from archgrad.workflows.train_result import TrainedSeed, TrainResult
from archgrad.workflows.training_plan import TrainingPlan

__all__ = [
    "PRESETS",
    "Preset",
    "SingleArchitecture",
    "TrainResult",
    "TrainedSeed",
    "TrainingPlan",
    "resume_training",
    "run_training",
    "train",
]
