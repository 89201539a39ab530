"""What Li et al. 2022 state about learning curves and safety, as statistics over the repetitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.experiments.active_learning.shared.curves import VALUE, Curve, Curves
from gpsuite.reporting.claims import claim
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.seeds import stream
from gpsuite.statistics.estimates import Estimate, finite, mean
from gpsuite.statistics.resampling import (
    BOOTSTRAP_INTERVAL,
    FEWEST_RUNS,
    percentile_interval,
    resampled_means,
)
from gpsuite.statistics.significance import LEVEL, least_wilcoxon_p, wilcoxon_p

AL, RS, IND, NOSAFE = "al_mogp", "rs_mogp", "al_indgps", "al_mogp_nosafe"


SAFE_METHODS = (AL, RS, IND)


COMPETITORS = (RS, IND)


DEMANDED = 0.95  # share of safe queries, and precision of the safety model


BOOTSTRAP = 2000


NOT_REACHED = "not reached"


def first_below(n_sum: IntArray, mean: FloatArray, threshold: float) -> float:
    """Return the first N_sum at which a mean curve is at most the threshold; infinite if it never is."""
    reached = np.flatnonzero(mean <= threshold)
    return float(n_sum[reached[0]]) if len(reached) else float("inf")


def run_means(curve: Curve, name: str) -> FloatArray:
    """Return mean curves over runs drawn with replacement [BOOTSTRAP, T].

    Curves of the same number of runs take the same draws, so that paired methods stay paired.
    """
    return resampled_means(curve.lines, BOOTSTRAP, stream(0, "bootstrap", name))


def wilcoxon_claim(
    name: str, pairs: Sequence[tuple[FloatArray, FloatArray]], level: float, *others: bool, note: str = ""
) -> Statistic:
    """Return the share of pairs whose first values are smaller (Wilcoxon), and of other cells, that hold.

    NaN with a note if there are too few repetitions for any data to reach the level.
    """
    fewest = min(len(first) for first, _ in pairs)
    if least_wilcoxon_p(fewest) >= level:
        few = f"{fewest} repetitions cannot give p < {level:g} in a paired Wilcoxon test"
        return Statistic(name, float("nan"), n=0, note="; ".join(part for part in (few, note) if part))
    return claim(name, [*(wilcoxon_p(first, second) < level for first, second in pairs), *others], note)


def safety_statistics(curves: Curves) -> list[Statistic]:
    """Return the mean share of safe queries in percent, by measured z, and by the true h where it is known."""
    found = []
    for method in curves.methods:
        by_z = 100.0 * curves.per_run(method, "safe_noisy")
        found.append(Statistic.of(statistic_name("safe_query_percent", method=method), mean(by_z)))
        if curves.has(method, "safe_true"):
            by_h = 100.0 * curves.per_run(method, "safe_true")
            found.append(Statistic.of(statistic_name("truly_safe_query_percent", method=method), mean(by_h)))
    return found


def error_statistics(curves: Curves, points: Sequence[int]) -> list[Statistic]:
    """Return the mean RMSE at the named N_sum and at the last one, and the smallest mean on the way."""
    found = []
    for method in curves.methods:
        curve = curves.curve(method, "rmse")
        for n_sum in sorted({*points, curves.final(method)} & set(curve.n_sum.tolist())):
            name = statistic_name("rmse", method=method, n_sum=n_sum)
            found.append(Statistic.of(name, mean(finite(curve.at(n_sum)))))
        cells = [mean(finite(column)) for column in curve.lines.T]
        found.append(extreme(statistic_name("min_rmse", method=method), cells, min))
    return found


def extreme(name: str, cells: Sequence[Estimate], pick: Callable[..., Estimate], note: str = "") -> Statistic:
    """Return the smallest or largest of some means, with its own interval, which pays nothing for the choice.

    Args:
        name: of the statistic.
        cells: the means; those that could not be computed do not count, unless none could.
        pick: min or max.
        note: what a reader should know beside how many there were.
    """
    known = [cell for cell in cells if not math.isnan(cell.value)] or [Estimate(math.nan)]
    chosen = pick(known, key=lambda cell: cell.value)
    counted = f"of {len(known)} means, with the interval of that one" if len(known) > 1 else ""
    return Statistic.of(name, chosen, note="; ".join(part for part in (counted, note) if part))


def threshold_statistics(curves: Curves, threshold: float) -> list[Statistic]:
    """Return the points needed for a mean RMSE at most the threshold, with bootstrap intervals."""
    found = []
    for method in curves.methods:
        curve = curves.curve(method, "rmse")
        axes: dict[str, str | float] = {"method": method, "threshold": threshold}
        reached = first_below(curve.n_sum, curve.mean, threshold)
        low, high = threshold_interval(curve, threshold)
        note = "" if np.isfinite(reached) else f"{NOT_REACHED} up to {curve.n_sum[-1]} points"
        name = "" if np.isnan(low) else BOOTSTRAP_INTERVAL
        points = Estimate(reached, n=len(curve.lines), low=low, high=high, interval=name)
        found.append(Statistic.of(statistic_name("points_to_rmse", **axes), points, "points", note))
    return found


def threshold_interval(curve: Curve, threshold: float) -> tuple[float, float]:
    """Return the bootstrap interval of the points to a threshold; infinite where runs do not reach it.

    NaN for fewer than `FEWEST_RUNS`, of which it holds the mean too seldom: of five normal values in 84 % of cases.
    """
    if len(curve.lines) < FEWEST_RUNS:
        return math.nan, math.nan
    means = run_means(curve, "points_to_rmse")
    return percentile_interval([first_below(curve.n_sum, each, threshold) for each in means])


def precision_statistics(curves: Curves, points: Sequence[int]) -> list[Statistic]:
    """Return the safety model's mean precision by measured z at each N_sum, and the claims about all of them."""
    found, cells = [], []
    for method in (name for name in SAFE_METHODS if curves.has(name, "precision_noisy")):
        curve = curves.curve(method, "precision_noisy")
        for n_sum in (n for n in points if n in curve.n_sum):
            name = statistic_name("safety_precision", method=method, n_sum=n_sum)
            cells.append(mean(finite(curve.at(n_sum))))
            found.append(Statistic.of(name, cells[-1]))
    if not cells:
        return []
    means = [cell.value for cell in cells]
    return [
        *found,
        claim("share_safety_precision_above_0_95", [value >= DEMANDED for value in means]),
        claim("share_safety_precision_surely_above_0_95", [cell.low >= DEMANDED for cell in cells]),
        extreme("min_safety_precision", cells, min),
    ]


