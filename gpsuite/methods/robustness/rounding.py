"""Outward rounding: how far computed numbers may be from the exact ones, and how the bounds pay for it.

The bounds certify the stored floats (data, weights, root). The slack formulas bound the rounding of dot products of
n terms whose factors |e_m| <= 1 carry relative errors, and were compared with 80-bit arithmetic: true errors reach
about one percent of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.methods.robustness.box_bounds import FloatArray

UNIT = 2.0**-53
# Relative slack of sums of a few dozen terms, far above their rounding (about 1e-15).
SHORT_SUM = 1e-13
# Relative slack of incomplete gamma functions and products of exponentials.
TAIL = 1e-10
EXPONENTIAL = 1e-14
# Relative error allowed to the normal distribution function, and absolute error to the logistic quadrature.
PROBABILITY = 1e-13
QUADRATURE = 1e-12
# The covariance operator of the stored floats may miss being positive by rounding: this much of s is allowed.
OPERATOR = 1e-12
# exp(-r^2 / 2) is zero in float64 beyond this distance (in lengthscales), so larger inputs do not matter.
_REACH = 60.0


@dataclass(frozen=True)
class Slack:
    """Bounds of rounding errors of one operator form, in units of s (variance) or of s per unit mean weight.

    Attributes:
        unit: N u, relative error allowed to a dot product over the data.
        coefficient: absolute error of every mean coefficient a_m.
        gram: absolute error of every entry of the covariance Gram matrix.
    """

    unit: float
    coefficient: float
    gram: float


def dot_product_unit(n_data: int, n_free: int, largest: float) -> float:
    """Return N u with N = n + 16 d + 64 + 2 d min(60, max|U|).

    Args:
        n_data: n, terms of a dot product.
        n_free: d, inputs in a distance.
        largest: max |U|, largest scaled and centred input.
    """
    return UNIT * (n_data + 16.0 * n_free + 64.0 + 2.0 * n_free * min(_REACH, largest))


def rounding_slack(unit: float, alpha: FloatArray, root: FloatArray, gamma: float) -> Slack:
    """Return the slack of mean coefficients and Gram entries.

    Args:
        unit: see `dot_product_unit`.
        alpha: mean weights, [n].
        root: rows scaled by sqrt(s |weight|), [r, n].
        gamma: max(1, largest |weight|).
    """
    zeta = float(np.sqrt(np.sum(np.sum(np.abs(root), axis=1) ** 2)))
    gram = 2.0 * unit * zeta * np.sqrt(gamma) + (unit * zeta) ** 2 + 2.0 * (root.shape[0] + 2) * UNIT * gamma
    return Slack(unit, unit * float(np.sum(np.abs(alpha))), float(gram))


def outward_radius(low: FloatArray, high: FloatArray, centre: FloatArray) -> FloatArray:
    """Return half-widths around a rounded centre that cover [low, high] and the rounding of the scaling."""
    width = np.maximum(high - centre, centre - low)
    return np.asarray(width + 4.0 * UNIT * (np.abs(low) + np.abs(high)))


def below(value: FloatArray, scale: FloatArray | float = 1.0) -> FloatArray:
    """Return value minus the slack of a short sum of terms of size |value| + scale."""
    return value - SHORT_SUM * (np.abs(value) + scale)


def above(value: FloatArray, scale: FloatArray | float = 1.0) -> FloatArray:
    """Return value plus the slack of a short sum of terms of size |value| + scale."""
    return value + SHORT_SUM * (np.abs(value) + scale)
