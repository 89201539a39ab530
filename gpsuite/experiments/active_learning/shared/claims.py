"""What Li et al. 2022 state about learning curves and safety, as statistics over the repetitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpsuite.experiments.active_learning.shared.curves import Curve, Curves
from gpsuite.experiments.active_learning.shared.repetition_data import FloatArray, IntArray
from gpsuite.experiments.base import finite_or_none
from gpsuite.experiments.statistics import LEVEL, mean_statistic, share
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.seeds import stream

AL, RS, IND, NOSAFE = "al_mogp", "rs_mogp", "al_indgps", "al_mogp_nosafe"


SAFE_METHODS = (AL, RS, IND)


COMPETITORS = (RS, IND)


DEMANDED = 0.95  # share of safe queries, and precision of the safety model


BOOTSTRAP = 2000


INTERVAL = "95 % bootstrap interval over the runs"


NOT_REACHED = "not reached"


def first_below(n_sum: IntArray, mean: FloatArray, threshold: float) -> float:
    """Return the first N_sum at which a mean curve is at most the threshold; infinite if it never is."""
    reached = np.flatnonzero(mean <= threshold)
    return float(n_sum[reached[0]]) if len(reached) else float("inf")


def resampled_means(curve: Curve, name: str) -> FloatArray:
    """Return mean curves over runs drawn with replacement [BOOTSTRAP, T].

    Curves of the same number of runs take the same draws, so that paired methods stay paired.
    """
    runs = len(curve.lines)
    drawn = stream(0, "bootstrap", name).integers(runs, size=(BOOTSTRAP, runs))
    counts = np.stack([(drawn == run).sum(axis=1) for run in range(runs)], axis=1)
    means: FloatArray = counts @ curve.lines / runs
    return means


def wilcoxon_p(smaller: FloatArray, larger: FloatArray) -> float:
    """Return the one-sided p value of Wilcoxon's signed-rank test for `smaller` < `larger`, paired; 1 without pairs."""
    from scipy.stats import wilcoxon

    both = np.isfinite(smaller) & np.isfinite(larger)
    difference = (smaller - larger)[both]
    if not np.any(difference):
        return 1.0
    return float(wilcoxon(difference, alternative="less").pvalue)


