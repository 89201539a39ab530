"""The tasks of a run: bounds of the kept model, what test rows say, and rows to predict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.data.loading import load
from gpsuite.data.splits import DifferentRows
from gpsuite.data.table.new_rows import NewRows
from gpsuite.experiments.base import DIVERGED, Outcome, SharedWork, Task, finite_or_none
from gpsuite.experiments.guarantee.certificates import (
    CERTIFIED,
    class_certificates,
    range_certificates,
    risk_certificate,
)
from gpsuite.experiments.guarantee.checks import Metrics, Searches, input_pattern, order_pattern
from gpsuite.experiments.guarantee.classification import (
    around,
    class_bounds,
    class_probabilities,
    input_effects,
    judged_classifier,
    kept_classifier,
    level_effects,
    only_stated,
    probability_ranges,
    proved_safe,
)
from gpsuite.experiments.guarantee.conformal import (
    ClassSets,
    SpreadIntervals,
    calibration_rows,
    default_interval,
    in_record,
)
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
    regions,
)
from gpsuite.experiments.guarantee.saved import SavedClassifier, SavedRegression, packed
from gpsuite.experiments.guarantee.tasks import (
    BoundedTask,
    ClassRowsTask,
    ClassSetsTask,
    ConformalTask,
    JudgedClassesTask,
    JudgedTask,
    RowsTask,
    middle,
)
from gpsuite.experiments.robustness.classifiers import Classifier, numbers_of, unconverged_is_diverged
from gpsuite.methods.conformal import missed_bound
from gpsuite.methods.pac_bayes.evaluation import cautious_upper_bound
from gpsuite.seeds import stream


def run_bounded(task: Task[BoundedTask], shared: SharedWork) -> Outcome:
    """Train the kept regression and bound the share of its predictions that are off by more than each error.

    Arrays: errors [K] in original units and bounds [K], of the posterior mean; gibbs_bounds [K], of a random draw.
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
    own = params.learning.delta / len(found)  # of each single bound
    arrays |= risk_certificate(task.require_dataset(), params.learning, fitted, found[goal], widths[goal], own)
    return Outcome(metrics, arrays=arrays, headline=f"bound {bounds[goal]:.3f}")


def run_judged(task: Task[JudgedTask], shared: SharedWork) -> Outcome:
    """Train without the test rows. Bound errors by them, size the intervals, and check what the bounds assume.

    Arrays: errors [K] in original units, shares [K] of test errors above, bounds [K].
    """
    params, dataset = task.params, task.require_dataset()
    data, judged = load(dataset), judged_model(dataset, params.learning, shared)
    fitted, learning = judged.fitted, params.learning
    if fitted.fault:
        return Outcome({}, DIVERGED, fitted.fault)
    widths, goal = errors_of(fitted, learning, params.widths)
    own = widths * fitted.scale
    shares, bounds = held_out_bounds(judged, own, learning.delta)
    residuals = data.y[:, 0] - fitted.predict(data.X)[0]
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
        "order_p": order_pattern(residuals[np.sort(judged.test)], rng),
        "pattern_p": input_pattern(fitted.inputs.transform(data.X[judged.test]), residuals[judged.test], rng),
    }
    arrays = {"errors": own, "shares": shares, "bounds": bounds}
    return Outcome(metrics, arrays=arrays, headline=f"bound {bounds[goal]:.3f} on {len(judged.test)} rows")


def run_rows(task: Task[RowsTask], shared: SharedWork) -> Outcome:
    """Predict new rows with their intervals, and prove the ranges of the first rows.

    Arrays: columns of the table of predictions, `ranges` [B', K, 2], and the model as `SavedRegression` packs it.
    """
    params, dataset, searches = task.params, task.require_dataset(), Searches.of(task, shared)
    data, learning = load(dataset), params.learning
    fitted, judged = kept_model(dataset, learning, shared), judged_model(dataset, learning, shared)
    if fitted.fault or judged.fitted.fault:
        return Outcome({}, DIVERGED, fitted.fault or judged.fitted.fault)
    rows = new_rows(dataset)
    examples = judged.test[: params.count]
    X = data.X[examples] if rows is None else rows.X[rows.readable]
    latent = latent_posterior(fitted.posterior)
    saved = SavedRegression.of(data, fitted, judged, latent, learning.coverage)
    saved = replace(saved, reading=data.reading)
    found = saved.predict(X)
    chosen, deviations = X[: params.count], np.zeros(X.shape[1])
    numbers = numbers_of(data.input_names, data.level_inputs)
    deviations[numbers] = data.X[:, numbers].std(axis=0)
    boxes = regions(fitted, chosen[:CERTIFIED], deviations, middle(params.tolerances)) if params.tolerances else []
    certificates = range_certificates(dataset, fitted, latent, boxes, searches, params.tolerance)
    ranges = proved_ranges(fitted, latent, chosen, deviations, params.tolerances, searches, params.tolerance)
    arrays = {
        **found.columns(),
        "ranges": ranges,
        "examples": examples if rows is None else np.empty(0, dtype=np.int64),
        **packed(saved),
        **certificates,
    }
    outside = int(np.count_nonzero(found.outside))
    metrics: dict[str, Any] = {"rows": len(X), "outside": outside, "cut": searches.cut}
    metrics |= {"ranges_open": int(np.count_nonzero(~np.isfinite(ranges)))}
    metrics |= _of_file(rows)
    headline = f"{len(X)} rows, {outside} outside the training range"
    return Outcome(metrics, *searches.outcome, arrays, headline)


