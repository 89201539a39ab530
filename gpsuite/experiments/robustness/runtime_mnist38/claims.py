"""What Fig. 7 of Blaas et al. 2020 claims about runtimes, decided on seconds and, where possible, on boxes."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.robustness.safety_curves.claims import of_points
from gpsuite.reporting.comparison import Statistic
from gpsuite.statistics.estimates import share

if TYPE_CHECKING:
    import pandas as pd


EXPLOSION = 10.0  # times the mean number of boxes of the low dimensions


LOW_DIMENSIONS = 5


UNDER_5, UNDER_10, UNDER_2 = 5.0, 10.0, 2.0  # seconds, as printed


PROGRAMS = 1000  # training points of the paper


def runtime_statistics(frame: pd.DataFrame, epsilon: float, ours: str, reference: str) -> list[Statistic]:
    """Return the statistics by which the paper's statements are decided.

    Args:
        frame: one row per search.
        epsilon: the tolerance at which dimensions are compared.
        ours: name of our bound.
        reference: of the paper's.
    """
    found = [Statistic(f"box_share_percent[gamma={gamma}]", 200.0 * gamma, note=_clipped(frame, gamma))
             for gamma in sorted(set(frame["gamma"]))]  # fmt: skip
    found.append(Statistic("linear_programs_per_box[training_points=1000]", 2.0 * PROGRAMS + 1.0))
    for bound in dict.fromkeys((ours, reference)):
        found += _by_dimension(frame[(frame["bound"] == bound) & (frame["eps"] == epsilon)], bound)
    mine = frame[frame["bound"] == ours]
    return found + _thresholds(mine, epsilon) + _tolerances(mine)


def _clipped(frame: pd.DataFrame, gamma: float) -> str:
    share_left = 100 * float(frame.loc[frame["gamma"] == gamma, "box_share"].mean())
    return f"2 gamma; clipped to the pixel range, {share_left:.1f} % on average"


def _by_dimension(frame: pd.DataFrame, bound: str) -> list[Statistic]:
    """Return how seconds and boxes of a bound grow with the dimension."""
    found = []
    unclosed = int((~frame["closed"].astype(bool)).sum())
    note = f"{unclosed} of {len(frame)} searches ended unclosed, their boxes and seconds are lower bounds"
    note = note if unclosed else "all searches closed"
    largest = frame["gamma"].max()
    wide = frame[frame["gamma"] == largest]
    seconds = wide.groupby("d")["search_seconds"].mean()
    axes = f"bound={bound},gamma={largest}"
    found.append(Statistic(f"max_mean_seconds[{axes}]", float(seconds.max()), n=len(seconds), note=note))
    low = [bool(seconds[d] < UNDER_5) for d in seconds.index if d <= LOW_DIMENSIONS]
    suffix = "" if bound == "paper" else f"[bound={bound}]"
    found.append(Statistic.of(f"share_dimensions_under_5_seconds{suffix}", share(low), note=note))
    found.append(_explosion(wide, bound, note))
    slopes = np.array([_slope(own) for _, own in wide.groupby("point") if len(own) > 1])
    if len(slopes) > 1:
        # no interval: the points share one classifier, so that the claim is about the least of them
        found.append(Statistic(f"log_boxes_slope[{axes}]", float(slopes.mean()), n=len(slopes), note=note))
        found.append(
            Statistic(f"log_boxes_slope_smallest[{axes}]", float(slopes.min()), n=len(slopes), note=note)
        )
    d = int(frame["d"].max())
    boxes = frame[frame["d"] == d].groupby("gamma")["boxes"].mean()
    if len(boxes) > 1:
        ratio = float(boxes.iloc[0] / boxes.iloc[-1])
        found.append(Statistic(f"boxes_ratio[bound={bound},d={d}]", ratio, note=note))
    return found


def _slope(own: pd.DataFrame) -> float:
    """Return the least-squares slope of log boxes against the dimension of one point."""
    return float(np.polyfit(own["d"], np.log(own["boxes"].clip(lower=1)), 1)[0])


def _explosion(wide: pd.DataFrame, bound: str, note: str) -> Statistic:
    """Return the last dimension before the mean number of boxes first exceeds ten times that of the low ones."""
    name = f"last_dimension_before_explosion[bound={bound}]"
    boxes = wide.groupby("d")["boxes"].mean()
    base = float(boxes[boxes.index <= LOW_DIMENSIONS].mean())
    beyond = [int(d) for d in boxes.index if boxes[d] > EXPLOSION * base]
    if not beyond:
        return Statistic(name, float("nan"), n=len(boxes), note=f"no dimension has that many boxes; {note}")
    before = [int(d) for d in boxes.index if d < beyond[0]]
    return Statistic(name, float(max(before, default=0)), n=len(boxes), note=note)


def _thresholds(mine: pd.DataFrame, epsilon: float) -> list[Statistic]:
    """Return the shares and means that the paper holds against seconds."""
    found = []
    smallest, largest = mine["gamma"].min(), mine["gamma"].max()
    d = int(mine["d"].max())
    top = mine[(mine["gamma"] == smallest) & (mine["d"] == d) & (mine["eps"] == epsilon)]
    under = [bool(value) for value in top["closed"] & (top["search_seconds"] < UNDER_10)]
    found.append(of_points(f"share_points_under_10_seconds[gamma={smallest},d={d}]", under))
    cells = mine[mine["gamma"] == largest].groupby(["d", "eps"])
    for (dimension, eps), cell in cells:
        if eps < epsilon:
            mean = float(cell["search_seconds"].mean())
            name = f"mean_under_2_seconds[gamma={largest},d={int(dimension)},eps={eps}]"
            note = f"mean {mean:.3g} s, {int(cell['closed'].sum())} of {len(cell)} closed"
            found.append(
                Statistic(name, float(mean < UNDER_2 and bool(cell["closed"].all())), n=1, note=note)
            )
    return found


def _tolerances(mine: pd.DataFrame) -> list[Statistic]:
    """Return in how many steps to a smaller tolerance the mean number of boxes does not fall."""
    steps: list[bool] = []
    counted = mine.groupby(["d", "gamma", "eps"])["boxes"].mean()
    for _, boxes in counted.groupby(level=["d", "gamma"]):
        values = boxes.sort_index(level="eps", ascending=False).to_numpy()
        steps += [bool(after >= before) for before, after in pairwise(values)]
    return [Statistic.of("share_boxes_rise_as_eps_falls", share(steps))]
