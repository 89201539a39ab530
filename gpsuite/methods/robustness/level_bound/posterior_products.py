"""What the bounds need of a posterior whatever the point and the free inputs: computed once and kept with it."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from scipy.spatial.distance import cdist

from gpsuite.methods.robustness.box_bounds import FloatArray
from gpsuite.methods.robustness.rounding import UNIT
from gpsuite.models.gpc import GPCPosterior
from gpsuite.models.radial import kappa

_BLOCK = 256


@dataclass(frozen=True)
class PosteriorProducts:
    """Sigma(x) = s (1 - kappa_x' R kappa_x) with R = -s sum_k c_k F_k F_k', and the norm of the mean.

    Attributes:
        reduction: R, symmetric, [N, N]; indefinite for some sparse posteriors.
        row_sums: |R| 1, [N].
        root_size: s sum_k |c_k| |F_k|_1^2, bounds the rounding of R.
        norm2: upper bound of |h|^2 = alpha' kappa alpha, for all inputs; that of every restriction is not larger.
    """

    reduction: FloatArray
    row_sums: FloatArray
    root_size: float
    norm2: float


_KEPT: WeakKeyDictionary[GPCPosterior, PosteriorProducts] = WeakKeyDictionary()


def posterior_products(posterior: GPCPosterior) -> PosteriorProducts:
    """Return the products of a posterior, computed at the first call."""
    if posterior not in _KEPT:
        _KEPT[posterior] = _products(posterior)
    return _KEPT[posterior]


def squared_norm(kernel: str, points: FloatArray, alpha: FloatArray) -> float:
    """Return alpha' kappa alpha for scaled points [n, k], rounded up.

    Each distance is off by (k + 3) u relatively and by the rounding of the points, 4 u max|U| per input; kappa
    changes by at most that of r^2 / 2, or less than the relative change of r, and sums of n^2 terms add 2 n u.
    """
    value, size = 0.0, 0.0
    for start in range(0, len(alpha), _BLOCK):
        rows = slice(start, start + _BLOCK)
        k = kappa(kernel, np.asarray(cdist(points[rows], points[start:], "sqeuclidean")))
        # The part right of the diagonal block stands for the part below it too.
        k[:, len(k) :] *= 2.0
        value += float(alpha[rows] @ (k @ alpha[start:]))
        size += float(np.abs(alpha[rows]) @ (k @ np.abs(alpha[start:])))
    largest = float(np.max(np.abs(points), initial=0.0))
    unit = UNIT * (2.0 * len(alpha) + 16.0 * points.shape[1] * (1.0 + largest) + 64.0)
    # A rounded distance changes kappa absolutely, so terms with kappa near zero count in full for that part.
    spread = UNIT * 16.0 * points.shape[1] * (1.0 + largest) * float(np.sum(np.abs(alpha))) ** 2
    return max(0.0, value) + 2.0 * unit * size + spread


def _products(posterior: GPCPosterior) -> PosteriorProducts:
    strength = posterior.variance * posterior.weights
    reduction = -(posterior.root.T * strength) @ posterior.root
    reduction = 0.5 * (reduction + reduction.T)
    sizes = np.abs(posterior.root).sum(axis=1)
    centred = (posterior.X - posterior.X.mean(axis=0)) / posterior.lengthscales
    return PosteriorProducts(
        reduction=reduction,
        row_sums=np.abs(reduction).sum(axis=1),
        root_size=float(np.abs(strength) @ sizes**2),
        norm2=squared_norm(posterior.kernel, centred, posterior.alpha),
    )
