"""Statements of Reeb et al. (2018, Sec. 4(c)) on pol, kin40k and sarcos together, as statistics that decide them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.experiments.pac_bayes.fits import paired_shown, positive_shown, split_mean
from gpsuite.reporting.comparison import Statistic, claim, statistic_name
from gpsuite.statistics.estimates import slopes
from gpsuite.statistics.paired import Paired

if TYPE_CHECKING:
    import pandas as pd

KL, VFE, FITC = "kl_pac_sgp", "vfe", "fitc"
BASELINES = (VFE, FITC)
SETS = ("pol", "kin40k", "sarcos")
NEEDED = {"pol", "kin40k"}  # an answer holds at least these: the full file of sarcos is not always to be had
DETERIORATING = ("pol", "sarcos")  # where the text says that the baselines' bounds grow with M
SLIGHTLY = 0.05  # in risk and in standardised MSE, as for Boston housing
NOISE_RATIO = (3.5, 28.5)  # "4-28" to its rounding
Cells = tuple[Sequence[bool | None], str]  # whether the claim holds in each, None if open, and a note


def against_m(frame: pd.DataFrame) -> Paired:
    """Return the metrics by method and M over the splits. `frame` has one row of each, all with the same kernel."""
    return Paired(frame, ["split"], ["method", "inducing"])


def slopes_in_m(grid: Paired, metric: str, method: str) -> FloatArray:
    """Return each complete split's least-squares slope of the metric against M."""
    return slopes(grid.complete(metric, method), grid.levels("inducing"))


def over_sets(name: str, datasets: list[str]) -> str:
    """Return only the name for the paper's sets, with or without sarcos, otherwise name and datasets."""
    return name if NEEDED <= set(datasets) <= set(SETS) else statistic_name(name, datasets="+".join(datasets))


def claims_over_sets(frame: pd.DataFrame) -> Iterator[Statistic]:
    """Yield a statistic per claim, over the datasets that hold kl-PAC-SGP, VFE and FITC.

    Args:
        frame: one row per dataset, M, method and split. Kl-PAC-SGP trained on the 0-1 band.
    """
    parts = {str(name): part for name, part in frame.groupby("dataset", sort=True)}
    grids = {name: against_m(part) for name, part in parts.items() if {KL, *BASELINES} <= set(part["method"])}
    if not grids:
        return
    names = list(grids)
    bounds = np.concatenate([grid.mean("bound_kl", KL) for grid in grids.values()])
    yield Statistic(over_sets("max_bound_kl", names), float(bounds.max()), n=len(bounds))
    gaps = np.concatenate([_risk_gaps(grid) for grid in grids.values()])
    yield Statistic(over_sets("max_abs_risk_gap", names), float(gaps.max()), n=len(gaps))
    for claimed, cells_of in _CLAIMS.items():
        found = {name: cells_of(grid) for name, grid in grids.items()}
        yield from _pooled(over_sets(claimed, names), found)
    growing = {name: _complexity_and_bound_grow(grids[name]) for name in DETERIORATING if name in grids}
    yield from _pooled(over_sets("share_complexity_and_bound_grow", names), growing)


def _pooled(name: str, found: dict[str, Cells]) -> Iterator[Statistic]:
    cells = [cell for held, _ in found.values() for cell in held]
    if cells:
        notes = [f"{dataset}: {sum(map(bool, held))} of {len(held)}{note}" for dataset, (held, note) in found.items()]
        yield claim(name, cells, "; ".join(notes))


def _risk_gaps(grid: Paired) -> FloatArray:
    gaps = [grid.mean("gibbs_risk_test", name) - grid.mean("gibbs_risk_train", name) for name in (KL, *BASELINES)]
    return np.asarray(np.abs(np.concatenate(gaps)))


def _best_guarantee(grid: Paired) -> Cells:
    pairs = [grid.pair("bound_kl", (KL, m), (name, m)) for m, name in product(grid.levels("inducing"), BASELINES)]
    return [paired_shown(*pair) for pair in pairs], ""


def _gap_factors(grid: Paired) -> Cells:
    """Yield whether the gap between bound and Gibbs risk is at most a third of each baseline's, in both parts."""
    factors = [
        (grid.mean("bound_kl", name) - grid.mean(risk, name)) / (grid.mean("bound_kl", KL) - grid.mean(risk, KL))
        for name, risk in product(BASELINES, ("gibbs_risk_train", "gibbs_risk_test"))
    ]
    every = np.concatenate(factors)
    return [bool(factor > 3) for factor in every], f", factors {every.min():.2f} to {every.max():.2f}"


def _noise_ratios(grid: Paired) -> Cells:
    ratios = grid.mean("noise_variance", KL) / grid.mean("noise_variance", VFE)
    low, high = NOISE_RATIO
    return [bool(low <= ratio <= high) for ratio in ratios], f", ratios {ratios.min():.1f} to {ratios.max():.1f}"


def _slightly_larger_errors(grid: Paired) -> Cells:
    metrics = ("gibbs_risk_test", "mse_test")
    excess = {
        (metric, name): grid.mean(metric, KL) - grid.mean(metric, name) for metric, name in product(metrics, BASELINES)
    }
    note = ", ".join(f"{metric} over {name} {d.min():+.3f} to {d.max():+.3f}" for (metric, name), d in excess.items())
    return [bool(0 < one < SLIGHTLY) for each in excess.values() for one in each], f", {note}"


def _vfe_better(grid: Paired) -> Cells:
    lower = ("bound_kl", "mse_test", "gibbs_risk_test")
    holds = np.all([grid.mean(metric, VFE) < grid.mean(metric, FITC) for metric in lower], axis=0)
    larger = grid.mean("kl_over_n", VFE) > grid.mean("kl_over_n", FITC)
    return [bool(each) for each in holds & larger], ""


def _bound_slopes(grid: Paired) -> Cells:
    """Yield whether PAC-SGP's bound falls with M and the others' do not."""
    if len(grid.levels("inducing")) < 2:
        return [], ""
    steepness = {name: float(slopes_in_m(grid, "bound_kl", name).mean()) for name in (KL, *BASELINES)}
    note = ", ".join(f"{name} {100 * slope:+.4f} per 100" for name, slope in steepness.items())
    return [steepness[KL] < 0, *(steepness[name] >= 0 for name in BASELINES)], f", {note}"


def _errors_fall(grid: Paired) -> Cells:
    falls = []
    for name in (KL, *BASELINES):
        mse = grid.complete("mse_test", name)
        if mse.shape[0] < 2 or mse.shape[1] < 3:
            return [], ""  # a trend needs two splits and three M
        falls.append(positive_shown(-slopes_in_m(grid, "mse_test", name)))
    return falls, ""


def _complexity_and_bound_grow(grid: Paired) -> Cells:
    if len(grid.levels("inducing")) < 2:
        return [], ""
    cells = product(BASELINES, ("kl_over_n", "bound_kl"))
    return [split_mean(slopes_in_m(grid, metric, name)).shows_above(0.0) for name, metric in cells], ""


_CLAIMS: dict[str, Callable[[Paired], Cells]] = {
    "share_best_guarantee": _best_guarantee,
    "share_gap_factor_above_3": _gap_factors,
    "share_noise_variance_4_to_28_times_vfe": _noise_ratios,
    "share_test_errors_slightly_above_baselines": _slightly_larger_errors,
    "share_vfe_better_than_fitc": _vfe_better,
    "share_bound_slopes_as_claimed": _bound_slopes,
    "share_mse_falls_with_m": _errors_fall,
}
