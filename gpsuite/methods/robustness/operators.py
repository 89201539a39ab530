"""First-order expansion of stationary kernels k = s kappa(r), r in lengthscales, in their RKHS.

phi(c + delta) = kappa e_0 + psi sum_j delta_j e_j + remainder, with e_0 = phi(c) and e_j = d_j phi(c) / sqrt(lambda)
orthonormal, lambda = -kappa''(0), psi = -kappa'(r) / (r sqrt(lambda)) and |remainder|^2 = 1 - kappa^2 -
kappa'^2/lambda. All differences are written without cancellation near r = 0. Every kappa here is convex in q = r^2.

Equation: derived, stationary kernels to degree 1
Equation: derived, squared exponential expansion and tail
Equation: derived, operator form of a posterior
Equation: derived, sparse variational posteriors
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol
from weakref import WeakKeyDictionary

import numpy as np
from scipy.linalg import LinAlgError, eigvalsh
from scipy.spatial.distance import cdist
from scipy.special import gammainc

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.rounding import UNDERFLOW, UNIT, Slack, dot_product_unit, rounding_slack, spread_unit
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.composite import CompositeKernel, single_kernel
from gpsuite.models.latent import LatentPosterior
from gpsuite.models.radial import kappa
from gpsuite.registry import Registry

_SQRT3 = float(np.sqrt(3.0))
_SQRT5 = float(np.sqrt(5.0))


class Profile(Protocol):
    """Radial differences of a kernel. r >= 0 are arrays of any shape."""

    @property
    def curvature(self) -> float:
        """Return lambda = -kappa''(0). Its root is psi(0)."""

    @property
    def folds(self) -> bool:
        """Whether fixed inputs factor out of the kernel."""

    def drop(self, r: FloatArray) -> FloatArray:
        """Return 1 - kappa(r)."""

    def slope_drop(self, r: FloatArray) -> FloatArray:
        """Return psi(0) - psi(r)."""

    def tail(self, r: FloatArray) -> FloatArray:
        """Return the squared norm of the first-order expansion's remainder at distance r, increasing."""


PROFILES: Registry[Profile] = Registry("kernel")


@dataclass(frozen=True)
class SquaredExponential:
    """kappa = psi = exp(-r^2/2). The tail is a Poisson probability."""

    curvature: float = 1.0
    folds: bool = True

    def drop(self, r: FloatArray) -> FloatArray:
        """Return 1 - exp(-r^2/2)."""
        return np.asarray(-np.expm1(-0.5 * r * r))

    def slope_drop(self, r: FloatArray) -> FloatArray:
        """Return 1 - exp(-r^2/2)."""
        return self.drop(r)

    def tail(self, r: FloatArray) -> FloatArray:
        """Return P(Poisson(r^2) > 1)."""
        return np.asarray(gammainc(2.0, r * r))


@dataclass(frozen=True)
class Matern32:
    """kappa = (1 + z) exp(-z) and psi = sqrt(3) exp(-z), z = sqrt(3) r."""

    curvature: float = 3.0
    folds: bool = False

    def drop(self, r: FloatArray) -> FloatArray:
        """Return 1 - kappa as an incomplete gamma function."""
        return np.asarray(gammainc(2.0, _SQRT3 * r))

    def slope_drop(self, r: FloatArray) -> FloatArray:
        """Return sqrt(3) (1 - exp(-z))."""
        return np.asarray(-_SQRT3 * np.expm1(-_SQRT3 * r))

    def tail(self, r: FloatArray) -> FloatArray:
        """Return 1 - kappa^2 - kappa'^2/3 = 1 - (1 + 2 z + 2 z^2) exp(-2 z)."""
        return np.asarray(gammainc(3.0, 2.0 * _SQRT3 * r))


@dataclass(frozen=True)
class Matern52:
    """kappa = (1 + z + z^2/3) exp(-z) and psi = sqrt(5/3) (1 + z) exp(-z), z = sqrt(5) r."""

    curvature: float = 5.0 / 3.0
    folds: bool = False

    def drop(self, r: FloatArray) -> FloatArray:
        """Return 1 - kappa = gammainc(3, z) + z^2 exp(-z) / 6."""
        z = _SQRT5 * r
        return np.asarray(gammainc(3.0, z) + z * z * np.exp(-z) / 6.0)

    def slope_drop(self, r: FloatArray) -> FloatArray:
        """Return sqrt(5/3) gammainc(2, z)."""
        return np.asarray(np.sqrt(self.curvature) * gammainc(2.0, _SQRT5 * r))

    def tail(self, r: FloatArray) -> FloatArray:
        """Return 1 - kappa^2 - (3/5) kappa'^2 = (2/9) z^4 exp(-2 z) + gammainc(5, 2 z)."""
        z = _SQRT5 * r
        return np.asarray((2.0 / 9.0) * (z * z * np.exp(-z)) ** 2 + gammainc(5.0, 2.0 * z))


