"""Paired comparisons over the splits of a plan: the tests behind what a paper says in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpsuite.experiments.statistics import overlapping_p, overlapping_statistic
from gpsuite.reporting.comparison import Statistic

if TYPE_CHECKING:
    import pandas as pd


Array = npt.NDArray[np.float64]


# Test rows over training rows of the shipped 80/20 splits, the only ones that claims are decided on.
TEST_OVER_TRAINING = 0.25


class Cell:
    """The splits of one setting: a metric of a method as an array over the splits all methods share.

    Args:
        part: one row per method and split.
    """

    def __init__(self, part: pd.DataFrame) -> None:
        self._wide = part.pivot(index="split", columns="method")

    def __call__(self, metric: str, method: str) -> Array:
        """Return the metric of a method, one value per split [S]."""
        return np.asarray(self._wide[metric][method], dtype=np.float64)

    def pair(self, metric: str, first: str, second: str) -> tuple[Array, Array]:
        """Return the metric of two methods over the splits where both are finite."""
        a, b = self(metric, first), self(metric, second)
        both = np.isfinite(a) & np.isfinite(b)
        return a[both], b[both]


def split_statistic(name: str, values: Array) -> Statistic:
    """Return the mean over splits with its corrected interval; NaN and none for fewer than two values."""
    return overlapping_statistic(name, values, TEST_OVER_TRAINING)


def positive_p(values: Array) -> float:
    """Return the one-sided p-value of the corrected t-test that a mean over splits is above 0."""
    mean = float(values.mean()) if len(values) else 0.0
    if len(values) > 1 and float(values.std(ddof=1)) <= 1e-12 * abs(
        mean
    ):  # the same in every split, up to rounding
        return 0.0 if mean > 0 else 1.0
    return overlapping_p(values, TEST_OVER_TRAINING)


def paired_p(smaller: Array, larger: Array) -> float:
    """Return the one-sided p-value of the corrected paired t-test for `smaller` < `larger`; 1 for fewer than two."""
    return positive_p(larger - smaller)
