"""What Sec. 6.2 of Blaas et al. 2020 says about delta, decided from the records of `deltas`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpsuite.experiments.statistics import LEVEL, holm, share
from gpsuite.reporting.comparison import Statistic
from gpsuite.seeds import stream

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[np.float64]

LAPLACE, EP = "laplace", "ep"
ABOUT_FIVE = (2.5, 10.0)  # "about 5 times", within a factor of two
REPLICATES = 2000
BOOTSTRAP = "95 % bootstrap interval over draws and points"
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


def bootstrap_medians(cells: Sequence[Array], rng: np.random.Generator) -> Array:
    """Return medians of resampled draws, and points within them, the same for all cells: [cells, replicates].

    Args:
        cells: values [draws, points], NaN where missing.
        rng: source of randomness.
    """
    draws, points = cells[0].shape
    draw = rng.integers(draws, size=(REPLICATES, draws, 1))
    point = rng.integers(points, size=(REPLICATES, draws, points))
    return np.array([np.nanmedian(cell[draw, point], axis=(1, 2)) for cell in cells])


def ratio_statistic(name: str, deltas: Deltas, evaluations: int) -> Statistic:
    """Return the ratio of median deltas Laplace / EP with its bootstrap interval; NaN without pairs."""
    laplace, ep = deltas(LAPLACE, evaluations), deltas(EP, evaluations)
    known = np.isfinite(laplace) & np.isfinite(ep)
    if not known.any():
        return Statistic(name, float("nan"), n=0)
    cells = [np.where(known, cell, np.nan) for cell in (laplace, ep)]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.nanmedian(cells[0]) / np.nanmedian(cells[1]))
        replicates = np.divide(*bootstrap_medians(cells, stream(0, "bootstrap", evaluations)))
    low, high = np.nanquantile(replicates, [0.025, 0.975]) if np.isfinite(replicates).any() else (np.nan,) * 2
    return Statistic(
        name,
        ratio,
        n=int(known.sum()),
        interval_low=float(low),
        interval_high=float(high),
        interval=BOOTSTRAP,
    )


def wilcoxon_p(smaller: Array, larger: Array) -> float:
    """Return the one-sided p-value of Wilcoxon's signed-rank test for `smaller` < `larger`; 1 without differences."""
    from scipy.stats import wilcoxon

    difference = smaller - larger
    if not np.any(difference):
        return 1.0
    return float(wilcoxon(difference, alternative="less", method="approx").pvalue)


def page_p(columns: Sequence[Array]) -> float:
    """Return the p-value of Page's trend test that rows rise along three or more columns [n]; 1 where all are tied."""
    from scipy.stats import page_trend_test

    table = np.column_stack(columns)
    if len(table) < 2 or not np.ptp(table, axis=1).any():
        return 1.0
    return float(page_trend_test(table, method="asymptotic").pvalue)


def delta_claims(frame: pd.DataFrame) -> list[Statistic]:
    """Return the statistics of conf/paper/blaas2020.yaml on one dataset.

    Args:
        frame: records of the shipped training at the first radius.
    """
    deltas = Deltas(frame)
    found = [definitions_agree(frame)]
    if {LAPLACE, EP} <= set(frame["method"]):
        ratios = [ratio_statistic("", deltas, each) for each in deltas.evaluations]
        largest = ratio_statistic("delta_ratio_laplace_over_ep", deltas, deltas.evaluations[-1])
        found += [largest, ep_more_robust(deltas), share("share_ratio_interval_overlaps", overlaps(ratios))]
    return [*found, falls_with_evaluations(deltas, sorted(set(frame["method"])))]


def ep_more_robust(deltas: Deltas) -> Statistic:
    """Return the share of evaluation counts at which EP's delta is significantly smaller (Wilcoxon, Holm)."""
    pairs = [deltas.pair(each) for each in deltas.evaluations]
    p_values = [wilcoxon_p(ep, laplace) for laplace, ep in pairs if len(ep)]
    return share("share_ep_more_robust", holm(p_values))


def overlaps(ratios: Sequence[Statistic]) -> list[bool]:
    """Return which ratios' intervals meet "about 5"; those without an interval are left out."""
    low, high = ABOUT_FIVE
    return [
        each.interval_low <= high and each.interval_high >= low
        for each in ratios
        if each.interval_low is not None and each.interval_high is not None
        if np.isfinite([each.interval_low, each.interval_high]).all()
    ]


def falls_with_evaluations(deltas: Deltas, methods: Sequence[str]) -> Statistic:
    """Return the share of methods whose delta falls as the evaluations rise (Page's test over points and draws)."""
    cells = []
    for method in methods:
        columns = [deltas(method, each).ravel() for each in reversed(deltas.evaluations)]
        known = np.isfinite(columns).all(axis=0)
        if len(columns) >= 3 and known.any():
            cells.append(page_p([column[known] for column in columns]) < LEVEL)
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
