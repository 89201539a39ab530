"""The two classifiers of a table, and what is proved of them; two classes or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.errors import UserError
from gpsuite.experiments.base import METHODS, SharedWork
from gpsuite.experiments.guarantee.checks import Searches, few_different, nested
from gpsuite.experiments.guarantee.tasks import Learning
from gpsuite.experiments.robustness.classifiers import (
    MOST_CLASSES,
    Problem,
    class_count,
    present_classes,
    read_classes,
    read_problem,
    shown_names,
    trained_classes,
    trained_classifier,
)
from gpsuite.experiments.robustness.inputs import levels_of, switched
from gpsuite.experiments.robustness.tasks import ClassifierParams, GPCParams
from gpsuite.methods.robustness.explain.effects import one_sided_ranges
from gpsuite.methods.robustness.explain.lines import BinaryLines, SoftmaxLines, binary_lines, softmax_lines
from gpsuite.methods.robustness.multiclass.multiclass_search import MultiClassSearch
from gpsuite.methods.robustness.search.regions import Region, box
from gpsuite.methods.robustness.verdict import PointSearch
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior

KERNEL, LINK, INFERENCE = "squared_exponential", "probit", "laplace"
LEAST_TEST_ROWS = 5
STEP = 1.0  # standard deviations that an input moves alone, to see how it decides


@dataclass(frozen=True, eq=False)
class Classifier:
    """A trained classifier of C classes.

    Attributes:
        problem: its training rows, test rows and scales.
        posterior: binary, of the second class' probability, or of all classes.
    """

    problem: Problem
    posterior: GPCPosterior | MultiClassPosterior

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the probabilities."""
        return self.problem.label_names

    def scaled(self, X: FloatArray) -> FloatArray:
        """Return inputs [B, D] in own units as the classifier takes them."""
        return np.asarray((X - self.problem.offset) / self.problem.scale)

    @property
    def test_classes(self) -> IntArray:
        """Numbers of the test rows' classes [T]."""
        y = self.problem.y_test
        return np.asarray((y > 0) if len(self.labels) == 2 else y, dtype=np.int64)


def class_probabilities(posterior: GPCPosterior | MultiClassPosterior, scaled: FloatArray) -> FloatArray:
    """Return class probabilities [B, C] at scaled inputs [B, D]."""
    if isinstance(posterior, MultiClassPosterior):
        return posterior.probabilities(scaled)
    second = posterior.probability(scaled)
    return np.column_stack([1.0 - second, second])


def kept_classifier(dataset: PreparedDataset, learning: Learning, shared: SharedWork) -> Classifier:
    """Return the classifier that is kept, of all rows or the most that a model takes.

    Raises:
        NotConvergedError: if there is no converged approximation.
    """
    return _trained(dataset, _kept_params(_params(dataset, learning)), shared)


def judged_classifier(dataset: PreparedDataset, learning: Learning, shared: SharedWork) -> Classifier:
    """Return the classifier that test rows judge, trained in the same way without them.

    Raises:
        NotConvergedError: if there is no converged approximation.
    """
    return _trained(dataset, _params(dataset, learning), shared)


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
    read = read_classes if len(names) > 2 else read_problem
    try:
        for model in (params, _kept_params(params)):
            read(dataset, model)
    except UserError as error:
        if data.groups is not None and len(np.unique(data.groups)) <= params.test_rows:
            raise few_different(dataset.name, data.groups) from error
        counts = np.unique(data.y[:, 0], return_counts=True)[1]
        rare = names[int(np.argmin(counts))]
        fault = (
            f"{counts.min()} of {len(data.y)} rows are of class {rare}: too few to learn it and to judge it"
        )
        more = ", take more rows (most_rows=)" if len(data.y) > params.train_rows else ""
        advice = f"add rows of it{more}, or leave its rows out of the file"
        raise UserError(f"dataset.target: {fault}\n{advice}", key="dataset.target") from error


