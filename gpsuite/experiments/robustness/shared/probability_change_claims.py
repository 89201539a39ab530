"""What Sec. 6.2 of Blaas et al. 2020 says about delta, decided from the records of `probability_change`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.reporting.claims import claim
from gpsuite.reporting.comparison import Statistic
from gpsuite.statistics.estimates import Estimate, corrected_mean, finite, medians, slopes
from gpsuite.statistics.paired import Paired
from gpsuite.statistics.significance import LEVEL, corrected_t_p, holm

if TYPE_CHECKING:
    import pandas as pd


LAPLACE, EP = "laplace", "ep"


ABOUT_FIVE = (2.5, 10.0)  # "about 5 times", within a factor of two


SLACK = 1e-12  # the two definitions differ by sums of the same rounded numbers


def by_classifier(frame: pd.DataFrame) -> Paired:
    """Return the metrics by method and evaluations over draws and points; NaN where a record is missing.

    Args:
        frame: one row per record of one radius.
    """
    return Paired(frame, ["draw", "point"], ["method", "evaluations"])


def draw_medians(deltas: Paired, evaluations: int) -> tuple[FloatArray, FloatArray]:
    """Return Laplace's and EP's medians over the points where both are known, one per draw with such points."""
    laplace, ep = deltas("delta", LAPLACE, evaluations), deltas("delta", EP, evaluations)
    both = np.isfinite(laplace) & np.isfinite(ep)
    kept = both.any(axis=1)
    first, second = (medians(np.where(both, values, np.nan)[kept]) for values in (laplace, ep))
    return first, second


def log_ratios(deltas: Paired, evaluations: int) -> FloatArray:
    """Return the finite logarithms of the draws' ratios of median deltas Laplace / EP."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return finite(np.log(np.divide(*draw_medians(deltas, evaluations))))


def ratio_of_medians(deltas: Paired, evaluations: int, test_over_training: float) -> Estimate:
    """Return the ratio of median deltas Laplace / EP; NaN without pairs.

    Its interval is as wide, in logarithms, as that of the mean logarithm over training draws, which share rows; the
    test points of one draw share a classifier, so that one draw gives none.
    """
    laplace, ep = deltas.pair("delta", (LAPLACE, evaluations), (EP, evaluations))
    if not len(ep):
        return Estimate(float("nan"))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.median(laplace) / np.median(ep))
        found = corrected_mean(log_ratios(deltas, evaluations), test_over_training).moved_to(
            float(np.log(ratio))
        )
    low, high = float(np.exp(found.low)), float(np.exp(found.high))
    return Estimate(ratio, n=found.n, low=low, high=high, interval=found.interval)


def delta_claims(frames: Sequence[pd.DataFrame], test_over_training: float) -> list[Statistic]:
    """Return the statistics of conf/paper/blaas2020.yaml on one dataset.

    Args:
        frames: records of the shipped training, radius by radius; the sizes of ratios are judged at the first.
        test_over_training: test rows over training rows of a draw.
    """
    frame, tables = frames[0], [by_classifier(each) for each in frames]
    deltas, found = tables[0], [definitions_agree(frame)]
    if {LAPLACE, EP} <= set(frame["method"]):
        tried = deltas.levels("evaluations")
        ratios = [ratio_of_medians(deltas, each, test_over_training) for each in tried]
        pairs = len(deltas.pair("delta", (LAPLACE, tried[-1]), (EP, tried[-1]))[0])
        note = f"{pairs} test points" if pairs else ""
        found.append(Statistic.of("delta_ratio_laplace_over_ep", ratios[-1], note=note))
        found.append(ep_more_robust(tables, test_over_training))
        found.append(claim("share_ratio_about_five", about_five(ratios)))
    return [*found, falls_with_evaluations(deltas, deltas.levels("method"), test_over_training)]


def ep_more_robust(tables: Sequence[Paired], test_over_training: float) -> Statistic:
    """Return the share of radii and evaluation counts at which EP's median delta is surely smaller (Holm)."""
    p_values = []
    for deltas, each in ((table, each) for table in tables for each in table.levels("evaluations")):
        laplace, ep = draw_medians(deltas, each)
        if len(ep) >= 2:
            total = laplace + ep
            relative = np.divide(laplace - ep, total, out=np.zeros_like(total), where=total > 0.0)
            p_values.append(corrected_t_p(relative, test_over_training))
    return claim("share_ep_more_robust", holm(p_values))


def about_five(ratios: Sequence[Estimate]) -> list[bool]:
    """Return which ratios are "about 5": the whole interval lies in the range; those without one are left out."""
    low, high = ABOUT_FIVE
    return [
        low <= each.low and each.high <= high for each in ratios if np.isfinite([each.low, each.high]).all()
    ]


def falls_with_evaluations(deltas: Paired, methods: Sequence[str], test_over_training: float) -> Statistic:
    """Return the share of methods whose median delta falls with the logarithm of the evaluations, draw by draw."""
    cells = []
    tried = deltas.levels("evaluations")
    for method in methods:
        found = np.array([medians(deltas("delta", method, each)) for each in tried]).T
        found = found[np.isfinite(found).all(axis=1)]
        scale = found.mean(axis=1, keepdims=True)
        if len(tried) >= 3 and len(found) >= 2:
            relative = np.divide(found, scale, out=np.zeros_like(found), where=scale > 0.0)
            cells.append(corrected_t_p(-slopes(relative, np.log(tried)), test_over_training) < LEVEL)
    return claim("share_delta_falls_with_epochs", cells)


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
