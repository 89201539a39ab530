"""Random posteriors and boxes for soundness tests, and exact evaluation by direct differences."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from gpsuite.methods.robustness.class_probability import BoundingFunction, score_of
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.links import LINKS
from gpsuite.models.composite import single_kernel
from gpsuite.models.radial import kappa, kappa_and_slope

Array = npt.NDArray[np.float64]
KERNELS = ("squared_exponential", "matern32", "matern52")
LINK_NAMES = ("probit", "logistic", "squeezed_probit")


def random_posterior(
    rng: np.random.Generator, kernel: str, link: str, n: int, n_inputs: int, sparse: bool = False
) -> GPCPosterior:
    """Return a posterior of random weights, half of the time with near-duplicate data."""
    X = rng.standard_normal((n, n_inputs)) * rng.choice([0.5, 1.0, 3.0])
    if rng.random() < 0.5:
        X[n // 2 :] = X[: n - n // 2] + 1e-7 * rng.standard_normal((n - n // 2, n_inputs))
    variance = float(10.0 ** rng.uniform(-2.0, np.log10(400.0)))
    lengthscales = 10.0 ** rng.uniform(-0.5, 0.7, n_inputs) * np.sqrt(n_inputs) / 1.5
    scaled = X / lengthscales
    K = variance * kappa(kernel, cdist(scaled, scaled, "sqeuclidean"))
    if sparse:
        root, weights, bound = _sparse_root(rng, K)
        latent = np.linalg.cholesky(K + 1e-6 * variance * np.eye(n)) @ rng.standard_normal(n)
        alpha = np.linalg.solve(K + 1e-6 * variance * np.eye(n), latent)
    else:
        W = 10.0 ** rng.uniform(-3.0, 0.0, n)
        L = np.linalg.cholesky(np.eye(n) + np.sqrt(W)[:, None] * K * np.sqrt(W))
        root, weights, bound = np.linalg.solve(L, np.diag(np.sqrt(W))), -np.ones(n), 1.0
        alpha = rng.standard_normal(n) * np.sqrt(W)
    return GPCPosterior(X, kernel, variance, lengthscales, alpha, root, weights, bound, LINKS.get(link))


def _sparse_root(rng: np.random.Generator, K: Array) -> tuple[Array, Array, float]:
    """Return root, weights and bound of a sparse variational posterior with whitened covariance Q diag(w) Q'."""
    n = len(K)
    L = np.linalg.cholesky(K + 1e-6 * K[0, 0] * np.eye(n))
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    eigenvalues = 10.0 ** rng.uniform(-2.0, 0.5, n)
    return np.linalg.solve(L.T, Q).T, eigenvalues - 1.0, float(max(1.0, eigenvalues.max()))


def random_boxes(
    rng: np.random.Generator, posterior: GPCPosterior, x0: Array, free: npt.NDArray[np.int64], count: int
) -> tuple[Array, Array]:
    """Return boxes of every kind: ordinary, zero-width, points, far, huge, thin, 1e-9 wide, at the data."""
    d, lengthscales = len(free), posterior.lengthscales[free]
    data = posterior.X[rng.integers(len(posterior.X), size=count)][:, free]
    centre = np.where(rng.random((count, 1)) < 0.5, data, x0[free]) + 0.3 * rng.standard_normal((count, d))
    half = 10.0 ** rng.uniform(-3.0, 0.5, (count, 1)) * rng.random((count, d)) * lengthscales / np.sqrt(d)
    kind = rng.integers(8, size=count)
    half[kind == 0] *= rng.random((np.sum(kind == 0), d)) < 0.5
    half[kind == 1] = 0.0
    far = kind == 2
    centre[far] += rng.choice([-1.0, 1.0], (far.sum(), d)) * rng.uniform(20.0, 100.0, (far.sum(), 1)) * lengthscales
    half[kind == 3] = rng.uniform(5.0, 60.0, (np.sum(kind == 3), 1)) * lengthscales
    half[kind == 4] *= 10.0 ** rng.uniform(-8.0, 0.0, (np.sum(kind == 4), d))
    half[kind == 5] = 1e-9
    centre[kind == 6] = data[kind == 6]
    return centre - half, centre + half


