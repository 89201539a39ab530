"""The two classifiers of a table, and what is proved about both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.errors import UserError
from gpsuite.experiments.base import SharedWork
from gpsuite.experiments.guarantee.checks import Searches, few_different, nested
from gpsuite.experiments.guarantee.tasks import METHOD, Learning
from gpsuite.experiments.robustness.classifiers import (
    MOST_CLASSES,
    Classifier,
    class_count,
    classifier_method,
    present_classes,
    read_rows,
    shown_names,
    trained_classifier,
)
from gpsuite.experiments.robustness.inputs import levels_of, switched
from gpsuite.experiments.robustness.judging import classes_of
from gpsuite.experiments.robustness.tasks import ClassifierParams
from gpsuite.methods.pac_bayes.bounds import binomial_upper_bound
from gpsuite.methods.robustness.explain.effects import one_sided_ranges
from gpsuite.methods.robustness.search.regions import Region, box

KERNEL = "squared_exponential"  # the only choice
LEAST_TEST_ROWS = 5
MOST_RANGES = 3  # of more classes ranges of probabilities take long: only the class is proved, and effects are searched
STEP = 1.0  # standard deviations that one input moves, to see how it decides


def kept_classifier(dataset: PreparedDataset, learning: Learning, shared: SharedWork) -> Classifier:
    """Return the classifier that is kept, of all rows or the most that a model takes.

    Raises:
        NotConvergedError: if there is no converged approximation.
    """
    return trained_classifier(dataset, _kept_params(_params(dataset, learning)), shared)


def judged_classifier(dataset: PreparedDataset, learning: Learning, shared: SharedWork) -> Classifier:
    """Return the classifier that test rows judge, trained in the same way without them.

    Raises:
        NotConvergedError: if there is no converged approximation.
    """
    return trained_classifier(dataset, _params(dataset, learning), shared)


def check_classes(dataset: PreparedDataset, learning: Learning) -> None:
    """Refuse a table whose classes cannot be learnt and judged: too many, too rare, or hardly any different rows.

    Raises:
        UserError: if it is one.
    """
    data, params = load(dataset), _params(dataset, learning)
    names, target = present_classes(data)[2], data.target_names[0]
    if len(names) > MOST_CLASSES:
        fault = f"column {target!r} has {len(names)} classes ({shown_names(names)}), at most {MOST_CLASSES} are judged"
        advice = f"leave the rows of all but {MOST_CLASSES} out of the file, or name another target"
        raise UserError(f"dataset.target: {fault}\n{advice}", key="dataset.target")
    try:
        problems = [(read_rows(dataset, model), model) for model in (params, _kept_params(params))]
    except UserError as error:
        if data.groups is not None and len(np.unique(data.groups)) <= params.test_rows:
            raise few_different(dataset.name, data.groups) from error
        counts = np.unique(data.y[:, 0], return_counts=True)[1]
        rare = names[int(np.argmin(counts))]
        fault = f"{counts.min()} of {len(data.y)} rows are of class {rare}: too few to learn it and to judge it"
        more = ", take more rows (most_rows=)" if len(data.y) > params.train_rows else ""
        advice = f"add rows of it{more}, or leave its rows out of the file"
        raise UserError(f"dataset.target: {fault}\n{advice}", key="dataset.target") from error
    for problem, model in problems:
        classifier_method(model.method).check(problem, model)


def _params(dataset: PreparedDataset, learning: Learning) -> ClassifierParams:
    count = class_count(load(dataset), [])
    most = learning.most_rows if count == 2 else learning.most_rows // count  # a matrix of C N rows
    test = max(round(learning.test_share * dataset.rows), LEAST_TEST_ROWS, dataset.rows - most)
    return ClassifierParams(
        method=learning.method or METHOD,
        version=learning.method_version or METHOD.method.version,
        kernel=KERNEL,
        ard=False,
        draw_seed=learning.seed,
        evaluations=learning.max_evaluations,
        train_rows=most,
        test_rows=test,
        classes=[],
        start_variance=1.0,
        start_lengthscale=1.0,
        largest_variance=1e4,
        scaling="train",
        prior="half_normal",
    )


def _kept_params(judged: ClassifierParams) -> ClassifierParams:
    """Return the params of the classifier that is kept: no row is a test row."""
    return replace(judged, test_rows=0)


def class_bounds(wrong: BoolArray, truth: IntArray, different: IntArray, count: int, delta: float) -> FloatArray:
    """Return upper bounds on the share of each class' rows that are predicted as another, [C], together 1 - delta.

    They hold whether rows that repeat others are draws or copies, 1 where no test row is of the class.
    """
    found = []
    for number in range(count):
        both = (np.flatnonzero(truth == number), different[truth[different] == number])
        bounds = [binomial_upper_bound(int(wrong[rows].sum()), len(rows), delta / count) for rows in both if len(rows)]
        found.append(max(bounds, default=1.0))
    return np.array(found)


def class_probabilities(model: Classifier, scaled: FloatArray) -> FloatArray:
    """Return class probabilities [B, C] at scaled inputs [B, D]."""
    return classes_of(model).probabilities(scaled)


def proved_safe(model: Classifier, scaled: FloatArray, tolerances: Sequence[float], searches: Searches) -> IntArray:
    """Return up to how many of the increasing tolerances [K] the class at scaled points [B, D] provably stays, [B].

    The smallest tolerance comes first, of all points. Levels of categories stay. Where the cubature of more than two
    classes states its error but does not prove it, the latent margins must do.
    """
    view, steps = classes_of(model), np.zeros(len(scaled), dtype=np.int64)
    points = [view.around(x, model.problem.numbers) for x in scaled]
    for place, radius in enumerate(tolerances):
        alive = np.flatnonzero(steps == place)
        for rank, row in enumerate(alive):
            if searches.may_begin():
                budget = searches.budget(among=len(alive) - rank)
                verdict, proved, reasons = points[row].stays(around(model, scaled[row], radius), budget)
                if verdict == "unknown":
                    searches.ended(*reasons)
                steps[row] += verdict == "safe" and proved
    return steps


def only_stated(model: Classifier, scaled: FloatArray) -> bool:
    """Return whether the cubature of the probabilities at a scaled point [D] states its error and proves none."""
    posterior = classes_of(model)
    return posterior.couples > 1 and posterior.around(scaled, model.problem.numbers).only_stated


def around(model: Classifier, x: FloatArray, radius: float) -> Region:
    """Return the box of what a scaled point [D] may be: levels of categories do not move by fractions."""
    radii = np.zeros(len(x))
    radii[model.problem.numbers] = radius
    return box(x, radii)


def probability_ranges(
    model: Classifier, scaled: FloatArray, tolerances: Sequence[float], searches: Searches, tolerance: float
) -> FloatArray:
    """Return the proved range [B, K, 2] of the predicted class' probability at scaled points [B, D].

    NaN of more than `MOST_RANGES` classes, where the cubature states its error but does not prove it, and where the
    seconds ended before anything was known.

    Args:
        model: the classifier.
        scaled: the points.
        tolerances: how far every number may be off, in standard deviations, K. Levels of categories stay.
        searches: one for each point and tolerance.
        tolerance: largest gap between attained and proved probability.
    """
    found, posterior = np.full((len(scaled), len(tolerances), 2), np.nan), classes_of(model)
    if posterior.couples > MOST_RANGES:
        return found
    own = np.argmax(posterior.probabilities(scaled), axis=1)
    for row, x in enumerate(scaled):
        may = tolerances and not searches.clock.exhausted
        point = posterior.around(x, model.problem.numbers) if may else None
        for place, radius in enumerate(tolerances):
            if searches.may_begin() and point is not None and not point.only_stated:
                region = around(model, x, radius)
                left = len(tolerances) * (len(scaled) - row) - place
                low, high, reasons = point.bounds(int(own[row]), region, tolerance, searches.budget(among=left))
                if searches.ended(*reasons):
                    low, high = low if low > 0.0 else np.nan, high if high < 1.0 else np.nan
                found[row, place] = low, high
    return nested(found, tolerances)


def input_effects(model: Classifier, scaled: FloatArray, searches: Searches, tolerance: float) -> FloatArray:
    """Return what raising one input at a time does to the predicted class' probability at scaled points, [B, D].

    The one-sided effect of robustness/explain over one standard deviation, halved: a change of probability, 0 of levels
    of a category (`level_effects`). NaN at points whose search the seconds ended.
    """
    posterior, inputs = classes_of(model), model.problem.numbers
    own = np.argmax(posterior.probabilities(scaled), axis=1)
    effects = np.full(scaled.shape, np.nan if len(inputs) else 0.0)
    everywhere = (-np.inf, np.inf)
    for row, x in enumerate(scaled):
        if not (len(inputs) and searches.may_begin()):
            continue
        point, budget = x[None], searches.budget(len(inputs))
        followed = posterior.followed(int(own[row]))
        lines = posterior.lines(point, inputs, followed)
        found = one_sided_ranges(lines, point, inputs, STEP, everywhere, tolerance, budget)
        if budget.left == 0.0 and not found.closed.all() and searches.ended(budget.reason):
            continue
        # what is gained by the other of two classes is lost by the predicted one
        effects[row] = 0.0
        effects[row, inputs] = found.delta[0] / 2.0 * (1.0 if followed == own[row] else -1.0)
    return effects


def level_effects(model: Classifier, data: Dataset, scaled: FloatArray) -> FloatArray:
    """Return what a change to each level of a category does to the predicted class' probability, [B, D].

    Args:
        model: the classifier.
        data: names categories and levels. Of two levels one has an input: what it takes away, at a row that has it.
        scaled: points [B, D].
    """
    effects, places = np.zeros(scaled.shape), {name: place for place, name in enumerate(data.input_names)}
    for row, x in enumerate(scaled if data.categories else ()):
        reached = class_probabilities(model, np.vstack([x, switched(model.problem, data, x)]))
        changes = (reached[1:] - reached[0])[:, np.argmax(reached[0])]
        for (name, level), change in zip(levels_of(data), changes, strict=True):
            own = places.get(f"{name}={level}")
            if own is not None:
                effects[row, own] += change
            else:  # the first of two levels. One of both changes is 0
                effects[row, places[f"{name}={data.categories[name][1]}"]] -= change
    return effects
