"""Which measurement tells most: predictive entropies, and the choice among what is allowed.

Equation: Li et al. 2022, Eq. (7), Eq. (9)
"""

from __future__ import annotations

import math

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray

LOG_2PI_E = math.log(2.0 * math.pi * math.e)


def entropy(variance: FloatArray) -> FloatArray:
    """Return the entropy ½ log(2πe σ²) of each single output, Eq. (7) with R = 1, in nats.

    Args:
        variance: predictive variances of the noise-free outputs, any shape; where rounding has left none, the entropy
            is -inf.

    Equation: Li et al. 2022, Eq. (7)
    """
    with np.errstate(divide="ignore"):
        return np.asarray(0.5 * (LOG_2PI_E + np.log(np.maximum(variance, 0.0))))


def joint_entropy(covariance: FloatArray) -> FloatArray:
    """Return the entropy ½ log((2πe)^P det Σ) of all outputs at each input, Eq. (7) with R = P, in nats, [...].

    Args:
        covariance: predictive covariances of the noise-free outputs, [..., P, P]; where rounding has left none that
            is positive definite, the entropy is -inf.

    Equation: Li et al. 2022, Eq. (7)
    """
    outputs = covariance.shape[-1]
    with np.errstate(invalid="ignore"):  # NaN is allowed
        log_determinant = np.linalg.slogdet(covariance)[1]
        # two negative eigenvalues leave the determinant positive, not all leading principal minors
        signs = [np.linalg.slogdet(covariance[..., :size, :size])[0] for size in range(1, outputs + 1)]
    joint = 0.5 * (outputs * LOG_2PI_E + log_determinant)
    # A comparison with NaN is false, so that NaN stays NaN.
    return np.where(np.any(np.array(signs) <= 0.0, axis=0), -np.inf, joint)


def choose(score: FloatArray, allowed: BoolArray) -> tuple[int, ...] | None:
    """Return the index of the largest score among the allowed ones, None if none is allowed; Eq. (9).

    Of equal scores the lowest index wins, in the order of rows: the same data give the same query. A NaN is never
    chosen.

    Args:
        score: of each candidate: [n, P] for single outputs, [n] for whole inputs.
        allowed: which candidates are available and safe, of the same shape.

    Raises:
        ValueError: if the shapes differ.

    Equation: Li et al. 2022, Eq. (9)
    """
    if score.shape != allowed.shape:
        raise ValueError(f"scores {score.shape} and allowed {allowed.shape} must have the same shape")
    candidates = np.flatnonzero(allowed & ~np.isnan(score))
    if not candidates.size:
        return None
    return _index(candidates[np.argmax(score.flat[candidates])], score.shape)


def draw(allowed: BoolArray, rng: np.random.Generator) -> tuple[int, ...] | None:
    """Return the index of one of the allowed candidates, each as likely as any other; None if none is allowed.

    Args:
        allowed: which candidates are available and safe, [n, P] or [n].
        rng: gives one number; none if nothing is allowed.
    """
    candidates = np.flatnonzero(allowed)
    return _index(rng.choice(candidates), allowed.shape) if candidates.size else None


def _index(position: np.int64, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(position, shape))
