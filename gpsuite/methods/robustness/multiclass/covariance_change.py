"""How far E softmax moves when the latent covariance changes, known by its differences D_ij = Var(f_i - f_j) only.

By Price's theorem and the softmax's invariance to a common shift,
dp_c = (1/2) sum_{j != c} E[p_c p_j (1 - 2 p_c)] dD_cj - sum_{i < j; i, j != c} E[p_c p_i p_j] dD_ij. So along the
segment between two covariances p_c moves by at most A + B max(-dD_ij)_+ upwards and A + B max(dD_ij)_+ downwards, with
A = max_j |dD_cj| / (12 sqrt 3) and B = (2/27) (C - 2) / (C - 1). As sum_j p_c p_j |1 - 2 p_c| <= min(p_c, 1 - p_c) and
sum_{i<j} p_c p_i p_j <= min(p_c, 1 - p_c) / 2, p_c and 1 - p_c also move by a factor of at most
exp((max_j |dD_cj| + max_ij |dD_ij|) / 2), which is sharper near zero and one.

Equation: derived, softmax of several classes
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray

CURVATURE = 1.0 / (12.0 * math.sqrt(3.0))
"""Half the largest |w'Hw| / (max w - min w)^2 of the softmax's Hessian, and A's constant."""
_OUTWARD = 1.0 + 1e-12


@dataclass(frozen=True)
class CovarianceChange:
    """Changes of one class probability with the covariance, [B] each.

    Attributes:
        up: largest rise, as a difference.
        down: largest fall.
        rate: e^rate is the largest factor of the probability, and of its complement, either way.
    """

    up: FloatArray
    down: FloatArray
    rate: FloatArray

    def highest(self, p: FloatArray) -> FloatArray:
        """Return the largest probability [B] that `p` may become."""
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite limit is none
            falls = 1.0 - (1.0 - p) * np.exp(-self.rate)
            return np.asarray(np.fmin(np.fmin(p + self.up, p * np.exp(self.rate) * _OUTWARD), falls + 1e-15))

    def lowest(self, p: FloatArray) -> FloatArray:
        """Return the smallest probability [B] that `p` may become."""
        with np.errstate(over="ignore", invalid="ignore"):
            rises = 1.0 - (1.0 - p) * np.exp(self.rate)
            return np.asarray(
                np.fmax(np.fmax(p - self.down, p * np.exp(-self.rate) / _OUTWARD), rises - 1e-15)
            )


def covariance_change(low: FloatArray, high: FloatArray, own: int) -> CovarianceChange:
    """Return how far p_own may move.

    Args:
        low: smallest change of each D_ij, [B, C, C], symmetric with zeros on the diagonal.
        high: largest change.
        own: the class.
    """
    C = low.shape[1]
    size = np.maximum(np.abs(low), np.abs(high))
    mine = size[:, own].max(axis=1)
    rest_low, rest_high = low.copy(), high.copy()
    for rest in (rest_low, rest_high):
        rest[:, own], rest[:, :, own] = 0.0, 0.0
    # the diagonal's zeros stand for the positive part
    falls, rises = -rest_low.min(axis=(1, 2)), rest_high.max(axis=(1, 2))
    weight = (2.0 / 27.0) * (C - 2) / (C - 1)
    first = CURVATURE * mine
    rate = 0.5 * (mine + np.maximum(falls, rises)) * _OUTWARD
    return CovarianceChange((first + weight * falls) * _OUTWARD, (first + weight * rises) * _OUTWARD, rate)
