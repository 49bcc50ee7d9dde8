"""Compare methods: a grid of runs, the engines that compute them, and the tables that they end in."""

from archgrad.studies.plan import Benchmark, StudyPlan, Variant
from archgrad.studies.study import Study, compare

__all__ = ["Benchmark", "Study", "StudyPlan", "Variant", "compare"]
