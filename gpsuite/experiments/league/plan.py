"""Statements, settings and tasks of league."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from gpsuite.data.loading import PreparedDataset
from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.guarantee.plan import CLASSES_VERSION, VERSION, preparation_share
from gpsuite.experiments.guarantee.tasks import ERROR_RATE, HELD_OUT, Learning
from gpsuite.experiments.pac_bayes.methods import risk_method, sparse_options, with_inducing
from gpsuite.experiments.pac_bayes.tasks import LEAST_TRAINING_ROWS, FitTask, Goal
from gpsuite.experiments.robustness.methods import gpc
from gpsuite.experiments.settings import Count, Positive, Share, at_least, filled, increasing, one_of, unique
from gpsuite.experiments.tasks import take
from gpsuite.seeds import derived_seed

EVERY = "all"  # the size of all rows but the fresh ones
FRESH_SHARE = 0.2  # of a table's rows stay fresh at every size
FURTHER = 1.5  # all rows are a further size if they are so many times the largest named one
SPARSE_COST, FULL_COST = 3e-5, 4e-9  # seconds per row, and per cubed row, of a training
CLASSIFIERS = ("laplace", "ep")
TWO_CLASSES = ("ep",)

DRAW, INTERVAL, SETS = "error rate of a random draw", "interval", "set of classes"
ROBUST, ROBUST_RANGE, PROOF = "robust accuracy", "robust range", "proof of a class"


@dataclass(frozen=True)
class Statement:
    """Statement of one guarantee.

    Attributes:
        title: in tables.
        question: which question it answers.
        kind: `bound` on a share of rows, `rows` that intervals or sets hold, `proof` that no input breaks.
        unit: of what is stated. Less is tighter.
    """

    title: str
    question: str
    kind: str
    unit: str


WIDTH = "mean width, standard deviations of the target"
OFF = "share of errors above the goal"
STATEMENTS = {
    "test_rows": Statement(HELD_OUT, ERROR_RATE, "bound", OFF),
    "pac_bayes": Statement("PAC-Bayes of the kept model", ERROR_RATE, "bound", OFF),
    "conformal": Statement("split conformal", INTERVAL, "rows", WIDTH),
    "spread": Statement("split conformal, own spread", INTERVAL, "rows", WIDTH),
    "jackknife": Statement("jackknife+", INTERVAL, "rows", WIDTH),
    "jackknife_spread": Statement("jackknife+, own spread", INTERVAL, "rows", WIDTH),
    "gp": Statement("the GP's own interval", INTERVAL, "rows", WIDTH),
    "ranges": Statement("proved ranges of predictions", ROBUST_RANGE, "proof", WIDTH),
    "wrong": Statement(HELD_OUT, ERROR_RATE, "bound", "share of wrong classes"),
    "certified": Statement("certified accuracy", ROBUST, "bound", "share wrong or not proved to stay"),
    "stays": Statement("proved classes", PROOF, "proof", "share of rows without a proof"),
    "sets": Statement("conformal sets", SETS, "rows", "mean size"),
}
INTERVALS = ("conformal", "spread", "jackknife", "jackknife_spread", "gp")


@dataclass
class LeagueSettings:
    """Settings of the comparison.

    Attributes:
        classifiers: classifiers of the classification tables. ep is for two classes.
        seeds: draws of each table at each size.
        sizes: rows that a user would have. All rows but the fresh ones are a further size.
        largest: most rows of that size.
        least_fresh: rows that stay fresh at least.
        most_fresh: fresh rows that guarantees of one model are judged on at most.
        full_rows: most rows of a method without inducing inputs.
        fit_evaluations: largest number of evaluations of a method's objective.
        points: test rows, and as many fresh ones, on which certified accuracies are taken.
        count: fresh rows whose predictions are bounded.
        epsilon: accuracy goal of the methods of pac_bayes, in standard deviations of the target.
        widths: errors whose share is bounded, in standard deviations of the target.
        delta: allowed probability that a bound fails.
        coverage: share of new rows that intervals and sets promise to hold.
        test_share: share of a user's rows that is held out.
        preparation: share of the held-out rows on which intervals are prepared.
        most_rows: largest number of training rows.
        max_evaluations: largest number of evaluations of a model's objective.
        tolerances: moves of every input, in standard deviations, within which predictions are bounded.
        boxes: largest number of boxes of a search.
        tolerance: gap between proved and attained ends at which a search stops.
    """

    classifiers: Annotated[list[Annotated[str, one_of(CLASSIFIERS)]], unique]
    seeds: Count
    sizes: Annotated[list[Count], filled, unique, increasing]
    largest: Count
    least_fresh: Count
    most_fresh: Count
    full_rows: Count
    fit_evaluations: Count
    points: Count
    count: Count
    epsilon: Positive
    widths: Annotated[list[Positive], filled, unique, increasing]
    delta: Share
    coverage: Share
    test_share: Share
    preparation: Share
    most_rows: Annotated[int, at_least(LEAST_TRAINING_ROWS)]
    max_evaluations: Count
    tolerances: Annotated[list[Positive], filled, unique, increasing]
    boxes: Count
    tolerance: Positive


@dataclass(frozen=True, kw_only=True)
class NumbersTask:
    """Every guarantee of the two regressions of experiment=guarantee, on drawn rows of a table.

    Attributes:
        rows: that a user would have.
        fresh: most rows that judge.
        draw: seed of the rows, and of a run of experiment=guarantee on them.
        learning: what decides the models. Further fields as of experiment=guarantee.
    """

    rows: int
    fresh: int
    draw: int
    learning: Learning
    widths: Sequence[float]
    tolerances: Sequence[float]
    count: int
    boxes: int
    tolerance: float
    kind: str = "league_numbers"


@dataclass(frozen=True, kw_only=True)
class ClassesTask:
    """The same of the judged classifier. Fields as of `NumbersTask` and experiment=guarantee."""

    rows: int
    fresh: int
    draw: int
    learning: Learning
    tolerances: Sequence[float]
    points: int
    boxes: int
    kind: str = "league_classes"


def sizes_of(rows: int, settings: LeagueSettings) -> dict[str, int]:
    """Return name -> number of rows of the sizes that a table has: those that leave enough fresh rows."""
    most = min(rows - max(settings.least_fresh, math.ceil(FRESH_SHARE * rows)), settings.largest)
    named = [size for size in settings.sizes if size <= most]
    found = {f"{size}": size for size in named}
    return found | ({EVERY: most} if named and most >= FURTHER * named[-1] else {})


def plan(request: Request[LeagueSettings]) -> list[Task[Any]]:
    """Return the tasks, small sizes first: a run that is stopped has whole sizes."""
    cells = [
        (rows, size, data)
        for data in request.datasets.values()
        for size, rows in sizes_of(data.rows, request.settings).items()
    ]
    cells.sort(key=lambda cell: cell[0])
    return [
        task
        for rows, size, data in cells
        for number in range(request.settings.seeds)
        for task in _tasks(request, data, size, rows, number)
    ]


def _tasks(
    request: Request[LeagueSettings], data: PreparedDataset, size: str, rows: int, number: int
) -> Iterator[Task[Any]]:
    settings, draw = request.settings, derived_seed(request.seed, "league", data.name, rows, number)
    thousands = min(rows, settings.most_rows) / 1000.0

    def task(params: Any, method: str, title: str, version: int, cost: float) -> Task[Any]:
        label = f"{data.name}  {size} rows  {title}  seed {number}"
        axes: dict[str, str | int | float] = {"dataset": data.name, "size": size, "rows": rows}
        axes |= {"method": method, "seed": number}
        return request.task(params, label=label, axes=axes, dataset=data, version=version, cost=cost)

    own = {"rows": rows, "fresh": settings.most_fresh, "draw": draw}
    if data.task == "classification":
        classes = int(data.spec["n_classes"] or 2)
        for name in settings.classifiers:
            if classes == 2 or name not in TWO_CLASSES:
                classifier = take(ClassesTask, settings, learning=_learning(settings, draw, name), **own)
                yield task(classifier, name, name, CLASSES_VERSION, 2.0 + 40.0 * thousands**2)
        return
    learning = replace(_learning(settings, draw, "laplace"), preparation=preparation_share(settings.preparation, rows))
    regressions = take(NumbersTask, settings, learning=learning, **own)
    yield task(regressions, "guarantee", "guarantee", VERSION, 1.0 + 12.0 * thousands**2)
    for name, options in request.methods.items():
        if sparse_options(options) is None and rows > settings.full_rows:
            continue
        fit = take(
            FitTask,
            settings,
            method=with_inducing(options, min(getattr(options, "inducing", rows), rows)),
            ard=False,
            max_evaluations=settings.fit_evaluations,
            loss=Goal(epsilon=settings.epsilon),
            test_share=(data.rows - rows - 0.5) / data.rows,  # rounded up: all other rows
            split_seed=draw,
            scaling="train",
        )
        cost = SPARSE_COST * rows * 100 if sparse_options(options) else FULL_COST * rows**3
        yield task(fit, name, options.heading, risk_method(options).version, 0.5 + cost)


def _learning(settings: LeagueSettings, draw: int, classifier: str) -> Learning:
    """Return what decides the models of experiment=guarantee with seed=`draw`."""
    chosen = None if classifier == "laplace" else gpc(classifier, "probit")
    return take(
        Learning,
        settings,
        seed=derived_seed(draw, "guarantee"),
        goal=settings.epsilon,
        own=False,
        method=chosen,
        method_version=None if chosen is None else chosen.method.version,
    )
