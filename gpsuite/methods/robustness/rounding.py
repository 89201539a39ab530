"""Outward rounding: bounds of the errors of computed numbers, for use in the bounds.

The claims are about the stored floats (data, weights, root). Distances are taken from the raw inputs, (X - c) / l with
a float c. So their error is relative to the distance itself, however far both points are from the origin. The slack
formulas bound the rounding of dot products of n terms. The factors |e_m| <= 1 have absolute errors. A comparison with
80-bit arithmetic on the raw inputs gave true errors of at most a few percent of the bounds.

Equation: derived, rounding of the expansion
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray

UNIT = 2.0**-53
# Relative slack of sums of up to 400 terms. For a few terms it is far above their rounding (about 1e-15).
SHORT_SUM = 1e-13
# Relative slack of incomplete gamma functions and products of exponentials.
TAIL = 1e-10
# Relative error allowed to the normal distribution function, and absolute error to the logistic quadrature.
PROBABILITY = 1e-12
QUADRATURE = 1e-12
# A product that underflows is at most this, and no longer zero.
UNDERFLOW = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Slack:
    """Bounds of rounding errors of one operator form, in units of s (variance) or of s per unit mean weight.

    Attributes:
        unit: [n], relative error allowed to a datum's part in a dot product over the data.
        spread: [n], the same where distances come from inputs that were scaled and centred before.
        coefficient: absolute error of every mean coefficient a_m.
        gram: absolute error of every entry of the covariance Gram matrix.
    """

    unit: FloatArray
    spread: FloatArray
    coefficient: float
    gram: float


def dot_product_unit(n_data: int, n_inputs: int, folded: FloatArray) -> FloatArray:
    """Return N_i u, N_i = n + 4 D + 64 + (D + 8) f_i / 2, for features of raw differences, [n].

    A squared distance q has relative error (D + 8) u, which moves |e_m| <= 1 by at most 0.77 (D + 8) u. A weight
    exp(-f_i / 2) has relative error (D + 8) u f_i / 2.

    Args:
        n_data: n, terms of a dot product.
        n_inputs: D, inputs in a distance, fixed ones included.
        folded: f_i, squared distances folded into weights, [n]. Zero if none are.
    """
    return np.asarray(UNIT * (n_data + 4.0 * n_inputs + 64.0 + (n_inputs + 8.0) * 0.5 * folded))


def spread_unit(unit: FloatArray, n_inputs: int, largest: float) -> FloatArray:
    """Return the unit for distances between scaled inputs that were each rounded at their own size, [n].

    Each coordinate has an error of 2 u |U|, a distance one of 4 u sqrt(D) max|U|. |kappa'| <= 0.64 for every kernel.

    Args:
        unit: see `dot_product_unit`.
        n_inputs: D, inputs in a distance.
        largest: max |U| before centring: inputs may be close together and far from the origin.
    """
    return unit + UNIT * 4.0 * float(np.sqrt(n_inputs)) * largest


def rounding_slack(unit: FloatArray, spread: FloatArray, alpha: FloatArray, root: FloatArray, gamma: float) -> Slack:
    """Return the slack of mean coefficients and Gram entries.

    Args:
        unit: see `dot_product_unit`.
        spread: see `spread_unit`.
        alpha: mean weights, [n].
        root: rows scaled by sqrt(s |weight|), [r, n].
        gamma: bound of sum_k |weight_k| <z_k, e>^2 for unit vectors e.
    """
    zeta = float(np.sqrt(np.sum((np.abs(root) @ unit) ** 2)))
    gram = 2.0 * zeta * np.sqrt(gamma) + zeta**2 + 2.0 * (root.shape[0] + 2) * UNIT * gamma
    return Slack(unit, spread, float(np.abs(alpha) @ unit), float(gram))


def outward_radius(low: FloatArray, high: FloatArray, centre: FloatArray, lengthscales: FloatArray) -> FloatArray:
    """Return half-widths in lengthscales around a float centre that cover [low, high]. Exactly zero for points.

    The 8 u also cover the rounding of a datum's distance: a box never seems nearer than it is.
    """
    width = np.maximum(high - centre, centre - low) / lengthscales
    return np.asarray(width * (1.0 + 8.0 * UNIT))


def below(value: FloatArray, scale: FloatArray | float = 1.0) -> FloatArray:
    """Return value minus the slack of a short sum of terms of size |value| + scale."""
    return value - SHORT_SUM * (np.abs(value) + scale)


def above(value: FloatArray, scale: FloatArray | float = 1.0) -> FloatArray:
    """Return value plus the slack of a short sum of terms of size |value| + scale."""
    return value + SHORT_SUM * (np.abs(value) + scale)
