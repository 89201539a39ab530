"""The paper's HMC against sequential Monte Carlo: learning curves of the same repetitions, paired."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.generators.sin_sigmoid import THRESHOLD
from gpsuite.experiments.active_learning.curves import (
    AL,
    IND,
    N_LABEL,
    NOSAFE,
    SAFE_METHODS,
    VALUE,
    Curve,
    Curves,
    area_statistics,
    best_statistics,
    draw_curves,
    error_statistics,
    extreme,
    paired_curves,
    precision_statistics,
    safety_statistics,
    threshold_statistics,
    wilcoxon_claim,
)
from gpsuite.experiments.active_learning.toy_tasks import COST, IDENTITY, Parts, ToySettings
from gpsuite.experiments.base import Report
from gpsuite.reporting.comparison import Statistic, claim
from gpsuite.reporting.metrics import metric as find_metric
from gpsuite.reporting.palette import LIMIT, inference_style, panel
from gpsuite.reporting.tables import estimate_text, mean_and_error, summarise_groups
from gpsuite.statistics.estimates import finite, mean
from gpsuite.statistics.significance import LEVEL

if TYPE_CHECKING:
    import pandas as pd


SAMPLER_METRICS = {"rmse": "RMSE (output units)", "log_density": "log density (nats)"}
GAP = "HMC - SMC"  # a separate name: differences of RMSEs may be negative
NAME = "toy_samplers"


def report_samplers(report: Report[object], ours: Curves, hmc: Curves) -> None:
    """Write table and figure of the paired differences HMC - SMC. Nothing without shared repetitions."""
    frame = sampler_differences(ours, hmc)
    if frame.empty:
        return
    caption = (
        "The paper's HMC against sequential Monte Carlo in the same repetitions. Heights of the learning curves: "
        "means over the models ± standard error, and their paired difference with 95 % t interval"
    )
    report.table(sampler_table(ours, hmc, report.titles), NAME, caption)
    _draw_differences(report, frame)


def sampler_statistics(ours: Curves, hmc: Curves) -> list[Statistic]:
    """Return the share of learning curves whose height differs by an interval containing 0, if any is known."""
    judged = [_contains_zero(second.heights - first.heights) for _, _, first, second in _pairs(ours, hmc)]
    within = [equal for equal in judged if equal is not None]
    return [claim("share_curves_equal_between_samplers", within)] if within else []


def sampler_table(ours: Curves, hmc: Curves, names: Mapping[str, str]) -> pd.DataFrame:
    """Return one row per pipeline and metric: mean heights of both curves and their paired difference."""
    import pandas as pd

    rows = []
    for method, metric, first, second in _pairs(ours, hmc):
        smc, slow = (mean(curve.heights) for curve in (first, second))
        gap = mean(second.heights - first.heights)
        each = [_contains_zero(gaps) for gaps in (second.lines - first.lines).T]
        rows.append(
            {
                "method": names.get(method, method),
                "metric": SAMPLER_METRICS[metric],
                "N_sum": f"{first.n_sum[0]} to {first.n_sum[-1]}",
                "HMC": estimate_text(slow),
                "SMC": estimate_text(smc),
                "HMC - SMC": gap.value,
                "from": gap.low,
                "to": gap.high,
                "models whose own interval contains 0": f"{each.count(True)} of {len(each)}",
                "repetitions": gap.n,
            }
        )
    return pd.DataFrame(rows)


def sampler_differences(ours: Curves, hmc: Curves) -> pd.DataFrame:
    """Return mean, standard error and 95 % t interval of HMC - SMC per pipeline, metric and N_sum."""
    import pandas as pd

    parts = []
    for method, metric, first, second in _pairs(ours, hmc):
        gap = second.lines - first.lines
        tidy = pd.DataFrame({"method": method, "n_sum": np.tile(first.n_sum, len(gap)), GAP: gap.ravel()})
        parts.append(summarise_groups(tidy, ["method", "n_sum"], [GAP]).assign(metric=metric))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _pairs(ours: Curves, hmc: Curves) -> list[tuple[str, str, Curve, Curve]]:
    """Return (method, metric, SMC's curve, HMC's curve) at shared N_sum and repetitions."""
    found = []
    for method in (name for name in hmc.methods if name in ours.methods):
        for metric in SAMPLER_METRICS:
            first, second = paired_curves(ours.curve(method, metric), hmc.curve(method, metric))
            if first.lines.size:
                found.append((method, metric, first, second))
    return found


def _contains_zero(gaps: FloatArray) -> bool | None:
    """Return whether the 95 % t interval of the mean of finite gaps contains 0. None if there is no interval."""
    found = mean(finite(gaps))
    return found.contains(0.0) if found.interval else None


def _draw_differences(report: Report[object], frame: pd.DataFrame) -> None:
    """Draw HMC - SMC against N_sum, a row per metric and a column per pipeline, with 95 % t intervals."""
    methods = list(dict.fromkeys(frame["method"]))
    size = (2.2 + 2.7 * len(methods), 5.4)
    with report.figure(
        NAME, rows=len(SAMPLER_METRICS), columns=len(methods), size=size, sharex=True, sharey="row"
    ) as drawing:
        for row, (metric, label) in zip(drawing.grid, SAMPLER_METRICS.items(), strict=True):
            for ax, method in zip(row, methods, strict=True):
                found = frame[(frame["method"] == method) & (frame["metric"] == metric)]
                title = report.titles.get(method, method)
                ax.axhline(0.0, color=LIMIT, lw=0.9, ls=":")
                panel(ax, found, "n_sum", {method: title}, kind="band", error="interval")
                ax.set_title(title)
            row[0].set_ylabel(f"HMC - SMC, {label}")
        for ax in drawing.grid[-1]:
            ax.set_xlabel(N_LABEL)
            ax.locator_params(axis="x", integer=True)
        runs = int(frame["n"].max())
        drawing.fig.suptitle(f"sine and sigmoid: HMC and SMC in the\nsame {runs} repetitions, mean and 95 % interval")
        drawing.data = frame


# What Li et al. 2022 state about the toy problem, its priors and its inference, as statistics.


STRICT = 0.01  # level of the claim about areas
LITTLE_DATA = 22  # values. Up to here full Bayes is compared with point estimates
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
        *gain_statistics(curves),
        *state_statistics(curves, settings.initial + settings.state_iteration - 1),
        *prior_statistics(parts.priors),
        *sampler_statistics(parts.main, parts.hmc),
        *bayes_statistics(parts.inferences, [n for n in points if n <= LITTLE_DATA]),
    ]


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
    """Return the acceptance rate of the paper's HMC over pipelines and repetitions."""
    rates = [
        float(np.mean(run.arrays["outputs_acceptance"]))
        for method in hmc.methods
        if hmc.has(method, "outputs_acceptance")
        for run in hmc.runs[method].values()
    ]
    return [Statistic.of("acceptance_rate", mean(rates))] if rates else []


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
                shown.append(f"{kind} {metric.split('_')[0]} at {n_sum}: {a.mean():.3f} against {b.mean():.3f}")
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


