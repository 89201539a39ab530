"""Tasks of guarantee: the kept and the judged model, rows to predict, and the bands of a regression's function.

Their seconds are rough, measured on tables of 3 to 80 inputs and 2 to 5 classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.spec import CsvSpec, from_plain
from gpsuite.data.table.new_rows import NewRows, read_inputs
from gpsuite.errors import UserError
from gpsuite.experiments.base import Request, Task, require
from gpsuite.experiments.guarantee.class_risk import certifies
from gpsuite.experiments.guarantee.classification import MOST_RANGES, check_classes
from gpsuite.experiments.guarantee.regression import check_rows
from gpsuite.experiments.guarantee.tasks import (
    BAND,
    BAND_GROUP,
    BOUNDED,
    CLASS_RISK,
    CONFORMAL,
    JUDGED,
    METHOD,
    ROWS,
    BoundedTask,
    ClassRiskTask,
    ClassRowsTask,
    ClassSetsTask,
    ConformalTask,
    GuaranteeSettings,
    JudgedClassesTask,
    JudgedTask,
    Learning,
    RowsTask,
    tolerances_of,
)
from gpsuite.experiments.perturbation.region import version_of
from gpsuite.experiments.perturbation.region_problem import MODELS, RegionTask, input_number, read_problem
from gpsuite.experiments.robustness.classifiers import class_count, classifier_method
from gpsuite.experiments.robustness.inputs import version_with
from gpsuite.experiments.settings import require_one_output
from gpsuite.experiments.tasks import plain, take
from gpsuite.seeds import derived_seed

VERSION, CLASSES_VERSION = 9, 10
# what perturbation/region ships
PENALTY, WEIGHT, PREPARATION, POINTS, RAYS = 0.001, 1.0, 0.2, 101, 50
REGRESSION, CLASSIFICATION = 3.5, 30.0  # seconds of training on 1000 rows
BOX, SOFTMAX_BOX = 1.1e-3, 2e-3  # seconds of a box at which the level bound, or three classes, are bounded
ALL_BOXES, ALL_SOFTMAX_BOXES = 80, 13  # inputs from which on searches take all boxes that they may
LEAST_SCALING, MOST_SCALING = 30, 0.33  # rows that choose the scale, and their largest share of a small table
DECIDING = 0.3  # what telling a class takes, of its range
LINE = 0.05  # seconds of an input's effect for each of several classes


def seconds_of(request: Request[GuaranteeSettings], part: str) -> float:
    """Return the seconds of a part's task: training, and the searches of its rows."""
    settings, dataset = request.settings, request.require_dataset()
    data = load(dataset)
    classes = class_count(data, []) if data.task == "classification" else 0
    thousands = min(dataset.rows, settings.most_rows) / 1000
    if part in (CONFORMAL, CLASS_RISK):  # of the model that the test rows judge, and of small ones
        return 1.0
    training = (CLASSIFICATION if classes else REGRESSION) * thousands**2 + 1.0
    if part == ROWS:
        rows = new_rows(dataset)
        proved = settings.count if rows is None else min(settings.proved_rows, len(rows.readable))
        return training + proved * _row_seconds(settings, data.X.shape[1], classes)
    if not classes:
        return training
    tests = max(round(settings.test_share * dataset.rows), dataset.rows - settings.most_rows)
    point = DECIDING * _range_seconds(settings, data.X.shape[1], classes)
    return training + min(settings.points, tests) * point


def _row_seconds(settings: GuaranteeSettings, inputs: int, classes: int) -> float:
    effects = LINE * inputs * classes if classes > 2 else 0.0
    return effects + _range_seconds(settings, inputs, classes)


def _range_seconds(settings: GuaranteeSettings, inputs: int, classes: int) -> float:
    """Return what the ranges of one row take at every tolerance."""
    boxes = len(settings.tolerances) * settings.boxes
    if classes > MOST_RANGES:
        return 0.0
    if classes > 2:
        return SOFTMAX_BOX * boxes * min(1.0, math.sqrt(inputs / ALL_SOFTMAX_BOXES))
    share = inputs / ALL_BOXES
    once = BOX * boxes * min(1.0, share**2) * max(1.0, share)
    return 0.1 * once if classes else once  # two classes close sooner


def plan(request: Request[GuaranteeSettings]) -> list[Task[object]]:
    """Return the tasks. The data and the new rows are read here, so that bad ones are refused before any work.

    Raises:
        UserError: with several targets, too few rows, too few different ones, or new rows that do not fit.
    """
    dataset = request.require_dataset()
    data = load(dataset)
    require_one_output(data)
    if data.task == "classification":
        unweighted = "sets of classes take no likelihood ratios: leave it out"
        require(data.weights is None, "dataset.weights", data.weight_name, unweighted)
        check_classes(dataset, learning_of(request))
    else:
        check_rows(dataset, learning_of(request))
    parts = _class_parts(request) if data.task == "classification" else _parts(request)
    group = f"guarantee {dataset.content_hash}"
    tasks: list[Task[object]] = [
        request.task(
            params,
            label=label,
            axes={"part": part},
            version=version_with(data, CLASSES_VERSION if data.task == "classification" else VERSION),
            cost=seconds_of(request, part),
            group=group,
        )
        for part, params, label in parts
    ]
    return tasks if data.task == "classification" else [*tasks, *_bands(request)]


