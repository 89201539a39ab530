"""Paired comparisons over the splits of a plan: the tests behind what a paper says in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr

from gpsuite.experiments.statistics import LEVEL, holm, mean_statistic, share

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LEVEL", "Array", "Cell", "holm", "mean_statistic", "paired_p", "share"]

Array = npt.NDArray[np.float64]


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


def paired_p(smaller: Array, larger: Array) -> float:
    """Return the one-sided p-value of the paired t-test for `smaller` < `larger`; 1 with fewer than two pairs."""
    difference = smaller - larger
    n = len(difference)
    if n < 2:
        return 1.0
    mean, error = float(difference.mean()), float(difference.std(ddof=1)) / n**0.5
    if error <= 1e-12 * abs(mean):  # the same difference in every pair, up to rounding
        return 0.0 if mean < 0 else 1.0
    return float(stdtr(n - 1, mean / error))
