"""What Reeb et al. (2018) say in words about Fig. 3 and Table 2, as statistics that decide it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.pac_bayes.shared.paired import Array, paired_p, positive_p, split_statistic
from gpsuite.experiments.statistics import LEVEL, share
from gpsuite.reporting.comparison import Statistic, statistic_name

if TYPE_CHECKING:
    import pandas as pd


KL, SQRT, VFE, FITC = "kl_pac_sgp", "sqrt_pac_sgp", "vfe", "fitc"


BASELINES = (VFE, FITC)


class Grid:
    """Metrics of the methods against M.

    Args:
        frame: one row per method, M and split, all with the same kernel.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self.numbers = sorted(int(m) for m in frame["inducing"].unique())
        self._wide = frame.pivot(index="split", columns=["method", "inducing"])
        self.methods = set(frame["method"])

    def __call__(self, metric: str, method: str) -> Array:
        """Return the metric [S, number of M]; a missing number is NaN."""
        columns = [(metric, method, m) for m in self.numbers]
        return np.asarray(self._wide.reindex(columns=columns), dtype=np.float64)

    def mean(self, metric: str, method: str) -> Array:
        """Return the mean for every M over the splits that have a number; NaN where none has."""
        values = self(metric, method)
        there = np.isfinite(values)
        count = np.where(there.any(axis=0), there.sum(axis=0), np.nan)
        return np.asarray(np.where(there, values, 0.0).sum(axis=0) / count)

    def pair(self, metric: str, first: str, second: str, column: int) -> tuple[Array, Array]:
        """Return the metric of two methods at one M over the splits where both are finite."""
        a, b = self(metric, first)[:, column], self(metric, second)[:, column]
        both = np.isfinite(a) & np.isfinite(b)
        return a[both], b[both]


def inducing_claims(frame: pd.DataFrame, kernel: str) -> list[Statistic]:
    """Return a statistic per claim, as far as the methods present decide it.

    Args:
        frame: one row per method, kernel, M and split.
        kernel: the experiment's kernel; the other one enters the comparison of the two only.
    """
    grid = Grid(frame[frame["kernel"] == kernel])
    found: list[Statistic] = []
    if KL in grid.methods:
        found += _of_pac_sgp(grid)
        found += _kernels(frame, kernel)
    if {KL, *BASELINES} <= grid.methods:
        found += [*_bound_factors(grid), *_against_baselines(grid)]
        found.append(_bound_slopes(grid))
    if {VFE, FITC} <= grid.methods:
        found += [_vfe_better(grid), _baselines_deteriorate(grid)]
    if {KL, SQRT} <= grid.methods:
        found.append(_kl_better_than_sqrt(grid))
    found += _all_methods(grid, sorted(grid.methods & {KL, *BASELINES}))
    return found


def _of_pac_sgp(grid: Grid) -> Iterator[Statistic]:
    bounds, bayes = grid.mean("bound_kl", KL), grid.mean("bayes_risk_test", KL)
    of_kl = {"method": KL}
    yield Statistic(statistic_name("max_bound_kl", **of_kl), float(bounds.max()), n=len(bounds))
    yield share("share_bayes_certified", list((2 * bounds < 1) & (2 * bounds >= bayes)))
    penalty = grid("log_theta_per_point", KL)
    yield Statistic("ln_theta_over_n", float(np.nanmax(penalty)), n=int(np.isfinite(penalty).sum()))
    if len(grid.numbers) < 2:
        return
    slope = split_statistic("bound_slope_per_100", 100 * _slopes(grid, "bound_kl", KL))
    drop = split_statistic("bound_drop", _complete(grid("bound_kl", KL)) @ _ends(len(grid.numbers)))
    yield _limit(statistic_name("bound_slope_per_100_upper_limit", **of_kl), slope, slope.interval_high)
    yield _limit(statistic_name("bound_drop_lower_limit", **of_kl), drop, drop.interval_low)
    yield share("share_bound_falls_with_m", [bool(step < 0) for step in np.diff(bounds)])