def _params(dataset: PreparedDataset, learning: Learning) -> ClassifierParams:
    count = class_count(load(dataset), [])
    most = learning.most_rows if count == 2 else learning.most_rows // count  # a matrix of C N rows
    test = max(round(learning.test_share * dataset.rows), LEAST_TEST_ROWS, dataset.rows - most)
    return ClassifierParams(
        method=GPCParams("gpc", INFERENCE, LINK),
        version=METHODS.get("gpc").version,
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
    )


def _kept_params(judged: ClassifierParams) -> ClassifierParams:
    """Return the params of the classifier that is kept: no row is a test row."""
    return replace(judged, test_rows=0)


def _trained(dataset: PreparedDataset, params: ClassifierParams, shared: SharedWork) -> Classifier:
    if class_count(load(dataset), []) > 2:
        found = trained_classes(dataset, params, shared)
        return Classifier(found.problem, found.posterior)
    problem, trained = trained_classifier(dataset, params, shared)
    return Classifier(problem, trained.fit.require_converged())


def proved_safe(
    model: Classifier, scaled: FloatArray, tolerances: Sequence[float], searches: Searches
) -> int:
    """Return up to how many of the increasing tolerances [K] the class at a scaled point [D] provably stays.

    Levels of categories stay. Not where the cubature of more than two classes states its error but does not prove it:
    nothing is searched there.
    """
    search = _search(model, scaled)
    if _only_stated(search):
        return 0
    for place, radius in enumerate(tolerances):
        region = _around(model, scaled, radius)
        if not (searches.may_begin() and _provably_safe(search, region, searches)):
            return place
    return len(tolerances)


def only_stated(model: Classifier, scaled: FloatArray) -> bool:
    """Return whether the cubature of the probabilities at a scaled point [D] states its error and proves none."""
    several = isinstance(model.posterior, MultiClassPosterior)
    return several and _only_stated(_search(model, scaled))


def _only_stated(search: PointSearch | MultiClassSearch) -> bool:
    return isinstance(search, MultiClassSearch) and not search.centre.proved


def _provably_safe(search: PointSearch | MultiClassSearch, region: Region, searches: Searches) -> bool:
    budget = searches.budget()
    if isinstance(search, MultiClassSearch):
        verdict, several = search.decide(region, budget)
        proved, reasons = search.proves(several.values()), [each.reason for each in several.values()]
    else:
        verdict, extremum = search.decide(region, budget)
        proved, reasons = True, [extremum.reason]
    if verdict.status == "unknown":
        searches.ended(*reasons)
    return verdict.status == "safe" and proved


def _search(model: Classifier, x: FloatArray) -> PointSearch | MultiClassSearch:
    """Return the searches around a scaled point [D] of which every number may move."""
    if isinstance(model.posterior, MultiClassPosterior):
        return MultiClassSearch(model.posterior, x, model.problem.numbers)
    return PointSearch(model.posterior, x, model.problem.numbers)


def _around(model: Classifier, x: FloatArray, radius: float) -> Region:
    """Return the box of what a scaled point [D] may be: levels of categories do not move by fractions."""
    radii = np.zeros(len(x))
    radii[model.problem.numbers] = radius
    return box(x, radii)


def probability_ranges(
    model: Classifier, scaled: FloatArray, tolerances: Sequence[float], searches: Searches, tolerance: float
) -> FloatArray:
    """Return the proved range [B, K, 2] of the predicted class' probability at scaled points [B, D].

    NaN where the cubature of more than two classes states its error but does not prove it, and where the seconds ended
    before anything was known.

    Args:
        model: the classifier.
        scaled: the points.
        tolerances: how far every number may be off, in standard deviations, K; levels of categories stay.
        searches: one for each point and tolerance.
        tolerance: largest gap between attained and proved probability.
    """
    found = np.full((len(scaled), len(tolerances), 2), np.nan)
    own = np.argmax(class_probabilities(model.posterior, scaled), axis=1)
    for row, x in enumerate(scaled):
        search = _search(model, x) if tolerances and not searches.clock.exhausted else None
        for place, radius in enumerate(tolerances):
            if searches.may_begin() and search is not None and not _only_stated(search):
                region = _around(model, x, radius)
                found[row, place] = _range(search, int(own[row]), region, tolerance, searches)
    return nested(found, tolerances)


