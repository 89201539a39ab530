"""Branch and bound with our bound against the paper's and against the floor, the matrix products of its boxes.

n = 1000, one thread, set-up included. The paper's bound gets `LIMIT` seconds a point; where it does not close, the
ratio is a lower bound of the true one, and the case's name says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from gpsuite.budget import Budget
from gpsuite.data.catalogue import read_spec, shipped_conf_dir
from gpsuite.data.loading import PreparedDataset, prepare
from gpsuite.experiments.base import SharedWork
from gpsuite.experiments.benchmark import BenchCase, Work
from gpsuite.experiments.robustness.classifiers import Array, Problem, trained_classifier
from gpsuite.experiments.robustness.free_inputs import choose
from gpsuite.methods.robustness.input_choice import opencv_found
from gpsuite.methods.robustness.regions import Region, linf_ball
from gpsuite.methods.robustness.rkhs_taylor import rkhs_taylor
from gpsuite.methods.robustness.rkhs_taylor_features import n_terms
from gpsuite.methods.robustness.verdict import MANY_INPUTS, probability_extremum
from gpsuite.models.gpc import GPCPosterior

OURS, PAPER = "rkhs_taylor", "paper"
LIMIT = 10.0  # seconds a point for the paper's bound
POINTS = 50  # test points with our bound
WIDE = 0.5  # gamma
WIDE_POINTS = 20  # with the largest box, whose searches are long
PAIRED = 5  # of them with the paper's
HUNDREDFOLD = 0.01
BATCH = 64
FLOOR_GOAL = 5.0  # of whole searches: set-up and incumbent search are in them
# degree, free inputs -> largest allowed ratio of a batch's bounds to the matrix product inside them
BATCH_GOALS = {(1, 10): 2.0, (2, 2): 2.0}
EVALUATIONS = {"mnist38": 10, "synthetic2d": 20}


def cases() -> list[BenchCase]:
    """Return the cases: searches against the paper's bound and against their floor, and single batches of boxes."""
    pixels = f"{_data_name('mnist38')}, 10 {'SIFT' if opencv_found() else 'gradient'} pixels"
    wide, wider = f"π max, {pixels}, gamma=.25, eps=.025", f"π max, {pixels}, gamma=.5, eps=.025"
    plane = f"π max, {_data_name('synthetic2d')}, gamma=.4, eps=.02"
    return [
        _floor_of_searches(f"{wide}, {POINTS} points together (goal .1 s a point)", "mnist38", 0.25, 0.025),
        _against_paper(f"{wide}, first {PAIRED} points together", "mnist38", 0.25, 0.025),
        _floor_of_searches(
            f"{wide}, the hardest of {POINTS} points (goal .4 s)", "mnist38", 0.25, 0.025, hardest=True
        ),
        _floor_of_searches(
            f"{wider}, first {WIDE_POINTS} points together (goal .5 s a point)", "mnist38", 0.5, 0.025
        ),
        _against_paper(f"{wider}, first {PAIRED} points together", "mnist38", 0.5, 0.025),
        _floor_of_searches(
            f"{plane}, {POINTS} points together (goal .02 s a point)", "synthetic2d", 0.4, 0.02
        ),
        _against_paper(f"{plane}, first {PAIRED} points together", "synthetic2d", 0.4, 0.02),
        *(_floor_of_batch(degree, d, goal) for (degree, d), goal in BATCH_GOALS.items()),
    ]


def _against_paper(case: str, dataset: str, gamma: float, tolerance: float) -> BenchCase:
    def works() -> tuple[Work, Work]:
        posterior = _classifier(dataset)[1]
        regions = _regions_unsearched(dataset, gamma)[:PAIRED]
        ours = partial(_run, posterior, regions, OURS, tolerance, None)
        return ours, partial(_run, posterior, regions, PAPER, tolerance, LIMIT)

    reference = f"bound=paper, {LIMIT:g} s a point at most (unclosed: lower bound)"
    return BenchCase(case, reference, works, HUNDREDFOLD, pairs=1)


