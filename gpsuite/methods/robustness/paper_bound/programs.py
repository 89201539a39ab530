"""Variance bound of the baseline, slow variant: a convex quadratic program and linear programs (App. D.1).

The kernel vector k and the inputs x are the variables; two lines per datum tie k_i to x. Every program's value is
taken from its dual, which is a valid bound whatever the solver's tolerance.

Equation: Blaas et al. 2020, Eq. (20), App. D
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.envelope import chord_line, distance_ranges, tangent_line
from gpsuite.methods.robustness.operator_form import OperatorForm
from gpsuite.methods.robustness.rounding import SHORT_SUM
from gpsuite.models.radial import kappa

# Frank-Wolfe steps of the quadratic program, and the gap (in units of s) at which it stops.
_STEPS = 60
_GAP = 1e-4


@dataclass(frozen=True)
class Operator:
    """The quadratic form k'Rk in its eigenvectors: sum_m values_m (vectors_m'k)^2, k per unit s and weight.

    Attributes:
        matrix: s R, [n, n].
        values: eigenvalues, clipped at zero, [n].
        vectors: eigenvectors in columns, [n, n].
        error: bound of |k'(matrix - eigen form)k| for 0 <= k <= 1.
    """

    matrix: FloatArray
    values: FloatArray
    vectors: FloatArray
    error: float

    @classmethod
    def of(cls, form: OperatorForm) -> Operator:
        """Diagonalise the operator of the data."""
        matrix = form.root.T @ form.root
        values, vectors = np.linalg.eigh(matrix)
        values = np.maximum(values, 0.0)
        error = float(np.sum(np.abs(matrix - (vectors * values) @ vectors.T)))
        sums = np.abs(form.root)
        rounding = 4.0 * float(np.sum((sums @ form.slack.unit) * sums.sum(axis=1)))
        return cls(matrix, values, vectors, error + rounding)


@dataclass(frozen=True)
class Relaxation:
    """Constraints rows (k, x) <= right with low <= (k, x) <= high that hold for k = k(x), x in the box."""

    rows: FloatArray
    right: FloatArray
    low: FloatArray
    high: FloatArray

    def minimum(self, cost: FloatArray) -> tuple[float, FloatArray | None]:
        """Return a lower bound of cost'(k, x) and the solver's point (None if it failed).

        For multipliers y >= 0: cost'v >= -y'right + sum_j min over [low_j, high_j] of (cost + rows'y)_j v_j.
        """
        ends = list(zip(self.low.tolist(), self.high.tolist(), strict=True))
        solved = linprog(cost, A_ub=self.rows, b_ub=self.right, bounds=ends, method="highs")
        y = np.zeros(len(self.right))
        if solved.status == 0:
            y = np.maximum(-np.asarray(solved.ineqlin.marginals, dtype=np.float64), 0.0)
        reduced = cost + y @ self.rows
        least = np.minimum(reduced * self.low, reduced * self.high)
        value = float(least.sum() - y @ self.right)
        size = float(np.abs(cost).sum() + y @ (np.abs(self.right) + np.abs(self.rows).sum(axis=1)))
        point = np.asarray(solved.x, dtype=np.float64) if solved.status == 0 else None
        return value - SHORT_SUM * len(cost) * (size + np.abs(least).sum()), point


def program_variance(
    form: OperatorForm, operator: Operator, centre: FloatArray, radius: FloatArray
) -> tuple[float, float]:
    """Bound the variance per unit s over one box; centre [d] in units of X, radius [d] in lengthscales."""
    relaxation = relaxation_of(form, centre, radius)
    start = kappa(form.kernel, form.squared_distances(centre[None]))[0]
    high = 1.0 - _smallest_square(relaxation, operator, start) + operator.error
    low = 1.0 - _largest_square(relaxation, operator) - operator.error
    return low, high


def relaxation_of(form: OperatorForm, centre: FloatArray, radius: FloatArray) -> Relaxation:
    """Tie k_i to x: tangent of kappa in q with q's chord in x below, chord with q's tangent above."""
    _, nearest, farthest = distance_ranges(form, centre[None], radius[None])
    tangent, chord = (
        (line[0][0], line[1][0])
        for line in (
            tangent_line(form.kernel, nearest, farthest),
            chord_line(form.kernel, nearest, farthest),
        )
    )
    offset = form.offsets(centre[None])[:, :, 0]
    # (x - D)^2 lies between its tangent D^2 - 2 D x at x = 0 and its chord, r^2 above that; slopes are negative.
    at_centre = np.einsum("ij,ij->i", offset, offset) + form.fixed
    square = float(radius @ radius)
    n = len(offset)
    rows = np.block(
        [[-np.eye(n), -2.0 * tangent[1][:, None] * offset], [np.eye(n), 2.0 * chord[1][:, None] * offset]]
    )
    below = -(tangent[0] + tangent[1] * (at_centre + square))
    above = chord[0] + chord[1] * at_centre
    slack = 4.0 * form.slack.unit * (1.0 + np.abs(np.stack([tangent[1], chord[1]])) * farthest)
    low, high = kappa(form.kernel, farthest)[0], kappa(form.kernel, nearest)[0]
    return Relaxation(
        rows,
        np.concatenate([below + slack[0], above + slack[1]]),
        np.concatenate([low * (1.0 - SHORT_SUM) - form.slack.unit, -radius]),
        np.concatenate([high * (1.0 + SHORT_SUM) + form.slack.unit, radius]),
    )


def _smallest_square(relaxation: Relaxation, operator: Operator, start: FloatArray) -> float:
    """Return a lower bound of min k'Rk by Frank-Wolfe: every step's linearisation is a valid one."""
    n = len(start)
    k, best = start, 0.0
    for _ in range(_STEPS):
        gradient = 2.0 * operator.matrix @ k
        value = float(k @ operator.matrix @ k)
        cost = np.concatenate([gradient, np.zeros(len(relaxation.low) - n)])
        least, point = relaxation.minimum(cost)
        # Convexity: k'Rk over the feasible set >= value + gradient'(point - k).
        best = max(best, least - value - SHORT_SUM * n * (1.0 + abs(value)))
        if point is None or value - best <= _GAP:
            break
        direction = point[:n] - k
        curvature = float(direction @ operator.matrix @ direction)
        step = -0.5 * float(gradient @ direction) / curvature if curvature > 0.0 else 1.0
        k = k + np.clip(step, 0.0, 1.0) * direction
    return best


def _largest_square(relaxation: Relaxation, operator: Operator) -> float:
    """Return an upper bound of max sum_m values_m z_m^2, z = vectors'k: ranges of z, chords, one more program."""
    n = len(operator.values)
    pad = np.zeros(len(relaxation.low) - n)
    low, high = np.empty(n), np.empty(n)
    for m in range(n):
        cost = np.concatenate([operator.vectors[:, m], pad])
        low[m], high[m] = relaxation.minimum(cost)[0], -relaxation.minimum(-cost)[0]
    # -z^2 >= -(low + high) z + low high on [low, high].
    cost = -operator.vectors @ (operator.values * (low + high))
    constant = float(operator.values @ (low * high))
    value, _ = relaxation.minimum(np.concatenate([cost, pad]))
    size = float(operator.values @ (np.abs(low) + np.abs(high)) ** 2)
    return -(value + constant) + SHORT_SUM * n * (1.0 + size)
