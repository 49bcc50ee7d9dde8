"""How often intervals of a mean contain it, over simulated studies: ``python -m tests.studies.coverage``."""

from __future__ import annotations

import math
import sys

import numpy as np
from scipy.stats import bootstrap, t

from archgrad.studies.statistics import mean_intervals

__all__ = ["KINDS", "STUDIES", "covered", "simulated"]

STUDIES = 2_000
KINDS = ("normal", "skewed", "log-normal")


def simulated(kind: str, runs: int, seed: int = 0) -> tuple[np.ndarray, float]:
    """Return studies [studies, runs] and their true mean.

    A gamma distribution of shape 4 has skewness 1, here to the left like accuracies below their best; the logarithm
    of a normal number of deviation 0.25 has 0.78, to the right.
    """
    generator = np.random.default_rng((seed, runs))
    if kind == "normal":
        return generator.normal(93.0, 0.5, (STUDIES, runs)), 93.0
    if kind == "skewed":
        return 94.37 - generator.gamma(4, 0.1, (STUDIES, runs)), 94.37 - 0.4
    return np.exp(0.25 * generator.standard_normal((STUDIES, runs))), math.exp(0.25**2 / 2)


def covered(ends: tuple[np.ndarray, np.ndarray], mean: float) -> float:
    """Return the share of intervals that contain the mean."""
    return float(((ends[0] <= mean) & (mean <= ends[1])).mean())


def _scipy(studies: np.ndarray, method: str) -> tuple[np.ndarray, np.ndarray]:
    found = bootstrap((studies,), np.mean, axis=1, n_resamples=999, batch=99, method=method, random_state=0)
    return found.confidence_interval


def _student(studies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    runs = studies.shape[1]
    half = t.ppf(0.975, runs - 1) * studies.std(axis=1, ddof=1) / math.sqrt(runs)
    return studies.mean(axis=1) - half, studies.mean(axis=1) + half


def main() -> None:
    """Print the coverage of four kinds of intervals."""
    sys.stdout.write("| runs | values | percentile | BCa | Student's t | ours |\n|---|---|---|---|---|---|\n")
    for runs in (2, 3, 5, 10):
        for kind in KINDS:
            studies, mean = simulated(kind, runs)
            ends = [_scipy(studies, "percentile"), _scipy(studies, "BCa"), _student(studies), mean_intervals(studies)]
            shares = " | ".join(f"{100 * covered(one, mean):.1f}" for one in ends)
            sys.stdout.write(f"| {runs} | {kind} | {shares} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
