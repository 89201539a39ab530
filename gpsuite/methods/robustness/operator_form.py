"""A posterior as an operator in the RKHS of its kernel, restricted to the free inputs.

mu(x) = s <h, phi(x)> and Sigma(x) = s <phi(x), G phi(x)> with 0 <= G <= g, G = I + sum_k c_k z_k z_k*. For the
squared exponential kernel the fixed inputs fold into weights w_i = exp(-(fixed distance)^2 / 2) of the data, and the
kernel is that of the free inputs alone; other kernels keep the fixed distances.

Equation: derived, operator form of a posterior
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.distance import cdist

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.operator_range import operator_range
from gpsuite.methods.robustness.profiles import PROFILES
from gpsuite.methods.robustness.restriction import restriction
from gpsuite.methods.robustness.rounding import Slack, rounding_slack, spread_unit
from gpsuite.models.classification.posterior import GPCPosterior
from gpsuite.models.radial import kappa

_BLOCK = 256
# Offsets held at once (8 MB).
_ENTRIES = 1 << 20


@dataclass(frozen=True)
class OperatorForm:
    """Mean weights and operator root over d free inputs; points and boxes are in the units of X.

    Attributes:
        kernel: name of the kernel.
        variance: s.
        dims: free inputs, [d].
        lengthscales: of the free inputs, [d].
        X: data of the free inputs, as stored: distances from any point have a relative error, [n, d].
        origin: x0 of the free inputs, [d].
        U: (X - x0) / l, each rounded at its own size, for sums that pay for that, [n, d].
        fixed: squared distance of the data from x0 over the fixed inputs, [n]; zero where it is folded.
        alpha: mean weights per unit s (with the fold), [n].
        root: rows sqrt(s |c_k|) F_k (with the fold), [r, n]; the rows with c_k < 0 come first.
        n_negative: number of rows with c_k < 0.
        norm2: upper bound of |h|^2.
        floor: lower bound of the mean anywhere per unit s, zero exactly if no weight is negative.
        ceiling: upper bound, likewise.
        allowance: nu with G + nu >= 0; bounds are of G + nu, and nu is taken off again.
        bound: g + nu >= G + nu.
        slack: rounding errors of coefficients.
    """

    kernel: str
    variance: float
    dims: IntArray
    lengthscales: FloatArray
    X: FloatArray
    origin: FloatArray
    U: FloatArray
    fixed: FloatArray
    alpha: FloatArray
    root: FloatArray
    n_negative: int
    norm2: float
    floor: float
    ceiling: float
    allowance: float
    bound: float
    slack: Slack

    @property
    def mean_error(self) -> float:
        """Rounding error of the mean per unit s."""
        return self.slack.coefficient

    @property
    def gram_error(self) -> float:
        """Rounding error of the variance per unit s."""
        return self.slack.gram

    def scale(self, x_free: FloatArray) -> FloatArray:
        """Return free inputs [B, d] in lengthscale units around x0, rounded at their own size."""
        return (x_free - self.origin) / self.lengthscales

    def offsets(self, points: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Return (X - x) / l for B points [B, d], [n, d, B]: boxes last, so that steps run over contiguous memory."""
        apart = np.subtract(self.X[:, :, None], np.ascontiguousarray(points.T), out=out)
        apart *= (1.0 / self.lengthscales)[:, None]
        return np.asarray(apart)

    def squared_distances(self, points: FloatArray) -> FloatArray:
        """Return the scaled squared distances of B points [B, d] from the data, [B, n]."""
        rows = max(1, _ENTRIES // self.X.size)
        parts = [self.offsets(points[start : start + rows]) for start in range(0, len(points), rows)]
        squares = [np.einsum("njb,njb->bn", part, part) for part in parts]
        return np.concatenate(squares) + self.fixed if squares else np.empty((0, len(self.fixed)))

    def moments(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance [B] per unit s at points [B, d], up to rounding."""
        k = kappa(self.kernel, self.squared_distances(points))
        squares = (k @ self.root.T) ** 2
        negative = squares[:, : self.n_negative].sum(axis=1)
        variance = 1.0 - negative + squares[:, self.n_negative :].sum(axis=1)
        return k @ self.alpha, variance


def operator_form(posterior: GPCPosterior, x0: FloatArray, free: IntArray) -> OperatorForm:
    """Restrict a posterior to the free inputs around x0.

    Args:
        posterior: N data, D inputs.
        x0: the point that fixes the other inputs, [D].
        free: indices of the free inputs, [d], distinct.

    Raises:
        ValueError: if x0 is not finite or of the wrong length, or the indices are not distinct and in range.
    """
    kept = restriction(posterior, x0, free)
    dims, weight = kept.dims, kept.weight
    scaled = (posterior.X - kept.point) / posterior.lengthscales
    profile = PROFILES.get(posterior.kernel)
    order = np.argsort(posterior.weights >= 0.0, kind="stable")
    strength = np.sqrt(posterior.variance * np.abs(posterior.weights[order]))
    root = np.ascontiguousarray(posterior.root[order] * strength[:, None] * weight)
    alpha = posterior.alpha * weight
    U = np.ascontiguousarray(scaled[:, dims])
    # Distances between data never involve x0: a fixed input counts unless it is folded away.
    positions = U if profile.folds else scaled
    spread = spread_unit(kept.unit, positions.shape[1], float(np.max(np.abs(positions))))
    operator = operator_range(posterior)
    slack = rounding_slack(kept.unit, spread, alpha, root, operator.size)
    return OperatorForm(
        kernel=posterior.kernel,
        variance=posterior.variance,
        dims=dims,
        lengthscales=posterior.lengthscales[dims],
        X=np.ascontiguousarray(posterior.X[:, dims]),
        origin=kept.point[dims],
        U=U,
        fixed=kept.fixed,
        alpha=alpha,
        root=root,
        n_negative=int(np.sum(posterior.weights < 0.0)),
        norm2=squared_norm(posterior.kernel, positions, alpha, spread) + kept.lost,
        floor=kept.floor,
        ceiling=kept.ceiling,
        allowance=operator.below,
        bound=operator.above + operator.below,
        slack=replace(slack, coefficient=slack.coefficient + kept.lost),
    )


def squared_norm(kernel: str, points: FloatArray, alpha: FloatArray, unit: FloatArray) -> float:
    """Return alpha' kappa alpha for scaled points [n, k], rounded up.

    An entry of kappa is off by u |U|, however small it is: the slack is 2 (sum_i unit_i |alpha_i|) sum_i |alpha_i|.
    """
    value = 0.0
    for start in range(0, len(alpha), _BLOCK):
        rows = slice(start, start + _BLOCK)
        k = kappa(kernel, np.asarray(cdist(points[rows], points[start:], "sqeuclidean")))
        # The part right of the diagonal block stands for the part below it too.
        k[:, len(k) :] *= 2.0
        value += float(alpha[rows] @ (k @ alpha[start:]))
    size = np.abs(alpha)
    return max(0.0, value) + 2.0 * float(size @ unit) * float(size.sum())
