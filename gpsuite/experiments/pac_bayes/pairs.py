"""Paired comparisons over the splits of a plan: the tests behind what a paper says in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from gpsuite.reporting.comparison import Statistic

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.05  # of the paired tests

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


def holm(p_values: list[float]) -> list[bool]:
    """Return which hypotheses Holm's step-down procedure rejects at `LEVEL`."""
    order = np.argsort(p_values, kind="stable")
    rejected = [False] * len(p_values)
    for rank, index in enumerate(order):
        if p_values[index] > LEVEL / (len(p_values) - rank):
            break
        rejected[index] = True
    return rejected


def share(name: str, cells: Sequence[bool]) -> Statistic:
    """Return the share of cells in which a claim holds; NaN without cells."""
    if not cells:
        return Statistic(name, float("nan"), n=0)
    return Statistic(name, float(np.mean(cells)), n=len(cells), note=f"{sum(cells)} of {len(cells)} cells")


def mean_statistic(name: str, values: Array, note: str = "") -> Statistic:
    """Return the mean with its standard error and 95 % t interval; NaN and no interval for fewer than two values."""
    n = len(values)
    mean = float(values.mean()) if n else float("nan")
    if n < 2:
        return Statistic(name, mean, n=n, note=note)
    error = float(values.std(ddof=1)) / n**0.5
    reach = float(stdtrit(n - 1, 0.975)) * error
    return Statistic(name, mean, error, n, mean - reach, mean + reach, "95 % t interval", note=note)
