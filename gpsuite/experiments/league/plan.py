"""Statements, settings and tasks of league."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from gpsuite.data.loading import PreparedDataset
from gpsuite.experiments.base import MethodOptions, Request, Task, require
from gpsuite.experiments.guarantee.plan import CLASSES_VERSION, VERSION, preparation_share
from gpsuite.experiments.guarantee.tasks import ERROR_RATE, HELD_OUT, METHOD, Learning
from gpsuite.experiments.league.intervals import INTERVALS, interval_method
from gpsuite.experiments.pac_bayes.methods import risk_method, sparse_options, with_inducing
from gpsuite.experiments.pac_bayes.tasks import LEAST_TRAINING_ROWS, FitTask, Goal
from gpsuite.experiments.robustness.classifiers import classifier_method
from gpsuite.experiments.robustness.tasks import CLASSIFIER
from gpsuite.experiments.settings import Count, Positive, Share, at_least, filled, increasing, unique
from gpsuite.experiments.tasks import plain, take
from gpsuite.experiments.wasserstein.fitting import TrainingParams
from gpsuite.experiments.wasserstein.methods import NUMBERS, regressor_version
from gpsuite.seeds import derived_seed

EVERY = "all"  # the size of all rows but the fresh ones
FRESH_SHARE = 0.2  # of a table's rows stay fresh at every size
FURTHER = 1.5  # all rows are a further size if they are so many times the largest named one
SPARSE_COST, FULL_COST = 3e-5, 4e-9  # seconds per row, and per cubed row, of a training
MINIBATCHES = 4.0  # seconds of a training by minibatches, most of them to compile it
GUARANTEE = "guarantee"  # in the tables: the two regressions of experiment=guarantee
# what wasserstein/regression ships, of its lists the first. The epochs are a setting
TRAINING = TrainingParams(
    validation_share=0.1,
    epochs=1,
    patience=1,
    batches=(1000,),
    learning_rates=(0.01,),
    trial_epochs=1,
    widths=(10, 10),
    activation="tanh",
    prior="se_ard",
    prior_mean=0.0,
    prior_evaluations=100,
    inducing=1.0,
    chosen=100,
)

DRAW, INTERVAL, SETS = "error rate of a random draw", "interval", "set of classes"
ROBUST, ROBUST_RANGE, PROOF = "robust accuracy", "robust range", "proof of a class"


@dataclass(frozen=True)
class Statement:
    """Statement of one guarantee.

    Attributes:
        title: in tables, with the title of the method where several make it.
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
    "tempered": Statement("tempered interval, {method}", INTERVAL, "rows", WIDTH),
    "peer": Statement("{method}", INTERVAL, "rows", WIDTH),
    "wrong": Statement(f"{HELD_OUT}, {{method}}", ERROR_RATE, "bound", "share of wrong classes"),
    "certified": Statement("certified accuracy, {method}", ROBUST, "bound", "share wrong or not proved to stay"),
    "stays": Statement("proved classes, {method}", PROOF, "proof", "share of rows without a proof"),
    "sets": Statement("conformal sets, {method}", SETS, "rows", "mean size"),
}
OWN_INTERVALS = ("conformal", "spread", "jackknife", "jackknife_spread", "gp")


