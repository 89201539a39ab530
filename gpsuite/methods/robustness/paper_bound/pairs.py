"""Variance bound of the baseline, quick variant: tangents and chords of the kernel products of all pairs of data.

Equation: Blaas et al. 2020, App. D
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.envelope import Line, lowest_point, weighted_line
from gpsuite.methods.robustness.operator_form import OperatorForm
from gpsuite.methods.robustness.rounding import SHORT_SUM, UNIT

_THIN = 1e-12


@dataclass(frozen=True)
class Pairs:
    """The variance 1 - sum_p weights_p exp(-(q_i + q_l)/2) per unit s, pairs p = (i, l) with i <= l.

    Attributes:
        first: i, [P].
        second: l, [P].
        weights: s R_il, twice that off the diagonal, [P].
        unit: relative error allowed to a pair's part in the sum, [P].
        slack: bound of the rounding of the weighted sum, in units of s.
    """

    first: IntArray
    second: IntArray
    weights: FloatArray
    unit: FloatArray
    slack: float

    @classmethod
    def of(cls, form: OperatorForm) -> Pairs:
        """Multiply out the operator's root."""
        signs = np.where(np.arange(len(form.root)) < form.n_negative, 1.0, -1.0)
        matrix = (form.root.T * signs) @ form.root
        first, second = np.triu_indices(len(matrix))
        weights = matrix[first, second] * np.where(first == second, 1.0, 2.0)
        spread, sums = form.slack.spread, np.abs(form.root)
        slack = 4.0 * float(np.sum((sums @ spread) * sums.sum(axis=1)))
        return cls(first, second, weights, np.maximum(spread[first], spread[second]), slack)


def pair_variance(
    form: OperatorForm, pairs: Pairs, centre: FloatArray, radius: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bound the variance per unit s over B boxes; time O(B P d).

    Scaled data and centres are taken as they are rounded: `pairs` pays for the data's rounding, a wider box for the
    centre's.

    q_i + q_l = sum_j 2 (x_j - m_j)^2 + (U_ij - U_lj)^2 / 2 with the middle m of the two data, so its range over a box
    is exact, and the bounded sum is again one separable quadratic of x.
    """
    centre = form.scale(centre)
    largest_input = float(np.max(np.abs(form.U)))
    radius = radius + 8.0 * UNIT * (radius + np.abs(centre) + largest_input)
    nearest, farthest = _ranges(form, pairs, centre, radius)
    tangent, chord = _lines(nearest, farthest)
    geometry = (form, pairs, centre, radius)
    largest = -_minimum(geometry, -pairs.weights, tangent, chord, farthest)
    smallest = _minimum(geometry, pairs.weights, tangent, chord, farthest)
    return 1.0 - largest - SHORT_SUM, 1.0 - smallest + SHORT_SUM


def pair_variance_extrema(
    form: OperatorForm, pairs: Pairs, centre: FloatArray, radius: FloatArray
) -> FloatArray:
    """Return the points of the boxes at which the lines of `pair_variance` give the bounds.

    Returns:
        The lower bound's point first, [B, 2, d].
    """
    tangent, chord = _lines(*_ranges(form, pairs, form.scale(centre), radius))
    slopes = [weighted_line(weights, tangent, chord)[1] for weights in (-pairs.weights, pairs.weights)]
    points = [lowest_point(form, centre, radius, _per_datum(form, pairs, slope)) for slope in slopes]
    return np.stack(points, axis=1)


def _ranges(
    form: OperatorForm, pairs: Pairs, centre: FloatArray, radius: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and the largest q_i + q_l over the boxes, [B, P] each."""
    nearest, farthest = np.zeros((2, len(centre), len(pairs.weights)))
    for j in range(centre.shape[1]):
        left, right = form.U[pairs.first, j], form.U[pairs.second, j]
        apart = np.abs(0.5 * (left + right) - centre[:, j : j + 1])
        gap = 0.5 * (left - right) ** 2
        nearest += 2.0 * np.maximum(0.0, apart - radius[:, j : j + 1]) ** 2 + gap
        farthest += 2.0 * (apart + radius[:, j : j + 1]) ** 2 + gap
    return nearest, farthest


def _per_datum(form: OperatorForm, pairs: Pairs, slope: FloatArray) -> FloatArray:
    """Return the factors [B, n] of the q_i in sum_p slope_p (q_i + q_l), slope [B, P]."""
    n = len(form.U)
    return np.stack([np.bincount(pairs.first, row, n) + np.bincount(pairs.second, row, n) for row in slope])


def _lines(nearest: FloatArray, farthest: FloatArray) -> tuple[Line, Line]:
    """Return constants and slopes of the tangent at the middle and the chord of exp(-q/2)."""
    middle = 0.5 * (nearest + farthest)
    value = np.exp(-0.5 * middle)
    width = farthest - nearest
    thin = width <= _THIN * farthest
    top = np.exp(-0.5 * nearest)
    slope = np.where(thin, 0.0, (np.exp(-0.5 * farthest) - top) / np.where(thin, 1.0, width))
    return (value * (1.0 + 0.5 * middle), -0.5 * value), (top - slope * nearest, slope)


def _minimum(
    geometry: tuple[OperatorForm, Pairs, FloatArray, FloatArray],
    weights: FloatArray,
    tangent: Line,
    chord: Line,
    farthest: FloatArray,
) -> FloatArray:
    """Minimise sum_p weights_p line_p(q_i + q_l) over the boxes, with outward slack."""
    form, pairs, centre, radius = geometry
    constant, slope = weighted_line(weights, tangent, chord)
    per_datum = _per_datum(form, pairs, slope)
    q = np.asarray(cdist(centre, form.U, "sqeuclidean"))
    total = per_datum.sum(axis=1)
    gradient = -2.0 * (per_datum @ form.U - total[:, None] * centre)
    linear = np.abs(gradient)
    bent = total[:, None] * radius
    inside = (bent > 0.0) & (linear <= 2.0 * bent)
    vertex = -0.25 * linear * radius * (linear / np.where(inside, bent, 1.0))
    shape = np.where(inside, vertex, bent * radius - linear * radius).sum(axis=1)
    size = np.abs(constant) + np.abs(slope) * farthest
    reach = float(np.max(np.abs(form.U), initial=1.0)) + np.abs(centre).max(axis=1)
    spread = 4.0 * (np.abs(slope) @ pairs.unit) * reach * radius.sum(axis=1)
    slack = 4.0 * (size @ pairs.unit + spread) + pairs.slack
    return np.asarray(constant.sum(axis=1) + np.einsum("bn,bn->b", per_datum, q) + shape - slack)
