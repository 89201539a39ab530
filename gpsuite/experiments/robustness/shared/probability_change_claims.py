"""What Sec. 6.2 of Blaas et al. 2020 says about delta, decided from the records of `probability_change`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpsuite.experiments.statistics import LEVEL, holm, overlapping_p, overlapping_statistic, share
from gpsuite.reporting.comparison import Statistic

if TYPE_CHECKING:
    import pandas as pd


Array = npt.NDArray[np.float64]


LAPLACE, EP = "laplace", "ep"


ABOUT_FIVE = (2.5, 10.0)  # "about 5 times", within a factor of two


WIDEST = 4.0  # end over end of an interval that still says something


SLACK = 1e-12  # the two definitions differ by sums of the same rounded numbers


class Deltas:
    """A metric of the records at one radius, as arrays over draws and points; NaN where a record is missing.

    Args:
        frame: one row per record, with the columns method, evaluations, draw, point and the metric.
        metric: its name.
    """

    def __init__(self, frame: pd.DataFrame, metric: str = "delta") -> None:
        self._wide = frame.pivot_table(
            index=["method", "evaluations"], columns=["draw", "point"], values=metric, dropna=False
        )
        self.evaluations = sorted(int(each) for each in frame["evaluations"].unique())
        self.draws = sorted(int(each) for each in frame["draw"].unique())
        self._shape = len(self.draws), frame["point"].nunique()

    def __call__(self, method: str, evaluations: int) -> Array:
        """Return the values of one classifier setting, [draws, points]."""
        if (method, evaluations) not in self._wide.index:
            return np.full(self._shape, np.nan)
        row = self._wide.loc[(method, evaluations)]
        return np.asarray(row, dtype=np.float64).reshape(self._shape)

    def pair(self, evaluations: int) -> tuple[Array, Array]:
        """Return Laplace's and EP's values where both are known, [n] each."""
        laplace, ep = self(LAPLACE, evaluations).ravel(), self(EP, evaluations).ravel()
        both = np.isfinite(laplace) & np.isfinite(ep)
        return laplace[both], ep[both]

    def medians(self, evaluations: int) -> tuple[Array, Array]:
        """Return Laplace's and EP's medians over the points where both are known, one per draw with such points."""
        laplace, ep = self(LAPLACE, evaluations), self(EP, evaluations)
        both = np.isfinite(laplace) & np.isfinite(ep)
        kept = both.any(axis=1)
        first, second = (nan_medians(np.where(both, values, np.nan)[kept]) for values in (laplace, ep))
        return first, second


def nan_medians(values: Array) -> Array:
    """Return the median of every row, NaN for a row without a value."""
    known = np.isfinite(values).any(axis=1)
    medians = np.full(len(values), np.nan)
    medians[known] = np.nanmedian(values[known], axis=1)
    return medians


def ratio_statistic(name: str, deltas: Deltas, evaluations: int, test_over_training: float) -> Statistic:
    """Return the ratio of median deltas Laplace / EP; NaN without pairs.

    Its interval is that of the mean logarithm over training draws, which share rows; the test points of one draw share
    a classifier, so that one draw gives none.
    """
    laplace, ep = deltas.pair(evaluations)
    if not len(ep):
        return Statistic(name, float("nan"), n=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.median(laplace) / np.median(ep))
        logs = np.log(np.divide(*deltas.medians(evaluations)))
    logs = logs[np.isfinite(logs)]
    found = overlapping_statistic(name, logs, test_over_training)
    low, high = (
        None if end is None else float(np.exp(end)) for end in (found.interval_low, found.interval_high)
    )
    note = f"{len(ep)} test points; {found.note}".strip("; ")
    return Statistic(
        name, ratio, n=len(logs), interval_low=low, interval_high=high, interval=found.interval, note=note
    )


def wilcoxon_p(smaller: Array, larger: Array) -> float:
    """Return the one-sided p-value of Wilcoxon's signed-rank test for `smaller` < `larger`; 1 without differences."""
    from scipy.stats import wilcoxon

    difference = smaller - larger
    if not np.any(difference):
        return 1.0
    return float(wilcoxon(difference, alternative="less", method="approx").pvalue)


