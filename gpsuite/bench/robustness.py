"""Branch and bound with our bound against the paper's, against the floor of its matrix products, and by link.

Certificates and their checks are compared with the searches that they certify.

n = 1000, one thread. Work that is done once per posterior is a separate case and not in the others. The paper's bound
gets `LIMIT` seconds a point. If it does not close, the ratio is a lower bound of the true one, and the case's name
states it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.bench.timing import BenchCase, Work
from gpsuite.budget import Budget
from gpsuite.certificates.certificate import POSITIVE, Certificate
from gpsuite.certificates.checker import check_certificate
from gpsuite.data.catalogue import read_spec
from gpsuite.data.loading import PreparedDataset, prepare
from gpsuite.experiments.base import SharedWork
from gpsuite.experiments.robustness.classifiers import (
    Classifier,
    Problem,
    Trained,
    median_distance,
    read_classes,
    trained_classifier,
)
from gpsuite.experiments.robustness.inputs import choose
from gpsuite.experiments.robustness.methods import gpc
from gpsuite.experiments.robustness.tasks import ClassifierParams
from gpsuite.methods.robustness.certification import certify
from gpsuite.methods.robustness.explain.effects import one_sided_ranges
from gpsuite.methods.robustness.explain.lines import softmax_lines
from gpsuite.methods.robustness.level_bound.level_search import BATCH
from gpsuite.methods.robustness.level_bound.posterior_slice import compute_products, posterior_products
from gpsuite.methods.robustness.point_search import PointSearch, probability_extremum
from gpsuite.methods.robustness.search.branch_and_bound import Extremum
from gpsuite.methods.robustness.search.regions import Region, interval_box, linf_ball
from gpsuite.models.classification.approximation import BinaryProblem, GPCPosterior
from gpsuite.models.classification.expectation_propagation import expectation_propagation
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.softmax_laplace import MultiClassProblem
from gpsuite.models.classification.training import train_multiclass_gpc
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.plugins import shipped_conf_dir

OURS, PAPER = "rkhs_taylor", "paper"
LIMIT = 10.0  # seconds a point for the paper's bound
POINTS = 50  # test points with our bound
PAIRED = 5  # of them with the paper's
HUNDREDFOLD = 0.01
FLOOR_GOAL = 15.0  # of whole searches: evaluations, relaxations and the polish are in them
LOGISTIC_GOAL = 3.0
SET_UP_GOAL = 30.0
CERTIFICATE_GOAL = 1.0
EVALUATIONS = {"mnist38": 10, "synthetic2d": 20}
# kernel, free inputs (all), gamma: made-up data whose searches did not end before
FRONTIER = (
    ("squared_exponential", 20, 0.3),
    ("squared_exponential", 20, 0.4),
    ("squared_exponential", 40, 0.2),
    ("matern52", 10, 0.3),
    ("matern32", 10, 0.3),
)
FRONTIER_POINTS = 3


def cases() -> list[BenchCase]:
    """Return the cases: searches against the paper's bound, against their floor and by link, and what is kept."""
    pixels = f"{_data_name('mnist38')}, 10 SIFT pixels"
    narrow, wide = f"π max, {pixels}, gamma=0.25, eps=0.025", f"π max, {pixels}, gamma=0.5, eps=0.025"
    plane = f"π max, {_data_name('synthetic2d')}, gamma=0.4, eps=0.02"
    together, easy, hardest = (f"{POINTS} points together", "the median point", f"the hardest of {POINTS} points")
    return [
        _set_up(),
        _floor(f"{narrow}, {together}", "mnist38", 0.25, 0.025, _all),
        _against_paper(f"{narrow}, first {PAIRED} points together", "mnist38", 0.25, 0.025),
        _floor(f"{wide}, {together}", "mnist38", 0.5, 0.025, _all),
        _floor(f"{wide}, {easy} (goal 0.012 s)", "mnist38", 0.5, 0.025, _median),
        _floor(f"{wide}, {hardest} (goal 0.5 s)", "mnist38", 0.5, 0.025, _hardest),
        _against_paper(f"{wide}, first {PAIRED} points together", "mnist38", 0.5, 0.025),
        _by_link(f"{wide}, {together}, logistic"),
        _floor(f"{plane}, {together} (goal 0.008 s per point)", "synthetic2d", 0.4, 0.02, _all),
        _against_paper(f"{plane}, first {PAIRED} points together", "synthetic2d", 0.4, 0.02),
        *(_frontier(*row) for row in FRONTIER),
        *_certificates(f"{wide.removeprefix('π max, ')}, first {PAIRED} points", _first_pixels),
        *_certificates("matern52, 10 inputs, n=1000, gamma=0.3, eps=0.02", _first_made_up),
        *pixel_map_cases(_dataset("mnist358")),
        class_count_case(_dataset("digits")),
    ]


