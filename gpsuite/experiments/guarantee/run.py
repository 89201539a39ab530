"""The tasks of a regression: bounds of the kept model, what test rows say, and rows to predict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from gpsuite.data.loading import load
from gpsuite.experiments.base import DIVERGED, Outcome, SharedWork, Task, finite_or_none
from gpsuite.experiments.guarantee.checks import Metrics, coverage_p, input_pattern, row_metrics
from gpsuite.experiments.guarantee.plan import new_rows
from gpsuite.experiments.guarantee.regression import (
    conformal_radius,
    errors_of,
    held_out_bounds,
    judged_model,
    kept_copies,
    kept_model,
    latent_posterior,
    mean_bounds,
    proved_ranges,
)
from gpsuite.experiments.guarantee.saved import packed
from gpsuite.experiments.guarantee.saved_regression import SavedRegression
from gpsuite.experiments.guarantee.searches import Searches
from gpsuite.experiments.guarantee.tasks import BoundedTask, JudgedTask, RowsTask
from gpsuite.experiments.robustness.classifiers import numbers_of
from gpsuite.seeds import stream


def run_bounded(task: Task[BoundedTask], shared: SharedWork) -> Outcome:
    """Train the kept regression and bound the share of its predictions that are off by more than each error.

    Arrays: errors [K] in own units and bounds [K], of the posterior mean; gibbs_bounds [K], of a random draw.
    """
    params = task.params
    fitted = kept_model(task.require_dataset(), params.learning, shared)
    if fitted.fault:
        return Outcome({}, DIVERGED, fitted.fault)
    widths, goal = errors_of(fitted, params.learning, params.widths)
    copies = kept_copies(task.require_dataset(), params.learning)
    found = mean_bounds(fitted, params.learning, widths, copies)
    bounds = np.array([each.bound_bayes for each in found])
    metrics = {
        "n_train": found[goal].n,
        "goal": goal,
        "kl": found[goal].penalty.kl,
        "penalty": found[goal].penalty.total,
        "gibbs_risk_train": found[goal].gibbs_risk,
        "target_deviation": fitted.scale,
    }
    arrays = {
        "errors": widths * fitted.scale,
        "bounds": bounds,
        "gibbs_bounds": np.array([each.bound_kl for each in found]),
    }
    return Outcome(metrics, arrays=arrays, headline=f"bound {bounds[goal]:.3f}")


def run_judged(task: Task[JudgedTask], shared: SharedWork) -> Outcome:
    """Train without the test rows; bound errors by them, size the intervals, and check what the bounds assume.

    Arrays: errors [K] in own units, shares [K] of test errors above, bounds [K].
    """
    params, dataset = task.params, task.require_dataset()
    data, judged = load(dataset), judged_model(dataset, params.learning, shared)
    fitted, learning = judged.fitted, params.learning
    if fitted.fault:
        return Outcome({}, DIVERGED, fitted.fault)
    widths, goal = errors_of(fitted, learning, params.widths)
    own = widths * fitted.scale
    shares, bounds = held_out_bounds(judged, own, learning.delta)
    predicted, deviation = fitted.predict(data.X)
    residuals = data.y[:, 0] - predicted
    z = float(ndtri(0.5 + learning.coverage / 2))
    inside = int(np.count_nonzero(judged.errors <= z * deviation[judged.test]))
    rng, held = stream(learning.seed, "checks"), judged.held_different
    metrics: Metrics = {
        "n_train": len(fitted.rows),
        "n_test": len(judged.test),
        "n_copies": len(judged.aside) - len(judged.test),
        "jackknife_rows": len(judged.held) if held is None else len(held.places),
        "jackknife_lost": 0 if held is None else int(held.seen.sum()),
        "goal": goal,
        "conformal_radius": finite_or_none(conformal_radius(judged, learning.coverage)),
        "rmse": float(np.sqrt(np.mean(judged.errors**2))),
        "rmse_constant": float(np.std(data.y[judged.test, 0])),
        "gp_inside": inside,
        "gp_inside_p": coverage_p(inside, len(judged.test), learning.coverage),
        **row_metrics(data, data.y[:, 0], residuals[np.sort(judged.test)], rng),
        "pattern_p": input_pattern(fitted.inputs.transform(data.X[judged.test]), residuals[judged.test], rng),
    }
    arrays = {"errors": own, "shares": shares, "bounds": bounds}
    return Outcome(metrics, arrays=arrays, headline=f"bound {bounds[goal]:.3f} on {len(judged.test)} rows")


def run_rows(task: Task[RowsTask], shared: SharedWork) -> Outcome:
    """Predict new rows with their intervals, and prove the ranges of the first of them.

    Arrays: columns of the table of predictions, `ranges` [B', K, 2], and the model as `SavedRegression` packs it.
    """
    params, dataset, searches = task.params, task.require_dataset(), Searches.of(task, shared)
    data, learning = load(dataset), params.learning
    fitted, judged = kept_model(dataset, learning, shared), judged_model(dataset, learning, shared)
    if fitted.fault or judged.fitted.fault:
        return Outcome({}, DIVERGED, fitted.fault or judged.fitted.fault)
    rows = new_rows(dataset)
    examples = judged.test[: params.count]
    X = data.X[examples] if rows is None else rows.X
    latent = latent_posterior(fitted.posterior)
    saved = SavedRegression.of(data, fitted, judged, latent, learning.coverage)
    saved = replace(saved, reading=data.reading)
    found = saved.predict(X)
    chosen, deviations = X[: params.count], np.zeros(X.shape[1])
    numbers = numbers_of(data.input_names, data.level_inputs)
    deviations[numbers] = data.X[:, numbers].std(axis=0)
    ranges = proved_ranges(fitted, latent, chosen, deviations, params.tolerances, searches, params.tolerance)
    arrays = {
        **found.columns(),
        "ranges": ranges,
        "examples": examples if rows is None else np.empty(0, dtype=np.int64),
        **packed(saved),
    }
    outside = int(np.count_nonzero(found.outside))
    metrics: dict[str, Any] = {"rows": len(X), "outside": outside, "cut": searches.cut}
    metrics |= {"ranges_open": int(np.count_nonzero(~np.isfinite(ranges)))}
    metrics |= {} if rows is None else {"new_notes": "\n".join(rows.notes)}
    headline = f"{len(X)} rows, {outside} outside the training range"
    return Outcome(metrics, *searches.outcome, arrays, headline)