def best_statistics(curves: Curves) -> list[Statistic]:
    """Return whether AL_MOGP ends with the smallest error while safe, and with the largest log density."""
    if AL not in curves.methods:
        return []
    last = curves.final(AL)
    rivals = [name for name in COMPETITORS if name in curves.methods and curves.final(name) == last]
    if len(rivals) < len(COMPETITORS):
        return []
    compared = (AL, *rivals)
    errors = curves.paired({name: curves.curve(name, "rmse").at(last) for name in compared})
    pairs = [errors.pair(VALUE, AL, name) for name in rivals]
    safe = float(curves.per_run(AL, "safe_noisy").mean()) >= DEMANDED
    densities = {name: curves.curve(name, "log_density").at(last) for name in compared}
    paired = curves.paired({name: -values for name, values in densities.items()})
    higher = [paired.pair(VALUE, AL, name) for name in rivals]
    shown = ", ".join(f"{name} {np.nanmean(values):.3f}" for name, values in densities.items())
    return [
        wilcoxon_claim("share_smallest_rmse_and_safe", pairs, LEVEL, safe),
        wilcoxon_claim(
            "share_highest_log_density", higher, LEVEL, note=f"mean log density at {last}: {shown}"
        ),
    ]


def area_statistics(curves: Curves, level: float) -> list[Statistic]:
    """Return whether the area under AL_MOGP's RMSE curve is below each competitor's (paired Wilcoxon)."""
    rivals = [name for name in COMPETITORS if name in curves.methods]
    if AL not in curves.methods or not rivals:
        return []
    areas = curves.paired({name: whole_area(curves, name) for name in (AL, *rivals)})
    pairs = [areas.pair(VALUE, AL, name) for name in rivals]
    return [wilcoxon_claim("share_smallest_rmse_area", pairs, level)]


def whole_area(curves: Curves, method: str) -> FloatArray:
    """Return each repetition's mean RMSE over the whole curve [R]."""
    curve = curves.curve(method, "rmse")
    return curve.area(int(curve.n_sum[0]), int(curve.n_sum[-1]))