@dataclass
class LeagueSettings:
    """Settings of the comparison.

    Attributes:
        seeds: draws of each table at each size.
        sizes: rows that a user would have. All rows but the fresh ones are a further size.
        largest: most rows of that size.
        least_fresh: rows that stay fresh at least.
        most_fresh: fresh rows that guarantees of one model are judged on at most.
        full_rows: most rows of a method of pac_bayes without inducing inputs, and of intervals of other packages.
        fit_evaluations: largest number of evaluations of a method's objective.
        epochs: largest number of epochs of a regression with tempered intervals.
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

    seeds: Count
    sizes: Annotated[list[Count], filled, unique, increasing]
    largest: Count
    least_fresh: Count
    most_fresh: Count
    full_rows: Count
    fit_evaluations: Count
    epochs: Count
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


@dataclass(frozen=True, kw_only=True)
class IntervalsTask:
    """Intervals of another method, on the split of our own judged model. Fields as of `NumbersTask`."""

    rows: int
    fresh: int
    draw: int
    learning: Learning
    method: MethodOptions
    kind: str = "league_intervals"


@dataclass(frozen=True, kw_only=True)
class TemperedTask:
    """Tempered intervals of a regression of wasserstein, whose validation rows are among its own.

    Attributes:
        method: which regression.
        training: how. Further fields as of `NumbersTask`.
    """

    rows: int
    fresh: int
    draw: int
    coverage: float
    method: MethodOptions
    training: TrainingParams
    kind: str = "league_tempered"


def sizes_of(rows: int, settings: LeagueSettings) -> dict[str, int]:
    """Return name -> number of rows of the sizes that a table has: those that leave enough fresh rows."""
    most = min(rows - max(settings.least_fresh, math.ceil(FRESH_SHARE * rows)), settings.largest)
    named = [size for size in settings.sizes if size <= most]
    found = {f"{size}": size for size in named}
    return found | ({EVERY: most} if named and most >= FURTHER * named[-1] else {})


def plan(request: Request[LeagueSettings]) -> list[Task[Any]]:
    """Return the tasks, small sizes first: a run that is stopped has whole sizes.

    Raises:
        UserError: if no method makes a statement on a table.
    """
    cells = [
        Cell(request, data, size, rows)
        for data in request.datasets.values()
        for size, rows in sizes_of(data.rows, request.settings).items()
    ]
    cells.sort(key=lambda cell: cell.rows)
    seeds = range(request.settings.seeds)
    tasks = [task for cell in cells for number in seeds for task in cell.tasks(number)]
    names = f"[{','.join(request.methods)}]"
    require(bool(tasks or not cells), "methods", names, "none is for the classes of these tables. Add laplace")
    return tasks


@dataclass(frozen=True, eq=False)
class Cell:
    """One size of a table, and its tasks."""

    request: Request[LeagueSettings]
    data: PreparedDataset
    size: str
    rows: int

    @property
    def settings(self) -> LeagueSettings:
        """Settings of the run."""
        return self.request.settings

    def tasks(self, number: int) -> Iterator[Task[Any]]:
        """Yield the tasks of a seed."""
        makes = self._of_classes
        if self.data.task != "classification":
            makes = self._of_numbers
            yield self._guarantee(number)
        for name, options in self.request.methods.items():
            if self.data.task in options.method.dataset_tasks:
                yield from makes(name, options, number)

    def _guarantee(self, number: int) -> Task[Any]:
        params = take(NumbersTask, self.settings, learning=self._learning(number), **self._own(number))
        return self._task(params, GUARANTEE, GUARANTEE, VERSION, 1.0 + 12.0 * self._thousands**2, number)

    def _of_classes(self, name: str, options: MethodOptions, number: int) -> Iterator[Task[Any]]:
        """Yield the task of a classifier, if it is for so many classes."""
        kind, method = classifier_method(options), classifier_method(options).decides(options)
        if int(self.data.spec["n_classes"] or 2) > min(kind.most_classes(options), kind.kept_classes(options)):
            return
        usual = plain(method) == plain(METHOD)
        chosen = {} if usual else {"method": method, "method_version": kind.version}
        learning = _learning(self.settings, self._own(number)["draw"], **chosen)
        params = take(ClassesTask, self.settings, learning=learning, **self._own(number))
        cost = 2.0 + (40.0 * self._thousands**2 if CLASSIFIER in kind.traits else MINIBATCHES)
        yield self._task(params, name, options.heading, CLASSES_VERSION, cost, number)

    def _of_numbers(self, name: str, options: MethodOptions, number: int) -> Iterator[Task[Any]]:
        """Yield the task of a method for regressions, by what it states, if it is for so many rows."""
        traits = options.method.traits
        if NUMBERS in traits:
            cost = MINIBATCHES + 1e-5 * self.rows * self.settings.epochs
            tempered = self._tempered(options, number)
            yield self._task(tempered, name, options.heading, regressor_version(options), cost, number)
        elif INTERVALS in traits:
            kind = interval_method(options)
            if self.rows <= (kind.most_rows(options) or self.settings.full_rows):
                own = {"learning": self._learning(number), **self._own(number)}
                params = take(IntervalsTask, self.settings, method=options, **own)
                cost = 0.5 + kind.seconds(options, self.rows)
                yield self._task(params, name, options.heading, kind.version, cost, number)
        elif sparse_options(options) is not None or self.rows <= self.settings.full_rows:
            cost = SPARSE_COST * self.rows * 100 if sparse_options(options) else FULL_COST * self.rows**3
            fit = self._certified(options, number)
            yield self._task(fit, name, options.heading, risk_method(options).version, 0.5 + cost, number)

    def _tempered(self, options: MethodOptions, number: int) -> TemperedTask:
        epochs = self.settings.epochs
        training = replace(TRAINING, epochs=epochs, patience=epochs)
        return take(TemperedTask, self.settings, method=options, training=training, **self._own(number))

    def _certified(self, options: MethodOptions, number: int) -> FitTask:
        return take(
            FitTask,
            self.settings,
            method=with_inducing(options, min(getattr(options, "inducing", self.rows), self.rows)),
            ard=False,
            max_evaluations=self.settings.fit_evaluations,
            loss=Goal(epsilon=self.settings.epsilon),
            test_share=(self.data.rows - self.rows - 0.5) / self.data.rows,  # rounded up: all other rows
            split_seed=self._own(number)["draw"],
            scaling="train",
        )

    @property
    def _thousands(self) -> float:
        return min(self.rows, self.settings.most_rows) / 1000.0

    def _own(self, number: int) -> dict[str, int]:
        """Return which rows are a user's at a seed, and how many judge."""
        draw = derived_seed(self.request.seed, "league", self.data.name, self.rows, number)
        return {"rows": self.rows, "fresh": self.settings.most_fresh, "draw": draw}

    def _learning(self, number: int) -> Learning:
        """Return what decides the two regressions."""
        share = preparation_share(self.settings.preparation, self.rows)
        return _learning(self.settings, self._own(number)["draw"], preparation=share)

    def _task(self, params: Any, method: str, title: str, version: int, cost: float, number: int) -> Task[Any]:
        label = f"{self.data.name}  {self.size} rows  {title}  seed {number}"
        axes: dict[str, str | int | float] = {"dataset": self.data.name, "size": self.size, "rows": self.rows}
        axes |= {"method": method, "seed": number}
        return self.request.task(params, label=label, axes=axes, dataset=self.data, version=version, cost=cost)


def _learning(settings: LeagueSettings, draw: int, **own: Any) -> Learning:
    """Return what decides the models of experiment=guarantee with seed=`draw`. `own` are further fields."""
    fixed = {"goal": settings.epsilon, "own": False}
    return take(Learning, settings, seed=derived_seed(draw, "guarantee"), **fixed, **own)