class Exact:
    """Latent moments by direct differences, in the units of X."""

    def __init__(self, posterior: GPCPosterior, x0: Array, free: npt.NDArray[np.int64]) -> None:
        self.posterior, self.x0, self.free = posterior, x0, free

    def full(self, points: Array) -> Array:
        X = np.tile(self.x0, (len(points), 1))
        X[:, self.free] = points
        return X

    def __call__(self, points: Array) -> tuple[Array, Array]:
        """Return mean and variance at points [B, d] of the free inputs."""
        p = self.posterior
        k = p.variance * kappa(
            single_kernel(p.kernel, "test"),
            cdist(self.full(points) / p.lengthscales, p.X / p.lengthscales, "sqeuclidean"),
        )
        return k @ p.alpha, np.maximum(p.variance + (k @ p.root.T) ** 2 @ p.weights, 0.0)

    def gradients(self, points: Array) -> tuple[Array, Array]:
        """Return the gradients of mean and variance, [B, d]."""
        p = self.posterior
        scaled, data = self.full(points) / p.lengthscales, p.X / p.lengthscales
        k, slope = kappa_and_slope(single_kernel(p.kernel, "test"), cdist(scaled, data, "sqeuclidean"))
        weights = 2.0 * p.variance * (k @ p.root.T * p.weights) @ p.root
        return tuple(
            p.variance
            * ((slope * w) @ data - (slope * w).sum(1)[:, None] * scaled)[:, self.free]
            / p.lengthscales[self.free]
            for w in (np.broadcast_to(p.alpha, k.shape), weights)
        )


def points_inside(rng: np.random.Generator, exact: Exact, low: Array, high: Array, count: int) -> Array:
    """Return points of one box: random ones, corners, and points pushed along gradients to the extremes, [P, d]."""
    u = rng.random((count, len(low)))
    corner = rng.random(count) < 0.5
    u[corner] = np.round(u[corner])
    points = [low + u * (high - low)]
    width = high - low
    start = points[0][: max(2, count // 4)]
    for sign in (-1.0, 1.0):
        for which in (0, 1):
            moved = start
            for step in (1.0, 0.3, 0.1):
                gradient = exact.gradients(moved)[which] * np.maximum(width, 1e-300)
                scale = np.max(np.abs(gradient), axis=1, keepdims=True)
                direction = gradient / np.where(scale > 0.0, scale, 1.0)
                moved = np.clip(moved + sign * step * direction * width, low, high)
            points.append(moved)
    return np.clip(np.concatenate(points), low, high)


def scores(posterior: GPCPosterior, mean: Array, variance: Array) -> Array:
    """Return exact scores; a quadrature misses the mean's side of one half by an ulp, so it is put there."""
    value = score_of(posterior.link).value(mean, variance)
    if posterior.link.name != "logistic":
        return value
    return np.where(mean > 0, np.maximum(value, 0.5), np.where(mean < 0, np.minimum(value, 0.5), 0.5))


def count_violations(
    rng: np.random.Generator, bound: BoundingFunction, exact: Exact, low: Array, high: Array, count: int
) -> tuple[int, int]:
    """Return how many checks were made of mean, variance and score at points of the boxes, and how many failed."""
    result = bound.bounds(low, high)
    checks = failures = 0
    for b in range(len(low)):
        mean, variance = exact(points_inside(rng, exact, low[b], high[b], count))
        for value, least, most in (
            (mean, result.mean_low[b], result.mean_high[b]),
            (variance, result.variance_low[b], result.variance_high[b]),
            (scores(exact.posterior, mean, variance), result.low[b], result.high[b]),
        ):
            checks += len(value)
            # NaN counts as a failure.
            failures += int(np.sum(~((value >= least) & (value <= most))))
    return checks, failures


def random_setting(
    rng: np.random.Generator, kernel: str, link: str, n: int, most_inputs: int, sparse: bool
) -> tuple[GPCPosterior, Array, npt.NDArray[np.int64]]:
    """Return a posterior, a point near the data and a random choice of free inputs."""
    n_inputs = int(rng.integers(1, most_inputs + 1))
    posterior = random_posterior(rng, kernel, link, n, n_inputs, sparse)
    free = np.sort(rng.permutation(n_inputs)[: rng.integers(1, n_inputs + 1)])
    return posterior, posterior.X[0] + 0.2 * rng.standard_normal(n_inputs), free
