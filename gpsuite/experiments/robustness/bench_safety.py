"""Verdicts among ten classes against verdicts among two, with as many rows: the work must not grow as the pairs do."""

from __future__ import annotations

from functools import partial

import numpy as np

from gpsuite.budget import Budget
from gpsuite.data.loading import PreparedDataset
from gpsuite.experiments.base import SharedWork
from gpsuite.experiments.benchmark import BenchCase, Work
from gpsuite.experiments.robustness.classifiers import SeveralClasses, trained_classes
from gpsuite.experiments.robustness.tasks import ClassifierParams, GPCParams
from gpsuite.methods.robustness.multiclass.multiclass_search import MultiClassSearch
from gpsuite.methods.robustness.search.regions import linf_ball

ROWS, POINTS = 300, 20
FREE = np.array([20, 21, 27, 28, 36])  # pixels in the middle of the image
GAMMA, BOXES = 0.3, 200
VARIANCE, LENGTHSCALE = 10.0, 2.0
GOAL = 8.0  # 45 pairs of classes against one


def class_count_case(dataset: PreparedDataset) -> BenchCase:
    """Return the case; what is computed once for a posterior is not in it."""

    def works() -> tuple[Work, Work]:
        ten, two = (_trained(dataset, [str(label) for label in range(count)]) for count in (10, 2))
        for each in (ten, two):
            MultiClassSearch(each.posterior, each.problem.X_test[0], FREE)
        return partial(verdicts, ten), partial(verdicts, two)

    case = f"verdicts of {POINTS} points among ten classes, {dataset.name}, {ROWS} rows, {len(FREE)} pixels"
    return BenchCase(
        f"{case}, gamma={GAMMA:g}", "two classes, as many rows, pixels and points", works, GOAL, pairs=3
    )


def verdicts(found: SeveralClasses) -> list[str]:
    """Return whether the class of each of the first points is safe."""
    statuses = []
    for x in found.problem.X_test[:POINTS]:
        search = MultiClassSearch(found.posterior, x, FREE)
        statuses.append(
            search.decide(linf_ball(x, GAMMA, FREE.tolist(), (0.0, 1.0)), Budget(boxes=BOXES))[0].status
        )
    return statuses


def _trained(dataset: PreparedDataset, classes: list[str]) -> SeveralClasses:
    model = ClassifierParams(
        method=GPCParams("gpc", "laplace", "probit"),
        version=1,
        kernel="squared_exponential",
        ard=False,
        draw_seed=0,
        evaluations=1,
        train_rows=ROWS,
        test_rows=50,
        classes=classes,
        start_variance=VARIANCE,
        start_lengthscale=LENGTHSCALE,
        largest_variance=1e6,
        scaling="pixels",
    )
    return trained_classes(dataset, model, SharedWork())
