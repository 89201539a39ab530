"""Softmax problems for tests: reference cases, drawn data, and random posteriors."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.classification.softmax_laplace import MultiClassFit, MultiClassProblem, softmax_laplace
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.radial import kappa


def reference_fit(case: dict[str, Any]) -> MultiClassFit:
    """Return Laplace's approximation of a multi-class reference case."""
    X = np.asarray(case["X"], dtype=np.float64).reshape(len(case["X"]), -1)
    problem = MultiClassProblem(X, np.asarray(case["y"]), case["num_classes"], ModelSpec(ard=True))
    kernel = case["kernel"]
    return softmax_laplace(problem, Hyperparameters(kernel["variance"], tuple(kernel["lengthscales"])))


def drawn_problem(C: int, n: int = 24, inputs: int = 2, kernel: str = "squared_exponential") -> MultiClassProblem:
    """Return rows in C overlapping groups on a circle; every class has one."""
    rng = np.random.default_rng(C)
    labels = np.arange(n) % C
    angle = 2.0 * np.pi * labels / C
    X = rng.standard_normal((n, inputs))
    X[:, 0] += 1.5 * np.cos(angle)
    X[:, 1 % inputs] += 1.5 * np.sin(angle)
    return MultiClassProblem(X, labels, C, ModelSpec(kernel, ard=True))


def random_softmax_posterior(
    rng: np.random.Generator, kernel: str, C: int, n: int, inputs: int, log_variance: tuple[float, float]
) -> MultiClassPosterior:
    """Return a posterior of random weights W = diag(pi) - pi pi', half of the time with near-duplicate data."""
    X = rng.standard_normal((n, inputs)) * rng.choice([0.5, 1.0, 3.0])
    if rng.random() < 0.5:
        X[n // 2 :] = X[: n - n // 2] + 1e-7 * rng.standard_normal((n - n // 2, inputs))
    variance = float(10.0 ** rng.uniform(*log_variance))
    lengthscales = 10.0 ** rng.uniform(-0.5, 0.7, inputs) * np.sqrt(inputs) / 1.5
    scaled = X / lengthscales
    K = variance * kappa(kernel, np.asarray(cdist(scaled, scaled, "sqeuclidean")))
    pi = rng.dirichlet(np.full(C, rng.choice([0.2, 1.0, 5.0])), n)
    # J = diag(sqrt(pi)) (I - sqrt(pi) sqrt(pi)'), J J' = W at every datum
    q = np.sqrt(pi)
    J = q[:, :, None] * (np.eye(C) - q[:, :, None] * q[:, None, :])
    full = np.zeros((C, n, C, n))
    for i in range(n):
        full[:, i, :, i] = J[i]
    J = full.reshape(C * n, C * n)
    B = np.eye(C * n) + J.T @ np.kron(np.eye(C), K) @ J
    root = np.linalg.solve(np.linalg.cholesky(B), J.T).reshape(C * n, C, n)
    alpha = (rng.standard_normal((n, C)) * q).T
    alpha -= alpha.mean(axis=0)
    return MultiClassPosterior(X, kernel, variance, lengthscales, alpha, root, np.full(C * n, -1.0), 1.0)


def separable_softmax_posterior(
    rng: np.random.Generator, kernel: str, C: int, n: int, inputs: int, log_variance: tuple[float, float]
) -> MultiClassPosterior:
    """Return a posterior of independent latent functions, a quarter of the time with a common factor beside them.

    Half of the time with near-duplicate data. The last row of the root is the factor's: f_c = v_c z + its own part.
    """
    X = rng.standard_normal((n, inputs)) * rng.choice([0.5, 1.0, 3.0])
    if rng.random() < 0.5:
        X[n // 2 :] = X[: n - n // 2] + 1e-7 * rng.standard_normal((n - n // 2, inputs))
    variance = float(10.0 ** rng.uniform(*log_variance))
    lengthscales = 10.0 ** rng.uniform(-0.5, 0.7, inputs) * np.sqrt(inputs) / 1.5
    scaled = X / lengthscales
    shape = kappa(kernel, np.asarray(cdist(scaled, scaled, "sqeuclidean")))
    root, weights = np.zeros((C * n + 1, C, n)), -np.ones(C * n + 1)
    for c in range(C):
        w = np.sqrt(rng.uniform(0.0, 0.25, n))
        lower = np.linalg.cholesky(np.eye(n) + variance * w[:, None] * shape * w)
        root[c * n : (c + 1) * n, c] = np.linalg.solve(lower, np.diag(w))
    factor, bound = np.zeros((C, n)), 1.0
    if rng.random() < 0.25:
        factor = rng.standard_normal((C, n)) / (variance * n)
        weights[-1] = 10.0 ** rng.uniform(-2.0, 0.0)
        size = float(np.einsum("cn,nm,cm->", factor, shape, factor))
        bound += float(weights[-1] * variance * size) * (1.0 + 1e-9)
    root[-1] = factor
    alpha = rng.standard_normal((C, n)) * 10.0 ** rng.uniform(-1.0, 0.3)
    return MultiClassPosterior(X, kernel, variance, lengthscales, alpha, root, weights, bound)
