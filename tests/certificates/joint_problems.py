"""Small certificates of three classes and of regressions, with their datasets, shared by tests."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from gpsuite.budget import Budget
from gpsuite.certificates.certificate import Certificate, ClassQuantity, MarginQuantity, Origin, QuantileQuantity
from gpsuite.data.dataset import Dataset
from gpsuite.methods.robustness.certification import certify
from gpsuite.methods.robustness.point_search import PointSearch, Quantity
from gpsuite.methods.robustness.regression import MEAN, QuantileRange, prediction_range
from gpsuite.methods.robustness.search.branch_and_bound import branch_and_bound
from gpsuite.methods.robustness.search.regions import Region, box, l1_ball, l2_ball, linf_ball
from gpsuite.models.classification.softmax_laplace import softmax_laplace
from gpsuite.models.config import Hyperparameters
from gpsuite.models.latent import LatentPosterior
from gpsuite.models.radial import kappa, squared_distances
from tests.arrays import Array
from tests.models.softmax_problems import drawn_problem

CONTENT = 64 * "5"
NAMES = ("red", "green", "blue", "grey", "white", "black")
CENTRE = np.array([0.4, 0.1])
BALLS = {"box": linf_ball, "l2": l2_ball, "l1": l1_ball}
NOISE, LEVELS = 0.05, (MEAN, 0.05, 0.95)
OFFSET, SCALE = 3.0, 2.5  # of the regression's target


def class_origin(C: int = 3) -> Origin:
    problem = drawn_problem(C)
    n = len(problem.X)
    return Origin(
        dataset="colours", content=CONTENT, row=n, outputs=NAMES[:C], inputs=("width", "height"),
        inference="laplace", rows=np.arange(n), targets=problem.labels.astype(np.float64), offset=np.zeros(2),
        scale=np.ones(2), X=np.empty((0, 2)), sites=np.empty((2, 0)),
    )  # fmt: skip


def class_dataset(C: int = 3, **changes: Any) -> Dataset:
    problem = drawn_problem(C)
    parts = {
        "name": "colours", "task": "classification", "X": np.vstack([problem.X, CENTRE]),
        "y": np.append(problem.labels, 0.0)[:, None], "input_names": ("width", "height"), "target_names": ("label",),
        "content_hash": CONTENT, "label_names": NAMES[:C],
    }  # fmt: skip
    return Dataset(**parts | changes)


@cache
def class_certificate(
    C: int = 3, kernel: str = "squared_exponential", norm: str = "box", radius: float = 0.15
) -> Certificate:
    """Return the range of the point's class and its margin over every other class."""
    problem = drawn_problem(C, kernel=kernel)
    posterior = softmax_laplace(problem, Hyperparameters(3.0, (1.1, 0.8))).require_converged()
    region = BALLS[norm](CENTRE, radius)
    search = PointSearch(posterior, region.centre, region.free)
    own = search.centre.own
    spread = search.range(region, 0.01, Budget(boxes=400), own)
    found = [(ClassQuantity(own), spread.minimum), (ClassQuantity(own), spread.maximum)]
    for rival in range(C):
        if rival != own:
            margin = Quantity(search.bound, own, rival)
            found.append((ClassQuantity(own, rival), branch_and_bound(margin, region, 0.01, Budget(boxes=400), -1)))
    return certify(posterior, region, found, slack=0.02, most_boxes=300, origin=class_origin(C))


@cache
def margin_certificate(C: int = 5, radius: float = 0.1) -> Certificate:
    """Return that the class of a point leads around it."""
    problem = drawn_problem(C)
    posterior = softmax_laplace(problem, Hyperparameters(3.0, (1.1, 0.8))).require_converged()
    region = linf_ball(CENTRE, radius)
    search = PointSearch(posterior, region.centre, region.free)
    assert search.decide(region, Budget(boxes=400))[0].status == "safe" and search.margin_proof is not None
    return certify(
        posterior, region, [(MarginQuantity(search.centre.own), search.margin_proof)], origin=class_origin(C)
    )


def margins(mean: Array, covariance: Array, own: int) -> Array:
    """Return the margin of a class in the latent functions, by definition, [B]."""
    variance = np.einsum("bii->bi", covariance)
    D = variance[:, :, None] + variance[:, None] - 2.0 * covariance
    C = mean.shape[1]
    found = np.full(len(mean), np.inf)
    for rival in set(range(C)) - {own}:
        behind = [0.5 * (D[:, k, rival] - D[:, k, own]) for k in set(range(C)) - {own, rival}]
        found = np.minimum(found, mean[:, own] - mean[:, rival] - np.max([np.zeros(len(mean)), *behind], axis=0))
    return found


def regression_rows() -> tuple[Array, Array]:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((20, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.standard_normal(20)


def exact_posterior(kernel: str) -> LatentPosterior:
    """Return the exact posterior of the standardised rows."""
    X, _ = regression_rows()
    y = regression_targets()
    lengths = np.array([0.9, 1.4])
    scaled = X / lengths
    K = 1.5 * kappa(kernel, squared_distances(scaled, scaled))
    lower = np.linalg.cholesky(K + NOISE * np.eye(len(X)))
    root = np.linalg.inv(lower)
    return LatentPosterior(X, kernel, 1.5, lengths, root.T @ (root @ y), root, -np.ones(len(X)), 1.0)


def regression_targets() -> Array:
    return np.asarray((own_targets() - OFFSET) / SCALE)


def own_targets() -> Array:
    """The targets in their own units."""
    return np.asarray(OFFSET + SCALE * regression_rows()[1])


def regression_origin() -> Origin:
    X, _ = regression_rows()
    return Origin(
        dataset="heights", content=CONTENT, row=len(X), outputs=("height",), inputs=("width", "depth"),
        inference="exact", rows=np.arange(len(X)), targets=regression_targets(), offset=np.zeros(2), scale=np.ones(2),
        X=np.empty((0, 2)), sites=np.empty((2, 0)), target_offset=OFFSET, target_scale=SCALE,
    )  # fmt: skip


def regression_dataset(**changes: Any) -> Dataset:
    X, _ = regression_rows()
    parts = {
        "name": "heights", "task": "regression", "X": np.vstack([X, CENTRE]),
        "y": np.append(own_targets(), 0.0)[:, None], "input_names": ("width", "depth"), "target_names": ("height",),
        "content_hash": CONTENT,
    }  # fmt: skip
    return Dataset(**parts | changes)


@cache
def regression_certificate(kernel: str = "squared_exponential", radius: float = 0.3) -> Certificate:
    latent, region = exact_posterior(kernel), regression_region(radius)
    ranges = prediction_range(latent, NOISE, region, LEVELS, 0.01, Budget(boxes=600))
    return certify_quantiles(latent, NOISE, region, ranges, slack=0.02, origin=regression_origin())


def certify_quantiles(
    latent: LatentPosterior, noise: float, region: Region, ranges: Iterable[QuantileRange], slack: float, **options: Any
) -> Certificate:
    """Return the certificate of both ends of predictive quantiles."""
    found = [(QuantileQuantity(float(each.level)), side) for each in ranges for side in (each.minimum, each.maximum)]
    return certify(latent, region, found, slack, noise, **options)


def regression_region(radius: float = 0.3) -> Region:
    return box(CENTRE, radius)
