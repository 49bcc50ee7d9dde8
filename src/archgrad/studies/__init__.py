"""Compare methods: a grid of runs, the engines that compute them, and the tables that they end in."""

from archgrad.studies.plan import StudyPlan, Task, Variant

__all__ = ["StudyPlan", "Task", "Variant"]
