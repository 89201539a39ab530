"""Variance bound of the baseline, quick variant: tangents and chords of the kernel products of all pairs of data.

Equation: Blaas et al. 2020, App. D
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.envelope import lowest_point
from gpsuite.methods.robustness.operator_form import OperatorForm
from gpsuite.methods.robustness.paper_bound.line_sums import LineSums, line_sums
from gpsuite.methods.robustness.rounding import SHORT_SUM, UNIT


@dataclass(frozen=True)
class Pairs:
    """The variance 1 - sum_il weights_il exp(-(q_i + q_l) / 2) per unit s, over data in the order of their units.

    Attributes:
        order: the data's numbers in the form, units ascending, [n].
        U: the form's U in this order, [n, d].
        weights: s R_il, twice that above the diagonal and zero below it, [n, n].
        unit: relative error allowed to the part of the pairs (i, l), i <= l, in the sum, by l, [n].
        slack: bound of the rounding of the weighted sum, in units of s.
    """

    order: IntArray
    U: FloatArray
    weights: FloatArray
    unit: FloatArray
    slack: float

    @classmethod
    def of(cls, form: OperatorForm) -> Pairs:
        """Multiply out the operator's root."""
        order = np.argsort(form.slack.spread, kind="stable")
        root, spread = form.root[:, order], form.slack.spread[order]
        signs = np.where(np.arange(len(root)) < form.n_negative, 1.0, -1.0)
        matrix = (root.T * signs) @ root
        weights = np.triu(matrix) + np.triu(matrix, 1)
        sums = np.abs(root)
        slack = 4.0 * float(np.sum((sums @ spread) * sums.sum(axis=1)))
        return cls(order, np.ascontiguousarray(form.U[order]), weights, spread, slack)

    def sums(self, centre: FloatArray, radius: FloatArray) -> LineSums:
        """Return the sums of the pairs' lines over boxes [B, d] of scaled inputs."""
        return line_sums(self.U, self.weights, self.unit, centre, radius)


def pair_variance(
    form: OperatorForm, pairs: Pairs, centre: FloatArray, radius: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bound the variance per unit s over B boxes; time O(B n^2 d).

    Scaled data and centres are taken as they are rounded: `pairs` pays for the data's rounding, a wider box for the
    centre's.

    q_i + q_l = sum_j 2 (x_j - m_j)^2 + (U_ij - U_lj)^2 / 2 with the middle m of the two data, so its range over a box
    is exact, and the bounded sum is again one separable quadratic of x.

    Args:
        form: the posterior over the free inputs.
        pairs: of its data.
        centre: centres in units of X, [B, d].
        radius: half-widths in lengthscales, rounded up, [B, d].
    """
    centre = form.scale(centre)
    largest_input = float(np.max(np.abs(form.U)))
    radius = radius + 8.0 * UNIT * (radius + np.abs(centre) + largest_input)
    sums = pairs.sums(centre, radius)
    slack = _slack(pairs, sums, centre, radius)
    largest = -_minimum(pairs, centre, radius, -sums.value[1], sums.slope[1]) + slack
    smallest = _minimum(pairs, centre, radius, sums.value[0], -sums.slope[0]) - slack
    return 1.0 - largest - SHORT_SUM, 1.0 - smallest + SHORT_SUM


def pair_variance_extrema(
    form: OperatorForm, pairs: Pairs, centre: FloatArray, radius: FloatArray
) -> FloatArray:
    """Return the points of the boxes at which the lines of `pair_variance` give the bounds.

    Returns:
        The lower bound's point first, [B, 2, d].
    """
    sums = pairs.sums(form.scale(centre), radius)
    factors = np.empty_like(sums.slope)
    factors[:, :, pairs.order] = sums.slope[1], -sums.slope[0]
    return np.stack([lowest_point(form, centre, radius, each) for each in factors], axis=1)


def _slack(pairs: Pairs, sums: LineSums, centre: FloatArray, radius: FloatArray) -> FloatArray:
    """Return what the computed sums may be off by, [B].

    At n data and D inputs a unit is at least (n + 4 D + 64) u. Four times that cover the 2 n terms of the values' sums,
    the n of a datum's slopes, and a few roundings of a pair's range (D + 8 of its size), exponentials and lines.
    """
    reach = float(np.max(np.abs(pairs.U), initial=1.0)) + np.abs(centre).max(axis=1)
    spread = 4.0 * sums.steep * reach * radius.sum(axis=1)
    return np.asarray(4.0 * (sums.size + spread) + pairs.slack)


def _minimum(
    pairs: Pairs, centre: FloatArray, radius: FloatArray, constant: FloatArray, factors: FloatArray
) -> FloatArray:
    """Minimise constant_b + sum_i factors_bi q_i(x) over the boxes, up to rounding."""
    q = np.asarray(cdist(centre, pairs.U, "sqeuclidean"))
    total = factors.sum(axis=1)
    gradient = -2.0 * (factors @ pairs.U - total[:, None] * centre)
    linear = np.abs(gradient)
    bent = total[:, None] * radius
    inside = (bent > 0.0) & (linear <= 2.0 * bent)
    vertex = -0.25 * linear * radius * (linear / np.where(inside, bent, 1.0))
    shape = np.where(inside, vertex, bent * radius - linear * radius).sum(axis=1)
    return np.asarray(constant + np.einsum("bn,bn->b", factors, q) + shape)
