"""The way from an architecture to a trained model: train, select, fit."""

from archgrad.workflows.presets import PRESETS, Preset
from archgrad.workflows.single_architecture import SingleArchitecture
from archgrad.workflows.train import train
from archgrad.workflows.train_result import TrainedSeed, TrainResult
from archgrad.workflows.training import Training

__all__ = ["PRESETS", "Preset", "SingleArchitecture", "TrainResult", "TrainedSeed", "Training", "train"]