def _floor_of_searches(
    case: str, dataset: str, gamma: float, tolerance: float, hardest: bool = False
) -> BenchCase:
    def works() -> tuple[Work, Work]:
        found = _regions(dataset, gamma, tolerance)
        if hardest:
            found = [max(found, key=lambda each: each[0])]
        posterior, regions = _classifier(dataset)[1], [region for _, region in found]
        boxes, d = sum(each[0] for each in found), len(regions[0].free)
        batches, rest = divmod(boxes, BATCH)
        product = _product(posterior, regions[0], d, BATCH)
        last = _product(posterior, regions[0], d, max(rest, 1))
        ours = partial(_run, posterior, regions, OURS, tolerance, None)
        return ours, lambda: ([product() for _ in range(batches)], last())

    return BenchCase(case, "floor: the matrix products of its boxes", works, FLOOR_GOAL, pairs=1)


def _floor_of_batch(degree: int, d: int, goal: float) -> BenchCase:
    dataset = "mnist38" if d > 2 else "synthetic2d"

    def works() -> tuple[Work, Work]:
        region = _regions_unsearched(dataset, 0.25)[0]
        posterior = _classifier(dataset)[1]
        bounding = rkhs_taylor(posterior, region.centre, region.free, degree=1 if degree == 1 else 2)
        rng = np.random.default_rng(0)
        centre = region.start + rng.uniform(-0.25, 0.25, size=(BATCH, d))
        ours = partial(bounding.bounds, centre - 0.05, centre + 0.05)
        return ours, _product(posterior, region, d, BATCH, degree)

    case = f"bounds of {BATCH} boxes, degree {degree}, d={d}, {_data_name(dataset)}"
    return BenchCase(case, "floor: the matrix product inside", works, goal)


def _data_name(dataset: str) -> str:
    found = _dataset(dataset)
    return f"{dataset} {'STAND-IN' if found.stand_in else 'n=1000'}"


@cache
def _dataset(name: str) -> PreparedDataset:
    return prepare(read_spec(shipped_conf_dir(), name), cache_dir=Path("data"), allow_stand_in=True)


@cache
def _regions(dataset: str, gamma: float, tolerance: float) -> list[tuple[int, Region]]:
    """Return the first test points' regions, each with the boxes that our bound needs."""
    posterior = _classifier(dataset)[1]
    return [
        (probability_extremum(posterior, region, 1, tolerance, Budget(), OURS).boxes, region)
        for region in _regions_unsearched(dataset, gamma)
    ]


def _regions_unsearched(dataset: str, gamma: float) -> list[Region]:
    problem, _, choices = _classifier(dataset)
    return [
        linf_ball(problem.X_test[point], gamma, choices(point), problem.domain)
        for point in range(WIDE_POINTS if gamma >= WIDE else POINTS)
    ]


def _run(
    posterior: GPCPosterior, regions: list[Region], bound: str, tolerance: float, seconds: float | None
) -> list[float]:
    """Search the largest class probability of every region; return the gaps."""
    return [
        probability_extremum(posterior, region, 1, tolerance, Budget(seconds=seconds), bound).gap
        for region in regions
    ]


def _product(posterior: GPCPosterior, region: Region, d: int, boxes: int, degree: int | None = None) -> Work:
    """Return the product of the operator's root with the features of so many boxes."""
    chosen = degree or (2 if d <= MANY_INPUTS else 1)
    bounding = rkhs_taylor(posterior, region.centre, region.free, degree=1 if chosen == 1 else 2)
    rows, n = bounding.stacked.shape
    features: Array = np.random.default_rng(0).standard_normal((n, boxes * n_terms(d, chosen)))
    return partial(np.matmul, bounding.stacked, features, np.empty((rows, features.shape[1])))


@cache
def _classifier(dataset: str) -> tuple[Problem, GPCPosterior, Callable[[int], list[int]]]:
    """Return the problem, its classifier, and the free inputs of a test point."""
    pixels = dataset == "mnist38"
    model: dict[str, Any] = {
        "method": {"builder": "gpc", "inference": "laplace", "link": "probit"},
        "kernel": "squared_exponential",
        "ard": pixels,
        "draw_seed": 0,
        "evaluations": EVALUATIONS[dataset],
        "train_rows": 1000,
        "test_rows": 200,
        "scaling": "pixels" if pixels else "none",
        "classes": [],
        "start_variance": 1.0,
        "start_lengthscale": 1.0,
        "largest_variance": 1e6,
    }
    problem, trained = trained_classifier(_dataset(dataset), model, SharedWork())
    word = ("sift10" if opencv_found() else "gradient10") if pixels else "all"

    def choices(point: int) -> list[int]:
        found: list[int] = choose(word, problem, trained, problem.X_test[point]).inputs.tolist()
        return found

    return problem, trained.fit.require_converged(), choices
