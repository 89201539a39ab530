"""Lengthscales that scale the inputs before a bound is trained, learned on rows that the bound does not see.

On the grid of a PAC-Bayes bound each lengthscale costs some nats. What other rows decide costs none: a prior may
depend on them. Inputs are divided by the lengthscales found there, so that a bound pays for a single one.

Equation: Rasmussen & Williams 2006, Eq. (2.30), Sec. 5.1
Source: Ambroladze, Parrado-Hernandez & Shawe-Taylor 2007 (a prior learned on a part of the rows)
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.pac_bayes.full_gp import FullGPLikelihood
from gpsuite.models.search import minimise

SPREAD = 1.5
"""Standard deviation of the normal prior on the logarithm of each hyperparameter: a factor of 4.5 either way."""

FARTHEST = 3.0
"""How many of these each may be away from the prior's centre."""

NOISE = 0.1
"""Centre of the noise variance's prior, as a share of the target's variance."""

MAX_EVALUATIONS = 100


def relevance_lengthscales(X: FloatArray, y: FloatArray) -> FloatArray:
    """Return one lengthscale per input at the posterior mode of a full GP's hyperparameters, [D].

    The log marginal likelihood, plus a lognormal prior about the distance of two standardised rows, sqrt(2 D), which
    decides where rows are few: there all inputs stay alike.

    Args:
        X: standardised inputs [N, D].
        y: standardised targets [N].

    Raises:
        ValueError: if shapes disagree, or a value is not finite.

    Equation: Rasmussen & Williams 2006, Eq. (2.30), Sec. 5.1
    """
    likelihood, inputs = FullGPLikelihood(X, y), X.shape[1]
    centre = np.log(np.concatenate([[1.0], np.full(inputs, np.sqrt(2.0 * inputs)), [NOISE]]))

    def value_and_gradient(theta: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = likelihood.value_and_gradient(theta)
        away = (theta - centre) / SPREAD
        return value + 0.5 * float(away @ away), gradient + away / SPREAD

    # copies among few rows would send noise and lengthscales to 0
    within = Bounds(centre - FARTHEST * SPREAD, centre + FARTHEST * SPREAD)
    found = minimise(value_and_gradient, centre, Budget(evaluations=MAX_EVALUATIONS), within)
    return np.asarray(np.exp(found.point[1:-1]))
