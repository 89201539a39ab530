"""One type for an estimate with its interval, and the means, shares and medians that experiments report."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, stdtrit

from gpsuite.arrays import FloatArray

T_INTERVAL = "95 % t interval"
CORRECTED = "95 % t interval, corrected for splits that share rows"
CLOPPER_PEARSON = "95 % Clopper-Pearson interval"
AS_IF_INDEPENDENT = "95 % Clopper-Pearson interval, as if independent"
OF_POINTS = "95 % Clopper-Pearson interval over points, given the classifier"


@dataclass(frozen=True)
class Estimate:
    """A number that was computed from data, and how sure it is.

    If there is no interval its ends are NaN: `above`, `below` and `contains` are then False, never an accident.

    Attributes:
        value: NaN if it could not be computed, infinite if larger than any.
        error: standard error of the value, in its unit. NaN if unknown.
        n: repetitions behind a mean, trials behind a share.
        low: lower end of the interval. May be infinite.
        high: upper end.
        interval: its name, such as `95 % t interval`. Empty if there is none.
    """

    value: float
    error: float = math.nan
    n: int = 0
    low: float = math.nan
    high: float = math.nan
    interval: str = ""

    def __post_init__(self) -> None:
        if self.interval and not self.low <= self.high:
            raise ValueError(f"{self.interval} from {self.low} to {self.high}")

    def above(self, limit: float) -> bool:
        return self.low > limit

    def below(self, limit: float) -> bool:
        return self.high < limit

    def shows_above(self, limit: float) -> bool | None:
        """Return whether the interval shows a value above the limit. None if it holds the limit or there is none."""
        return True if self.above(limit) else False if self.below(limit) else None

    def contains(self, number: float) -> bool:
        return self.low <= number <= self.high

    def without_interval(self) -> Estimate:
        """Return only value and error: the repetitions do not give an interval."""
        return replace(self, low=math.nan, high=math.nan, interval="")

    def within(self, least: float, most: float) -> Estimate:
        """Return the same with the interval cut to the values that the quantity can take."""
        return replace(self, low=min(max(self.low, least), self.value), high=max(min(self.high, most), self.value))

    def moved_to(self, value: float) -> Estimate:
        """Return another value with this error and an interval of the same width."""
        return replace(self, value=value, low=self.low + value - self.value, high=self.high + value - self.value)


def mean(values: npt.ArrayLike) -> Estimate:
    """Return the mean of independent values with its standard error and 95 % t interval.

    Sums are correctly rounded, so that the order of the values does not matter. NaN for no values, or with a NaN among
    them. Infinite with an infinite one. The error and the interval need two finite values.
    """
    found = np.asarray(values, dtype=np.float64).ravel().tolist()
    n = len(found)
    if n == 0:
        return Estimate(math.nan)
    if not all(map(math.isfinite, found)):
        return Estimate(float(sum(found)), n=n)
    if n == 1:
        return Estimate(found[0], n=n)
    unit = _unit(found)
    found = [value / unit for value in found]
    centre = math.fsum(found) / n
    error = unit * math.sqrt(math.fsum((value - centre) ** 2 for value in found) / (n - 1) / n)
    centre *= unit
    reach = float(stdtrit(n - 1, 0.975)) * error
    return Estimate(centre, error, n, centre - reach, centre + reach, T_INTERVAL)


def _unit(values: list[float]) -> float:
    """Return a power of two by which values can be divided so that squares and sums stay in range, 1 if they do."""
    largest = max(map(abs, values))
    return 1.0 if largest == 0.0 or 1e-140 < largest < 1e140 else 2.0 ** (math.frexp(largest)[1] - 1)


def corrected_mean(values: npt.ArrayLike, test_over_training: float, correct_error: bool = True) -> Estimate:
    """Return the mean over random splits of the same rows, with Nadeau and Bengio's corrected t interval (2003).

    Training sets that share rows make the splits' values alike: their variance over n splits is (1/n + n_test/n_train)
    times the sample variance, not 1/n of it. No error and no interval for one split.

    Args:
        correct_error: False leaves the standard error as papers print it, s/sqrt(n).
    """
    plain = mean(values)
    if not plain.interval:
        return plain
    wider = math.sqrt(1.0 + plain.n * test_over_training)
    return Estimate(
        plain.value,
        plain.error * wider if correct_error else plain.error,
        plain.n,
        plain.value + wider * (plain.low - plain.value),
        plain.value + wider * (plain.high - plain.value),
        CORRECTED,
    )


def clopper_pearson(held: int, count: int, error: float = 0.05) -> tuple[float, float]:
    """Return the exact binomial interval of a share observed as `held` of `count`. Each end is missed with error/2."""
    low = 0.0 if held == 0 else float(betaincinv(held, count - held + 1, error / 2.0))
    high = 1.0 if held == count else float(betaincinv(held + 1, count - held, 1.0 - error / 2.0))
    return low, high


def proportion(held: int, count: int, interval: str = CLOPPER_PEARSON) -> Estimate:
    """Return the share of independent trials that held, with its exact 95 % interval. NaN without trials."""
    if count == 0:
        return Estimate(math.nan)
    return Estimate(held / count, math.nan, count, *clopper_pearson(held, count), interval)


def share(held: Iterable[object], interval: str = AS_IF_INDEPENDENT) -> Estimate:
    """Return the share of true ones with its exact 95 % interval: of cells in which a claim holds, of points."""
    flags = [bool(each) for each in held]
    return proportion(sum(flags), len(flags), interval)


def finite(values: npt.ArrayLike) -> FloatArray:
    found = np.asarray(values, dtype=np.float64)
    return np.asarray(found[np.isfinite(found)])


def medians(values: FloatArray) -> FloatArray:
    """Return the median of every row's finite values [rows, n] -> [rows]. NaN for a row without any."""
    known = np.isfinite(values).any(axis=1)
    found = np.full(len(values), np.nan)
    found[known] = np.nanmedian(np.where(np.isfinite(values), values, np.nan)[known], axis=1)
    return found


def slopes(values: FloatArray, levels: npt.ArrayLike) -> FloatArray:
    """Return each repetition's least-squares slope [R] of values [R, L] over the levels [L] with finite values.

    NaN with fewer than two different levels.
    """
    known = np.isfinite(values)
    x = np.where(known, np.asarray(levels, dtype=np.float64), 0.0)
    count = np.maximum(known.sum(axis=1, keepdims=True), 1)
    centred = np.where(known, x - x.sum(axis=1, keepdims=True) / count, 0.0)
    spread = (centred**2).sum(axis=1)
    rise = (centred * np.where(known, values, 0.0)).sum(axis=1)
    return np.divide(rise, spread, out=np.full(len(values), np.nan), where=spread > 0.0)