Choice = Callable[[list[tuple[int, Region]]], list[tuple[int, Region]]]


def _all(found: list[tuple[int, Region]]) -> list[tuple[int, Region]]:
    return found


def _median(found: list[tuple[int, Region]]) -> list[tuple[int, Region]]:
    return [sorted(found, key=lambda each: each[0])[len(found) // 2]]


def _hardest(found: list[tuple[int, Region]]) -> list[tuple[int, Region]]:
    return [max(found, key=lambda each: each[0])]


def _set_up() -> BenchCase:
    def works() -> tuple[Work, Work]:
        posterior = _classifier("mnist38")[1]
        return partial(compute_products, posterior), partial(np.matmul, posterior.root.T, posterior.root)

    case = f"once per posterior, {_data_name('mnist38')}"
    return BenchCase(case, "floor: one product of its root", works, SET_UP_GOAL)


def _against_paper(case: str, dataset: str, gamma: float, tolerance: float) -> BenchCase:
    def works() -> tuple[Work, Work]:
        posterior = _classifier(dataset)[1]
        regions = _regions(dataset, gamma)[:PAIRED]
        ours = partial(_run, posterior, regions, OURS, tolerance, None)
        return ours, partial(_run, posterior, regions, PAPER, tolerance, LIMIT)

    reference = f"bound=paper, {LIMIT:g} s a point at most (unclosed: lower bound)"
    return BenchCase(case, reference, works, HUNDREDFOLD, pairs=1, count=_boxes)


def _floor(case: str, dataset: str, gamma: float, tolerance: float, choice: Choice) -> BenchCase:
    def works() -> tuple[Work, Work]:
        posterior = _classifier(dataset)[1]
        found = choice(_searched(posterior, _regions(dataset, gamma), 1, tolerance))
        regions, boxes = [region for _, region in found], [each[0] for each in found]
        ours = partial(_run, posterior, regions, OURS, tolerance, None)
        return ours, _product(posterior, len(regions[0].free), boxes)

    return BenchCase(case, "floor: the matrix products of its boxes", works, FLOOR_GOAL, pairs=3, count=_boxes)


def _by_link(case: str) -> BenchCase:
    def works() -> tuple[Work, Work]:
        posterior, regions = _classifier("mnist38")[1], _regions("mnist38", 0.5)
        logistic = replace(posterior, link=LINKS.get("logistic"))
        posterior_products(logistic)
        ours, probit = (partial(_run, each, regions, OURS, 0.025, None) for each in (logistic, posterior))
        return ours, probit

    reference = "the same mean and variance with a probit"
    return BenchCase(case, reference, works, LOGISTIC_GOAL, pairs=1, count=_boxes)


def _frontier(kernel: str, inputs: int, gamma: float) -> BenchCase:
    case = f"both ends, {kernel}, {inputs} inputs, n=1000, gamma={gamma:g}, eps=0.02, {FRONTIER_POINTS} points"

    def works() -> tuple[Work, Work]:
        posterior, points = _made_up(kernel, inputs)
        regions = [linf_ball(point, gamma) for point in points]
        boxes = [each for sign in (-1, 1) for each, _ in _searched(posterior, regions, sign, 0.02)]

        def ours() -> list[Extremum]:
            return [each for sign in (-1, 1) for each in _run(posterior, regions, OURS, 0.02, None, sign)]

        return ours, _product(posterior, inputs, boxes)

    floor = "floor: the matrix products of its boxes"
    return BenchCase(f"{case} (goal 0.3 s per point)", floor, works, FLOOR_GOAL, count=_boxes)


Searched = tuple[GPCPosterior, list[Region], float]


def _first_pixels() -> Searched:
    return _classifier("mnist38")[1], _regions("mnist38", 0.5)[:PAIRED], 0.025


def _first_made_up() -> Searched:
    posterior, points = _made_up("matern52", 10)
    return posterior, [linf_ball(point, 0.3) for point in points], 0.02


def _certificates(case: str, problem: Callable[[], Searched]) -> list[BenchCase]:
    """Return what certificates of both ends cost next to their searches: to make and to check, set-up apart."""

    def works() -> tuple[Work, Work, Work]:
        posterior, regions, tolerance = problem()

        def search() -> list[tuple[Extremum, ...]]:
            return [
                tuple(probability_extremum(posterior, region, sign, tolerance, Budget(), OURS) for sign in (-1, 1))
                for region in regions
            ]

        found = search()

        def propose() -> list[Certificate]:
            return [
                certify(posterior, region, [(POSITIVE, extremum) for extremum in each])
                for region, each in zip(regions, found, strict=True)
            ]

        made = propose()
        check_certificate(made[0])
        return propose, lambda: [check_certificate(each) for each in made], search

    def making() -> tuple[Work, Work]:
        propose, _, search = works()
        return propose, search

    def checking() -> tuple[Work, Work]:
        _, check, search = works()
        return check, search

    name = "the searches for both ends"
    return [
        BenchCase(f"certificates, {case}", name, making, CERTIFICATE_GOAL, pairs=3),
        BenchCase(f"checks of certificates, {case}", name, checking, CERTIFICATE_GOAL, pairs=3),
    ]


@cache
def _made_up(kernel: str, inputs: int) -> tuple[GPCPosterior, FloatArray]:
    """Return EP's posterior of 1000 normal points with a curved border, s = 3 and l = sqrt(d), and points to search."""
    rng = np.random.default_rng(inputs)
    X, w = rng.standard_normal((1000, inputs)), rng.standard_normal((inputs, 3)) / np.sqrt(inputs)
    border = np.sin(2.0 * X @ w[:, 0]) + X @ w[:, 1] + (X @ w[:, 2]) ** 2 - 1.0
    y = np.where(border + 0.3 * rng.standard_normal(1000) > 0.0, 1.0, -1.0)
    h = Hyperparameters(variance=3.0, lengthscales=(float(np.sqrt(inputs)),))
    fit = expectation_propagation(BinaryProblem(X, y, ModelSpec(kernel=kernel), LINKS.get("probit")), h)
    posterior = fit.require_converged()
    posterior_products(posterior)
    return posterior, rng.standard_normal((FRONTIER_POINTS, inputs))


def _data_name(dataset: str) -> str:
    found = _dataset(dataset)
    return f"{dataset} {'STAND-IN' if found.stand_in else 'n=1000'}"


@cache
def _dataset(name: str) -> PreparedDataset:
    return prepare(read_spec(shipped_conf_dir(), name), cache_dir=Path("data"), allow_stand_in=True)


def _searched(posterior: GPCPosterior, regions: list[Region], sign: int, tolerance: float) -> list[tuple[int, Region]]:
    """Return regions, each with the boxes that our bound needs."""
    return [
        (probability_extremum(posterior, region, sign, tolerance, Budget(), OURS).boxes, region) for region in regions
    ]


def _regions(dataset: str, gamma: float) -> list[Region]:
    problem, _, choices = _classifier(dataset)
    return [linf_ball(problem.X_test[point], gamma, choices(point), problem.domain) for point in range(POINTS)]


def _run(
    posterior: GPCPosterior, regions: list[Region], bound: str, tolerance: float, seconds: float | None, sign: int = 1
) -> list[Extremum]:
    """Search the largest (or smallest) class probability of every region."""
    return [
        probability_extremum(posterior, region, sign, tolerance, Budget(seconds=seconds), bound) for region in regions
    ]


def _boxes(found: Any) -> str:
    """Return in words how many boxes searches needed. A floor has none."""
    searches = isinstance(found, list) and all(isinstance(each, Extremum) for each in found)
    return f"{sum(each.boxes for each in found)} boxes" if searches else ""


def _product(posterior: GPCPosterior, inputs: int, boxes: list[int]) -> Work:
    """Return the products of the posterior's reduction with the 1 + d columns of every box of searches.

    A search's root is a batch of one, the others come in batches as there.
    """
    reduction, sizes = posterior_products(posterior).reduction, []
    for each in boxes:
        batches, rest = divmod(each - 1, BATCH)
        sizes += [1] + [BATCH] * batches + [rest] * (rest > 0)
    rng = np.random.default_rng(0)
    columns: dict[int, FloatArray] = {
        size: rng.standard_normal((size * (1 + inputs), len(reduction))) for size in set(sizes)
    }
    return lambda: [columns[size] @ reduction for size in sizes]


@cache
def _classifier(dataset: str) -> tuple[Problem, GPCPosterior, Callable[[int], list[int]]]:
    """Return the problem, its classifier, and the free inputs of a test point."""
    pixels = dataset == "mnist38"
    model = ClassifierParams(
        method=gpc("laplace", "probit"),
        version=1,
        kernel="squared_exponential",
        ard=pixels,
        draw_seed=0,
        evaluations=EVALUATIONS[dataset],
        train_rows=1000,
        test_rows=200,
        classes=[],
        start_variance=1.0,
        start_lengthscale=1.0,
        largest_variance=1e6,
        scaling="pixels" if pixels else "none",
    )
    trained = trained_classifier(_dataset(dataset), model, SharedWork())
    problem, posterior = trained.problem, trained.posterior
    word = "sift10" if pixels else "all"

    def choices(point: int) -> list[int]:
        found: list[int] = choose(word, problem, posterior.lengthscales, problem.X_test[point]).inputs.tolist()
        return found

    posterior_products(posterior)
    return problem, posterior, choices


# Verdicts among ten classes against verdicts among two, with as many rows: the work must not grow as the pairs do.


SAFETY_ROWS, SAFETY_POINTS = 300, 20
FREE = np.array([20, 21, 27, 28, 36])  # pixels in the middle of the image
SAFETY_GAMMA, BOXES = 0.3, 200
VARIANCE, LENGTHSCALE = 10.0, 2.0
GOAL = 8.0  # 45 pairs of classes against one


def class_count_case(dataset: PreparedDataset) -> BenchCase:
    """Return the case. What is computed once for a posterior is not in it."""

    def works() -> tuple[Work, Work]:
        ten, two = (_trained_for_safety(dataset, [str(label) for label in range(count)]) for count in (10, 2))
        for each in (ten, two):
            PointSearch(each.posterior, each.problem.X_test[0], FREE)
        return partial(verdicts, ten), partial(verdicts, two)

    points = f"verdicts of {SAFETY_POINTS} points among ten classes"
    case = f"{points}, {dataset.name}, {SAFETY_ROWS} rows, {len(FREE)} pixels"
    return BenchCase(
        f"{case}, gamma={SAFETY_GAMMA:g}", "two classes, as many rows, pixels and points", works, GOAL, pairs=3
    )


def verdicts(found: Classifier) -> list[str]:
    """Return whether the class of each of the first points is safe."""
    statuses = []
    for x in found.problem.X_test[:SAFETY_POINTS]:
        search = PointSearch(found.posterior, x, FREE)
        statuses.append(
            search.decide(linf_ball(x, SAFETY_GAMMA, FREE.tolist(), (0.0, 1.0)), Budget(boxes=BOXES))[0].status
        )
    return statuses


def _trained_for_safety(dataset: PreparedDataset, classes: list[str]) -> Classifier:
    model = ClassifierParams(
        method=gpc("laplace", "probit"),
        version=1,
        kernel="squared_exponential",
        ard=False,
        draw_seed=0,
        evaluations=1,
        train_rows=SAFETY_ROWS,
        test_rows=50,
        classes=classes,
        start_variance=VARIANCE,
        start_lengthscale=LENGTHSCALE,
        largest_variance=1e6,
        scaling="pixels",
    )
    problem = read_classes(dataset, model)  # the softmax of two classes, too
    data = MultiClassProblem(problem.X, problem.y.astype(np.int64), len(classes), model.spec)
    start = Hyperparameters(VARIANCE, (LENGTHSCALE * median_distance(problem.X),))
    found = train_multiclass_gpc(data, start, Budget(evaluations=1))
    return Classifier(problem, model, Trained(found.fit.require_converged()))


# A map of an image's pixels against the same intervals searched one by one, and some of these by the paper's bound.


MAP_GAMMA, TOLERANCE = 0.5, 0.02
MAP_ROWS, MAP_EVALUATIONS = 500, 10
SINGLE = 2  # pixels searched one by one
MAP_LIMIT, MAP_GOAL = (10.0, 0.01)  # seconds of a search by the paper's bound. How much of its time ours may take
DOMAIN = (0.0, 1.0)


def pixel_map_cases(dataset: PreparedDataset) -> list[BenchCase]:
    """Return the cases: the effects of all pixels of one image on every class, and a sample by either bound."""

    @cache
    def found() -> Classifier:
        return _trained_for_maps(dataset)

    def maps() -> tuple[Work, Work]:
        return partial(whole_map, found()), partial(single_searches, found())

    def samples() -> tuple[Work, Work]:
        single_searches(found())  # what is computed once for a posterior
        return partial(single_searches, found()), partial(single_searches, found(), "paper", MAP_LIMIT)

    data = f"{dataset.name}, {MAP_ROWS} rows, gamma=0.5, eps=0.02"
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
            f"bound=paper, {MAP_LIMIT:g} s a search at most (unclosed: lower bound)",
            samples,
            MAP_GOAL,
            pairs=1,
        ),
    ]


