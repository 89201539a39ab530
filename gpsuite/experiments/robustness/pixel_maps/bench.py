"""A whole map of an image's pixels against the same intervals searched one by one."""

from __future__ import annotations

from functools import partial

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.data.loading import PreparedDataset
from gpsuite.experiments.base import SharedWork
from gpsuite.experiments.benchmark import BenchCase, Work
from gpsuite.experiments.robustness.shared.several_classes import SeveralClasses, trained_classes
from gpsuite.experiments.robustness.shared.tasks import ClassifierParams, GPCParams
from gpsuite.methods.robustness.explain.effects import one_sided_ranges
from gpsuite.methods.robustness.explain.softmax_lines import softmax_lines
from gpsuite.methods.robustness.multiclass.multiclass_search import MultiClassSearch
from gpsuite.methods.robustness.search.regions import interval_box

GAMMA, TOLERANCE = 0.5, 0.02
ROWS, EVALUATIONS = 500, 10
SINGLE = 2  # pixels searched one by one
DOMAIN = (0.0, 1.0)


def pixel_map_case(dataset: PreparedDataset) -> BenchCase:
    """Return the case: the effects of all pixels of one image on every class, both directions."""

    def works() -> tuple[Work, Work]:
        found = _trained(dataset)
        x = found.problem.X_test[0]
        return partial(whole_map, found, x), partial(single_searches, found, x)

    case = f"map of all pixels for every class, {dataset.name}, {ROWS} rows, gamma=.5, eps=.02 (goal 60 s)"
    reference = f"{SINGLE} pixels of one class searched one by one (a map is {196 * 3 // SINGLE} times that)"
    return BenchCase(case, reference, works, 196 * 3 / SINGLE, pairs=1)


def whole_map(found: SeveralClasses, x: FloatArray) -> list[bool]:
    """Return whether all intervals of each class are closed."""
    inputs = np.arange(len(x))
    lines = softmax_lines(found.posterior, x[None], inputs, 0)
    maps = [
        one_sided_ranges(lines.of_class(own), x[None], inputs, GAMMA, DOMAIN, TOLERANCE, Budget())
        for own in range(found.posterior.n_classes)
    ]
    return [bool(each.closed.all()) for each in maps]


def single_searches(found: SeveralClasses, x: FloatArray) -> list[float]:
    """Return the gaps of the same ranges by one search per interval, for the brightest pixels."""
    gaps = []
    for place in np.argsort(-x)[:SINGLE]:
        search = MultiClassSearch(found.posterior, x, np.array([place]))
        for step in (-GAMMA, GAMMA):
            low, high = x.copy(), x.copy()
            low[place], high[place] = min(x[place], x[place] + step), max(x[place], x[place] + step)
            region = interval_box(x, low, high, DOMAIN)
            if np.array_equal(region.free, [place]):
                spread = search.range(0, region, TOLERANCE, Budget())
                gaps.append(max(spread.minimum.gap, spread.maximum.gap))
    return gaps


def _trained(dataset: PreparedDataset) -> SeveralClasses:
    model = ClassifierParams(
        method=GPCParams("gpc", "laplace", "probit"),
        version=1,
        kernel="squared_exponential",
        ard=True,
        draw_seed=0,
        evaluations=EVALUATIONS,
        train_rows=ROWS,
        test_rows=200,
        classes=[],
        start_variance=1.0,
        start_lengthscale=1.0,
        largest_variance=1e6,
        scaling="pixels",
    )
    return trained_classes(dataset, model, SharedWork())
