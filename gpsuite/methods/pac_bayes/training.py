"""Training a GP by minimising a PAC-Bayesian bound (Sec. 3 of Reeb et al. 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.pac_bayes.bounds.hyperparameter_grid import PAPER_GRID
from gpsuite.methods.pac_bayes.full_gp import FullGPObjective
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.minimise import Minimum, Status, minimise
from gpsuite.methods.pac_bayes.parametrisation import PARAMETRISATIONS, Parametrisation
from gpsuite.models.config import Hyperparameters


@dataclass(frozen=True)
class TrainedGP:
    """Hyperparameters found by minimising a bound, and how the search went.

    Attributes:
        hyperparameters: as found.
        rounded: with variance and lengthscales on the grid; only for these does a certificate hold.
        objective_value: the bound at `hyperparameters`; infinite if diverged.
        evaluations: objective and gradient evaluations.
        iterations: iterations of L-BFGS-B.
        message: L-BFGS-B's last word, or the limit that was reached.
        status: `done`, `budget` or `diverged`.
        reason: what was unusual, or an empty string.
    """

    hyperparameters: Hyperparameters
    rounded: Hyperparameters
    objective_value: float
    evaluations: int
    iterations: int
    message: str
    status: Status
    reason: str


def train_full_gp(
    X: FloatArray,
    y: FloatArray,
    loss: Loss,
    objective: str,
    delta: float,
    ard: bool,
    start: Hyperparameters | None,
    budget: Budget,
    parametrisation: str = "softplus",
) -> TrainedGP:
    """Minimise the bound of a full GP over its hyperparameters, then round those of the kernel.

    L-BFGS-B with variance and lengthscales in the box [e^-6, e^6] of the grid. The search variable decides which
    local optimum is found. From the paper's start, `softplus` (the authors') repeats the single-start runs of
    their code on Boston, the two that collapse to KL near 0 (sqrt, epsilon = 0.2) included; `log` collapses in
    neither, agrees elsewhere, and takes a third of the evaluations with ARD.

    Args:
        X: inputs [N, D], standardised as the caller sees fit.
        y: targets [N].
        loss: the loss whose Gibbs risk is bounded.
        objective: a name in `bounds.OBJECTIVES`.
        delta: allowed probability of failure, in (0, 1).
        ard: one lengthscale per input, or a single one.
        start: first point; None means variance = lengthscales = noise variance = 1 (the paper's).
        budget: limits on seconds and evaluations; the paper allows 1000 evaluations.
        parametrisation: `softplus` or `log` (`parametrisation.PARAMETRISATIONS`).

    Raises:
        ValueError: if shapes disagree, values are not finite, delta is outside (0, 1), or `start` has the wrong
            number of lengthscales.
        UserError: if the objective or the parametrisation is unknown.
    """
    bound = FullGPObjective(X, y, loss, delta, objective, ard)
    first = first_point(start, bound.n_lengthscales)
    search = PARAMETRISATIONS.get(parametrisation)

    def value_and_gradient(u: FloatArray) -> tuple[float, FloatArray]:
        theta, slope = search.to_log(u)
        value, gradient, _ = bound.value_and_gradient(theta)
        return value, gradient * slope

    bounds = hyperparameter_bounds(search, first.n_kernel)
    minimum = minimise(value_and_gradient, search.from_log(first.to_log()), bounds, budget)
    return trained_gp(minimum, search.to_log(minimum.x)[0])


def first_point(start: Hyperparameters | None, n_lengthscales: int) -> Hyperparameters:
    """Return the start of a search; None means all ones (the paper's).

    Raises:
        ValueError: if `start` has the wrong number of lengthscales.
    """
    first = start or Hyperparameters(1.0, (1.0,) * n_lengthscales, 1.0)
    if len(first.lengthscales) != n_lengthscales:
        raise ValueError(f"start has {len(first.lengthscales)} lengthscales, expected {n_lengthscales}")
    return first


def hyperparameter_bounds(search: Parametrisation, n_kernel: int) -> list[tuple[float, float]]:
    """Return the limits of the search variables: the grid's box for the kernel, positive for the noise variance."""
    edge = float(PAPER_GRID.half_width)
    low, high = (float(v) for v in search.from_log(np.array([-edge, edge])))
    return [(low, high)] * n_kernel + [(search.lowest(), math.inf)]


def trained_gp(minimum: Minimum, theta: FloatArray) -> TrainedGP:
    """Return the outcome of a search that ended at the logarithms theta."""
    found = Hyperparameters.from_log(theta)
    return TrainedGP(
        found, PAPER_GRID.rounded(found), minimum.value, minimum.evaluations, minimum.iterations, minimum.message,
        minimum.status, minimum.reason,
    )  # fmt: skip
