"""A posterior restricted to the free inputs around a point, with the rounding errors of what is computed from it.

mu(x) = s sum_i alpha_i kappa_i(x) and Sigma(x) = s (1 - kappa_x' R kappa_x). For the squared exponential kernel the
fixed inputs fold into weights w_i = exp(-(fixed distance)^2 / 2), and kappa is that of the free inputs alone; other
kernels keep the fixed distances.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpsuite.methods.robustness.box_bounds import FloatArray, IntArray
from gpsuite.methods.robustness.level_bound.posterior_products import (
    PosteriorProducts,
    posterior_products,
    squared_norm,
)
from gpsuite.methods.robustness.rounding import UNIT
from gpsuite.models.gpc import GPCPosterior
from gpsuite.models.radial import kappa


@dataclass(frozen=True)
class PosteriorSlice:
    """Mean weights and reduction over d free inputs, in lengthscale units around x0.

    Attributes:
        kernel: name of the kernel.
        variance: s.
        dims: free inputs, [d].
        origin: x0 of the free inputs, [d].
        lengthscales: of the free inputs, [d].
        U: data (X - x0) / l of the free inputs, [d, n].
        fixed: squared distance of the data from x0 over the fixed inputs, [n]; zero where it is folded.
        weight: fold w, [n]; one where nothing is folded.
        alpha: mean weights, without the fold, [n].
        products: R and norms of the posterior.
        norm2: upper bound of |h|^2.
        bound: g with Sigma <= g s.
        largest: max |U| over all inputs that count in a distance.
        inputs: how many inputs count in a distance.
        mean_size: sum_i |alpha_i| w_i (1 + fixed_i), for rounding.
        gram_size: the same of the reduction, see `gram_error`.
    """

    kernel: str
    variance: float
    dims: IntArray
    origin: FloatArray
    lengthscales: FloatArray
    U: FloatArray
    fixed: FloatArray
    weight: FloatArray
    alpha: FloatArray
    products: PosteriorProducts
    norm2: float
    bound: float
    largest: float
    inputs: int
    mean_size: float
    gram_size: float

    def scale(self, x_free: FloatArray) -> FloatArray:
        """Return free inputs [B, d] in lengthscale units around x0."""
        return np.asarray((x_free - self.origin) / self.lengthscales)

    def unit(self, centre: FloatArray) -> FloatArray:
        """Return N u at scaled points [B, d], N = n + 16 D + 64 + 8 D (max |U| + max |c|): true maxima, no cap.

        Relative error of a dot product over the data whose factors are basis values |e_m| <= 1. Data and point are
        each rounded at their own size while their difference may be small, so sizes enter, not differences.
        """
        reach = self.largest + np.max(np.abs(centre), axis=1, initial=0.0)
        return np.asarray(UNIT * (self.U.shape[1] + 64.0 + self.inputs * (16.0 + 8.0 * reach)))

    def mean_error(self, centre: FloatArray) -> FloatArray:
        """Return the rounding error of every mean coefficient <h, e_m> at scaled points, [B]."""
        return np.asarray(self.unit(centre) * self.mean_size)

    def gram_error(self, centre: FloatArray) -> FloatArray:
        """Return the rounding error of every covariance coefficient <e_m, (I - G) e_m'> at scaled points, [B]."""
        return np.asarray(self.unit(centre) * self.gram_size)

    def moments(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance [B] at scaled points [B, d], each off by at most `moment_errors`."""
        q = np.zeros((len(points), self.U.shape[1])) + self.fixed
        for j, row in enumerate(self.U):
            q += (row - points[:, j : j + 1]) ** 2
        k = kappa(self.kernel, q) * self.weight
        reduced = np.einsum("bn,bn->b", k @ self.products.reduction, k)
        return self.variance * (k @ self.alpha), self.variance * np.clip(1.0 - reduced, 0.0, self.bound)

    def moment_errors(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the rounding errors of `moments`, [B] each."""
        s = self.variance
        return s * self.mean_error(points), s * (self.gram_error(points) + 8.0 * UNIT)

    def with_slice_norm(self) -> PosteriorSlice:
        """Return the slice with the norm of its own restriction: smaller, for n^2 exponentials."""
        if self.weight.min() >= 1.0:
            return self
        norm2 = squared_norm(self.kernel, np.ascontiguousarray(self.U.T), self.alpha * self.weight)
        # The fold's own rounding: relative errors of order (D + 4) u (1 + fixed) of each weight.
        norm2 += 2.0 * UNIT * (self.inputs + 8.0) * self.mean_size**2
        return replace(self, norm2=min(self.norm2, norm2))


def posterior_slice(posterior: GPCPosterior, x0: FloatArray, free: IntArray) -> PosteriorSlice:
    """Restrict a posterior to the free inputs around x0.

    Args:
        posterior: N data, D inputs.
        x0: the point that fixes the other inputs, [D].
        free: indices of the free inputs, [d], distinct.

    Raises:
        ValueError: if x0 is not finite or of the wrong length, or the indices are not distinct and in range.
    """
    point, dims = _checked(posterior, x0, free)
    products = posterior_products(posterior)
    scaled = (posterior.X - point) / posterior.lengthscales
    others = np.setdiff1d(np.arange(point.size), dims)
    fixed = np.einsum("ij,ij->i", scaled[:, others], scaled[:, others])
    folds = posterior.kernel == "squared_exponential"
    weight = np.exp(-0.5 * fixed) if folds else np.ones(len(fixed))
    # A weight's error is absolute in its exponent; the position's own rounding is in `unit`.
    size = weight * (1.0 + fixed) if folds else weight
    gram = 4.0 * float(size.max()) * float(size @ products.row_sums)
    return PosteriorSlice(
        kernel=posterior.kernel,
        variance=posterior.variance,
        dims=dims,
        origin=point[dims],
        lengthscales=posterior.lengthscales[dims],
        U=np.ascontiguousarray(scaled[:, dims].T),
        fixed=np.zeros(len(fixed)) if folds else fixed,
        weight=weight,
        alpha=posterior.alpha,
        products=products,
        norm2=products.norm2,
        bound=posterior.operator_bound,
        largest=float(np.max(np.abs(scaled), initial=0.0)),
        inputs=point.size,
        mean_size=float(np.abs(posterior.alpha) @ size),
        gram_size=gram + 2.0 * float(size.max()) ** 2 * products.root_size,
    )


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
