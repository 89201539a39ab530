"""Random classifiers, regions and points at the edges of floating point, judged by exact arithmetic."""

from __future__ import annotations

import warnings
from collections import Counter
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from gpsuite.budget import Budget
from gpsuite.methods.robustness.point_search import build_bound, probability_range
from gpsuite.methods.robustness.search.branch_and_bound import Extremum
from gpsuite.methods.robustness.search.regions import Region, box, interval_box, l1_ball, l2_ball
from gpsuite.methods.robustness.verdict import ClassRange
from gpsuite.models.classification.approximation import BinaryProblem, GPCPosterior
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.training import INFERENCES
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.radial import kappa
from tests.methods.robustness.exact_posterior import ExactPosterior, logistic_probability, normal_probability, probit

Array = npt.NDArray[np.float64]
QUADRATURE = Decimal("1e-13")  # of the logistic oracle
POINTS = 8  # of a region
BOXES = 24  # for both searches


def extreme_posterior(rng: np.random.Generator, inference: str, kernel: str, link: str) -> GPCPosterior:
    """Return a posterior with lengthscales 1e-8 to 1e3, data up to 1e8 lengthscales from the origin, variance to 1e6.

    Near-duplicate data and a jitter down to 1e-13 of the variance give kernel matrices of any condition up to 1e13.
    """
    inputs = int(rng.integers(1, 4))
    n = int(rng.integers(3, 10 if inference == "svgp" else 15))
    lengthscales = 10.0 ** rng.uniform(-8.0, 3.0, inputs)
    variance = float(10.0 ** rng.uniform(-2.0, 6.0))
    scaled = rng.standard_normal((n, inputs)) * 10.0 ** rng.uniform(-1.0, 0.7)
    if rng.random() < 0.5:
        scaled[n // 2 :] = scaled[: n - n // 2] + 10.0 ** rng.uniform(-7.0, -1.0) * rng.standard_normal(
            (n - n // 2, inputs)
        )
    offset = rng.choice([0.0, 1.0], inputs) * rng.choice([-1.0, 1.0], inputs) * 10.0 ** rng.uniform(0.0, 8.0, inputs)
    X = lengthscales * (offset + scaled)
    if inference in ("laplace", "ep"):
        y = np.where(scaled[:, 0] + rng.standard_normal(n) > 0, 1.0, -1.0)
        spec, h = ModelSpec(kernel, ard=True), Hyperparameters(variance, tuple(lengthscales.tolist()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # whatever floats result are the classifier
            return INFERENCES.get(inference)(BinaryProblem(X, y, spec, LINKS.get(link)), h, None).posterior
    apart = (X[:, None] - X[None]) / lengthscales
    K = variance * kappa(kernel, np.sum(apart**2, axis=2))
    L = np.linalg.cholesky(K + variance * 10.0 ** rng.uniform(-12.5, -6.0) * np.eye(n))
    rotation = np.linalg.qr(rng.standard_normal((n, n)))[0]
    eigenvalues = 10.0 ** rng.uniform(-4.0, 0.5, n)
    alpha = np.linalg.solve(L.T, rng.standard_normal(n) * 10.0 ** rng.uniform(-1.0, 0.5))
    root = np.linalg.solve(L.T, rotation).T
    bound = float(max(1.0, eigenvalues.max()))
    return GPCPosterior(X, kernel, variance, lengthscales, alpha, root, eigenvalues - 1.0, bound, LINKS.get(link))


def extreme_region(rng: np.random.Generator, posterior: GPCPosterior) -> Region:
    """Return a box or ball around a point near the data or far from it: of no width, thin, ordinary or huge.

    A quarter are boxes that reach from a point up to 1e8 lengthscales away to the data.
    """
    inputs, scales = posterior.X.shape[1], posterior.lengthscales
    away = rng.choice([0.0, 0.3, 1.0, 1.0, 30.0])
    centre = posterior.X[rng.integers(len(posterior.X))] + away * scales * rng.standard_normal(inputs)
    size = rng.choice(
        [0.0, 10.0 ** rng.uniform(-9.0, -1.0), 10.0 ** rng.uniform(-1.0, 0.5), 10.0 ** rng.uniform(0.5, 8.5)]
    )
    free = np.sort(rng.permutation(inputs)[: rng.integers(1, inputs + 1)])
    if rng.random() < 0.25:
        away = rng.choice([-1.0, 1.0], len(free)) * 10.0 ** rng.uniform(1.0, 8.0, len(free)) * scales[free]
        datum, point = posterior.X[rng.integers(len(posterior.X))][free], centre.copy()
        point[free] += away
        beyond = 3.0 * scales[free]
        ends = np.minimum(point[free], datum - beyond), np.maximum(point[free], datum + beyond)
        lower, upper = point.copy(), point.copy()
        lower[free], upper[free] = ends
        return interval_box(point, lower, upper)
    if rng.random() < 0.7:
        radii = np.zeros(inputs)
        radii[free] = size * scales[free] * rng.choice([0.0, 1.0, 1.0, 1.0], len(free))
        return box(centre, radii)
    ball = l1_ball if rng.random() < 0.5 else l2_ball
    return ball(centre, float(size * scales[free].min()), free.tolist())


def points_of(rng: np.random.Generator, region: Region, posterior: GPCPosterior, found: ClassRange) -> Array:
    """Return points [POINTS, d] of a region: centre, data and near it, corner, near the witnesses, uniform ones."""
    low, high = region.lower, region.upper
    uniform = low + rng.random((POINTS, len(low))) * (high - low)
    corner = np.where(rng.random((1, len(low))) < 0.5, low, high)
    data = posterior.X[rng.integers(len(posterior.X), size=3)][:, region.free]
    data[1:] += 0.5 * rng.standard_normal((2, len(low))) * posterior.lengthscales[region.free]
    witnesses = [each.witness for each in (found.minimum, found.maximum) if each.witness is not None]
    near = [w + 1e-3 * rng.standard_normal(len(low)) * (high - low) for w in witnesses]
    points = np.vstack([region.start[None], corner, data, *[each[None] for each in near], uniform])[:POINTS]
    return region.project(points)


def sub_boxes(rng: np.random.Generator, region: Region, points: Array) -> tuple[Array, Array]:
    """Return a random box around each point, within the region's box; some of no width."""
    share = 10.0 ** rng.uniform(-8.0, 0.0, points.shape) * rng.choice([0.0, 1.0, 1.0], (len(points), 1))
    width = share * (region.upper - region.lower)
    return np.maximum(points - width * rng.random(points.shape), region.lower), np.minimum(
        points + width * rng.random(points.shape), region.upper
    )


class Judge:
    """Counts points outside of bounds, witnesses that overclaim and wrong verdicts of one classifier."""

    def __init__(self, posterior: GPCPosterior) -> None:
        self.posterior, self.exact = posterior, ExactPosterior(posterior)
        self.counts: Counter[str] = Counter()

    def probability(self, mean: Decimal, variance: Decimal) -> tuple[Decimal, Decimal]:
        """Return an interval of the exact class probability."""
        if self.posterior.link.name == "logistic":
            value, error = Decimal(logistic_probability(float(mean), float(variance))), QUADRATURE
            return value - error, value + error
        value = normal_probability(probit(mean, variance), getattr(self.posterior.link, "squeeze", 0.0))
        return value, value

    def region(self, rng: np.random.Generator, region: Region, bound: str) -> None:
        """Search a region, and set everything that is claimed against exact values."""
        found = probability_range(self.posterior, region, 1e-2, Budget(boxes=BOXES), bound)
        bounding = build_bound(bound, self.posterior, region)
        points = points_of(rng, region, self.posterior, found)
        low, high = sub_boxes(rng, region, points)
        answer, evaluated = bounding.bounds(low, high), bounding.evaluate(points)
        positive = []
        for i, point in enumerate(points):
            mean, variance = self.exact.moments(region.embed(point))
            p_low, p_high = self.probability(mean, variance)
            positive.append(mean > 0)
            score = (p_low, p_high)
            if self.posterior.link.name != "logistic":
                score = (probit(mean, variance),) * 2
            self.note("mean", answer.mean_low[i], (mean, mean), answer.mean_high[i])
            self.note("variance", answer.variance_low[i], (variance, variance), answer.variance_high[i])
            self.note("score", answer.low[i], score, answer.high[i])
            self.note("evaluated", evaluated[0][i], score, evaluated[1][i])
            self.note("range", found.minimum.outer, (p_low, p_high), found.maximum.outer)
            self.counts["triples"] += 1
        for extremum in (found.minimum, found.maximum):
            self._witness(region, extremum)
        self._verdict(region, found, positive)

    def note(self, name: str, low: float, value: tuple[Decimal, Decimal], high: float) -> None:
        """Count a value that surely lies outside; NaN counts too."""
        inside = low <= high and Decimal(float(low)) <= value[1] and value[0] <= Decimal(float(high))
        self.counts[f"outside: {name}"] += not inside

    def _witness(self, region: Region, extremum: Extremum) -> None:
        if extremum.witness is None:
            return
        low, high = self.probability(*self.exact.moments(region.embed(extremum.witness)))
        claimed = Decimal(extremum.inner)
        self.counts["witnesses"] += 1
        self.counts["overclaimed"] += claimed > high if extremum.sign > 0 else claimed < low

    def _verdict(self, region: Region, found: ClassRange, positive: list[bool]) -> None:
        status, example = found.verdict.status, found.verdict.counterexample
        self.counts[status] += 1
        if status == "safe":
            self.counts["wrong verdicts"] += len(set(positive)) > 1
        elif status == "unsafe":
            assert example is not None
            other = self.exact.moments(example)[0] > 0
            self.counts["wrong verdicts"] += other == positive[0]


def study(seed: list[int], inference: str, kernel: str, link: str, triples: int) -> Counter[str]:
    """Return the counts over so many random (model, region, point) triples."""
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    while counts["triples"] < triples:
        judge = Judge(extreme_posterior(rng, inference, kernel, link))
        for _ in range(4):
            paper = kernel == "squared_exponential" and rng.random() < 0.2
            judge.region(rng, extreme_region(rng, judge.posterior), "paper" if paper else "rkhs_taylor")
        counts.update(judge.counts)
    return counts


def faults(counts: Counter[str]) -> int:
    """Return how many claims were wrong."""
    return sum(counts[name] for name in counts if name.startswith(("outside", "overclaimed", "wrong")))