def _parts(request: Request[GuaranteeSettings]) -> list[tuple[str, object, str]]:
    """Return part, params and label of a regression's tasks.

    Raises:
        UserError: if a method is chosen: those there are, are for classifications.
    """
    settings, learning = request.settings, learning_of(request)
    unused = "a regression is exact Gaussian process regression: leave it out, or say dataset.task=classification"
    require(learning.method is None, "method", next(iter(request.methods)), unused)
    return [
        (BOUNDED, take(BoundedTask, settings, learning=learning), "bounds of the kept model"),
        (JUDGED, take(JudgedTask, settings, learning=learning), "test rows"),
        (ROWS, _rows(request, RowsTask), "rows to predict"),
        (CONFORMAL, ConformalTask(learning=learning), "intervals that follow the spread"),
    ]


def _class_parts(request: Request[GuaranteeSettings]) -> list[tuple[str, object, str]]:
    """Return part, params and label of a classification's tasks.

    Raises:
        UserError: if an accuracy is requested: classes have none. If the method is not for so many classes.
    """
    settings, learning = request.settings, learning_of(request)
    unused = "a classification has no accuracy: leave it out, or say dataset.task=regression"
    require(settings.accuracy is None, "accuracy", settings.accuracy, unused)
    data = load(request.require_dataset())
    tolerances, count = tolerances_of(data, settings), class_count(data, [])
    for name, options in request.methods.items():
        fault = f"{options.title} is for two classes, {data.target_names[0]} has {count}. Use method=laplace"
        require(count <= classifier_method(options).most_classes(options), "method", name, fault)
    judged = take(JudgedClassesTask, settings, learning=learning, tolerances=tolerances)
    certified = [(CLASS_RISK, ClassRiskTask(learning=learning), "certified error rate")] if certifies(data) else []
    return [
        (JUDGED, judged, "test rows"),
        (ROWS, _rows(request, ClassRowsTask), "rows to predict"),
        (CONFORMAL, ClassSetsTask(learning=learning), "sets of classes"),
        *certified,
    ]


def _rows(request: Request[GuaranteeSettings], kind: type[RowsTask]) -> RowsTask:
    settings, new = request.settings, new_rows(request.require_dataset())
    of_new = {} if new is None else {"count": min(settings.proved_rows, len(new.readable)), "effects": settings.count}
    return take(
        kind,
        settings,
        learning=learning_of(request),
        new="" if new is None else new.content_hash,
        **of_new,
        tolerances=tolerances_of(load(request.require_dataset()), settings),
    )


def learning_of(request: Request[GuaranteeSettings]) -> Learning:
    """Return what decides the models.

    Raises:
        UserError: if several methods are chosen.
    """
    settings, names = request.settings, list(request.methods)
    require(len(names) == 1, "methods", names, "one classifier is kept and judged. Name one")
    options = request.methods[names[0]]
    method = classifier_method(options).decides(options)
    usual = plain(method) == plain(METHOD)
    own = settings.accuracy is not None
    data = load(request.require_dataset())
    share = settings.preparation
    if data.task != "classification":
        share = preparation_share(share, len(data.X))
    return take(
        Learning,
        settings,
        seed=derived_seed(request.seed, "guarantee"),
        goal=settings.epsilon if settings.accuracy is None else settings.accuracy,
        own=own,
        preparation=share,
        method=None if usual else method,
        method_version=None if usual else options.method.version,
    )


def preparation_share(asked: float, rows: int) -> float:
    """Return the share of rows that choose the scale: few unlucky ones must not decide it."""
    return max(asked, min(LEAST_SCALING / rows, MOST_SCALING))


def new_rows(dataset: PreparedDataset) -> NewRows | None:
    """Return the rows to predict of `dataset.new`. None if there are none.

    Raises:
        DataError: if the file does not fit.
    """
    spec = from_plain(dataset.spec)
    if not isinstance(spec, CsvSpec) or spec.new is None:
        return None
    data = load(dataset)
    if data.weights is None:
        return read_inputs(spec, data.input_names, data.categories, data.reading)
    return _weighted_rows(spec, data)


def _weighted_rows(spec: CsvSpec, data: Dataset) -> NewRows:
    """Return the rows to predict with their likelihood ratios.

    Raises:
        UserError: if one is below 0.
    """
    found = read_inputs(spec, [*data.input_names, data.weight_name], data.categories, data.reading)
    weights = found.X[:, -1]
    if (weights[found.readable] < 0.0).any():
        fault = f"column {data.weight_name!r} holds a likelihood ratio below 0"
        raise UserError(f"dataset.new: {fault}\ngive numbers of 0 or more", key="dataset.new")
    return replace(found, X=found.X[:, :-1], weights=weights)


def _bands(request: Request[GuaranteeSettings]) -> Iterator[Task[object]]:
    """Yield the tasks of perturbation/region, for as many rows as a band takes. None for very few rows."""
    settings, dataset = request.settings, request.require_dataset()
    data = load(dataset)
    if data.clusters is not None:  # the noise of a group's rows is not independent
        return
    column = input_number(data, "")
    for model in MODELS:
        params = take(
            RegionTask,
            settings,
            model=model,
            along=column,
            seed=derived_seed(request.seed, "region"),
            group=BAND_GROUP,
            excluded=[settings.excluded],
            lengthscale=None,
            penalty=PENALTY,
            C=WEIGHT,
            preparation=PREPARATION,
            rows=settings.band_rows,
            points=POINTS,
            rays=RAYS,
        )
        try:
            read_problem(dataset, params)
        except UserError:  # too few rows: summarised as a guarantee that does not apply
            continue
        label, axes = f"band, {MODELS[model].title}", {"part": BAND, "model": model}
        yield request.task(params, label=label, axes=axes, version=version_of(data), cost=2.0)
