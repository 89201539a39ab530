"""What the bounds need of a posterior whatever the point and the free inputs: computed once and kept with it.

Equation: derived, operator form of a posterior
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.operator_form import squared_norm
from gpsuite.methods.robustness.operator_range import OperatorRange, operator_range
from gpsuite.methods.robustness.rounding import UNDERFLOW, dot_product_unit, spread_unit
from gpsuite.models.latent import LatentPosterior


@dataclass(frozen=True)
class PosteriorProducts:
    """Sigma(x) = s (1 - kappa_x' R kappa_x) with R = -s sum_k c_k F_k F_k', and the norm of the mean.

    Attributes:
        reduction: R, symmetric, [N, N]; indefinite for some sparse posteriors.
        row_sums: |R| 1, [N].
        root_size: s sum_k |c_k| |F_k|_1^2.
        rank: rows of F.
        norm2: upper bound of |h|^2 = alpha' kappa alpha over all inputs; no restriction has a larger one.
        operator: range of G for the stored floats.
    """

    reduction: FloatArray
    row_sums: FloatArray
    root_size: float
    rank: int
    norm2: float
    operator: OperatorRange


_KEPT: WeakKeyDictionary[LatentPosterior, PosteriorProducts] = WeakKeyDictionary()


def posterior_products(posterior: LatentPosterior) -> PosteriorProducts:
    """Return the products of a posterior, computed at the first call."""
    known = _KEPT.get(posterior)
    if known is None:
        known = _KEPT[posterior] = compute_products(posterior)
    return known


def compute_products(posterior: LatentPosterior) -> PosteriorProducts:
    """Return the products of a posterior: three products and an eigenvalue of N x N in all."""
    strength = posterior.variance * posterior.weights
    with np.errstate(over="ignore", invalid="ignore"):
        reduction = -(posterior.root.T * strength) @ posterior.root
        reduction = 0.5 * (reduction + reduction.T)
        sizes = np.abs(posterior.root).sum(axis=1)
        root_size = float(np.abs(strength) @ sizes**2)
    n, inputs = posterior.X.shape
    scaled = (posterior.X - posterior.X.mean(axis=0)) / posterior.lengthscales
    unit = spread_unit(dot_product_unit(n, inputs, np.zeros(n)), inputs, float(np.max(np.abs(scaled))))
    lost = UNDERFLOW * float(np.count_nonzero(posterior.alpha))
    return PosteriorProducts(
        reduction=reduction,
        row_sums=np.abs(reduction).sum(axis=1),
        root_size=root_size,
        rank=len(posterior.root),
        norm2=squared_norm(posterior.kernel, scaled, posterior.alpha, unit) + lost,
        operator=operator_range(posterior),
    )