PROFILES.register("squared_exponential")(SquaredExponential())
PROFILES.register("matern32")(Matern32())
PROFILES.register("matern52")(Matern52())


# A posterior's data around a point with some free inputs: the start of every form.


@dataclass(frozen=True)
class Restriction:
    """The fixed inputs and their effect on the data.

    Attributes:
        point: x0, all inputs, [D].
        dims: free inputs, [d].
        fixed: squared scaled distance of the data from x0 over the fixed inputs, [N]. Zero if it is folded.
        weight: fold w, exp(-distance / 2) for kernels that factor, [N]. One for others.
        unit: relative error of a datum's part in a dot product over the data, [N].
        lost: largest part of the mean per unit s from weights and products that underflow.
        floor: lower bound of the mean anywhere per unit s, zero exactly if no weight is negative.
        ceiling: upper bound, of the same shape.
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
    # Free inputs count as zero, so no columns are copied.
    rate = 1.0 / posterior.lengthscales
    rate[dims] = 0.0
    apart = (posterior.X - point) * rate
    fixed = np.einsum("ij,ij->i", apart, apart)
    kernel = posterior.kernel
    folds = not isinstance(kernel, CompositeKernel) and PROFILES.get(kernel).folds
    weight = np.exp(-0.5 * fixed) if folds else np.ones(len(fixed))
    unit = dot_product_unit(len(fixed), point.size, fixed if folds else np.zeros(len(fixed)))
    if isinstance(kernel, CompositeKernel):
        unit *= 1.0 + kernel.most_factors
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
    """Return sum_i max(0, alpha_i) w_i rounded up, [...] for weights [..., N]. Zero if no weight is positive."""
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


# Range of the covariance operator of the stored floats, compared with exact arithmetic.
#
# G = I + sum_k c_k z_k z_k* with z_k = sqrt(s) sum_i F_ki phi(X_i). Let M be the Gram matrix of the z_k and
# Lambda >= its largest eigenvalue. Then sum_k <z_k, e>^2 <= Lambda for unit e. So G >= 1 - max(-c)_+ Lambda and
# G <= 1 + max(c)_+ Lambda. Exact arithmetic has Lambda <= 1 and c >= -1, so G >= 0. A Cholesky factor of an
# ill-conditioned kernel matrix may violate this.


@dataclass(frozen=True)
class OperatorRange:
    """-below <= G <= above, and sum_k |c_k| <z_k, e>^2 <= size for unit vectors e. In units of s, rounded up."""

    below: float
    above: float
    size: float


_RANGES: WeakKeyDictionary[LatentPosterior, OperatorRange] = WeakKeyDictionary()


def operator_range(posterior: LatentPosterior) -> OperatorRange:
    """Return the range of the posterior's operator. It is computed once: two products and an eigenvalue of N x N.

    The range holds for every choice of free inputs: fixing inputs restricts G to a subspace.
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
    return OperatorRange(below, (1.0 + up * largest) * outward, max(1.0, down, up) * max(1.0, largest) * outward)


def _largest_eigenvalue(posterior: LatentPosterior) -> float:
    """Return Lambda: the computed eigenvalue plus the rounding of the products, of kappa and of the eigenvalue."""
    scaled = (posterior.X - posterior.X.mean(axis=0)) / posterior.lengthscales
    root = np.sqrt(posterior.variance) * posterior.root
    rank = len(root)
    if not rank:
        return 0.0
    # Overflow gives infinite bounds, which are trivial but sound.
    with np.errstate(over="ignore", invalid="ignore"):
        gram = root @ kernel_matrix(posterior.kernel, scaled, scaled) @ root.T
        largest = np.inf
        if np.isfinite(gram).all():
            symmetric = 0.5 * (gram + gram.T)
            try:
                largest = float(eigvalsh(symmetric, subset_by_index=[rank - 1, rank - 1])[0])
            except LinAlgError:  # the search for a single eigenvalue fails on some matrices
                largest = float(eigvalsh(symmetric)[-1])
        unit = data_unit(posterior, scaled)
        sums = np.abs(root)
        products = 3.0 * float(np.sum((sums @ unit) * sums.sum(axis=1)))
    return max(0.0, largest) * (1.0 + 16.0 * rank * UNIT) + products


