"""One temperature per class, chosen on validation rows: latent variances r_j become alpha_j r_j after training.

Equation: Wild et al. 2022, App. A.7
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.optimize import minimize

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.wasserstein.scoring import TEMPERATURES

_TINY = 1e-300  # least probability, if sampling gives 0


class Sloped(Protocol):
    """A likelihood whose class probabilities have slopes in the latent variances."""

    def label_slopes(self, mean: FloatArray, variance: FloatArray, y: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the probability of each label [N] and its slopes in the variances [N, C]."""


def class_temperatures(likelihood: Sloped, mean: FloatArray, variance: FloatArray, y: IntArray) -> FloatArray:
    """Return alpha [C] in `TEMPERATURES` with a low mean negative log probability of labels [N].

    The loss is smooth in log alpha but not convex. The search starts at 1 and descends. So it never ends worse than
    without temperatures.

    Args:
        likelihood: source of `label_slopes`.
        mean: means of the latent functions at the validation rows, [N, C].
        variance: variances of the latent functions there, [N, C].
        y: classes of these rows, [N].
    """

    def loss(log_alpha: FloatArray) -> tuple[float, FloatArray]:
        return tempered_loss(likelihood, mean, variance, y, np.exp(log_alpha))

    bounds = [tuple(np.log(TEMPERATURES))] * mean.shape[1]
    found = minimize(loss, np.zeros(mean.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(np.exp(found.x))


def tempered_loss(
    likelihood: Sloped, mean: FloatArray, variance: FloatArray, y: IntArray, alpha: FloatArray
) -> tuple[float, FloatArray]:
    """Return the mean negative log probability of labels at variances alpha_j r_j, and its slopes in log alpha [C]."""
    p, slopes = likelihood.label_slopes(mean, alpha * variance, y)
    p = np.maximum(p, _TINY)
    return -float(np.mean(np.log(p))), -np.mean(slopes * alpha * variance / p[:, None], axis=0)