def run_conformal(task: Task[ConformalTask], shared: SharedWork) -> Outcome:
    """Size the intervals that follow the judged model's spread. Widths are those of the test rows.

    Arrays: the intervals as `SpreadIntervals` packs them.
    """
    dataset, learning = task.require_dataset(), task.params.learning
    data, judged = load(dataset), judged_model(dataset, learning, shared)
    if judged.fitted.fault:
        return Outcome({}, DIVERGED, judged.fitted.fault)
    found, test = SpreadIntervals.of(data, judged, learning.coverage), judged.test
    weighted = data.weights is not None
    ends = found.columns(data.X[test], None if data.weights is None else data.weights[test])
    radius = None if weighted else finite_or_none(float(found.radii(np.ones(1))[0]))
    metrics: Metrics = {"rows": len(calibration_rows(data, judged)), "spread_radius": radius, "weighted": weighted}
    metrics |= {"interval": default_interval(data, judged, learning.coverage)}
    for name in ("spread", "jackknife_spread"):
        width = ends[f"{name}_high"] - ends[f"{name}_low"]
        metrics |= {f"{name}_width": finite_or_none(float(np.median(width)))}
        metrics |= {f"{name}_narrow": finite_or_none(float(np.min(width)))}
        metrics |= {f"{name}_wide": finite_or_none(float(np.max(width)))}
    headline = "no finite interval" if metrics["spread_width"] is None else f"width {metrics['spread_width']:.3g}"
    return Outcome(metrics, arrays=in_record(found), headline=headline)


def _of_file(rows: NewRows | None) -> Metrics:
    """Return how a file of new rows was read: what was decided, and `NUMBER REASON` of each row not predicted."""
    if rows is None:
        return {}
    unread = "\n".join(f"{row} {reason}" for row, reason in rows.unread.items())
    return {"new_notes": "\n".join(rows.notes), **({"unread": unread} if unread else {})}


@unconverged_is_diverged
def run_judged_classes(task: Task[JudgedClassesTask], shared: SharedWork) -> Outcome:
    """Train without the test rows. Bound the error rate and certify test rows, and check what the bounds assume.

    Arrays: certified [K], of the test points the share that is right and provably stays; certified_bounds [K],
    lower bounds that hold together with probability 1 - delta; test_probabilities [H, C] and test_classes [H].
    """
    params, dataset, searches = task.params, task.require_dataset(), Searches.of(task, shared)
    learning, data = params.learning, load(dataset)
    model = judged_classifier(dataset, learning, shared)
    problem, X_test = model.problem, model.problem.X_test
    probabilities, truth = class_probabilities(model, X_test), model.problem.test_classes
    right = np.argmax(probabilities, axis=1) == truth
    tests = DifferentRows.of(problem.test_rows, problem.train_rows, data.groups)
    different = np.arange(len(right)) if tests is None else tests.places
    searched, arrays = _certified(model, params, right, data.groups, searches)
    residuals = 1.0 - probabilities[different, truth[different]]
    in_order = np.argsort(problem.test_rows[different])
    rng, n = stream(learning.seed, "checks"), len(different)
    wrong = int(np.count_nonzero(~right[different]))
    untested = [name for number, name in enumerate(model.labels) if number not in truth[different]]
    metrics: Metrics = {
        "n_train": len(problem.y),
        "n_test": n,
        "n_copies": len(right) - n,
        "wrong": wrong,
        "bound": cautious_upper_bound(~right, tests, learning.delta),
        "untested": "\n".join(untested),
        "majority": float(np.mean(truth[different] != np.bincount(truth).argmax())),
        **searched,
        "order_p": order_pattern(residuals[in_order], rng),
    }
    tested = {"test_probabilities": probabilities[different], "test_classes": truth[different]}
    return Outcome(metrics, *searches.outcome, {**arrays, **tested}, f"{wrong} of {n} test rows wrong")


