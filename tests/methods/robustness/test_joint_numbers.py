"""Bounds, searches and certificates of several classes, of regressions and of single inputs: see tests/golden.py."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.certificates import plain_scores
from gpsuite.certificates.certificate import ClassQuantity
from gpsuite.certificates.checker import check_certificate
from gpsuite.certificates.model import SOFTMAX, JointProducts, Model
from gpsuite.certificates.plain_softmax_bound import ClassExpansions, SoftmaxPlainBound
from gpsuite.certificates.verification import check_levels, describe
from gpsuite.methods.robustness.certification import certify
from gpsuite.methods.robustness.explain.effects import lime_mask_weights, lime_weights, one_sided_ranges
from gpsuite.methods.robustness.explain.lines import binary_lines, softmax_lines
from gpsuite.methods.robustness.multiclass.paper_softmax_bound import PaperSoftmaxBound
from gpsuite.methods.robustness.multiclass.robust_max_bound import RobustMaxBound
from gpsuite.methods.robustness.multiclass.softmax_bound import SoftmaxBound
from gpsuite.methods.robustness.point_search import PointSearch, Quantity, margin_attack
from gpsuite.methods.robustness.regression import QuantileLevel, QuantileScore, prediction_range
from gpsuite.methods.robustness.search.branch_and_bound import branch_and_bound
from gpsuite.methods.robustness.search.regions import l1_ball, l2_ball, linf_ball
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior, RobustMaxPosterior
from gpsuite.models.classification.softmax_laplace import softmax_laplace
from gpsuite.models.composite import single_kernel
from gpsuite.models.config import Hyperparameters
from tests import golden
from tests.arrays import Array
from tests.certificates.joint_problems import (
    CENTRE,
    LEVELS,
    NOISE,
    certify_quantiles,
    class_dataset,
    class_origin,
    exact_posterior,
    regression_dataset,
    regression_origin,
    regression_region,
)
from tests.models.softmax_problems import drawn_problem

KERNELS = ("squared_exponential", "matern32", "matern52")
PACKAGES = ("gpsuite.methods.robustness", "gpsuite.certificates")
FREE = np.arange(2)


def classes(C: int, kernel: str) -> MultiClassPosterior:
    fit = softmax_laplace(drawn_problem(C, kernel=kernel), Hyperparameters(3.0, (1.1, 0.8)))
    return fit.require_converged()


def robust_max(kernel: str) -> RobustMaxPosterior:
    """Three independent functions over five data well apart."""
    rng = np.random.default_rng(5)
    X = rng.permuted(np.linspace(-1.5, 1.5, 10)).reshape(5, 2)
    root = np.zeros((15, 3, 5))
    for c in range(3):
        root[5 * c : 5 * c + 5, c] = 0.2 * rng.standard_normal((5, 5))
    return RobustMaxPosterior(
        X, kernel, 1.4, np.array([0.9, 1.2]), rng.standard_normal((3, 5)), root, -np.ones(15), 1.0
    )


def boxes() -> tuple[Array, Array]:
    """Return a point, a flat box, a small, an ordinary and a large one, and one far away."""
    half = np.outer([0.0, 0.02, 0.02, 0.2, 2.0, 0.5], [1.0, 1.2])
    half[1, 0] = 0.0
    centre = CENTRE + np.array([[0.0, 0.0], [0.1, -0.2], [-0.3, 0.2], [0.2, 0.3], [0.0, 0.0], [30.0, 0.0]])
    return centre - half, centre + half


def class_bounds(bound: type, posterior: MultiClassPosterior, count: int = 6) -> list[object]:
    made = bound(posterior, CENTRE, FREE)
    lo, hi = (ends[:count] for ends in boxes())
    known = made.at(0.5 * (lo + hi))
    found: list[object] = []
    for own, rival in ((0, 1), (2, 0)):
        found += [made.class_bounds(lo, hi, own), made.margin_bounds(lo, hi, own, rival)]
        found += [made.class_of(known, own), made.margin_of(known, own, rival)]
        margin = Quantity(made, own, rival)
        found += [margin.bounds(lo, hi), margin.evaluate(0.5 * (lo + hi))]
    return found


def plain_class_bounds(C: int, kernel: str) -> list[object]:
    p = classes(C, kernel)
    model = Model(p.X, single_kernel(p.kernel, "test"), p.variance, p.lengthscales, p.alpha, p.root, p.weights, SOFTMAX)
    expansions = ClassExpansions(model, CENTRE, FREE, JointProducts(model))
    lo, hi = (ends[2:4] for ends in boxes())
    found: list[object] = []
    for quantity in (ClassQuantity(C - 1), ClassQuantity(0, 2)):
        bound = SoftmaxPlainBound(expansions, quantity)
        found += [bound.at(0.5 * (lo + hi)), *(bound.bound(lo, hi, sign, np.zeros(2)) for sign in (-1, 1))]
    return found


def searched(bound: str, kernel: str) -> list[object]:
    search = PointSearch(classes(3, kernel), CENTRE, FREE, bound)
    found: list[object] = [search.centre]
    for region in (linf_ball(CENTRE, 0.2), l1_ball(CENTRE, 0.3)):
        spans = search.range(region, 0.02, Budget(boxes=8), 1)
        found += [[each.inner, each.outer, each.witness, each.boxes] for each in (spans.minimum, spans.maximum)]
        verdict, extrema = search.decide(region, Budget(boxes=8))
        found += [verdict.status, verdict.counterexample, [each.outer for each in extrema.values()]]
    return [*found, margin_attack(search, linf_ball(CENTRE, 0.5), 2, np.random.default_rng(0))]


def predicted(kernel: str) -> list[object]:
    ranges = prediction_range(exact_posterior(kernel), NOISE, regression_region(), LEVELS, 0.01, Budget(boxes=40))
    return [[r.lowest_proved, r.lowest, r.highest, r.highest_proved, r.centre, r.boxes, r.largest_change]
            for r in ranges]  # fmt: skip


def quantiles() -> list[object]:
    """Levels of both signs over ranges of variances, along lines of every slope."""
    low, high = np.array([0.01, 0.3, 0.5, 0.2, 0.0]), np.array([0.5, 0.3, 2.5, 4.0, 1.0])
    G, slope = np.array([0.4, -1.0, 0.0, 2.0, -0.3]), np.array([-0.7, 0.0, -0.4, 0.3, -1.3])
    found: list[object] = []
    for z in (-1.6, 0.0, 0.7):
        level = QuantileLevel(QuantileScore(z, NOISE))
        found += [level.bound(G, slope, low, high), level.slope(G, low, high, 0.5 * (low + high))]
        plain = plain_scores.QuantileScore(z, NOISE)
        for sign in (-1, 1):
            found += [plain.on_line(G, slope, low, high, sign), plain.slope(G, sign, low, high, 0.5 * (low + high))]
            found += [plain.corner(G, low, high, sign), plain.own(G, sign)]
        found += [plain.between(G - 0.2, G + 0.1, low, high)]
    return found


def effects(C: int, kernel: str) -> list[object]:
    points = np.array([[0.3, -0.2], [1.0, 0.5]])
    posterior = classes(C, kernel)
    lines = (
        binary_lines(posterior.difference(0, 1), points, FREE) if C == 2 else softmax_lines(posterior, points, FREE, 1)
    )
    found = one_sided_ranges(lines, points, FREE, 0.6, ([-1.0, -0.5], [1.4, 0.9]), 0.02, Budget(boxes=200))
    lime = lime_weights(lambda X: posterior.probabilities(X)[:, 0], points[0], np.random.default_rng(0), 20)
    return [found, found.delta, found.delta_range, lime]


def masks() -> object:
    image = np.array([0.7, 0.0, 0.4])
    return lime_mask_weights(lambda X: np.tanh(X @ np.array([1.0, 2.0, -0.5])), image, np.random.default_rng(0), 20)


def classes_certified(kernel: str, norm: str) -> list[object]:
    region = {"box": linf_ball, "l2": l2_ball}[norm](CENTRE, 0.02)
    search = PointSearch(classes(3, kernel), CENTRE, FREE)
    own = search.centre.own
    spread = search.range(region, 0.05, Budget(boxes=10), own)
    margin = branch_and_bound(Quantity(search.bound, own, (own + 1) % 3), region, 0.05, Budget(boxes=10), -1)
    claims = [
        (ClassQuantity(own), spread.minimum),
        (ClassQuantity(own), spread.maximum),
        (ClassQuantity(own, (own + 1) % 3), margin),
    ]
    found = certify(classes(3, kernel), region, claims, slack=0.05, most_boxes=10, origin=class_origin())
    return [check_certificate(found), check_levels(found, class_dataset()), list(describe(found, proved=True))]


def regression_certified(kernel: str) -> list[object]:
    latent, region = exact_posterior(kernel), regression_region(0.1)
    ranges = prediction_range(latent, NOISE, region, LEVELS, 0.05, Budget(boxes=80))
    found = certify_quantiles(latent, NOISE, region, ranges, slack=0.05, origin=regression_origin())
    dataset = regression_dataset()
    return [check_certificate(found), check_levels(found, dataset), list(describe(found, proved=True))]


SCENARIOS: dict[str, golden.Scenario] = {
    **{
        f"softmax bound, {C} classes, {kernel}": lambda C=C, kernel=kernel: class_bounds(
            SoftmaxBound, classes(C, kernel)
        )
        for C, kernel in [(3, "squared_exponential"), (4, "matern52"), (3, "matern32"), (5, "squared_exponential")]
    },
    **{
        f"robust-max bound, {kernel}": lambda kernel=kernel: class_bounds(RobustMaxBound, robust_max(kernel))
        for kernel in KERNELS
    },
    "the paper's softmax bound": lambda: class_bounds(
        partial(PaperSoftmaxBound, n_cells=4),  # type: ignore[arg-type]
        classes(3, "squared_exponential"), 5
    ),
    **{
        f"plain softmax bound, {C} classes, {kernel}": partial(plain_class_bounds, C, kernel)
        for C, kernel in [(3, "squared_exponential"), (4, "matern52"), (5, "matern32")]
    },
    "search, matern52": partial(searched, "rkhs_taylor", "matern52"),
    **{f"quantiles over a region, {kernel}": partial(predicted, kernel) for kernel in KERNELS[1:]},
    "levels of quantiles": quantiles,
    **{f"single inputs, {C} classes, {kernel}": partial(effects, C, kernel)
       for C, kernel in [(2, "squared_exponential"), (2, "matern32"), (3, "matern52")]},
    "LIME's masks": masks,
    "certificate of classes, squared exponential, box": partial(classes_certified, "squared_exponential", "box"),
    "certificate of classes, matern52, l2": partial(classes_certified, "matern52", "l2"),
    **{f"certificate of quantiles, {kernel}": partial(regression_certified, kernel) for kernel in KERNELS[:2]},
}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_numbers_are_the_stored_ones(name: str) -> None:
    golden.check(__file__, name, SCENARIOS[name], PACKAGES)
