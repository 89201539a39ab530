"""Tempering of predictions, chosen on validation rows: Gaussian variances in closed form, logits by a search.

Equation: Guo et al. 2017, Sec. 4.2
Equation: derived, tempering of Gaussian predictions
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.wasserstein.scoring.regression import checked_gaussians
from gpsuite.models.classification.robust_max import checked_labels

TEMPERATURES = (1e-3, 1e3)


class ExactPredictionsError(ValueError):
    """Every validation target was predicted exactly: the less variance the better, without end."""


def variance_factor(y: FloatArray, mean: FloatArray, variance: FloatArray) -> float:
    """Return alpha with the least negative log density of N(mean, alpha variance): mean((y - mean)^2 / variance).

    Args:
        y: validation targets [N].
        mean: predictions [N].
        variance: with the noise [N].

    Raises:
        ValueError: if shapes disagree, a value is not finite or a variance is not positive.
        ExactPredictionsError: if all errors are 0.
    """
    y, mean, variance = checked_gaussians(y, mean, variance)
    alpha = float(np.mean((y - mean) ** 2 / variance))
    if not alpha > 0.0:
        raise ExactPredictionsError("every prediction is exact: no factor above 0 is best")
    return alpha


def temperature(logits: FloatArray, labels: IntArray) -> float:
    """Return T in `TEMPERATURES` with the least mean of -log softmax(logits / T)_y (Guo et al. 2017).

    The loss is convex in 1 / T: the search over it finds the minimum.

    Raises:
        ValueError: if labels do not fit or a logit is not finite.
    """
    logits = np.asarray(logits, dtype=np.float64)
    y = checked_labels(labels, *logits.shape)
    if not np.isfinite(logits).all():
        raise ValueError("logits must be finite")

    def loss(log_inverse: float) -> float:
        return -float(np.mean(log_softmax(np.exp(log_inverse) * logits, axis=1)[np.arange(len(y)), y]))

    low, high = (-np.log(t) for t in reversed(TEMPERATURES))
    found = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-8})
    return float(np.exp(-found.x))


def tempered(logits: FloatArray, T: float) -> FloatArray:
    """Return softmax(logits / T) [N, C]."""
    return np.asarray(softmax(logits / T, axis=1))
