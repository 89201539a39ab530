"""Intervals from the sizes of errors on rows that a model was not trained on.

Equation: Vovk et al. 2005, Prop. 4.1
Equation: Barber et al. 2021, Theorem 1
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from gpsuite.arrays import FloatArray


def split_radius(errors: FloatArray, coverage: float) -> float:
    """Return r such that a new target is within r of its prediction with this probability or more.

    The ceil((n + 1) coverage)-th smallest error; infinite where n rows are too few for the coverage.

    Args:
        errors: absolute errors [n] on rows that the model was not trained on.
        coverage: in (0, 1), over the rows and the new one together.

    Raises:
        ValueError: if there are no errors, one is not a number, or the coverage is outside (0, 1).
    """
    ordered = np.sort(_checked(errors, coverage))
    rank = math.ceil((len(ordered) + 1) * _exact(coverage))
    return float(ordered[rank - 1]) if rank <= len(ordered) else math.inf


def jackknife_plus(
    errors: FloatArray, predictions: FloatArray, coverage: float
) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper ends [B] of intervals that hold a new target with this probability or more.

    With a = (1 - coverage) / 2: the floor(a (n + 1))-th smallest of mu_-i(x) - R_i and the
    ceil((1 - a)(n + 1))-th smallest of mu_-i(x) + R_i; in practice they hold 1 - a of the targets.

    Args:
        errors: R_i, absolute leave-one-out errors [n]; infinite of a row that is to count as lost.
        predictions: mu_-i(x), of the models without row i at the new inputs, [n, B].
        coverage: in (0, 1), over the rows and the new one together.

    Raises:
        ValueError: if the shapes disagree, an error is not a number or a prediction not finite, or the coverage is
            outside (0, 1).
    """
    R = _checked(errors, coverage)
    if predictions.ndim != 2 or len(predictions) != len(R) or not np.isfinite(predictions).all():
        raise ValueError(f"predictions [{len(R)}, B] are needed, got {predictions.shape}")
    n = len(R)
    if not jackknife_bounded(n, coverage):
        width = predictions.shape[1]
        return np.full(width, -np.inf), np.full(width, np.inf)
    a = (1 - _exact(coverage)) / 2
    low, high = math.floor(a * (n + 1)), math.ceil((1 - a) * (n + 1))
    lower = np.sort(predictions - R[:, None], axis=0)[low - 1]
    return lower, np.sort(predictions + R[:, None], axis=0)[high - 1]


def jackknife_bounded(n: int, coverage: float, lost: int = 0) -> bool:
    """Return whether jackknife+ intervals of this coverage have finite ends.

    Args:
        n: number of rows.
        coverage: of the intervals.
        lost: how many of the rows count as if their error were infinite.
    """
    return math.floor((1 - _exact(coverage)) / 2 * (n + 1)) > lost


def _exact(coverage: float) -> Fraction:
    """Return the coverage as it is written: 0.9 (n + 1) must not round up to the next rank."""
    return Fraction(repr(float(coverage)))


def _checked(errors: FloatArray, coverage: float) -> FloatArray:
    values = np.asarray(errors, dtype=np.float64)
    if values.ndim != 1 or not len(values) or np.isnan(values).any() or (values < 0.0).any():
        raise ValueError("errors must be numbers of 0 or more, [n] with n >= 1")
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must lie in (0, 1), got {coverage!r}")
    return values