def _kernels(frame: pd.DataFrame, kernel: str) -> Iterator[Statistic]:
    """Yield the share of cells in which one lengthscale per input is significantly better than a single one."""
    both = frame[frame["method"] == KL]
    if set(both["kernel"]) != {"se", "se_ard"}:
        return
    as_methods = both.assign(method=both["kernel"])
    grid = Grid(as_methods)
    cells = [
        paired_p(*grid.pair(metric, "se_ard", "se", column)) < LEVEL
        for metric, column in product(("bound_kl", "mse_test"), range(len(grid.numbers)))
        if len(grid.pair(metric, "se_ard", "se", column)[0])
    ]
    yield share("share_ard_better", cells)


def _bound_factors(grid: Grid) -> Iterator[Statistic]:
    """Yield how many times larger the better baseline's bound is than kl-PAC-SGP's."""
    better = np.minimum(grid("bound_kl", VFE), grid("bound_kl", FITC))
    per_split = better / grid("bound_kl", KL)
    ratios = np.minimum(grid.mean("bound_kl", VFE), grid.mean("bound_kl", FITC)) / grid.mean("bound_kl", KL)
    note = ", ".join(f"M={m}: {ratio:.2f}" for m, ratio in zip(grid.numbers, ratios, strict=True))
    mean = Statistic("mean_bound_factor", float(ratios.mean()), n=len(ratios), note=note)
    yield _with_interval(mean, _complete(per_split).mean(axis=1))
    for name, value in (("min", ratios.min()), ("max", ratios.max())):
        yield Statistic(f"{name}_bound_factor", float(value), n=len(ratios), note=note)
    weakest = per_split[:, int(np.argmin(ratios))]
    interval = split_statistic("", weakest[np.isfinite(weakest)])
    yield _limit("min_bound_factor_lower_limit", interval, interval.interval_low)


def _against_baselines(grid: Grid) -> Iterator[Statistic]:
    columns = range(len(grid.numbers))
    cells = list(product(columns, BASELINES))
    for risk in ("train", "test"):
        gaps = {
            name: grid.mean("bound_kl", name) - grid.mean(f"gibbs_risk_{risk}", name)
            for name in (KL, *BASELINES)
        }
        factors = [float(gaps[name][k] / gaps[KL][k]) for k, name in cells]
        yield _noted(
            share(statistic_name("share_gap_factor_above_3", risk=risk), [f > 3 for f in factors]),
            f"factors {min(factors):.2f} to {max(factors):.2f}",
        )
    noise, of_vfe = grid.mean("noise_variance", KL), grid.mean("noise_variance", VFE)
    ratio = Statistic("noise_variance_ratio_to_vfe", float((noise / of_vfe).mean()), n=len(noise))
    per_split = grid("noise_variance", KL) / grid("noise_variance", VFE)
    yield _with_interval(ratio, _complete(per_split).mean(axis=1))
    yield share("share_noise_variance_above_vfe", list(noise > of_vfe))
    lowest = [paired_p(*grid.pair("bound_kl", KL, name, k)) < LEVEL for k, name in cells]
    yield share("share_bound_lowest", lowest)
    errors = ("gibbs_risk_test", "mse_test")
    excess = {
        (k, name): [grid.mean(e, KL)[k] / grid.mean(e, name)[k] - 1 for e in errors] for k, name in cells
    }
    largest = max(max(values) for values in excess.values())
    yield _noted(
        share("share_test_errors_above_baselines", [min(values) > 0 for values in excess.values()]),
        f"largest relative difference {100 * largest:.0f} %",
    )


def _bound_slopes(grid: Grid) -> Statistic:
    """Return the share of methods whose bound moves with M as claimed: PAC-SGP's falls, the others' do not."""
    if len(grid.numbers) < 2:
        return share("share_bound_slopes_as_claimed", [])
    slopes = {name: float(_slopes(grid, "bound_kl", name).mean()) for name in (KL, *BASELINES)}
    note = ", ".join(f"{name}: {100 * slope:+.4f} per 100" for name, slope in slopes.items())
    holds = [slopes[KL] < 0, *(slopes[name] >= 0 for name in BASELINES)]
    return _noted(share("share_bound_slopes_as_claimed", holds), note)


