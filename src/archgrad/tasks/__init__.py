"""Tasks: what a network predicts, its loss and its metrics."""

from archgrad.parts.registry import Registry
from archgrad.tasks.base import BaseTask, align
from archgrad.tasks.classification import Classification
from archgrad.tasks.metric import ACCURACY, Metric, MetricInfo
from archgrad.tasks.multilabel import Multilabel
from archgrad.tasks.own import Task
from archgrad.tasks.regression import Regression

__all__ = [
    "ACCURACY",
    "TASKS",
    "BaseTask",
    "Classification",
    "Metric",
    "MetricInfo",
    "Multilabel",
    "Regression",
    "Task",
    "align",
]

TASKS = Registry[BaseTask](
    "task",
    BaseTask,
    {"classification": Classification, "multilabel": Multilabel, "regression": Regression},
)
"""The names on the command line."""