def kernel_matrix(kernel: str | CompositeKernel, A: FloatArray, B: FloatArray) -> FloatArray:
    """Return kappa between scaled inputs A [I, D] and B [K, D], from differences."""
    if isinstance(kernel, CompositeKernel):
        return kernel.values_and_slopes(A, B)[0]
    return kappa(kernel, np.asarray(cdist(A, B, "sqeuclidean")))


def data_unit(posterior: LatentPosterior, scaled: FloatArray) -> FloatArray:
    """Return the relative error of a datum's part in a dot product over scaled and centred data, [n].

    Each factor of a composite kernel adds rounding. Its distances may be longer than in the posterior's lengthscales.
    """
    n, inputs = scaled.shape
    own, largest, kernel = dot_product_unit(n, inputs, np.zeros(n)), float(np.max(np.abs(scaled))), posterior.kernel
    if isinstance(kernel, CompositeKernel):
        own, largest = own * (1.0 + kernel.most_factors), largest * kernel.stretch
    return spread_unit(own, inputs, largest)


# A posterior as an operator in the RKHS of its kernel, restricted to the free inputs.
#
# mu(x) = s <h, phi(x)> and Sigma(x) = s <phi(x), G phi(x)> with 0 <= G <= g, G = I + sum_k c_k z_k z_k*. For the
# squared exponential kernel the fixed inputs fold into weights w_i = exp(-(fixed distance)^2 / 2) of the data, and
# the
# kernel is that of only the free inputs. Other kernels keep the fixed distances.


_BLOCK = 256
# Offsets held at once (8 MB).
_ENTRIES = 1 << 20


@dataclass(frozen=True)
class OperatorForm:
    """Mean weights and operator root over d free inputs. Points and boxes are in units of X.

    Attributes:
        kernel: name of the kernel.
        variance: s.
        dims: free inputs, [d].
        lengthscales: lengthscales of the free inputs, [d].
        X: data of the free inputs, as stored, [n, d]. Distances from any point have a relative error.
        origin: x0 of the free inputs, [d].
        U: (X - x0) / l, [n, d]. Each entry is rounded at its own size. Sums over U must account for that.
        fixed: squared distance of the data from x0 over the fixed inputs, [n]. Zero if it is folded.
        alpha: mean weights per unit s (with the fold), [n].
        root: rows sqrt(s |c_k|) F_k (with the fold), [r, n]. The rows with c_k < 0 come first.
        n_negative: number of rows with c_k < 0.
        norm2: upper bound of |h|^2.
        floor: lower bound of the mean anywhere per unit s, zero exactly if no weight is negative.
        ceiling: upper bound, of the same shape.
        allowance: nu with G + nu >= 0. Bounds are of G + nu. Then nu is subtracted.
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
        """Return (X - x) / l for B points [B, d], [n, d, B]. Boxes are last: steps run over contiguous memory."""
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
    kernel = single_kernel(posterior.kernel, "the paper's bound")
    profile = PROFILES.get(kernel)
    order = np.argsort(posterior.weights >= 0.0, kind="stable")
    strength = np.sqrt(posterior.variance * np.abs(posterior.weights[order]))
    root = np.ascontiguousarray(posterior.root[order] * strength[:, None] * weight)
    alpha = posterior.alpha * weight
    U = np.ascontiguousarray(scaled[:, dims])
    # Distances between data do not involve x0. A fixed input counts unless it is folded.
    positions = U if profile.folds else scaled
    spread = spread_unit(kept.unit, positions.shape[1], float(np.max(np.abs(positions))))
    operator = operator_range(posterior)
    slack = rounding_slack(kept.unit, spread, alpha, root, operator.size)
    return OperatorForm(
        kernel=kernel,
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


def squared_norm(kernel: str | CompositeKernel, points: FloatArray, alpha: FloatArray, unit: FloatArray) -> float:
    """Return alpha' kappa alpha for scaled points [n, k], rounded up.

    An entry of kappa has an error of u |U|, however small it is. The slack is 2 (sum_i unit_i |alpha_i|) sum_i
    |alpha_i|.
    """
    value = 0.0
    for start in range(0, len(alpha), _BLOCK):
        rows = slice(start, start + _BLOCK)
        k = kernel_matrix(kernel, points[rows], points[start:])
        # The part right of the diagonal block represents the part below it too.
        k[:, len(k) :] *= 2.0
        value += float(alpha[rows] @ (k @ alpha[start:]))
    size = np.abs(alpha)
    return max(0.0, value) + 2.0 * float(size @ unit) * float(size.sum())