def paired(
    curves: Curves, first: str, second: str, values: Mapping[str, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Return two methods' values [R] in the repetitions both have."""
    left, right = curves.paired(first, second)
    return values[first][left], values[second][right]


def paired_share(
    name: str, pairs: Sequence[tuple[FloatArray, FloatArray]], level: float, *others: bool
) -> Statistic:
    """Return the share of pairs whose first values are smaller (Wilcoxon), and of other cells, that hold.

    NaN with a note if there are too few repetitions for any data to reach the level: n give p >= 2^-n.
    """
    fewest = min(len(first) for first, _ in pairs)
    if 0.5**fewest >= level:
        note = f"{fewest} repetitions cannot give p < {level:g} in a paired Wilcoxon test"
        return Statistic(name, float("nan"), n=0, note=note)
    return share(name, [*(wilcoxon_p(first, second) < level for first, second in pairs), *others])


def safety_statistics(curves: Curves) -> list[Statistic]:
    """Return the mean share of safe queries in percent, by measured z, and by the true h where it is known."""
    found = []
    for method in curves.methods:
        by_z = 100.0 * curves.per_run(method, "safe_noisy")
        found.append(mean_statistic(statistic_name("safe_query_percent", method=method), by_z))
        if curves.has(method, "safe_true"):
            by_h = 100.0 * curves.per_run(method, "safe_true")
            found.append(mean_statistic(statistic_name("truly_safe_query_percent", method=method), by_h))
    return found


def safe_query_limit(curves: Curves, method: str, end: str) -> list[Statistic]:
    """Return the lower or upper 95 % limit of the mean share of safe queries, in percent."""
    if method not in curves.methods:
        return []
    whole = mean_statistic("", 100.0 * curves.per_run(method, "safe_noisy"))
    limit = whole.interval_low if end == "lower" else whole.interval_high
    name = statistic_name(f"safe_query_percent_{end}_limit", method=method)
    return [Statistic(name, float("nan") if limit is None else limit, n=whole.n)]


def error_statistics(curves: Curves, points: Sequence[int]) -> list[Statistic]:
    """Return the mean RMSE at the named N_sum and at the last one, and the smallest mean on the way."""
    found = []
    for method in curves.methods:
        curve = curves.curve(method, "rmse")
        for n_sum in sorted({*points, curves.final(method)} & set(curve.n_sum.tolist())):
            name = statistic_name("rmse", method=method, n_sum=n_sum)
            found.append(mean_statistic(name, _finite(curve.at(n_sum))))
        name = statistic_name("min_rmse", method=method)
        found.append(Statistic(name, float(np.nanmin(curve.mean)), n=len(curve.lines)))
    return found


def threshold_statistics(curves: Curves, threshold: float) -> list[Statistic]:
    """Return points and iterations needed for a mean RMSE at most the threshold, with bootstrap intervals."""
    found = []
    for method in curves.methods:
        curve = curves.curve(method, "rmse")
        axes: dict[str, str | float] = {"method": method, "threshold": threshold}
        reached = first_below(curve.n_sum, curve.mean, threshold)
        low, high = threshold_interval(curve, threshold)
        note = "" if np.isfinite(reached) else f"{NOT_REACHED} up to {curve.n_sum[-1]} points"
        n, start, step = len(curve.lines), int(curve.n_sum[0]), _step(curve)
        points = Statistic(
            statistic_name("points_to_rmse", **axes), reached, n=n, interval_low=finite_or_none(low),
            interval_high=finite_or_none(high), interval=INTERVAL, unit="points", note=note,
        )  # fmt: skip
        iterations = (reached - start) / step + 1.0
        name = statistic_name("iteration_to_rmse", **axes)
        found += [points, Statistic(name, iterations, n=n, unit="iteration (first = 1)", note=note)]
    return found


def threshold_interval(curve: Curve, threshold: float) -> tuple[float, float]:
    """Return the bootstrap interval of the points to a threshold; infinite where runs do not reach it."""
    reached = [first_below(curve.n_sum, mean, threshold) for mean in resampled_means(curve, "points_to_rmse")]
    ordered = np.sort(reached)
    tail = int(np.floor(0.025 * BOOTSTRAP))
    return float(ordered[tail]), float(ordered[-1 - tail])


def precision_statistics(curves: Curves, points: Sequence[int]) -> list[Statistic]:
    """Return the safety model's mean precision by measured z at each N_sum, and the claims about all of them."""
    found, cells = [], []
    for method in (name for name in SAFE_METHODS if curves.has(name, "precision_noisy")):
        curve = curves.curve(method, "precision_noisy")
        for n_sum in (n for n in points if n in curve.n_sum):
            name = statistic_name("safety_precision", method=method, n_sum=n_sum)
            found.append(mean_statistic(name, _finite(curve.at(n_sum))))
            cells.append(found[-1])
    if not cells:
        return []
    means = [cell.value for cell in cells]
    sure = [cell.interval_low is not None and cell.interval_low >= DEMANDED for cell in cells]
    return [
        *found,
        share("share_safety_precision_above_0_95", [value >= DEMANDED for value in means]),
        share("share_safety_precision_surely_above_0_95", sure),
        Statistic("min_safety_precision", float(np.nanmin(means)), n=len(means)),
    ]


def best_statistics(curves: Curves) -> list[Statistic]:
    """Return whether AL_MOGP ends with the smallest error while safe, and with the largest log density."""
    if AL not in curves.methods:
        return []
    last = curves.final(AL)
    rivals = [name for name in COMPETITORS if name in curves.methods and curves.final(name) == last]
    if len(rivals) < len(COMPETITORS):
        return []
    errors = {name: curves.curve(name, "rmse").at(last) for name in (AL, *rivals)}
    pairs = [paired(curves, AL, name, errors) for name in rivals]
    safe = float(curves.per_run(AL, "safe_noisy").mean()) >= DEMANDED
    density = {name: float(np.nanmean(curves.curve(name, "log_density").at(last))) for name in errors}
    higher = share("share_highest_log_density", [density[AL] > density[name] for name in rivals])
    shown = ", ".join(f"{name} {value:.3f}" for name, value in density.items())
    note = f"{higher.note}; mean log density at {last}: {shown}"
    return [
        paired_share("share_smallest_rmse_and_safe", pairs, LEVEL, safe),
        Statistic(higher.name, higher.value, n=higher.n, note=note),
    ]


def area_statistics(curves: Curves, level: float) -> list[Statistic]:
    """Return whether the area under AL_MOGP's RMSE curve is below each competitor's (paired Wilcoxon)."""
    rivals = [name for name in COMPETITORS if name in curves.methods]
    if AL not in curves.methods or not rivals:
        return []
    areas = {name: whole_area(curves, name) for name in (AL, *rivals)}
    pairs = [paired(curves, AL, name, areas) for name in rivals]
    return [paired_share("share_smallest_rmse_area", pairs, level)]


def whole_area(curves: Curves, method: str) -> FloatArray:
    """Return each repetition's mean RMSE over the whole curve [R]."""
    curve = curves.curve(method, "rmse")
    return curve.area(int(curve.n_sum[0]), int(curve.n_sum[-1]))


def _finite(values: FloatArray) -> FloatArray:
    found: FloatArray = values[np.isfinite(values)]
    return found


def _step(curve: Curve) -> int:
    """Return how many values an iteration adds."""
    return int(curve.n_sum[1] - curve.n_sum[0]) if len(curve.n_sum) > 1 else 1
