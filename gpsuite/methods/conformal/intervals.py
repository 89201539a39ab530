"""Quantiles of scores that bound a new row's score: of all rows, of each kind of rows, and of weighted rows.

Equation: Vovk et al. 2005, Prop. 4.1
Equation: Barber et al. 2021, Theorem 1
Equation: Tibshirani et al. 2019, Corollary 1
Equation: Lee et al. 2023, Theorem 1
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from gpsuite.arrays import FloatArray, IntArray

ROUNDING = 1e-12  # relative slack of a sum of weights: a rank that is reached exactly counts as reached


def split_radius(errors: FloatArray, coverage: float) -> float:
    """Return r such that a new target is within r of its prediction with this probability or more.

    It is the ceil((n + 1) coverage)-th smallest error. It is infinite if n rows are too few for the coverage.

    Args:
        errors: absolute errors [n] on rows that the model was not trained on, or any other scores of 0 or more.
        coverage: probability in (0, 1), over the rows and the new one together.

    Raises:
        ValueError: if there are no errors, one is not a number, or the coverage is outside (0, 1).
    """
    ordered = np.sort(_checked(errors, coverage))
    rank = quantile_rank(len(ordered), coverage)
    return float(ordered[rank - 1]) if rank <= len(ordered) else math.inf


def split_radii(errors: FloatArray, kinds: IntArray, count: int, coverage: float) -> FloatArray:
    """Return the radius of each of `count` kinds of rows, [K]: the coverage holds among the new rows of each kind.

    Args:
        errors: errors as for `split_radius`, [n].
        kinds: the kind of each row, 0 to K - 1, [n]. The radius of a kind without rows is infinite.
        count: K.
        coverage: coverage as for `split_radius`.
    """
    values = _checked(errors, coverage)
    if kinds.shape != values.shape or kinds.min(initial=0) < 0 or kinds.max(initial=0) >= count:
        raise ValueError(f"kinds: a number from 0 to {count - 1} is needed for each of {len(values)} errors")
    own = [values[kinds == kind] for kind in range(count)]
    return np.array([split_radius(each, coverage) if len(each) else math.inf for each in own])


def weighted_radii(errors: FloatArray, weights: FloatArray, own: FloatArray, coverage: float) -> FloatArray:
    """Return a radius [B] for each new row, if rows are drawn with other probabilities than new ones.

    It is the smallest error up to which the rows have the coverage's share of all weights, including the new row's. It
    is infinite if all rows together have less.

    There are two uses. A row's weight is the known likelihood ratio of new rows to these at its inputs, up to a factor.
    Or it is one over the number of rows of its group, `own` is 1, and the new row is of a new group.

    Args:
        errors: errors as for `split_radius`, [n].
        weights: weights of these rows, [n], 0 or more.
        own: weights of the new rows, [B], 0 or more.
        coverage: coverage as for `split_radius`.

    Raises:
        ValueError: also if a weight is negative or not finite, or the shapes disagree.
    """
    values = _checked(errors, coverage)
    for name, given in (("weights", weights), ("own", own)):
        if given.ndim != 1 or not np.isfinite(given).all() or (given < 0.0).any():
            raise ValueError(f"{name} must be finite numbers of 0 or more")
    if weights.shape != values.shape:
        raise ValueError(f"{len(values)} weights are needed, got {weights.shape}")
    order = np.argsort(values, kind="stable")
    held = np.cumsum(weights[order])
    needed = coverage * (held[-1] + own) * (1.0 - ROUNDING)
    places = np.searchsorted(held, needed)
    # if no weight is left, nothing is known
    return np.asarray(np.append(values[order], math.inf)[np.where(held[-1] + own > 0.0, places, len(values))])


def follows_spread(errors: FloatArray, scores: FloatArray, coverage: float) -> bool:
    """Return whether intervals that follow a model's spread are narrower on average than intervals of one width.

    To keep the coverage, decide by rows that do not scale the intervals, such as training rows left out in turn.

    Args:
        errors: absolute errors of the models without each row, [n].
        scores: the same errors in these models' standard deviations, [n].
        coverage: coverage of the intervals.
    """
    deviations = errors[scores > 0.0] / scores[scores > 0.0]
    if not len(deviations):
        return False
    return bool(split_radius(scores, coverage) * np.mean(deviations) < split_radius(errors, coverage))


def jackknife_plus(
    errors: FloatArray, predictions: FloatArray, coverage: float, deviations: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper ends [B] of intervals that hold a new target with this probability or more.

    Let a = (1 - coverage) / 2. The ends are the floor(a (n + 1))-th smallest of mu_-i(x) - R_i and the
    ceil((1 - a)(n + 1))-th smallest of mu_-i(x) + R_i. In practice the intervals contain 1 - a of the targets.

    Args:
        errors: R_i, absolute leave-one-out errors [n]. Infinite for a row that counts as lost.
        predictions: mu_-i(x) of the models without row i at the new inputs, [n, B].
        coverage: probability in (0, 1).
        deviations: sd_-i(x) > 0 of these models there, [n, B], if the errors are in these units.

    Raises:
        ValueError: if the shapes disagree, an error is not a number or a prediction not finite, or the coverage is
            outside (0, 1).
    """
    R = _checked(errors, coverage)
    if predictions.ndim != 2 or len(predictions) != len(R) or not np.isfinite(predictions).all():
        raise ValueError(f"predictions [{len(R)}, B] are needed, got {predictions.shape}")
    if deviations is not None and (deviations.shape != predictions.shape or not (deviations > 0.0).all()):
        raise ValueError(f"positive deviations {predictions.shape} are needed, got {deviations.shape}")
    n = len(R)
    if not jackknife_bounded(n, coverage):
        width = predictions.shape[1]
        return np.full(width, -np.inf), np.full(width, np.inf)
    a = (1 - _exact(coverage)) / 2
    low, high = math.floor(a * (n + 1)), math.ceil((1 - a) * (n + 1))
    reach = R[:, None] if deviations is None else R[:, None] * deviations
    lower = np.partition(predictions - reach, low - 1, axis=0)[low - 1]
    return lower, np.partition(predictions + reach, high - 1, axis=0)[high - 1]


def jackknife_bounded(n: int, coverage: float, lost: int = 0) -> bool:
    """Return whether jackknife+ intervals of n rows have finite ends, with `lost` errors counted as infinite."""
    return math.floor((1 - _exact(coverage)) / 2 * (n + 1)) > lost


def quantile_rank(n: int, coverage: float) -> int:
    return math.ceil((n + 1) * _exact(coverage))


def _exact(coverage: float) -> Fraction:
    """Return the coverage as an exact decimal: 0.9 (n + 1) must not round up to the next rank."""
    return Fraction(repr(float(coverage)))


def _checked(errors: FloatArray, coverage: float) -> FloatArray:
    values = np.asarray(errors, dtype=np.float64)
    if values.ndim != 1 or not len(values) or np.isnan(values).any() or (values < 0.0).any():
        raise ValueError("errors must be numbers of 0 or more, [n] with n >= 1")
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must lie in (0, 1), got {coverage!r}")
    return values
