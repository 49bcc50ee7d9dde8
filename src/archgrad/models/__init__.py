"""Trained models: a network with its images' preprocessing and its classes; saved, exported and used."""

from archgrad.models.classifier import Classifier, Prediction
from archgrad.models.export import Exported, export_model
from archgrad.models.model import Model
from archgrad.models.onnx_model import OnnxModel
from archgrad.models.preprocessing import Preprocessing
from archgrad.models.transfer import TransferredWeights, copy_matching_weights

__all__ = [
    "Classifier",
    "Exported",
    "Model",
    "OnnxModel",
    "Prediction",
    "Preprocessing",
    "TransferredWeights",
    "copy_matching_weights",
    "export_model",
]
