"""A posterior's data around a point of which some inputs are free: what every form of it begins with.

Equation: derived, operator form of a posterior
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.profiles import PROFILES
from gpsuite.methods.robustness.rounding import UNDERFLOW, dot_product_unit
from gpsuite.models.latent import LatentPosterior


@dataclass(frozen=True)
class Restriction:
    """The inputs that are fixed, and what they do to the data.

    Attributes:
        point: x0, all inputs, [D].
        dims: free inputs, [d].
        fixed: squared scaled distance of the data from x0 over the fixed inputs, [N]; zero where it is folded.
        weight: fold w, exp(-distance / 2) for kernels that factor, [N]; one for others.
        unit: relative error of a datum's part in a dot product over the data, [N].
        lost: weights and products that underflow are still there: at most this of the mean per unit s.
        floor: lower bound of the mean anywhere per unit s, zero exactly if no weight is negative.
        ceiling: upper bound, likewise.
    """

    point: FloatArray
    dims: IntArray
    fixed: FloatArray
    weight: FloatArray
    unit: FloatArray
    lost: float
    floor: float
    ceiling: float


def restriction(posterior: LatentPosterior, x0: FloatArray, free: IntArray) -> Restriction:
    """Fix the inputs outside `free` at x0.

    Args:
        posterior: N data, D inputs.
        x0: the point that fixes the other inputs, [D].
        free: indices of the free inputs, [d], distinct.

    Raises:
        ValueError: if x0 is not finite or of the wrong length, or the indices are not distinct and in range.
    """
    point, dims = _checked(posterior, x0, free)
    # Free inputs count as zero here; no columns are copied.
    rate = 1.0 / posterior.lengthscales
    rate[dims] = 0.0
    apart = (posterior.X - point) * rate
    fixed = np.einsum("ij,ij->i", apart, apart)
    folds = PROFILES.get(posterior.kernel).folds
    weight = np.exp(-0.5 * fixed) if folds else np.ones(len(fixed))
    unit = dot_product_unit(len(fixed), point.size, fixed if folds else np.zeros(len(fixed)))
    return Restriction(
        point=point,
        dims=dims,
        fixed=np.zeros(len(fixed)) if folds else fixed,
        weight=weight,
        unit=unit,
        lost=UNDERFLOW * float(np.count_nonzero(posterior.alpha)),
        floor=-float(sum_upwards(-posterior.alpha, weight, unit)),
        ceiling=float(sum_upwards(posterior.alpha, weight, unit)),
    )


def sum_upwards(alpha: FloatArray, weight: FloatArray, unit: FloatArray) -> FloatArray:
    """Return sum_i max(0, alpha_i) w_i rounded up, [...] for weights [..., N]; zero if no weight is positive."""
    parts = np.maximum(alpha, 0.0)
    lost = UNDERFLOW * float(np.count_nonzero(parts))
    # the unit covers the sum's own rounding too
    return np.asarray(np.sum(parts * weight * (1.0 + unit), axis=-1) + lost)


def _checked(posterior: LatentPosterior, x0: FloatArray, free: IntArray) -> tuple[FloatArray, IntArray]:
    point = np.asarray(x0, dtype=np.float64)
    n_inputs = posterior.X.shape[1]
    if point.shape != (n_inputs,) or not np.isfinite(point).all():
        raise ValueError(f"x0 must be {n_inputs} finite numbers, got shape {point.shape}")
    given = np.asarray(free)
    dims = given.astype(np.int64)
    valid = dims.ndim == 1 and dims.size > 0 and dims.min() >= 0 and dims.max() < n_inputs
    if given.dtype.kind not in "iu" or not valid or len(np.unique(dims)) != dims.size:
        raise ValueError(f"free inputs {free}: distinct indices in [0, {n_inputs}) are needed")
    return point, dims