def _range(
    search: PointSearch | MultiClassSearch, own: int, region: Region, tolerance: float, searches: Searches
) -> tuple[float, float]:
    """Return the proved range of a class' probability over a region around the search's point, as above."""
    if isinstance(search, MultiClassSearch):
        spread = search.range(own, region, tolerance, searches.budget())
        sides = spread.minimum, spread.maximum
        low, high = (each.outer if search.proves(sides) else np.nan for each in sides)
    else:
        both = search.range(region, tolerance, searches.budget())
        sides = both.minimum, both.maximum
        low, high = both.minimum.outer, both.maximum.outer
        if own == 0:
            low, high = _complement(low, high)
    if searches.ended(*(each.reason for each in sides)):
        return low if low > 0.0 else np.nan, high if high < 1.0 else np.nan
    return low, high


def _complement(low: float, high: float) -> tuple[float, float]:
    """Return the range of the other class' probability, outwards by what the difference rounds."""
    return max(float(np.nextafter(1.0 - high, -1.0)), 0.0), min(float(np.nextafter(1.0 - low, 2.0)), 1.0)


def input_effects(model: Classifier, scaled: FloatArray, searches: Searches, tolerance: float) -> FloatArray:
    """Return what raising each input alone does to the predicted class' probability at scaled points, [B, D].

    The one-sided effect of robustness/explain over one standard deviation, halved: a change of probability; 0 of levels
    of a category (`level_effects`). NaN at points whose search the seconds ended.
    """
    posterior, inputs = model.posterior, model.problem.numbers
    own = np.argmax(class_probabilities(posterior, scaled), axis=1)
    effects = np.full(scaled.shape, np.nan if len(inputs) else 0.0)
    everywhere = (-np.inf, np.inf)
    for row, x in enumerate(scaled):
        if not (len(inputs) and searches.may_begin()):
            continue
        point, budget = x[None], searches.budget(len(inputs))
        several = isinstance(posterior, MultiClassPosterior)
        lines: BinaryLines | SoftmaxLines
        if isinstance(posterior, MultiClassPosterior):
            lines = softmax_lines(posterior, point, inputs, int(own[row]))
        else:
            lines = binary_lines(posterior, point, inputs)
        found = one_sided_ranges(lines, point, inputs, STEP, everywhere, tolerance, budget)
        if budget.left == 0.0 and not found.closed.all() and searches.ended(budget.reason):
            continue
        # binary lines follow the second class
        effects[row] = 0.0
        effects[row, inputs] = found.delta[0] / 2.0 * (1.0 if several or own[row] == 1 else -1.0)
    return effects


def level_effects(model: Classifier, data: Dataset, scaled: FloatArray) -> FloatArray:
    """Return what a change to each level of a category does to the predicted class' probability, [B, D].

    Args:
        model: the classifier.
        data: names categories and levels; of two levels one has an input: what it takes away, at a row that has it.
        scaled: points [B, D].
    """
    effects, places = np.zeros(scaled.shape), {name: place for place, name in enumerate(data.input_names)}
    for row, x in enumerate(scaled if data.categories else ()):
        reached = class_probabilities(model.posterior, np.vstack([x, switched(model.problem, data, x)]))
        changes = (reached[1:] - reached[0])[:, np.argmax(reached[0])]
        for (name, level), change in zip(levels_of(data), changes, strict=True):
            own = places.get(f"{name}={level}")
            if own is not None:
                effects[row, own] += change
            else:  # the first of two levels; one of both changes is 0
                effects[row, places[f"{name}={data.categories[name][1]}"]] -= change
    return effects
