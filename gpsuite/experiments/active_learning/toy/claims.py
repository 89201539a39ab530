"""What Li et al. 2022 state about the toy problem, its priors and its inference, as statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.generators.sin_sigmoid import THRESHOLD
from gpsuite.experiments.active_learning.shared.claims import (
    AL,
    COMPETITORS,
    IND,
    NOSAFE,
    SAFE_METHODS,
    area_statistics,
    best_statistics,
    error_statistics,
    extreme,
    first_below,
    precision_statistics,
    safety_statistics,
    threshold_statistics,
    wilcoxon_claim,
)
from gpsuite.experiments.active_learning.shared.curves import VALUE, Curves, paired_curves
from gpsuite.experiments.active_learning.toy.parts import IDENTITY, Parts
from gpsuite.experiments.active_learning.toy.samplers import sampler_statistics
from gpsuite.experiments.active_learning.toy.settings import ToySettings
from gpsuite.reporting.claims import claim
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.statistics.estimates import finite, mean
from gpsuite.statistics.significance import LEVEL

STRICT = 0.01  # level of the claim about areas


LEAD_THRESHOLD = 0.4


ACCEPTANCE = (0.6, 0.85)


LITTLE_DATA = 22  # values; up to here full Bayes is held against point estimates


POINT_ESTIMATES = ("map", "ml")


def toy_statistics(parts: Parts, settings: ToySettings) -> list[Statistic]:
    """Return the statistics that conf/paper names."""
    reach = math.sqrt(-2.0 * math.log(THRESHOLD))
    found = [Statistic("true_safe_low", 0.1 - reach), Statistic("true_safe_high", 0.1 + reach)]
    if IDENTITY in parts.checks:
        error = parts.checks[IDENTITY].number("max_relative_error")
        found.append(Statistic("max_relative_error_identity_lmc", error, n=1))
    found += acceptance_statistics(parts.hmc)
    curves = parts.main
    if not curves.methods:
        return found
    last = max(curves.final(method) for method in curves.methods)
    points = settings.points(last)
    for threshold in settings.thresholds:
        found += threshold_statistics(curves, threshold)
    return [
        *found,
        *safety_statistics(curves),
        *error_statistics(curves, points),
        *precision_statistics(curves, points),
        *best_statistics(curves),
        *area_statistics(curves, STRICT),
        *lead_statistics(curves),
        *gain_statistics(curves),
        *state_statistics(curves, settings.initial + settings.state_iteration - 1),
        *prior_statistics(parts.priors),
        *sampler_statistics(parts.main, parts.hmc),
        *bayes_statistics(parts.inferences, [n for n in points if n <= LITTLE_DATA]),
    ]


def lead_statistics(curves: Curves) -> list[Statistic]:
    """Return by how many points AL_MOGP reaches the threshold before the better competitor."""
    if not {AL, *COMPETITORS} <= set(curves.methods):
        return []
    needed = {}
    for method in (AL, *COMPETITORS):
        curve = curves.curve(method, "rmse")
        reached = first_below(curve.n_sum, curve.mean, LEAD_THRESHOLD)
        needed[method] = reached if math.isfinite(reached) else float(curve.n_sum[-1])
    lead = min(needed[name] for name in COMPETITORS) - needed[AL]
    name = statistic_name("points_to_rmse_lead", threshold=LEAD_THRESHOLD)
    return [Statistic(name, lead, n=len(curves.runs[AL]), unit="points")]


def gain_statistics(curves: Curves) -> list[Statistic]:
    """Return the share of safe queries with minus without the constraint, in percentage points."""
    if not {AL, NOSAFE} <= set(curves.methods):
        return []
    shares = curves.paired({method: curves.per_run(method, "safe_noisy") for method in (AL, NOSAFE)})
    safe, unconstrained = shares.pair(VALUE, AL, NOSAFE)
    return [Statistic.of("safe_query_percent_gain", mean(100.0 * (safe - unconstrained)))]


def state_statistics(curves: Curves, n_sum: int) -> list[Statistic]:
    """Return whether queries maximise the entropy, and the share of grid points wrongly marked safe, at one model."""
    found = []
    active = [
        bool(record.metrics["query_at_maximum"])
        for method, record in curves.records()
        if method in (AL, IND) and "query_at_maximum" in record.metrics
    ]
    if active:
        found.append(claim("share_next_query_at_entropy_maximum", active))
    outside = []
    for method in (name for name in SAFE_METHODS if curves.has(name, "precision_true")):
        curve = curves.curve(method, "precision_true")
        if n_sum in curve.n_sum:
            outside.append(mean(1.0 - finite(curve.at(n_sum))))
    if outside:
        found.append(extreme("max_marked_safe_outside_share", outside, max))
    return found


def acceptance_statistics(hmc: Curves) -> list[Statistic]:
    """Return the acceptance rate of the paper's HMC, and whether each pipeline's lies in the stated range."""
    rates = {
        method: np.array(
            [float(np.mean(run.arrays["outputs_acceptance"])) for run in hmc.runs[method].values()]
        )
        for method in hmc.methods
        if hmc.has(method, "outputs_acceptance")
    }
    if not rates:
        return []
    low, high = ACCEPTANCE
    within = [low <= float(values.mean()) <= high for values in rates.values()]
    every = np.concatenate(list(rates.values()))
    return [Statistic.of("acceptance_rate", mean(every)), claim("share_acceptance_in_range", within)]


def prior_statistics(priors: Mapping[float, Curves]) -> list[Statistic]:
    """Return the largest relative change of AL_MOGP's final RMSE between two prior settings."""
    usable = {factor: curves for factor, curves in priors.items() if AL in curves.methods}
    if len(usable) < 2:
        return []
    changes, runs = [], 0
    for (_, first), (_, second) in combinations(usable.items(), 2):
        a, b = paired_values(first, second, "rmse", min(first.final(AL), second.final(AL)))
        changes.append(abs(float((a - b).mean())) / float(np.concatenate([a, b]).mean()))
        runs = len(a)
    shown = ", ".join(f"{factor:g}" for factor in usable)
    note = f"priors of hyperparameters times {shown}"
    return [Statistic("max_relative_rmse_change_with_prior", max(changes), n=runs, note=note)]


