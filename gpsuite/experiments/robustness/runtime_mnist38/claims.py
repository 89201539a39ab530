"""What Fig. 7 of Blaas et al. 2020 claims about runtimes, decided on seconds and, where possible, on boxes.

The paper's runtimes are those of its own bound, which is therefore the one that is judged. A search that its limit
ended leaves a lower bound of its seconds and boxes: a mean with one in it decides only what it already exceeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.experiments.robustness.safety_curves.claims import of_points
from gpsuite.reporting.claims import claim
from gpsuite.reporting.comparison import Statistic

if TYPE_CHECKING:
    import pandas as pd


EXPLOSION = 10.0  # times the mean number of boxes of the low dimensions


LOW_DIMENSIONS = 5


UNDER_5, UNDER_10, UNDER_2 = 5.0, 10.0, 2.0  # seconds, as printed


TOLERANCE_UNDER_2 = 0.01  # the tolerance at which the paper prints it


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
        own = frame[frame["bound"] == bound]
        found += _by_dimension(own[own["eps"] == epsilon], bound)
        found += _by_tolerance(own, bound)
    return found


def _clipped(frame: pd.DataFrame, gamma: float) -> str:
    share_left = 100 * float(frame.loc[frame["gamma"] == gamma, "box_share"].mean())
    return f"2 gamma; clipped to the pixel range, {share_left:.1f} % on average"


def _by_dimension(frame: pd.DataFrame, bound: str) -> list[Statistic]:
    """Return how seconds and boxes of a bound grow with the dimension."""
    largest, smallest, d = frame["gamma"].max(), frame["gamma"].min(), int(frame["d"].max())
    wide = frame[frame["gamma"] == largest]
    axes = f"bound={bound},gamma={largest}"
    seconds = wide.groupby("d")["search_seconds"].mean()
    low, top = wide[wide["d"] <= LOW_DIMENSIONS], frame[(frame["gamma"] == smallest) & (frame["d"] == d)]
    boxes = frame[frame["d"] == d].groupby("gamma")["boxes"].mean()
    ratio = float(boxes.iloc[0] / boxes.iloc[-1]) if _closed(frame[frame["d"] == d]) else float("nan")
    found = [
        Statistic(f"max_mean_seconds[{axes}]", float(seconds.max()), n=len(seconds), note=_unclosed(wide)),
        _mean_seconds(f"largest_mean_seconds[{axes},d=1-{LOW_DIMENSIONS}]", low, UNDER_5),
        _mean_seconds(f"mean_seconds[bound={bound},gamma={smallest},d={d}]", top, UNDER_10),
        _explosion(wide, bound),
        _exponential(wide, axes),
    ]
    if len(boxes) > 1:
        found.append(Statistic(f"boxes_ratio[bound={bound},d={d}]", ratio, note=_unclosed(frame)))
    return found


def _closed(frame: pd.DataFrame) -> bool:
    return bool(frame["closed"].all())


def _unclosed(frame: pd.DataFrame) -> str:
    count = int((~frame["closed"].astype(bool)).sum())
    if not count:
        return "all searches closed"
    return f"{count} of {len(frame)} searches ended unclosed, their boxes and seconds are lower bounds"


def _mean_seconds(name: str, frame: pd.DataFrame, limit: float) -> Statistic:
    """Return the largest mean over the dimensions; NaN if it is a lower bound that does not exceed the limit."""
    means = frame.groupby("d")["search_seconds"].mean()
    largest = float(means.max()) if len(means) else float("nan")
    decided = _closed(frame) or largest > limit
    return Statistic(
        name, largest if decided else float("nan"), n=len(frame), unit="s", note=_unclosed(frame)
    )


def _exponential(wide: pd.DataFrame, axes: str) -> Statistic:
    """Return the share of points whose boxes grow, and fit exp(b d) better than d^b (least squares of log boxes).

    Two dimensions fit both exactly, so that fewer than three say nothing.
    """
    better = []
    for _, own in wide.groupby("point") if _closed(wide) and wide["d"].nunique() > 2 else ():
        logs = np.log(own["boxes"].clip(lower=1).to_numpy(float))
        slope, exponential = _line(own["d"].to_numpy(float), logs)
        better.append(slope > 0.0 and exponential < _line(np.log(own["d"].to_numpy(float)), logs)[1])
    return of_points(f"share_points_exponential_in_dimension[{axes}]", better, _unclosed(wide))


def _line(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Return the least-squares slope of y against x, and the sum of squared residuals."""
    slope, intercept = np.polyfit(x, y, 1)
    return float(slope), float(np.sum((y - slope * x - intercept) ** 2))


def _explosion(wide: pd.DataFrame, bound: str) -> Statistic:
    """Return the last dimension before the mean number of boxes first exceeds ten times that of the low ones."""
    name, note = f"last_dimension_before_explosion[bound={bound}]", _unclosed(wide)
    boxes = wide.groupby("d")["boxes"].mean()
    base = float(boxes[boxes.index <= LOW_DIMENSIONS].mean())
    beyond = [int(d) for d in boxes.index if boxes[d] > EXPLOSION * base]
    if not beyond:
        return Statistic(name, float("nan"), n=len(boxes), note=f"no dimension has that many boxes; {note}")
    before = [int(d) for d in boxes.index if d < beyond[0]]
    return Statistic(name, float(max(before, default=0)), n=len(boxes), note=note)


def _by_tolerance(own: pd.DataFrame, bound: str) -> list[Statistic]:
    """Return the mean at the tolerance that the paper names, and how the boxes rise as the tolerance falls."""
    cells = own.groupby("d")["eps"].nunique()
    d = int(cells.index[int(cells.argmax())])
    largest = own["gamma"].max()
    named = own[(own["gamma"] == largest) & (own["d"] == d) & (own["eps"] == TOLERANCE_UNDER_2)]
    rises, part = [], own[own["d"] == d]
    for _, curve in part.groupby("gamma") if _closed(part) and cells[d] > 2 else ():
        boxes = curve.groupby("eps")["boxes"].mean()
        eps, logs = boxes.index.to_numpy(float), np.log(boxes.to_numpy(float))
        slope, exponential = _line(eps, logs)
        straight = np.polyval(np.polyfit(eps, boxes.to_numpy(float), 1), eps)
        residual = float(np.sum((logs - np.log(np.maximum(straight, 1.0))) ** 2))
        rises.append(slope < 0.0 and exponential < residual)
    return [
        _mean_seconds(
            f"mean_seconds[bound={bound},gamma={largest},d={d},eps={TOLERANCE_UNDER_2:g}]", named, UNDER_2
        ),
        claim(f"share_exponential_in_tolerance[bound={bound},d={d}]", rises, _unclosed(part)),
    ]