def whole_map(found: Classifier) -> list[bool]:
    """Return whether all intervals of each class are closed, of the first test image."""
    x = found.problem.X_test[0]
    inputs = np.arange(len(x))
    lines = softmax_lines(found.posterior, x[None], inputs, 0)
    maps = [
        one_sided_ranges(lines.of_class(own), x[None], inputs, MAP_GAMMA, DOMAIN, TOLERANCE, Budget())
        for own in range(found.posterior.n_classes)
    ]
    return [bool(each.closed.all()) for each in maps]


def single_searches(found: Classifier, bound: str = "rkhs_taylor", seconds: float | None = None) -> list[float]:
    """Return the gaps of the same ranges by one search per interval, for the brightest pixels.

    Args:
        found: the trained model.
        bound: of the searches.
        seconds: at most, of one search.
    """
    x, gaps = found.problem.X_test[0], []
    for place in np.argsort(-x)[:SINGLE]:
        search = PointSearch(found.posterior, x, np.array([place]), bound)
        for step in (-MAP_GAMMA, MAP_GAMMA):
            low, high = x.copy(), x.copy()
            low[place], high[place] = min(x[place], x[place] + step), max(x[place], x[place] + step)
            region = interval_box(x, low, high, DOMAIN)
            if np.array_equal(region.free, [place]):
                spread = search.range(region, TOLERANCE, Budget(seconds=seconds), 0)
                gaps.append(spread.gap)
    return gaps


def _trained_for_maps(dataset: PreparedDataset) -> Classifier:
    model = ClassifierParams(
        method=gpc("laplace", "probit"),
        version=1,
        kernel="squared_exponential",
        ard=True,
        draw_seed=0,
        evaluations=MAP_EVALUATIONS,
        train_rows=MAP_ROWS,
        test_rows=200,
        classes=[],
        start_variance=1.0,
        start_lengthscale=1.0,
        largest_variance=1e6,
        scaling="pixels",
    )
    return trained_classifier(dataset, model, SharedWork())
