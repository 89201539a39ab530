"""Training a sparse GP, inducing inputs included, on a PAC-Bayesian bound (Sec. 3 of Reeb et al. 2018) or a baseline's.

The baselines are VFE (Titsias 2009) and FITC (Snelson & Ghahramani 2006). All start and search alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.minimise import minimise
from gpsuite.methods.pac_bayes.parametrisation import PARAMETRISATIONS
from gpsuite.methods.pac_bayes.sparse.algebra import checked_inducing
from gpsuite.methods.pac_bayes.sparse.likelihood import Form, SparseLikelihoodObjective
from gpsuite.methods.pac_bayes.sparse.objective import SparseGPObjective
from gpsuite.methods.pac_bayes.training import TrainedGP, first_point, hyperparameter_bounds, trained_gp
from gpsuite.models.config import Hyperparameters

# theta [T + 1] and Z [M, D] -> value and gradients in both
Objective = Callable[[FloatArray, FloatArray], tuple[float, FloatArray, FloatArray]]


@dataclass(frozen=True)
class TrainedSparseGP:
    """Hyperparameters and inducing inputs found by minimising an objective.

    Attributes:
        gp: the hyperparameters, and how the search went.
        Z: inducing inputs [M, D]; they carry no penalty and are not rounded.
        alpha: of the posterior that was trained: 1 is FITC, 0 is VFE (DTC).
        jitter: largest multiple of sigma_f^2 that K_ZZ needed during the search; 0 if none.
    """

    gp: TrainedGP
    Z: FloatArray
    alpha: float
    jitter: float


def train_sparse_gp(
    X: FloatArray,
    y: FloatArray,
    Z: FloatArray,
    loss: Loss,
    objective: str,
    delta: float,
    ard: bool,
    alpha: float,
    start: Hyperparameters | None,
    budget: Budget,
    parametrisation: str = "softplus",
) -> TrainedSparseGP:
    """Minimise the bound of a sparse GP over hyperparameters and inducing inputs, then round those of the kernel.

    L-BFGS-B with variance and lengthscales in the box [e^-6, e^6] of the grid; Z is free.

    Args:
        X: inputs [N, D], standardised as the caller sees fit.
        y: targets [N].
        Z: inducing inputs to start from [M, D]; the paper takes k-means centres of X.
        loss: the loss whose Gibbs risk is bounded.
        objective: a name in `bounds.OBJECTIVES`.
        delta: allowed probability of failure, in (0, 1).
        ard: one lengthscale per input, or a single one.
        alpha: 1 is FITC (the paper's), 0 is VFE (DTC).
        start: first hyperparameters; None means variance = lengthscales = noise variance = 1 (the paper's).
        budget: limits on seconds and evaluations; the paper allows 1000 evaluations.
        parametrisation: of the hyperparameters, `softplus` or `log` (`parametrisation.PARAMETRISATIONS`).

    Raises:
        ValueError: if shapes disagree, values are not finite, alpha or delta is out of range, or `start` has the
            wrong number of lengthscales.
        UserError: if the objective or the parametrisation is unknown.
    """
    bound = SparseGPObjective(X, y, loss, delta, objective, ard, alpha, len(Z))

    def evaluate(theta: FloatArray, Z: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        value, d_theta, d_Z, _ = bound.value_and_gradient(theta, Z)
        return value, d_theta, d_Z

    first = first_point(start, bound.n_lengthscales)
    gp, found = _search(evaluate, first, checked_inducing(Z, np.shape(X)[1]), budget, parametrisation)
    return TrainedSparseGP(gp, found, alpha, bound.jitter)


def train_sparse_likelihood(
    X: FloatArray,
    y: FloatArray,
    Z: FloatArray,
    form: Form,
    ard: bool,
    start: Hyperparameters | None,
    budget: Budget,
    parametrisation: str = "softplus",
) -> TrainedSparseGP:
    """Minimise a baseline's objective over hyperparameters and inducing inputs, searching as `train_sparse_gp` does.

    The objective value of the result is in nats: the negative bound of VFE, or the negative approximate log marginal
    likelihood of FITC.

    Args:
        X: inputs [N, D], standardised as the caller sees fit.
        y: targets [N].
        Z: inducing inputs to start from [M, D].
        form: `vfe` (the result has alpha = 0) or `fitc` (alpha = 1).
        ard: one lengthscale per input, or a single one.
        start: first hyperparameters; None means variance = lengthscales = noise variance = 1.
        budget: limits on seconds and evaluations.
        parametrisation: of the hyperparameters, `softplus` or `log` (`parametrisation.PARAMETRISATIONS`).

    Raises:
        ValueError: if shapes disagree, values are not finite, or `start` has the wrong number of lengthscales.
        UserError: if the form or the parametrisation is unknown.
    """
    likelihood = SparseLikelihoodObjective(X, y, ard, form, len(Z))
    first, inputs = first_point(start, likelihood.n_lengthscales), checked_inducing(Z, np.shape(X)[1])
    gp, found = _search(likelihood.value_and_gradient, first, inputs, budget, parametrisation)
    return TrainedSparseGP(gp, found, 1.0 if form == "fitc" else 0.0, likelihood.jitter)


def _search(
    evaluate: Objective, first: Hyperparameters, inputs: FloatArray, budget: Budget, parametrisation: str
) -> tuple[TrainedGP, FloatArray]:
    """Minimise from `first` and `inputs` [M, D]; return the outcome and the inducing inputs [M, D]."""
    search, n_theta = PARAMETRISATIONS.get(parametrisation), first.n_kernel + 1

    def value_and_gradient(u: FloatArray) -> tuple[float, FloatArray]:
        theta, slope = search.to_log(u[:n_theta])
        value, d_theta, d_Z = evaluate(theta, u[n_theta:].reshape(inputs.shape))
        return value, np.concatenate([d_theta * slope, d_Z.ravel()])

    bounds = hyperparameter_bounds(search, first.n_kernel) + [(-math.inf, math.inf)] * inputs.size
    begin = np.concatenate([search.from_log(first.to_log()), inputs.ravel()])
    minimum = minimise(value_and_gradient, begin, bounds, budget)
    gp = trained_gp(minimum, search.to_log(minimum.x[:n_theta])[0])
    return gp, minimum.x[n_theta:].reshape(inputs.shape)
