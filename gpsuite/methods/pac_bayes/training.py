"""Training a full GP by minimising a PAC-Bayesian bound, or by its marginal likelihood, which does not know the loss.

Equation: Reeb et al. 2018, Sec. 3
Equation: Rasmussen & Williams 2006, Eq. (2.30)
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.pac_bayes.full_gp import FullGPLikelihood, FullGPObjective
from gpsuite.methods.pac_bayes.problem import Problem, Search, TrainedGP
from gpsuite.models.config import Hyperparameters
from gpsuite.models.search import Minimum, minimise

NOISE_FLOOR = 1e-6
"""Of the noise variance in GPflow's Gaussian likelihood."""


def train_full_gp(problem: Problem, search: Search) -> TrainedGP:
    """Minimise the bound of a full GP over its hyperparameters, then round those of the kernel.

    L-BFGS-B with variance and lengthscales in the box [e^-6, e^6] of the grid.

    Raises:
        ValueError: if `search.start` has the wrong number of lengthscales.
        UserError: if the parametrisation is unknown.
    """
    bound, variables = FullGPObjective(problem), search.variables
    first = search.first(problem.n_lengthscales)

    def value_and_gradient(u: FloatArray) -> tuple[float, FloatArray]:
        theta, slope = variables.to_log(u)
        value, gradient, _ = bound.value_and_gradient(theta)
        return value, gradient * slope

    found = search.run(value_and_gradient, variables.from_log(first.to_log()), search.limits(first.n_kernel))
    return TrainedGP.at(variables.to_log(found.point)[0], found)


def maximise_full_likelihood(
    X: FloatArray, y: FloatArray, ard: bool, budget: Budget
) -> tuple[Hyperparameters, Minimum]:
    """Train a full GP by its marginal likelihood, from hyperparameters 1, as GPflow does, without TensorFlow.

    The search runs over GPflow's unconstrained parameters, softplus of the kernel's and softplus above a floor of the
    noise variance, with scipy's default tolerances: it visits the points that GPflow's would.

    Args:
        X: inputs [N, D].
        y: targets [N].
        ard: one lengthscale per input, or a single one.
        budget: each evaluation is counted; ends the search when exhausted.

    Returns:
        the hyperparameters at the best point met, and how the search ended.

    Equation: Rasmussen & Williams 2006, Eq. (2.30)
    """
    likelihood = FullGPLikelihood(X, y, ard)
    floor = np.zeros(likelihood.n_lengthscales + 2)
    floor[-1] = NOISE_FLOOR

    def value_and_gradient(u: FloatArray) -> tuple[float, FloatArray]:
        natural = np.logaddexp(0.0, u) + floor
        value, gradient = likelihood.value_and_gradient(np.log(natural))
        return value, gradient * expit(u) / natural

    above = 1.0 - floor
    found = minimise(value_and_gradient, above + np.log(-np.expm1(-above)), budget)
    return Hyperparameters.from_log(np.log(np.logaddexp(0.0, found.point) + floor)), found