def bayes_statistics(inferences: Mapping[str, Curves], points: Sequence[int]) -> list[Statistic]:
    """Return in which cells (N_sum, estimate, metric) full Bayes is better than a point estimate, paired."""
    kinds = [kind for kind in inferences if kind not in POINT_ESTIMATES and AL in inferences[kind].methods]
    estimates = [kind for kind in POINT_ESTIMATES if kind in inferences and AL in inferences[kind].methods]
    if not kinds or not estimates:
        return []
    bayes, shown = inferences[kinds[0]], []
    pairs: list[tuple[FloatArray, FloatArray]] = []
    for kind in estimates:
        for n_sum in points:
            for metric, sign in (("rmse", 1.0), ("precision_noisy", -1.0)):
                try:
                    a, b = paired_values(bayes, inferences[kind], metric, n_sum)
                except KeyError:
                    continue
                pairs.append((sign * a, sign * b))
                shown.append(
                    f"{kind} {metric.split('_')[0]} at {n_sum}: {a.mean():.3f} against {b.mean():.3f}"
                )
    if not pairs:
        return []
    note = "; ".join((f"full Bayes by {kinds[0]}", *shown))
    return [wilcoxon_claim("share_bayes_better_than_point_estimates", pairs, LEVEL, note=note)]


def paired_values(first: Curves, second: Curves, metric: str, n_sum: int) -> tuple[FloatArray, FloatArray]:
    """Return AL_MOGP's metric at one N_sum in the repetitions of both sets where both are finite.

    Raises:
        KeyError: if a set has no model with so many values.
    """
    a, b = paired_curves(first.curve(AL, metric), second.curve(AL, metric))
    left, right = a.at(n_sum), b.at(n_sum)
    return left[np.isfinite(left)], right[np.isfinite(right)]
