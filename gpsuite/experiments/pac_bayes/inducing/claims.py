"""What Reeb et al. (2018) say in words about Fig. 3 and Table 2, as statistics that decide it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.experiments.pac_bayes.shared.splits import paired_p, positive_p, split_mean
from gpsuite.reporting.claims import claim
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.statistics.estimates import Estimate, finite, slopes
from gpsuite.statistics.paired import Paired
from gpsuite.statistics.significance import LEVEL

if TYPE_CHECKING:
    import pandas as pd


KL, SQRT, VFE, FITC = "kl_pac_sgp", "sqrt_pac_sgp", "vfe", "fitc"


BASELINES = (VFE, FITC)


def inducing_claims(frame: pd.DataFrame, kernel: str) -> list[Statistic]:
    """Return a statistic per claim, as far as the methods present decide it.

    Args:
        frame: one row per method, kernel, M and split.
        kernel: the experiment's kernel; the other one enters the comparison of the two only.
    """
    grid = _against_m(frame[frame["kernel"] == kernel])
    methods = set(grid.levels("method"))
    found: list[Statistic] = []
    if KL in methods:
        found += _of_pac_sgp(grid)
        found += _kernels(frame)
    if {KL, *BASELINES} <= methods:
        found += [*_bound_factors(grid), *_against_baselines(grid)]
        found.append(_bound_slopes(grid))
    if {VFE, FITC} <= methods:
        found += [_vfe_better(grid), _baselines_deteriorate(grid)]
    if {KL, SQRT} <= methods:
        found.append(_kl_better_than_sqrt(grid))
    found += _all_methods(grid, sorted(methods & {KL, *BASELINES}))
    return found


def _against_m(frame: pd.DataFrame) -> Paired:
    """Return the metrics by method and M over the splits; `frame` has one row of each, all with the same kernel."""
    return Paired(frame, ["split"], ["method", "inducing"])


def _of_pac_sgp(grid: Paired) -> Iterator[Statistic]:
    bounds, bayes = grid.mean("bound_kl", KL), grid.mean("bayes_risk_test", KL)
    of_kl = {"method": KL}
    yield Statistic(statistic_name("max_bound_kl", **of_kl), float(bounds.max()), n=len(bounds))
    yield claim("share_bayes_certified", (2 * bounds < 1) & (2 * bounds >= bayes))
    penalty = grid("log_theta_per_point", KL)
    yield Statistic("ln_theta_over_n", float(np.nanmax(penalty)), n=int(np.isfinite(penalty).sum()))
    if len(grid.levels("inducing")) < 2:
        return
    slope, complete = split_mean(100 * _slopes(grid, "bound_kl", KL)), grid.complete("bound_kl", KL)
    yield Statistic.of(statistic_name("bound_slope_per_100", **of_kl), slope)
    yield Statistic.of(statistic_name("bound_drop", **of_kl), split_mean(complete[:, 0] - complete[:, -1]))
    yield claim("share_bound_falls_with_m", np.diff(bounds) < 0)


def _kernels(frame: pd.DataFrame) -> Iterator[Statistic]:
    """Yield the share of cells in which one lengthscale per input is significantly better than a single one."""
    both = frame[frame["method"] == KL]
    if set(both["kernel"]) != {"se", "se_ard"}:
        return
    grid = Paired(both, ["split"], ["kernel", "inducing"])
    pairs = [
        grid.pair(metric, ("se_ard", m), ("se", m))
        for metric, m in product(("bound_kl", "mse_test"), grid.levels("inducing"))
    ]
    yield claim("share_ard_better", [paired_p(ard, single) < LEVEL for ard, single in pairs if len(ard)])


def _bound_factors(grid: Paired) -> Iterator[Statistic]:
    """Yield how many times larger the better baseline's bound is than kl-PAC-SGP's."""
    better = np.minimum(grid("bound_kl", VFE), grid("bound_kl", FITC))
    per_split = better / grid("bound_kl", KL)
    ratios = np.minimum(grid.mean("bound_kl", VFE), grid.mean("bound_kl", FITC)) / grid.mean("bound_kl", KL)
    numbers = grid.levels("inducing")
    note = ", ".join(f"M={m}: {ratio:.2f}" for m, ratio in zip(numbers, ratios, strict=True))
    mean = _moved(float(ratios.mean()), per_split.mean(axis=1))
    yield Statistic.of("mean_bound_factor", mean, note=note)
    for name, of in (("min", np.argmin(ratios)), ("max", np.argmax(ratios))):
        yield Statistic.of(f"{name}_bound_factor", _moved(float(ratios[of]), per_split[:, of]), note=note)


def _against_baselines(grid: Paired) -> Iterator[Statistic]:
    columns = range(len(grid.levels("inducing")))
    cells = list(product(columns, BASELINES))
    for risk in ("train", "test"):
        gaps = {
            name: grid.mean("bound_kl", name) - grid.mean(f"gibbs_risk_{risk}", name)
            for name in (KL, *BASELINES)
        }
        factors = [float(gaps[name][k] / gaps[KL][k]) for k, name in cells]
        yield claim(
            statistic_name("share_gap_factor_above_3", risk=risk),
            [f > 3 for f in factors],
            f"factors {min(factors):.2f} to {max(factors):.2f}",
        )
    noise, of_vfe = grid.mean("noise_variance", KL), grid.mean("noise_variance", VFE)
    per_split = grid("noise_variance", KL) / grid("noise_variance", VFE)
    ratio = _moved(float((noise / of_vfe).mean()), per_split.mean(axis=1))
    yield Statistic.of("noise_variance_ratio_to_vfe", ratio)
    yield claim("share_noise_variance_above_vfe", noise > of_vfe)
    lowest = [
        paired_p(*grid.pair("bound_kl", (KL, m), (name, m))) < LEVEL
        for m, name in product(grid.levels("inducing"), BASELINES)
    ]
    yield claim("share_bound_lowest", lowest)
    errors = ("gibbs_risk_test", "mse_test")
    excess = {
        (k, name): [grid.mean(e, KL)[k] / grid.mean(e, name)[k] - 1 for e in errors] for k, name in cells
    }
    largest = max(max(values) for values in excess.values())
    yield claim(
        "share_test_errors_above_baselines",
        [min(values) > 0 for values in excess.values()],
        f"largest relative difference {100 * largest:.0f} %",
    )


def _bound_slopes(grid: Paired) -> Statistic:
    """Return the share of methods whose bound moves with M as claimed: PAC-SGP's falls, the others' do not."""
    if len(grid.levels("inducing")) < 2:
        return claim("share_bound_slopes_as_claimed", [])
    steepness = {name: float(_slopes(grid, "bound_kl", name).mean()) for name in (KL, *BASELINES)}
    note = ", ".join(f"{name}: {100 * slope:+.4f} per 100" for name, slope in steepness.items())
    holds = [steepness[KL] < 0, *(steepness[name] >= 0 for name in BASELINES)]
    return claim("share_bound_slopes_as_claimed", holds, note)


def _vfe_better(grid: Paired) -> Statistic:
    lower = ("bound_kl", "mse_test", "gibbs_risk_test")
    holds = np.all([grid.mean(metric, VFE) < grid.mean(metric, FITC) for metric in lower], axis=0)
    larger = grid.mean("kl_over_n", VFE) > grid.mean("kl_over_n", FITC)
    return claim("share_vfe_better_than_fitc", holds & larger)


def _baselines_deteriorate(grid: Paired) -> Statistic:
    """Return the share of (baseline, KL/n or bound) whose slope against M is significantly positive."""
    if len(grid.levels("inducing")) < 2:
        return claim("share_complexity_and_bound_grow", [])
    grows = [
        split_mean(_slopes(grid, metric, name)).above(0.0)
        for name, metric in product(BASELINES, ("kl_over_n", "bound_kl"))
    ]
    return claim("share_complexity_and_bound_grow", grows)


def _kl_better_than_sqrt(grid: Paired) -> Statistic:
    pairs = [
        grid.pair(metric, (KL, m), (SQRT, m))
        for metric, m in product(("bound_kl", "gibbs_risk_test", "mse_test"), grid.levels("inducing"))
    ]
    return claim("share_kl_better_than_sqrt", [(kl - sqrt).mean() <= 0 for kl, sqrt in pairs if len(kl)])


def _all_methods(grid: Paired, methods: list[str]) -> Iterator[Statistic]:
    if not methods:
        return
    gaps = [grid.mean("gibbs_risk_test", name) - grid.mean("gibbs_risk_train", name) for name in methods]
    yield Statistic("max_abs_risk_gap", float(np.abs(gaps).max()), n=sum(len(gap) for gap in gaps))
    falls = []
    for name in methods:
        mse = grid.complete("mse_test", name)
        if mse.shape[0] < 2 or mse.shape[1] < 3:
            return  # a trend needs two splits and three M
        falls.append(positive_p(-_slopes(grid, "mse_test", name)) < LEVEL)
    yield claim("share_mse_falls_with_m", falls)


def _slopes(grid: Paired, metric: str, method: str) -> FloatArray:
    """Return each complete split's least-squares slope of the metric against M."""
    return slopes(grid.complete(metric, method), grid.levels("inducing"))


def _moved(ratio: float, per_split: FloatArray) -> Estimate:
    """Return a ratio of means with the standard error and t interval of its counterpart in the single splits."""
    return split_mean(finite(per_split)).moved_to(ratio)
