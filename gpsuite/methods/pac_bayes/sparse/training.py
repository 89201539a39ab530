"""Training a sparse GP by minimising a PAC-Bayesian bound, and its baselines by their own objectives.

Equation: Reeb et al. 2018, Sec. 3
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.pac_bayes.problem import Problem, Search, TrainedGP
from gpsuite.methods.pac_bayes.sparse.algebra import checked_inducing
from gpsuite.methods.pac_bayes.sparse.likelihood import Form, SparseLikelihoodObjective
from gpsuite.methods.pac_bayes.sparse.objective import SparseGPObjective
from gpsuite.methods.pac_bayes.sparse.staged_search import StagedSearch, minimise_in_stages
from gpsuite.models.config import Hyperparameters
from gpsuite.models.search import Objective as VectorObjective

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


def train_sparse_gp(problem: Problem, Z: FloatArray, alpha: float, search: Search) -> TrainedSparseGP:
    """Minimise the bound of a sparse GP over hyperparameters and inducing inputs, then round those of the kernel.

    Variance and lengthscales stay in the box [e^-6, e^6] of the grid; Z is free. The published search is L-BFGS-B on
    all rows.

    Args:
        problem: data, loss and confidence of the bound.
        Z: inducing inputs to start from [M, D]; the paper takes k-means centres of X.
        alpha: 1 is FITC (the paper's), 0 is VFE (DTC).
        search: start and limits of the published search, or of the staged one.

    Raises:
        ValueError: if shapes disagree, Z is not finite, alpha is out of range, or `search.start` has the wrong number
            of lengthscales.
        UserError: if the parametrisation is unknown.
    """
    bound = SparseGPObjective(problem, alpha, len(Z))

    def on_rows(rows: IntArray) -> Objective:
        return _without_parts(SparseGPObjective(problem, alpha, len(Z), rows=rows))

    first, inputs = search.first(problem.n_lengthscales), checked_inducing(Z, problem.X.shape[1])
    gp, found = _search(_without_parts(bound), on_rows, bound.n, first, inputs, search)
    return TrainedSparseGP(gp, found, alpha, bound.jitter)


def train_sparse_likelihood(
    X: FloatArray, y: FloatArray, Z: FloatArray, form: Form, ard: bool, search: Search
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
        search: start and limits of the published search, or of the staged one.

    Raises:
        ValueError: if shapes disagree, values are not finite, or `search.start` has the wrong number of lengthscales.
        UserError: if the form or the parametrisation is unknown.
    """
    likelihood = SparseLikelihoodObjective(X, y, ard, form, len(Z))
    first, inputs = search.first(likelihood.n_lengthscales), checked_inducing(Z, np.shape(X)[1])

    def on_rows(rows: IntArray) -> Objective:
        return SparseLikelihoodObjective(X, y, ard, form, len(Z), rows).value_and_gradient

    gp, found = _search(likelihood.value_and_gradient, on_rows, likelihood.n, first, inputs, search)
    return TrainedSparseGP(gp, found, 1.0 if form == "fitc" else 0.0, likelihood.jitter)


def _without_parts(bound: SparseGPObjective) -> Objective:
    """Return the bound and its gradients alone."""
    return lambda theta, Z: bound.value_and_gradient(theta, Z)[:3]


def _search(
    evaluate: Objective,
    on_rows: Callable[[IntArray], Objective],
    n: int,
    first: Hyperparameters,
    inputs: FloatArray,
    search: Search,
) -> tuple[TrainedGP, FloatArray]:
    """Minimise from `first` and `inputs` [M, D]; return the outcome and the inducing inputs [M, D]."""
    variables, n_theta = search.variables, first.n_kernel + 1

    def in_variables(objective: Objective) -> VectorObjective:
        def value_and_gradient(u: FloatArray) -> tuple[float, FloatArray]:
            theta, slope = variables.to_log(u[:n_theta])
            value, d_theta, d_Z = objective(theta, u[n_theta:].reshape(inputs.shape))
            return value, np.concatenate([d_theta * slope, d_Z.ravel()])

        return value_and_gradient

    begin = np.concatenate([variables.from_log(first.to_log()), inputs.ravel()])
    if isinstance(search, StagedSearch):
        found = minimise_in_stages(
            in_variables(evaluate), lambda rows: in_variables(on_rows(rows)), n, n_theta, begin, search
        )
    else:
        limits = search.limits(first.n_kernel) + [(-math.inf, math.inf)] * inputs.size
        found = search.run(in_variables(evaluate), begin, limits)
    gp = TrainedGP.at(variables.to_log(found.point[:n_theta])[0], found)
    return gp, found.point[n_theta:].reshape(inputs.shape)
