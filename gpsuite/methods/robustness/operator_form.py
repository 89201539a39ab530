"""A posterior as an operator in the RKHS of its kernel, restricted to the free inputs.

mu(x) = s <h, phi(x)> and Sigma(x) = s <phi(x), G phi(x)> with 0 <= G <= g, G = I + sum_k c_k z_k z_k*. For the
squared exponential kernel the fixed inputs fold into weights w_i = exp(-(fixed distance)^2 / 2) of the data, and the
kernel is that of the free inputs alone; other kernels keep the fixed distances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from gpsuite.methods.robustness.box_bounds import FloatArray, IntArray
from gpsuite.methods.robustness.profiles import PROFILES, Profile
from gpsuite.methods.robustness.rounding import OPERATOR, Slack, dot_product_unit, rounding_slack
from gpsuite.models.gpc import GPCPosterior
from gpsuite.models.radial import kappa

_BLOCK = 256


@dataclass(frozen=True)
class OperatorForm:
    """Mean weights and operator root over d free inputs, in lengthscale units around x0.

    Attributes:
        kernel: name of the kernel.
        profile: radial functions of the kernel.
        variance: s.
        dims: free inputs, [d].
        origin: x0 of the free inputs, [d].
        lengthscales: of the free inputs, [d].
        U: data (X - x0) / l of the free inputs, [n, d].
        fixed: squared distance of the data from x0 over the fixed inputs, [n]; zero where it is folded.
        alpha: mean weights per unit s (with the fold), [n].
        root: rows sqrt(s |c_k|) F_k (with the fold), [r, n]; the rows with c_k < 0 come first.
        n_negative: number of rows with c_k < 0.
        norm2: upper bound of |h|^2.
        bound: g plus the allowance for rounding.
        dropped: what rounding and a reduction may have added to G, in units of s; it only lowers the variance.
        allowance: part of `dropped` that is added to the diagonal of G for rounding.
        slack: rounding errors of coefficients.
    """

    kernel: str
    profile: Profile
    variance: float
    dims: IntArray
    origin: FloatArray
    lengthscales: FloatArray
    U: FloatArray
    fixed: FloatArray
    alpha: FloatArray
    root: FloatArray
    n_negative: int
    norm2: float
    bound: float
    dropped: float
    allowance: float
    slack: Slack

    def scale(self, x_free: FloatArray) -> FloatArray:
        """Return free inputs [B, d] in lengthscale units around x0."""
        return (x_free - self.origin) / self.lengthscales

    def squared_distances(self, centre: FloatArray) -> FloatArray:
        """Return the squared distances of B scaled points [B, d] from the data, [B, n]."""
        return np.asarray(cdist(centre, self.U, "sqeuclidean") + self.fixed)

    def moments(self, centre: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance [B] at scaled points [B, d], up to rounding and the dropped part."""
        k = kappa(self.kernel, self.squared_distances(centre))
        squares = (k @ self.root.T) ** 2
        negative = squares[:, : self.n_negative].sum(axis=1)
        variance = 1.0 - negative + squares[:, self.n_negative :].sum(axis=1)
        return self.variance * (k @ self.alpha), self.variance * np.maximum(variance, 0.0)


def operator_form(posterior: GPCPosterior, x0: FloatArray, free: IntArray) -> OperatorForm:
    """Restrict a posterior to the free inputs around x0.

    Args:
        posterior: N data, D inputs.
        x0: the point that fixes the other inputs, [D].
        free: indices of the free inputs, [d], distinct.

    Raises:
        ValueError: if x0 is not finite or of the wrong length, or the indices are not distinct and in range.
    """
    point, dims = _checked(posterior, x0, free)
    scaled = (posterior.X - point) / posterior.lengthscales
    profile = PROFILES.get(posterior.kernel)
    others = np.setdiff1d(np.arange(point.size), dims)
    fixed = np.einsum("ij,ij->i", scaled[:, others], scaled[:, others])
    weight = np.exp(-0.5 * fixed) if profile.folds else np.ones(len(fixed))
    U = np.ascontiguousarray(scaled[:, dims])
    order = np.argsort(posterior.weights >= 0.0, kind="stable")
    strength = np.sqrt(posterior.variance * np.abs(posterior.weights[order]))
    root = np.ascontiguousarray(posterior.root[order] * strength[:, None] * weight)
    alpha = posterior.alpha * weight
    # Distances between data never involve x0: a fixed input counts unless it is folded away.
    positions = U if profile.folds else scaled
    largest = float(np.max(np.abs(positions), initial=0.0))
    unit = dot_product_unit(len(alpha), positions.shape[1], largest)
    gamma = float(np.max(np.abs(posterior.weights), initial=1.0))
    return OperatorForm(
        kernel=posterior.kernel,
        profile=profile,
        variance=posterior.variance,
        dims=dims,
        origin=point[dims],
        lengthscales=posterior.lengthscales[dims],
        U=U,
        fixed=np.zeros(len(fixed)) if profile.folds else fixed,
        alpha=alpha,
        root=root,
        n_negative=int(np.sum(posterior.weights < 0.0)),
        norm2=squared_norm(posterior.kernel, positions, alpha, unit),
        bound=posterior.operator_bound + OPERATOR * gamma,
        dropped=OPERATOR * gamma,
        allowance=OPERATOR * gamma,
        slack=rounding_slack(unit, alpha, root, gamma),
    )


def squared_norm(kernel: str, points: FloatArray, alpha: FloatArray, unit: float) -> float:
    """Return alpha' kappa alpha for scaled points [n, k], rounded up by 2 N u |alpha|'kappa|alpha|."""
    value, size = 0.0, 0.0
    for start in range(0, len(alpha), _BLOCK):
        rows = slice(start, start + _BLOCK)
        k = kappa(kernel, np.asarray(cdist(points[rows], points[start:], "sqeuclidean")))
        # The part right of the diagonal block stands for the part below it too.
        k[:, len(k) :] *= 2.0
        value += float(alpha[rows] @ (k @ alpha[start:]))
        size += float(np.abs(alpha[rows]) @ (k @ np.abs(alpha[start:])))
    return max(0.0, value) + 2.0 * unit * size


def _checked(posterior: GPCPosterior, x0: FloatArray, free: IntArray) -> tuple[FloatArray, IntArray]:
    point = np.asarray(x0, dtype=np.float64)
    n_inputs = posterior.X.shape[1]
    if point.shape != (n_inputs,) or not np.isfinite(point).all():
        raise ValueError(f"x0 must be {n_inputs} finite numbers, got shape {point.shape}")
    dims = np.asarray(free, dtype=np.int64)
    valid = dims.ndim == 1 and dims.size > 0 and dims.min() >= 0 and dims.max() < n_inputs
    if not valid or len(np.unique(dims)) != dims.size:
        raise ValueError(f"free inputs {free}: distinct indices in [0, {n_inputs}) are needed")
    return point, dims