def _certified(
    model: Classifier, params: JudgedClassesTask, right: BoolArray, groups: IntArray | None, searches: Searches
) -> tuple[Metrics, dict[str, FloatArray]]:
    """Return what was searched, and the arrays of the share that provably stays right.

    Metrics: points, different test rows; searched, those that are right; stated, those of these whose
    probabilities have an error that is only stated; cut, how many searches the seconds ended: their rows count as not
    certified.
    """
    problem, K = model.problem, len(params.tolerances)
    points = min(params.points, len(right)) if K else 0
    searched = DifferentRows.of(problem.test_rows[:points], problem.train_rows, groups)
    steps = np.zeros(points, dtype=np.int64)  # of wrong rows too
    asked = np.flatnonzero(right[:points])
    steps[asked] = proved_safe(model, problem.X_test[asked], params.tolerances, searches)
    moved = steps[:, None] <= np.arange(K)  # or wrong, [points, K]
    among = np.arange(points) if searched is None else searched.places
    bounds = [1.0 - cautious_upper_bound(each, searched, params.learning.delta / K) for each in moved.T]
    own = among[right[among]]
    empty = [] if searches.cut else [row for row in own if not steps[row]]
    stated = sum(only_stated(model, problem.X_test[row]) for row in empty)
    return {"points": len(among), "searched": len(own), "stated": stated, "cut": searches.cut}, {
        "tolerances": np.array(params.tolerances),
        "certified": np.mean(~moved[among], axis=0) if len(among) else np.zeros(K),
        "certified_bounds": np.array(bounds),
    }


@unconverged_is_diverged
def run_class_sets(task: Task[ClassSetsTask], shared: SharedWork) -> Outcome:
    """Choose the thresholds of the sets of classes. Sizes are those of the test rows, which chose them.

    Arrays, of each class [C]: class_rows, test rows of it; class_wrong, those predicted as another, and class_bounds on
    that share of new rows; class_thresholds; class_missed, the bound on the share of new rows that the thresholds miss;
    class_named, the share of test rows whose set names the class. Both bounds hold for all classes together with
    probability 1 - delta. And the sets as `ClassSets` packs them.
    """
    dataset, learning = task.require_dataset(), task.params.learning
    data, model = load(dataset), judged_classifier(dataset, learning, shared)
    problem, C = model.problem, len(model.labels)
    found = ClassSets.of(data, model, learning.coverage)
    tests = DifferentRows.of(problem.test_rows, problem.train_rows, data.groups)
    different = np.arange(len(problem.test_rows)) if tests is None else tests.places
    truth = problem.test_classes[different]
    adaptive, each = found.sets(data.X[problem.test_rows[different]])
    wrong = np.argmax(class_probabilities(model, problem.X_test), axis=1) != problem.test_classes
    own = [truth == number for number in range(C)]
    arrays = {
        "class_rows": np.array([int(rows.sum()) for rows in own]),
        "class_wrong": np.array([int(wrong[different][rows].sum()) for rows in own]),
        "class_bounds": class_bounds(wrong, problem.test_classes, different, C, learning.delta),
        "class_thresholds": found.calibration.each,
        "class_missed": np.array(
            [missed_bound(int(rows.sum()), learning.coverage, learning.delta / C) for rows in own]
        ),
        "class_named": each.mean(axis=0),
    }
    sizes = adaptive.sum(axis=1)
    metrics: Metrics = {
        "rows": len(different),
        "labels": "\n".join(model.labels),
        "threshold": finite_or_none(found.calibration.marginal),
        "set_size": float(np.mean(sizes)),
        "single": float(np.mean(sizes == 1)),
        "each_size": float(np.mean(each.sum(axis=1))),
    }
    return Outcome(metrics, arrays=arrays | in_record(found), headline=f"{np.mean(sizes):.2f} classes a set")


@unconverged_is_diverged
def run_class_rows(task: Task[ClassRowsTask], shared: SharedWork) -> Outcome:
    """Classify new rows, prove ranges of the first rows' probabilities, and say which inputs decide.

    Arrays: probabilities [B, C], outside [B], ranges [B', K, 2], effects [B', D], and the model as it is saved.
    """
    params, dataset, searches = task.params, task.require_dataset(), Searches.of(task, shared)
    data = load(dataset)
    model = kept_classifier(dataset, params.learning, shared)
    judged = judged_classifier(dataset, params.learning, shared)
    rows = new_rows(dataset)
    examples = judged.problem.test_rows[: params.count]
    X = data.X[examples] if rows is None else rows.X[rows.readable]
    saved = replace(SavedClassifier.of(data, model), reading=data.reading)
    found = saved.predict(X)
    chosen = model.scaled(X[: params.count])
    few = chosen[: params.effects]
    effects = input_effects(model, few, searches, params.tolerance) + level_effects(model, data, few)
    boxes = [around(model, x, middle(params.tolerances)) for x in chosen[:CERTIFIED]] if params.tolerances else []
    certificates = class_certificates(dataset, model, boxes, searches, params.tolerance)
    arrays = {
        "probabilities": found.probabilities,
        "outside": found.outside,
        "ranges": probability_ranges(model, chosen, params.tolerances, searches, params.tolerance),
        "effects": effects,
        "examples": examples if rows is None else np.empty(0, dtype=np.int64),
        **packed(saved),
        **certificates,
    }
    outside = int(np.count_nonzero(found.outside))
    labels = "\n".join(model.labels)
    metrics: Metrics = {"rows": len(X), "outside": outside, "labels": labels, "cut": searches.cut}
    metrics |= _of_file(rows)
    headline = f"{len(X)} rows, {outside} outside the training range"
    return Outcome(metrics, *searches.outcome, arrays, headline)