def _vfe_better(grid: Grid) -> Statistic:
    lower = ("bound_kl", "mse_test", "gibbs_risk_test")
    holds = np.all([grid.mean(metric, VFE) < grid.mean(metric, FITC) for metric in lower], axis=0)
    return share(
        "share_vfe_better_than_fitc",
        list(holds & (grid.mean("kl_over_n", VFE) > grid.mean("kl_over_n", FITC))),
    )


def _baselines_deteriorate(grid: Grid) -> Statistic:
    """Return the share of (baseline, KL/n or bound) whose slope against M is significantly positive."""
    if len(grid.numbers) < 2:
        return share("share_complexity_and_bound_grow", [])
    lows = [
        split_statistic("", _slopes(grid, metric, name)).interval_low
        for name, metric in product(BASELINES, ("kl_over_n", "bound_kl"))
    ]
    return share("share_complexity_and_bound_grow", [low is not None and low > 0 for low in lows])


def _kl_better_than_sqrt(grid: Grid) -> Statistic:
    cells = []
    for metric, column in product(("bound_kl", "gibbs_risk_test", "mse_test"), range(len(grid.numbers))):
        kl, sqrt = grid.pair(metric, KL, SQRT, column)
        if len(kl):
            cells.append(bool((kl - sqrt).mean() <= 0))
    return share("share_kl_better_than_sqrt", cells)


def _all_methods(grid: Grid, methods: list[str]) -> Iterator[Statistic]:
    if not methods:
        return
    gaps = [grid.mean("gibbs_risk_test", name) - grid.mean("gibbs_risk_train", name) for name in methods]
    yield Statistic("max_abs_risk_gap", float(np.abs(gaps).max()), n=sum(len(gap) for gap in gaps))
    falls = []
    for name in methods:
        mse = _complete(grid("mse_test", name))
        if mse.shape[0] < 2 or mse.shape[1] < 3:
            return  # a trend needs two splits and three M
        falls.append(positive_p(-_slopes(grid, "mse_test", name)) < LEVEL)
    yield share("share_mse_falls_with_m", falls)


def _complete(values: Array) -> Array:
    """Return the splits [S, number of M] without a missing number."""
    return np.asarray(values[np.isfinite(values).all(axis=1)])


def _slopes(grid: Grid, metric: str, method: str) -> Array:
    """Return each split's least-squares slope of the metric against M."""
    m = np.array(grid.numbers, dtype=np.float64)
    centred = m - m.mean()
    return np.asarray(_complete(grid(metric, method)) @ centred / (centred @ centred))


def _ends(count: int) -> Array:
    """Return the weights of first minus last M."""
    weights = np.zeros(count)
    weights[0], weights[-1] = 1.0, -1.0
    return weights


def _limit(name: str, interval: Statistic, limit: float | None) -> Statistic:
    """Return an end of an interval as a statistic of its own; NaN if there is no interval."""
    note = f"mean {interval.value:.4f}"
    return Statistic(name, float("nan") if limit is None else limit, n=interval.n, note=note)


def _with_interval(statistic: Statistic, per_split: Array) -> Statistic:
    """Return a ratio of means with the standard error and t interval of its counterpart in the single splits."""
    spread = split_statistic(statistic.name, per_split)
    reach = None if spread.interval_high is None else spread.interval_high - spread.value
    if reach is None:
        return statistic
    low, high = statistic.value - reach, statistic.value + reach
    return replace(
        statistic, standard_error=spread.standard_error, n=spread.n, interval_low=low, interval_high=high,
        interval=spread.interval,
    )  # fmt: skip


def _noted(statistic: Statistic, note: str) -> Statistic:
    return replace(statistic, note=f"{statistic.note}; {note}")