def delta_claims(frame: pd.DataFrame, test_over_training: float) -> list[Statistic]:
    """Return the statistics of conf/paper/blaas2020.yaml on one dataset.

    Args:
        frame: records of the shipped training at the first radius.
        test_over_training: test points over training rows of a draw.
    """
    deltas = Deltas(frame)
    found = [definitions_agree(frame)]
    if {LAPLACE, EP} <= set(frame["method"]):
        ratios = [ratio_statistic("", deltas, each, test_over_training) for each in deltas.evaluations]
        largest = replace(ratios[-1], name="delta_ratio_laplace_over_ep")
        found += [largest, ep_more_robust(deltas, test_over_training)]
        found.append(share("share_ratio_about_five", about_five(ratios)))
    return [*found, falls_with_evaluations(deltas, sorted(set(frame["method"])), test_over_training)]


def ep_more_robust(deltas: Deltas, test_over_training: float) -> Statistic:
    """Return the share of evaluation counts at which EP's median delta is significantly smaller over draws (Holm)."""
    p_values = []
    for each in deltas.evaluations:
        laplace, ep = deltas.medians(each)
        if len(ep) >= 2:
            total = laplace + ep
            relative = np.divide(laplace - ep, total, out=np.zeros_like(total), where=total > 0.0)
            p_values.append(overlapping_p(relative, test_over_training))
    return share("share_ep_more_robust", holm(p_values))


def about_five(ratios: Sequence[Statistic]) -> list[bool]:
    """Return which ratios are "about 5": in the range, with an interval that could have said no.

    Left out are ratios without an interval, and those whose interval meets the range but is so wide that it would meet
    nearly any.
    """
    low, high = ABOUT_FIVE
    cells = []
    for each in ratios:
        if each.interval_low is None or each.interval_high is None:
            continue
        if not np.isfinite([each.interval_low, each.interval_high]).all():
            continue
        meets = each.interval_low <= high and each.interval_high >= low
        if not meets or each.interval_high <= WIDEST * each.interval_low:
            cells.append(meets and low <= each.value <= high)
    return cells


def falls_with_evaluations(deltas: Deltas, methods: Sequence[str], test_over_training: float) -> Statistic:
    """Return the share of methods whose median delta falls with the logarithm of the evaluations, draw by draw."""
    cells = []
    places = np.log(np.array(deltas.evaluations, dtype=np.float64))
    for method in methods:
        medians = np.array([nan_medians(deltas(method, each)) for each in deltas.evaluations])
        medians = medians[:, np.isfinite(medians).all(axis=0)]
        scale = medians.mean(axis=0)
        if len(places) >= 3 and medians.shape[1] >= 2:
            slopes = (places - places.mean()) @ np.divide(
                medians, scale, out=np.zeros_like(medians), where=scale > 0.0
            )
            cells.append(overlapping_p(-slopes, test_over_training) < LEVEL)
    return share("share_delta_falls_with_epochs", cells)


def definitions_agree(frame: pd.DataFrame) -> Statistic:
    """Count the records without Definition 1 <= pi_max - pi_min <= 2 Definition 1, attained or proved."""
    violations, counted = 0, 0
    for end in ("", "_proved"):
        delta, first = (frame[f"{name}{end}"].to_numpy(float) for name in ("delta", "deviation"))
        known = np.isfinite(delta) & np.isfinite(first)
        wrong = (delta < first - SLACK) | (delta > 2.0 * first + SLACK)
        violations, counted = violations + int((wrong & known).sum()), counted + int(known.sum())
    note = "attained and proved values of every record"
    return Statistic("violations_delta_definitions", violations, n=counted, note=note)
