"""Trained models: a network with its images' preprocessing and its classes; saved, exported and used."""

from archgrad.models.model import Model, Prediction
from archgrad.models.preprocessing import Preprocessing

__all__ = ["Model", "Prediction", "Preprocessing"]
