"""Small problems of every model, and Z as the definition has it: dense gradients, M by dense algebra."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpsuite.methods.perturbation.quadratic import (
    EpsilonSVR,
    KernelLasso,
    KernelLSSVM,
    KernelRidge,
    LinearLSSVM,
    Objective,
    QuadraticObjective,
    SparseKernelRidge,
)
from tests.arrays import Array


def inputs(n: int, D: int = 1) -> Array:
    return np.random.default_rng(n + D).uniform(-2.0, 2.0, (n, D))


def gaussian(A: Array, B: Array, lengthscale: float = 0.4) -> Array:
    square = np.sum((A[:, None, :] - B[None, :, :]) ** 2, axis=-1)
    return np.asarray(np.exp(-0.5 * square / lengthscale**2))


def objectives(n: int = 12) -> dict[str, Objective]:
    """Every model with every weighting, on the same inputs."""
    X = inputs(n)
    K, centres = gaussian(X, X), np.linspace(-1.5, 1.5, 4)[:, None]
    cross, square = gaussian(X, centres), gaussian(centres, centres)
    built: list[Objective] = []
    for weighting in ("hessian", "rkhs", "identity"):
        built.append(KernelRidge(K, 0.05, weighting))
        built.append(SparseKernelRidge(cross, square, 0.02, weighting))
        built.append(KernelLSSVM(K, 1.5, weighting=weighting))
    for weighting in ("hessian", "identity"):
        built.append(LinearLSSVM(inputs(n, 2), 2.0, weighting=weighting))  # type: ignore[arg-type]
        built.append(LinearLSSVM(inputs(n, 2), 2.0, bias=False, weighting=weighting))  # type: ignore[arg-type]
    for weighting in ("rkhs", "identity"):
        built.append(EpsilonSVR(K, 9.0, 0.2, weighting))  # type: ignore[arg-type]
    built.append(KernelLasso(K, 0.15))
    return {_name(objective): objective for objective in built}


def outputs(objective: Objective, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    design = objective.design
    return np.asarray(design @ rng.normal(size=design.shape[1]) + 0.3 * rng.laplace(size=len(design)))


def dense_metric(objective: Objective) -> Array:
    """M [p, p] by plain inverses."""
    p = objective.design.shape[1]
    if objective.weighting == "identity":
        return np.eye(p)
    if objective.weighting == "hessian":
        assert isinstance(objective, QuadraticObjective)
        return np.asarray(np.linalg.inv(objective.hessian))
    metric = np.eye(p)
    if isinstance(objective, SparseKernelRidge):
        return np.asarray(np.linalg.inv(objective.centres_gram))
    gram = objective.gram  # type: ignore[attr-defined]
    metric[p - len(gram) :, p - len(gram) :] = np.linalg.inv(gram)
    return metric


def dense_z(objective: Objective, y: Array, perturbations: Any, alpha: Array) -> Array:
    """Z_0..Z_{m-1} at one alpha, a loop over the perturbations."""
    e, metric = objective.residuals(y, alpha), dense_metric(objective)
    gradients = [objective.gradient(alpha, e)]
    gradients += [objective.gradient(alpha, moved) for moved in perturbations.apply(e)]
    return np.array([g @ metric @ g for g in gradients])


def _name(objective: Objective) -> str:
    bias = "-no-bias" if getattr(objective, "bias", True) is False else ""
    return f"{type(objective).__name__}-{objective.weighting}{bias}"
