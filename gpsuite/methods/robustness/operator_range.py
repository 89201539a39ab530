"""How far the covariance operator of the stored floats may leave the range that exact arithmetic would give it.

G = I + sum_k c_k z_k z_k* with z_k = sqrt(s) sum_i F_ki phi(X_i). With M the Gram matrix of the z_k and Lambda >= its
largest eigenvalue, sum_k <z_k, e>^2 <= Lambda for unit e, so G >= 1 - max(-c)_+ Lambda and G <= 1 + max(c)_+ Lambda.
Exact arithmetic has Lambda <= 1, c >= -1 and so G >= 0; a Cholesky factor of an ill-conditioned kernel matrix has not.

Equation: derived, operator form of a posterior
Equation: derived, sparse variational posteriors
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from scipy.linalg import LinAlgError, eigvalsh
from scipy.spatial.distance import cdist

from gpsuite.methods.robustness.rounding import UNIT, dot_product_unit, spread_unit
from gpsuite.models.latent import LatentPosterior
from gpsuite.models.radial import kappa


@dataclass(frozen=True)
class OperatorRange:
    """-below <= G <= above, and sum_k |c_k| <z_k, e>^2 <= size for unit vectors e; in units of s, rounded up."""

    below: float
    above: float
    size: float


_RANGES: WeakKeyDictionary[LatentPosterior, OperatorRange] = WeakKeyDictionary()


def operator_range(posterior: LatentPosterior) -> OperatorRange:
    """Return the range of the posterior's operator, computed once: two products and an eigenvalue of N x N.

    It holds for every choice of free inputs too: fixing inputs restricts G to a subspace.
    """
    known = _RANGES.get(posterior)
    if known is None:
        known = _RANGES[posterior] = _computed(posterior)
    return known


def _computed(posterior: LatentPosterior) -> OperatorRange:
    largest = _largest_eigenvalue(posterior)
    down = float(np.max(-posterior.weights, initial=0.0))
    up = float(np.max(posterior.weights, initial=0.0))
    outward = 1.0 + 8.0 * UNIT
    below = max(0.0, down * largest * outward - 1.0)
    return OperatorRange(
        below, (1.0 + up * largest) * outward, max(1.0, down, up) * max(1.0, largest) * outward
    )


def _largest_eigenvalue(posterior: LatentPosterior) -> float:
    """Return Lambda: the computed eigenvalue plus the rounding of the products, of kappa and of the eigenvalue."""
    n, inputs = posterior.X.shape
    scaled = (posterior.X - posterior.X.mean(axis=0)) / posterior.lengthscales
    root = np.sqrt(posterior.variance) * posterior.root
    rank = len(root)
    if not rank:
        return 0.0
    # Overflow ends in infinities, and a bound of infinity says nothing.
    with np.errstate(over="ignore", invalid="ignore"):
        gram = root @ kappa(posterior.kernel, np.asarray(cdist(scaled, scaled, "sqeuclidean"))) @ root.T
        largest = np.inf
        if np.isfinite(gram).all():
            symmetric = 0.5 * (gram + gram.T)
            try:
                largest = float(eigvalsh(symmetric, subset_by_index=[rank - 1, rank - 1])[0])
            except LinAlgError:  # the search for one alone fails on some matrices
                largest = float(eigvalsh(symmetric)[-1])
        unit = spread_unit(dot_product_unit(n, inputs, np.zeros(n)), inputs, float(np.max(np.abs(scaled))))
        sums = np.abs(root)
        products = 3.0 * float(np.sum((sums @ unit) * sums.sum(axis=1)))
    return max(0.0, largest) * (1.0 + 16.0 * rank * UNIT) + products
