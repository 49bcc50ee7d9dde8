"""Trained models: a network with its images' preprocessing and its classes; saved, exported and used."""

from archgrad.models.model import Model, Prediction
from archgrad.models.preprocessing import Preprocessing
from archgrad.models.transfer import TransferredWeights, copy_matching_weights

__all__ = ["Model", "Prediction", "Preprocessing", "TransferredWeights", "copy_matching_weights"]