METRICS = ("rmse", "log_density", "precision_noisy", "precision_true")
KINDS = {"smc": "full Bayes, SMC", "hmc": "full Bayes, HMC", "map": "MAP", "ml": "ML"}


def report_parts(report: Report[ToySettings], parts: Parts) -> None:
    """Write what each comparison found, and the figure of AL_MOGP by kind of inference."""
    kinds = {kind: curves for kind, curves in parts.inferences.items() if AL in curves.methods}
    if AL in parts.hmc.methods:
        kinds["hmc"] = parts.hmc
    title = report.titles.get(AL, AL)
    if len(kinds) > 1:
        frame = compared_table({KINDS[kind]: curves for kind, curves in kinds.items()}, "inference")
        caption = f"{title} by kind of inference. Mean ± standard error"
        report.table(frame, "toy_kinds_of_inference", caption)
        _draw_kinds(report, kinds, title)
    report_samplers(report, parts.main, parts.hmc)
    priors = {f"{factor:g}": curves for factor, curves in parts.priors.items() if AL in curves.methods}
    if len(priors) > 1:
        caption = f"{title} with priors of the hyperparameters times a factor. Mean ± standard error"
        report.table(compared_table(priors, "prior factor"), "toy_prior_sensitivity", caption)
    if COST in parts.checks:
        caption = "Milliseconds of one log likelihood with gradient, and log-log slopes"
        report.table(cost_table(parts), "toy_likelihood_timing", caption)


def compared_table(sets: Mapping[str, Curves], heading: str) -> pd.DataFrame:
    """Return AL_MOGP's metrics in each set at the first, middle and last N_sum of the second set."""
    import pandas as pd

    n_sums = [curves.curve(AL, "rmse").n_sum.tolist() for curves in sets.values()]
    shown = list(dict.fromkeys([n_sums[1][0], n_sums[1][len(n_sums[1]) // 2], n_sums[1][-1]]))
    rows = []
    for n_sum in shown:
        for (label, curves), known in zip(sets.items(), n_sums, strict=True):
            if n_sum not in known:
                continue
            row: dict[str, object] = {"N_sum": n_sum, heading: label}
            for name in METRICS:
                found = pd.DataFrame({"set": label, name: curves.curve(AL, name).at(n_sum)})
                line = summarise_groups(found, ["set"], [name]).iloc[0]
                row[find_metric(name).short_heading] = mean_and_error(line["mean"], line["standard_error"])
            rows.append({**row, "repetitions": len(curves.runs[AL])})
    return pd.DataFrame(rows)


def _draw_kinds(report: Report[ToySettings], kinds: Mapping[str, Curves], title: str) -> None:
    """Draw AL_MOGP's RMSE and precision, one curve per kind of inference over all its repetitions."""
    joined = Curves({kind: curves.runs[AL] for kind, curves in kinds.items()})
    titles = {kind: f"{KINDS[kind]}, {len(joined.runs[kind])} repetitions" for kind in kinds}
    styles = {kind: inference_style(kind) for kind in kinds}
    heading = f"sine and sigmoid: {title} by kind of inference"
    metrics = {"rmse": "RMSE (output units)", "precision_noisy": "precision of the safety model\n(by measured z)"}
    draw_curves(report, joined, "toy_kinds_of_inference", heading, metrics, titles=titles, styles=styles)


def cost_table(parts: Parts) -> pd.DataFrame:
    """Return milliseconds per likelihood of both models, their ratio, and the slopes from size to size."""
    import pandas as pd

    arrays = parts.checks[COST].arrays
    sizes, joint, independent = (arrays[name] for name in ("sizes", "seconds_free", "seconds_identity"))
    frame = pd.DataFrame(
        {
            "N_sum": sizes,
            "LMC (ms)": 1e3 * joint,
            "independent GPs (ms)": 1e3 * independent,
            "ratio": joint / independent,
        }
    )
    if len(sizes) > 1:
        for label, seconds in (("LMC", joint), ("independent GPs", independent)):
            slopes = np.diff(np.log(seconds)) / np.diff(np.log(sizes))
            frame[f"slope, {label}"] = [float("nan"), *slopes]
    return frame.round(4)
