"""Tests behind claims: each returns a p-value, 1 where the data prove nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, bdtrc, chdtrc, stdtr

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.statistics.estimates import corrected_mean

LEVEL = 0.05  # of the tests behind a claim
MOST_EXACT = 400  # differences, so many take half a second
_EQUAL = 1e-12  # relative error of a mean of values that are the same up to rounding


def corrected_t_p(values: npt.ArrayLike, test_over_training: float = 0.0) -> float:
    """Return the one-sided p-value of the t-test that a mean over splits is above 0, corrected for shared rows.

    Nadeau and Bengio 2003. Of differences it is the paired test. 1 for fewer than two splits, which prove nothing.
    Of values that are all the same, without a deviation to go by, that of their signs: 1/2^n or 1.

    Args:
        test_over_training: test rows over training rows of a split, 0 for independent values.
    """
    found = corrected_mean(values, test_over_training)
    if not math.isfinite(found.error):
        return 1.0
    if found.error <= _EQUAL * abs(found.value):
        return 0.5**found.n if found.value > 0.0 else 1.0
    return float(stdtr(found.n - 1, -found.value / found.error))


def shown(p: float, opposite: float, level: float = LEVEL) -> bool | None:
    """Return True if a test shows what is claimed, False if it shows the opposite, None if neither: an open cell."""
    if p < level:
        return True
    return False if opposite < level else None


def shown_by_t(values: npt.ArrayLike, test_over_training: float, level: float = LEVEL) -> bool | None:
    """Return what the corrected t-test shows of a mean being above 0, see `shown`."""
    found = np.asarray(values, dtype=np.float64)
    return shown(corrected_t_p(found, test_over_training), corrected_t_p(-found, test_over_training), level)


def all_shown(cells: Iterable[bool | None]) -> bool | None:
    """Return what is shown of several claims together, see `shown`."""
    found = list(cells)
    return False if False in found else None if None in found else True


def wilcoxon_p(smaller: FloatArray, larger: FloatArray) -> float:
    """Return the one-sided p-value of Wilcoxon's signed-rank test for `smaller` < `larger`, paired.

    Exact given the sizes of the differences, whose ties share their mean rank. Up to `MOST_EXACT` differences, beyond
    by the normal approximation. Pairs with NaN, and equal ones, do not count. An infinite difference is the largest.
    1 without differences.
    """
    from scipy.stats import rankdata, wilcoxon

    there = ~(np.isnan(smaller) | np.isnan(larger) | (smaller == larger))
    difference = smaller[there] - larger[there]
    if not len(difference):
        return 1.0
    doubled: IntArray = np.rint(2.0 * rankdata(np.abs(difference))).astype(np.int64)
    if len(difference) <= MOST_EXACT:
        return _signed_rank_p(doubled, difference > 0.0)
    return float(wilcoxon(np.sign(difference) * doubled, alternative="less", method="approx").pvalue)


def _signed_rank_p(doubled: IntArray, positive: BoolArray) -> float:
    """Return the share of all signs of the doubled ranks [n] whose positive ones sum to no more than these do."""
    shares = np.zeros(int(doubled.sum()) + 1)  # by the sum, the signs of more ranks drawn at each step
    shares[0] = 1.0
    for rank in doubled:
        shares *= 0.5
        shares[rank:] += shares[:-rank].copy()
    return min(1.0, float(shares[: int(doubled[positive].sum()) + 1].sum()))


def least_wilcoxon_p(pairs: int) -> float:
    """Return the smallest p-value that any data of so many pairs can give: every difference has the same sign."""
    return 0.5**pairs


def binomial_p(
    held: int, count: int, probability: float, alternative: Literal["two-sided", "less"] = "two-sided"
) -> float:
    """Return the p-value of `held` of `count` at a probability: the lower tail, or twice the smaller tail, at most 1.

    Two-sided it agrees with the Clopper-Pearson interval: p < error exactly where that leaves the probability out.
    """
    below = float(bdtr(held, count, probability))
    if alternative == "less":
        return below
    above = 1.0 if held == 0 else float(bdtrc(held - 1, count, probability))
    return min(1.0, 2.0 * min(below, above))


def chi_square_p(pairs: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]]) -> tuple[float, int]:
    """Return the p-value and degrees of freedom of one chi^2 test of several independent sets of counts.

    Args:
        pairs: counts and their expected values, of equal sums. A set of k bins has k - 1 degrees of freedom.
    """
    total, freedom = 0.0, 0
    for counts, expected in pairs:
        wanted = np.asarray(expected, dtype=np.float64)
        total += float(np.sum((np.asarray(counts) - wanted) ** 2 / wanted))
        freedom += len(wanted) - 1
    return float(chdtrc(freedom, total)), freedom


def bonferroni_p(p_values: Sequence[float]) -> float:
    """Return the p-value of several hypotheses together: the smallest times their number, at most 1."""
    return min(1.0, len(p_values) * min(p_values))


def holm(p_values: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Return which hypotheses Holm's step-down procedure rejects at a family-wise level."""
    order = np.argsort(p_values, kind="stable")
    rejected = [False] * len(p_values)
    for rank, index in enumerate(order):
        if not p_values[index] <= level / (len(p_values) - rank):
            break
        rejected[index] = True
    return rejected


def shown_together(p_values: Sequence[float], opposites: Sequence[float], level: float = LEVEL) -> list[bool | None]:
    """Return what several tests show at a family-wise level, see `shown` and `holm`."""
    claimed, against = holm(p_values, level), holm(opposites, level)
    return [True if held else False if lost else None for held, lost in zip(claimed, against, strict=True)]


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's correlation. NaN for fewer than three pairs, or where one of the two does not vary."""
    from scipy.stats import spearmanr

    if len(first) < 3 or len(set(first)) < 2 or len(set(second)) < 2:
        return math.nan
    return float(spearmanr(first, second).statistic)
