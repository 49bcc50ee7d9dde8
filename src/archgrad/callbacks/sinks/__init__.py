"""Sinks: callbacks that write the records of a search for other tools."""

from archgrad.callbacks.sinks.base import Sink, Writer
from archgrad.callbacks.sinks.csv_file import CSVFile
from archgrad.callbacks.sinks.mlflow import MLflow
from archgrad.callbacks.sinks.tensorboard import TensorBoard
from archgrad.callbacks.sinks.wandb import WandB

__all__ = ["CSVFile", "MLflow", "Sink", "TensorBoard", "WandB", "Writer"]
