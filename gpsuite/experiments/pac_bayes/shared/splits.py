"""Means and tests over random splits of the same rows: the ones behind what a paper says in words."""

from __future__ import annotations

from collections.abc import Iterable

from gpsuite.arrays import FloatArray
from gpsuite.statistics.estimates import Estimate, corrected_mean
from gpsuite.statistics.significance import corrected_t_p

# Test rows over training rows of the shipped 80/20 splits, the only ones that claims are decided on.
TEST_OVER_TRAINING = 0.25


def split_mean(values: FloatArray) -> Estimate:
    """Return the mean over splits with its corrected interval; none for fewer than two values."""
    return corrected_mean(values, TEST_OVER_TRAINING)


def shown_over(counts: Iterable[int]) -> str:
    """Return what a caption says of a table's numbers, given over how many splits each of its groups was taken."""
    fewest, most = min(counts := list(counts)), max(counts)
    splits = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return "one random split" if splits == "1" else f"mean ± standard error over {splits} random splits"


def positive_p(values: FloatArray) -> float:
    """Return the one-sided p-value of the corrected t-test that a mean over splits is above 0."""
    return corrected_t_p(values, TEST_OVER_TRAINING)


def paired_p(smaller: FloatArray, larger: FloatArray) -> float:
    """Return the one-sided p-value of the corrected paired t-test for `smaller` < `larger`; 1 for fewer than two."""
    return positive_p(larger - smaller)
