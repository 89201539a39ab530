"""Training as in the code of Blaas et al. 2020: unit start, no box, and searches that end early.

Two classes are trained by conjugate gradients on -log Z in log lengthscales and log amplitude, within a number of
evaluations. EP fails after ten sweeps, which shortens the step. Several classes have Student-t priors on lengthscales
and amplitude, and ten iterations of BFGS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.models.classification.approximation import BinaryProblem, NotConvergedError
from gpsuite.models.classification.expectation_propagation import sequential_ep
from gpsuite.models.classification.laplace import laplace
from gpsuite.models.classification.softmax_laplace import MultiClassProblem, softmax_laplace
from gpsuite.models.classification.training import Trained, TrainedGPC, TrainedMultiClass
from gpsuite.models.config import Hyperparameters
from gpsuite.models.conjugate_gradients import conjugate_gradients
from gpsuite.models.wolfe_bfgs import wolfe_bfgs

FREEDOM = 4.0  # degrees of freedom of the Student-t priors, with scale 1
INFERENCES = {"laplace": laplace, "ep": sequential_ep}


def train_as_authors(problem: BinaryProblem, inference: str, budget: Budget) -> TrainedGPC:
    """Return a classifier of two classes at the end of `budget.evaluations` evaluations.

    Raises:
        NotConvergedError: if the approximation does not converge at the start.
    """
    loss = _Loss(lambda at, state: INFERENCES[inference](problem, at, state), budget)
    start = np.zeros(1 + problem.X.shape[1])

    def by_amplitude(theta: FloatArray) -> tuple[float, FloatArray]:
        unit = np.where(np.arange(len(theta)) == 0, 2.0, 1.0)  # log variance = 2 log amplitude
        value, gradient = loss(unit * theta)
        return value, unit * gradient

    assert budget.evaluations is not None
    found = conjugate_gradients(by_amplitude, start, budget.evaluations)
    return loss.trained(found.evaluations, found.reason)


def train_several_as_authors(problem: MultiClassProblem, budget: Budget) -> TrainedMultiClass:
    """Return a classifier of several classes at the maximum of its posterior density, by ten BFGS iterations.

    The code adds 0.01 to the diagonal of the training rows' covariance. Here nothing is added. This moves the least
    objective by 0.05 on MNIST.

    Raises:
        NotConvergedError: if the approximation does not converge at the start.
    """
    loss = _Loss(lambda at, state: softmax_laplace(problem, at, state), budget, log_prior)
    found = wolfe_bfgs(loss, np.zeros(1 + problem.X.shape[1]))
    return loss.trained(found.evaluations, found.reason)


def log_prior(theta: FloatArray) -> tuple[float, FloatArray]:
    """Return the log density of log (variance, lengthscales...) theta [T], and its gradient, up to a constant.

    Each lengthscale and the amplitude are Student-t with 4 degrees of freedom, location 0 and scale 1. The density of
    their logarithms has the Jacobian's terms.
    """
    ratio = np.exp(np.append(theta[0], 2.0 * theta[1:])) / FREEDOM
    weight = np.append(0.5, np.ones(len(theta) - 1))
    half = 0.5 * (FREEDOM + 1.0)
    value = float(-half * np.log1p(ratio).sum() + weight @ theta)
    return value, weight * (1.0 - 2.0 * half * ratio / (1.0 + ratio))


class _Loss:
    """-log Z minus the log prior, in log (variance, lengthscales...). NaN if no approximation converged."""

    def __init__(
        self,
        fit_at: Callable[[Hyperparameters, FloatArray | None], Any],
        budget: Budget,
        prior: Callable[[FloatArray], tuple[float, FloatArray]] | None = None,
    ) -> None:
        self._fit_at, self._budget, self._prior = fit_at, budget, prior
        self._state: FloatArray | None = None
        self._best: tuple[float, Any, Hyperparameters] | None = None
        self._failed = 0

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        at = Hyperparameters.from_log(np.append(theta, 0.0))
        self._budget.spend(evaluations=1)
        fit = self._fit_at(at, self._state)
        if not fit.converged:
            self._failed += 1
            return float("nan"), np.full_like(theta, np.nan)
        self._state = fit.state
        value, gradient = -fit.log_marginal_likelihood, -fit.gradient
        if self._prior is not None:
            density, slope = self._prior(theta)
            value, gradient = value - density, gradient - slope
        if self._best is None or value < self._best[0]:
            self._best = value, fit, at
        return value, gradient

    def trained(self, evaluations: int, reason: str) -> Trained[Any]:
        if self._best is None:
            raise NotConvergedError("no convergence at the start, variance and lengthscales of 1")
        return Trained(*self._best[1:], evaluations, "done", reason, self._failed)
