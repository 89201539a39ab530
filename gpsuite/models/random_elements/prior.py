"""Prior kernels: their form by name, their parameters by the marginal likelihood of a few rows, then fixed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
from scipy.spatial.distance import pdist

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.models.projected_lbfgs import minimise_on_grid
from gpsuite.models.random_elements.elements import NNGP
from gpsuite.models.regression.training import assign, flatten
from gpsuite.models.search import Minimum
from gpsuite.registry import Registry

ROWS = 500
"""Rows whose marginal likelihood is maximised: an evaluation costs N^3 + N^2 D."""
START_NOISE, SMALLEST_NOISE = 0.1, 1e-4  # of targets of about unit variance

PRIORS: Registry[Callable[[FloatArray], gpflow.kernels.Kernel]] = Registry("prior")


@dataclass(frozen=True, eq=False)
class FittedPrior:
    """A prior kernel for targets around a constant mean.

    Attributes:
        kernel: its parameters are no longer trainable.
        noise_variance: of the targets around the functions, in their squared units.
        report: how the search went; its loss is the negative log marginal likelihood.
    """

    kernel: gpflow.kernels.Kernel
    noise_variance: float
    report: Minimum


@PRIORS.register("se_ard")
def _se_ard(X: FloatArray) -> gpflow.kernels.Kernel:
    return gpflow.kernels.SquaredExponential(1.0, np.full(X.shape[1], _typical_distance(X)))


@PRIORS.register("se")
def _se(X: FloatArray) -> gpflow.kernels.Kernel:
    return gpflow.kernels.SquaredExponential(1.0, _typical_distance(X))


@PRIORS.register("nngp_relu")
def _nngp_relu(X: FloatArray) -> gpflow.kernels.Kernel:
    return NNGP(2, "relu", 2.0, 0.1)


@PRIORS.register("nngp_erf")
def _nngp_erf(X: FloatArray) -> gpflow.kernels.Kernel:
    return NNGP(2, "erf", 2.0, 0.1)


def fit_prior(
    name: str, X: FloatArray, Y: FloatArray, rng: np.random.Generator, budget: Budget, rows: int = ROWS
) -> FittedPrior:
    """Choose a kernel's parameters and the noise by L-BFGS on the marginal likelihood of some rows.

    The evaluations end long before the search of many lengthscales converges, so it runs on a grid: see
    `projected_lbfgs`.

    Args:
        name: in `PRIORS`.
        X: inputs [N, D].
        Y: targets less the prior's mean [N, P]; all share the kernel and the noise.
        rng: chooses the rows where there are more than `rows`.
        budget: limits the evaluations; the paper allows 100.
        rows: rows used at most.

    Raises:
        UserError: if the prior is unknown.
    """
    build = PRIORS.get(name)
    chosen = rng.permutation(len(X))[:rows]
    X, Y = np.asarray(X[chosen], np.float64), np.asarray(Y[chosen], np.float64)
    noise = gpflow.likelihoods.Gaussian(START_NOISE, variance_lower_bound=SMALLEST_NOISE)
    model = gpflow.models.GPR((X, Y), build(X), likelihood=noise)
    variables = [p.unconstrained_variable for p in model.trainable_parameters]
    loss = tf.function(lambda: _loss_and_gradient(model, variables), autograph=False)

    def objective(point: FloatArray) -> tuple[float, FloatArray]:
        assign(variables, point)
        try:
            value, gradient = loss()
        except tf.errors.InvalidArgumentError:  # the covariance has no Cholesky factor
            return np.nan, np.full_like(point, np.nan)
        return float(value.numpy()), np.asarray(gradient.numpy(), np.float64)

    report = minimise_on_grid(objective, flatten(variables), budget)
    if np.isfinite(report.loss):
        assign(variables, report.point)
    gpflow.set_trainable(model, False)
    return FittedPrior(model.kernel, float(model.likelihood.variance.numpy()), report)


def _loss_and_gradient(model: gpflow.models.GPR, variables: list[Any]) -> tuple[Any, Any]:
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(variables)
        loss = model.training_loss()
    return loss, tf.concat([tf.reshape(g, [-1]) for g in tape.gradient(loss, variables)], axis=0)


def _typical_distance(X: FloatArray) -> float:
    """Return the median distance of different rows, or 1 if all are equal."""
    distances = pdist(X)
    positive = distances[distances > 0.0]
    return float(np.median(positive)) if positive.size else 1.0
