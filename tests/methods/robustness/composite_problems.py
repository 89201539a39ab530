"""Random sums and products of kernels, each with a plain function of its own, and posteriors and boxes for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.links import LINKS
from gpsuite.models.composite import KernelSum, constant, radial
from tests.methods.robustness.made_up_posteriors import _sparse_root

Array = npt.NDArray[np.float64]
Function = Callable[[Array, Array], Array]

FORMULAS: dict[str, Callable[[Array], Array]] = {
    "squared_exponential": lambda r: np.exp(-0.5 * r**2),
    "matern32": lambda r: (1.0 + np.sqrt(3.0) * r) * np.exp(-np.sqrt(3.0) * r),
    "matern52": lambda r: (1.0 + np.sqrt(5.0) * r + 5.0 / 3.0 * r**2) * np.exp(-np.sqrt(5.0) * r),
}
NAMES = tuple(FORMULAS)


@dataclass(frozen=True)
class Problem:
    """A kernel as an expression, and as a function of raw inputs that knows nothing of it."""

    kernel: KernelSum
    function: Function
    n_inputs: int


def leaf(rng: np.random.Generator, n_inputs: int, name: str | None = None) -> Problem:
    name = name or str(rng.choice(NAMES))
    count = int(rng.integers(1, n_inputs + 1))
    active = np.sort(rng.permutation(n_inputs)[:count])
    scales = 10.0 ** rng.uniform(-0.4, 0.6, count) * np.sqrt(count)
    variance = float(10.0 ** rng.uniform(-1.0, 1.0))

    def function(A: Array, B: Array) -> Array:
        apart = (A[:, None, active] - B[None, :, active]) / scales
        return variance * FORMULAS[name](np.sqrt(np.sum(apart**2, axis=2)))

    return Problem(radial(name, scales, n_inputs, active.tolist(), variance), function, n_inputs)


def plus(one: Problem, other: Problem) -> Problem:
    return Problem(one.kernel + other.kernel, lambda A, B: one.function(A, B) + other.function(A, B), one.n_inputs)


def times(one: Problem, other: Problem) -> Problem:
    return Problem(one.kernel * other.kernel, lambda A, B: one.function(A, B) * other.function(A, B), one.n_inputs)


def random_kernel(rng: np.random.Generator, n_inputs: int, depth: int = 2) -> Problem:
    """Return a random expression of 1 to 2^depth kernels and, at times, a constant."""
    if depth == 0 or (depth == 1 and rng.random() < 0.3):
        if rng.random() < 0.1:
            value = float(rng.uniform(0.1, 1.0))
            return Problem(constant(value, n_inputs), lambda A, B: np.full((len(A), len(B)), value), n_inputs)
        return leaf(rng, n_inputs)
    combine = plus if rng.random() < 0.6 else times
    return combine(random_kernel(rng, n_inputs, depth - 1), random_kernel(rng, n_inputs, depth - 1))


def posterior_of(
    rng: np.random.Generator, problem: Problem, n: int, link: str = "probit", sparse: bool = False
) -> GPCPosterior:
    """Return a posterior of random weights, as `made_up_posteriors.random_posterior`; K by the plain function."""
    latent = problem.kernel.latent()
    X = rng.standard_normal((n, problem.n_inputs)) * rng.choice([0.5, 1.0, 3.0])
    K = problem.function(X, X)
    if sparse:
        root, weights, bound = _sparse_root(rng, K)
        jittered = K + 1e-6 * latent.variance * np.eye(n)
        alpha = np.linalg.solve(jittered, np.linalg.cholesky(jittered) @ rng.standard_normal(n))
    else:
        W = 10.0 ** rng.uniform(-3.0, 1.0, n)
        L = np.linalg.cholesky(np.eye(n) + np.sqrt(W)[:, None] * K * np.sqrt(W))
        root, weights, bound = np.linalg.solve(L, np.diag(np.sqrt(W))), -np.ones(n), 1.0
        alpha = root.T @ (root @ (np.linalg.cholesky(K + 1e-6 * K[0, 0] * np.eye(n)) @ rng.standard_normal(n)))
    return GPCPosterior(
        X, latent.kernel, latent.variance, latent.lengthscales, alpha, root, weights, bound, LINKS.get(link)
    )


def moments(problem: Problem, posterior: GPCPosterior, X: Array) -> tuple[Array, Array, float]:
    """Return mean and variance at inputs by the plain function, and how far rounding may move them."""
    k = problem.function(X, posterior.X)
    features = k @ posterior.root.T
    variance = posterior.variance + features**2 @ posterior.weights
    sizes = float(np.sum(np.abs(posterior.root).sum(axis=1) ** 2))
    scale = posterior.variance * (1.0 + np.abs(posterior.alpha).sum() + np.sqrt(posterior.variance * sizes))
    return k @ posterior.alpha, np.maximum(variance, 0.0), 1e-13 * float(scale)


def dense_points(rng: np.random.Generator, low: Array, high: Array, count: int) -> Array:
    """Return a grid of a box of one or two inputs, else its corners and random points, [about count, d]."""
    d = len(low)
    if d <= 2:
        axes = [np.linspace(a, b, round(count ** (1.0 / d))) for a, b in zip(low, high, strict=True)]
        return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, d)
    corners = np.stack(np.meshgrid(*([[0.0, 1.0]] * d)), axis=-1).reshape(-1, d)
    shares = np.concatenate([corners, rng.random((max(count - len(corners), 1), d))])
    return np.asarray(low + shares * (high - low))
