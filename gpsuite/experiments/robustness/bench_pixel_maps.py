"""A map of an image's pixels against the same intervals searched one by one, and some of these by the paper's bound."""

from __future__ import annotations

from functools import cache, partial

import numpy as np

from gpsuite.budget import Budget
from gpsuite.data.loading import PreparedDataset
from gpsuite.experiments.base import SharedWork
from gpsuite.experiments.benchmark import BenchCase, Work
from gpsuite.experiments.robustness.classifiers import SeveralClasses, trained_classes
from gpsuite.experiments.robustness.tasks import ClassifierParams, GPCParams
from gpsuite.methods.robustness.explain.effects import one_sided_ranges
from gpsuite.methods.robustness.explain.softmax_lines import softmax_lines
from gpsuite.methods.robustness.multiclass.multiclass_search import MultiClassSearch
from gpsuite.methods.robustness.search.regions import interval_box

GAMMA, TOLERANCE = 0.5, 0.02
ROWS, EVALUATIONS = 500, 10
SINGLE = 2  # pixels searched one by one
LIMIT, HUNDREDFOLD = (
    10.0,
    0.01,
)  # seconds of a search by the paper's bound; how much of its time ours may take
DOMAIN = (0.0, 1.0)


def pixel_map_cases(dataset: PreparedDataset) -> list[BenchCase]:
    """Return the cases: the effects of all pixels of one image on every class, and a sample by either bound."""

    @cache
    def found() -> SeveralClasses:
        return _trained(dataset)

    def maps() -> tuple[Work, Work]:
        return partial(whole_map, found()), partial(single_searches, found())

    def samples() -> tuple[Work, Work]:
        single_searches(found())  # what is computed once for a posterior
        return partial(single_searches, found()), partial(single_searches, found(), "paper", LIMIT)

    data = f"{dataset.name}, {ROWS} rows, gamma=.5, eps=.02"
    one_by_one = f"{SINGLE} pixels of one class searched one by one"
    times = 196 * 3 / SINGLE
    return [
        BenchCase(
            f"map of all pixels for every class, {data} (goal 60 s)",
            f"{one_by_one} (a map is {times:g} times that)",
            maps,
            times,
            pairs=1,
        ),
        BenchCase(
            f"{one_by_one}, {data}",
            f"bound=paper, {LIMIT:g} s a search at most (unclosed: lower bound)",
            samples,
            HUNDREDFOLD,
            pairs=1,
        ),
    ]


def whole_map(found: SeveralClasses) -> list[bool]:
    """Return whether all intervals of each class are closed, of the first test image."""
    x = found.problem.X_test[0]
    inputs = np.arange(len(x))
    lines = softmax_lines(found.posterior, x[None], inputs, 0)
    maps = [
        one_sided_ranges(lines.of_class(own), x[None], inputs, GAMMA, DOMAIN, TOLERANCE, Budget())
        for own in range(found.posterior.n_classes)
    ]
    return [bool(each.closed.all()) for each in maps]


def single_searches(
    found: SeveralClasses, bound: str = "rkhs_taylor", seconds: float | None = None
) -> list[float]:
    """Return the gaps of the same ranges by one search per interval, for the brightest pixels.

    Args:
        found: the trained model.
        bound: of the searches.
        seconds: at most, of one search.
    """
    x, gaps = found.problem.X_test[0], []
    for place in np.argsort(-x)[:SINGLE]:
        search = MultiClassSearch(found.posterior, x, np.array([place]), bound)
        for step in (-GAMMA, GAMMA):
            low, high = x.copy(), x.copy()
            low[place], high[place] = min(x[place], x[place] + step), max(x[place], x[place] + step)
            region = interval_box(x, low, high, DOMAIN)
            if np.array_equal(region.free, [place]):
                spread = search.range(0, region, TOLERANCE, Budget(seconds=seconds))
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
