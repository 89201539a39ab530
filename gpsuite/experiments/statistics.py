"""Statistics that experiments of every family hand to the comparison: means, shares of cells, tests over cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, stdtr, stdtrit

from gpsuite.reporting.comparison import Statistic, statistic_name

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.05  # of the tests behind a claim
CORRECTED = "95 % t interval, corrected for splits that share rows"

Array = npt.NDArray[np.float64]


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


def clopper_pearson(held: int, count: int, error: float = 0.05) -> tuple[float, float]:
    """Return the exact binomial interval of a share observed as `held` of `count`; each end is missed with error/2."""
    low = 0.0 if held == 0 else float(betaincinv(held, count - held + 1, error / 2.0))
    high = 1.0 if held == count else float(betaincinv(held + 1, count - held, 1.0 - error / 2.0))
    return low, high


def mean_statistic(name: str, values: Array, note: str = "") -> Statistic:
    """Return the mean with its standard error and 95 % t interval; NaN and no interval for fewer than two values."""
    n = len(values)
    mean = float(values.mean()) if n else float("nan")
    if n < 2:
        return Statistic(name, mean, n=n, note=note)
    error = float(values.std(ddof=1)) / n**0.5
    reach = float(stdtrit(n - 1, 0.975)) * error
    return Statistic(name, mean, error, n, mean - reach, mean + reach, "95 % t interval", note=note)


def overlapping_statistic(name: str, values: Array, test_over_training: float, note: str = "") -> Statistic:
    """Return the mean over random splits of the same rows, with Nadeau and Bengio's corrected t interval (2003).

    Training sets that share rows make the splits' values alike: their variance over n splits is (1/n + n_test/n_train)
    times the sample variance, not 1/n of it. NaN and no interval for fewer than two values.

    Args:
        name: of the statistic.
        values: one per split, [n].
        test_over_training: test rows over training rows of a split.
        note: what a reader should know.
    """
    n = len(values)
    mean = float(values.mean()) if n else float("nan")
    if n < 2:
        return Statistic(
            name, mean, n=n, note="; ".join(part for part in (note, "one split: no interval") if part)
        )
    error = _overlapping_error(values, test_over_training)
    reach = float(stdtrit(n - 1, 0.975)) * error
    return Statistic(name, mean, error, n, mean - reach, mean + reach, CORRECTED, note=note)


def overlapping_p(values: Array, test_over_training: float) -> float:
    """Return the one-sided p-value of Nadeau and Bengio's corrected t-test that a mean over splits is above 0.

    1 for fewer than two splits, which prove nothing. Arguments as in `overlapping_statistic`.
    """
    if len(values) < 2:
        return 1.0
    mean, error = float(values.mean()), _overlapping_error(values, test_over_training)
    if error == 0.0:
        return 0.0 if mean > 0.0 else 1.0
    return float(stdtr(len(values) - 1, -mean / error))


def _overlapping_error(values: Array, test_over_training: float) -> float:
    return float(values.std(ddof=1)) * math.sqrt(1.0 / len(values) + test_over_training)


def correct_intervals(tidy: pd.DataFrame, test_over_training: float) -> pd.DataFrame:
    """Return a tidy frame of means over splits that share rows, its t intervals corrected for that."""
    wider = (1.0 + tidy["n"] * test_over_training) ** 0.5
    ends = {
        end: tidy["mean"] + wider * (tidy[end] - tidy["mean"]) for end in ("interval_low", "interval_high")
    }
    return tidy.assign(**ends, interval=tidy["interval"].where(tidy["interval"] == "", CORRECTED))


def without_intervals(tidy: pd.DataFrame) -> pd.DataFrame:
    """Return a tidy frame of means over points that share a model, without the intervals that these do not give."""
    return tidy.assign(interval_low=math.nan, interval_high=math.nan, interval="")


def metric_statistics(tidy: pd.DataFrame, by: Sequence[str]) -> list[Statistic]:
    """Return every mean of a tidy frame as a statistic named `metric[axis=value,...]`."""

    def number(value: float) -> float | None:
        return float(value) if math.isfinite(value) else None

    return [
        Statistic(
            name=statistic_name(line["metric"], **{axis: line[axis] for axis in by}),
            value=float(line["mean"]),
            standard_error=number(line["standard_error"]),
            n=int(line["n"]),
            interval_low=number(line["interval_low"]),
            interval_high=number(line["interval_high"]),
            interval=str(line["interval"]),
        )
        for _, line in tidy.iterrows()
    ]
