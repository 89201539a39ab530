"""Matrix algebra of the sparse posteriors: whitened cross-covariances in blocks, and their posterior.

Whitened means V = L^-1 K_ZX with L L' = K_ZZ. A block is an (M, rows) array in C order. So BLAS gets its transpose as a
(rows, M) Fortran array. Triangular solves are about a third faster in this form.

Equation: Reeb et al. 2018, Eq. (10), Eq. (11)
Equation: derived, whitened sparse posterior
Equation: derived, kernel contraction
Equation: derived, sweeps over the data
Equation: derived, rounding of the sparse posterior
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg.blas import dgemm, dsyrk, dtrmm, dtrsm
from scipy.linalg.lapack import dpocon, dpotrf, dtrtri

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.posteriors import log_kernel_factors
from gpsuite.models.linalg import NotPositiveDefiniteError

# Data points handled at once: they fit in the cache. With many rows blocks are longer, for the threads used on large
# data.
BLOCK, LONG_BLOCK = 512, 2048
MANY_ROWS = 100_000
# Multiples of sigma_f^2 added to the diagonal of K_ZZ. The next one is used only if a factorisation fails.
JITTERS = (0.0, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6)
# A squared pivot is a difference of numbers near sigma_f^2: below this multiple of it rounding matters.
LEAST_PIVOT = 1e-12
# |L^-1 k|^2, the variance that the inducing variables explain, is at most sigma_f^2. A larger value shows a wrong
# factor.
EXPLAINED = 1.0 + 1e-9
# Ulps of sigma_f^2 in an entry of K_ZZ. Compared with 50 digits, 16 miss 1 of 6000 random posteriors, 32 none.
_ULPS = 64.0
# Condition number of K_ZZ times max(1, sigma_f^2 / s) up to which bounds agree with the whitened form to about 1e-13.
_MAX_CONDITION = 1e5
# Keeps I - S positive definite if a direction does not depend on the data.
_SHIFT = 1e-14
# Bytes of n x M arrays up to which an objective keeps its blocks instead of computing them again.
STORED_BYTES = 512 * 2**20
# Rows of a weighted gram matrix formed at once: only panels up to the diagonal are needed.
_PANEL = 64
# A slack above this multiple of 1 + KL is no longer a first-order effect. Then a jitter worsens the bound less.
LARGEST_SLACK = 1e-3


def longest_block(n: int) -> int:
    return min(n, BLOCK if n < MANY_ROWS else LONG_BLOCK)


def blocks(n: int) -> Iterator[slice]:
    size = longest_block(n)
    for first in range(0, n, size):
        yield slice(first, min(first + size, n))


@dataclass(frozen=True)
class InducingKernel:
    """The squared-exponential kernel with one argument in Z. Build it with `factorise`.

    Attributes:
        centre: mean of Z [D]. Inputs are centred there: the kernel's squares cancel less.
        scaled: (Z - centre)/lengthscales [M, D].
        left: the kernel's factor of Z [M, D+2].
        matrix: K_ZZ [M, M], jitter included.
        factor: lower Cholesky factor of K_ZZ [M, M], Fortran order.
        jitter: number added to the diagonal, as a multiple of sigma_f^2.
    """

    centre: FloatArray
    lengthscales: FloatArray
    scaled: FloatArray
    left: FloatArray
    variance: float
    matrix: FloatArray
    factor: FloatArray
    jitter: float

    @classmethod
    def factorise(cls, Z: FloatArray, theta: FloatArray, least_jitter: float = 0.0) -> InducingKernel:
        """Factorise K_ZZ with the smallest jitter of `JITTERS`, from `least_jitter` on, that is enough.

        Raises:
            NotPositiveDefiniteError: if the largest jitter is not enough.
        """
        for inducing in cls.factorisations(Z, theta, least_jitter):
            return inducing
        raise not_positive_definite()

    @classmethod
    def factorisations(cls, Z: FloatArray, theta: FloatArray, least_jitter: float) -> Iterator[InducingKernel]:
        """Yield every factorisation of K_ZZ that LAPACK accepts, from the smallest jitter to the largest."""
        centre, lengthscales, variance = Z.mean(axis=0), np.exp(theta[1:-1]), math.exp(theta[0])
        scaled = (Z - centre) / lengthscales
        left, right = log_kernel_factors(scaled, float(theta[0]))
        exponent = left @ right.T
        kernel = np.exp(np.minimum(exponent, exponent.T))  # the smaller of two roundings, for symmetry
        for jitter in (j for j in JITTERS if j >= least_jitter):
            matrix = kernel.copy()
            np.fill_diagonal(matrix, variance * (1.0 + jitter))
            factor, info = dpotrf(matrix.T, lower=1, clean=1)
            if info == 0 and math.isfinite(factor[-1, -1]):  # LAPACK may not notice a NaN
                yield cls(centre, lengthscales, scaled, left, variance, matrix, factor, jitter)

    @property
    def is_regular(self) -> bool:
        """Whether no squared pivot is so small that rounding decides it."""
        return bool(np.diagonal(self.factor).min() ** 2 >= LEAST_PIVOT * self.variance)

    @property
    def entry_error(self) -> float:
        """Error of an entry of K_ZZ as a multiple of sigma_f^2.

        The exponent is a difference of squares of the scaled inputs. The squares have their own ulps.
        """
        largest = float(squared_norms(self.scaled.T).max())
        return _ULPS * float(np.finfo(np.float64).eps) * (1.0 + largest)

    @property
    def whitening_error(self) -> float:
        """Bound on the relative error of L to first order: the entries' error times sigma_f^2 tr K_ZZ^-1."""
        return self.entry_error * self.variance * float(np.vdot(self.inverse_factor, self.inverse_factor))

    def explains_too_much(self, X: FloatArray) -> bool:
        """Return whether |L^-1 k(Z, x)|^2 exceeds sigma_f^2 beyond rounding at an input x of X [N, D]."""
        for rows in blocks(len(X)):
            V = np.empty((len(self.scaled), rows.stop - rows.start))
            if not np.all(squared_norms(self.whitened(self.features(X[rows]), V)) <= EXPLAINED * self.variance):
                return True
        return False

    def features(self, X: FloatArray) -> FloatArray:
        """Return the kernel's factor of the inputs X [N, D]: (scaled X, half squares, 1), [N, D+2]."""
        n, dimension = X.shape
        features = np.empty((n, dimension + 2))
        scaled, half_squares = features[:, :dimension], features[:, dimension]
        np.subtract(X, self.centre, out=scaled)
        scaled /= self.lengthscales
        np.einsum("ij,ij->i", scaled, scaled, out=half_squares)
        half_squares *= -0.5
        features[:, -1] = 1.0
        return features

    def cross(self, features: FloatArray, out: FloatArray) -> FloatArray:
        """Write K_ZX [M, rows] to `out`, for the rows of `features`, and return it."""
        np.matmul(self.left, features.T, out=out)
        return np.asarray(np.exp(out, out=out))

    def whitened(self, features: FloatArray, out: FloatArray) -> FloatArray:
        """Write V = L^-1 K_ZX [M, rows] to `out` and return it."""
        return self.whiten(self.cross(features, out))

    def whiten(self, cross: FloatArray) -> FloatArray:
        """Turn K_ZX [M, rows] into V = L^-1 K_ZX in place. Return it."""
        dtrsm(1.0, self.factor, cross.T, side=1, lower=1, trans_a=1, overwrite_b=1)
        return cross

    def unwhiten_adjoint(self, adjoint: FloatArray) -> FloatArray:
        """Turn the adjoint of V [M, rows] into the adjoint of K_ZX, L^-T times it, in place. Return it."""
        dtrsm(1.0, self.factor, adjoint.T, side=1, lower=1, trans_a=0, overwrite_b=1)
        return adjoint

    @cached_property
    def inverse_factor(self) -> FloatArray:
        """L^-1 [M, M], Fortran order."""
        return np.asarray(dtrtri(self.factor, lower=1)[0])

    def unwhitened_vector(self, vector: FloatArray) -> FloatArray:
        """Return L^-T a [M]."""
        return np.asarray(dtrsm(1.0, self.factor, vector[:, None], side=0, lower=1, trans_a=1)[:, 0])

    def unwhitened_matrix(self, matrix: FloatArray) -> FloatArray:
        """Return L^-T A L^-1 [M, M], Fortran order."""
        half = dtrsm(1.0, self.factor, matrix, side=0, lower=1, trans_a=1)
        return np.asarray(dtrsm(1.0, self.factor, half, side=1, lower=1, overwrite_b=1))


@dataclass
class WhitenedSums:
    """Sums over the data that determine the posterior.

    Attributes:
        gram: V Lambda^-1 V' [M, M], Fortran order, lower triangle only (the upper one is zero).
        target: V Lambda^-1 y [M].
    """

    gram: FloatArray
    target: FloatArray

    @classmethod
    def zeros(cls, n_inducing: int) -> WhitenedSums:
        return cls(np.zeros((n_inducing, n_inducing), order="F"), np.zeros(n_inducing))

    def add(self, V: FloatArray, noise: FloatArray, y: FloatArray, work: FloatArray) -> None:
        """Add a block V [M, rows] with noise variances Lambda and targets [rows]. `work` [M, rows] is overwritten."""
        np.multiply(V, 1.0 / np.sqrt(noise), out=work)
        self.gram = with_gram(self.gram, work)
        self.target += V @ (y / noise)

    def add_unweighted(self, V: FloatArray, y: FloatArray) -> None:
        """Add a block V [M, rows] and targets [rows] with Lambda = I."""
        self.gram = with_gram(self.gram, V)
        self.target += V @ y


@dataclass(frozen=True)
class WhitenedPosterior:
    """Posterior N(b, S) of the whitened inducing variables with prior N(0, I). Build it with `condition`.

    Attributes:
        factor: L_B [M, M], Fortran order, lower triangular with L_B L_B' = I + V Lambda^-1 V' = S^-1.
        inverse_factor: L_B^-1 [M, M], Fortran order.
        mean: b [M].
        kl: KL(Q||P) = sum ln diag L_B + (tr S - M + b'b)/2 in nats (Eq. 10 of Reeb et al. 2018, whitened).
    """

    factor: FloatArray
    inverse_factor: FloatArray
    mean: FloatArray
    kl: float

    @classmethod
    def condition(cls, sums: WhitenedSums) -> WhitenedPosterior:
        """Return the posterior given sums over the data.

        Raises:
            NotPositiveDefiniteError: if I + V Lambda^-1 V' is not positive definite or not finite.
        """
        precision = sums.gram.copy(order="F")
        precision[np.diag_indices_from(precision)] += 1.0
        factor, info = dpotrf(precision, lower=1, clean=1, overwrite_a=1)
        if info != 0:
            raise NotPositiveDefiniteError(f"I + V Lambda^-1 V' is not positive definite (pivot {info})")
        half_log_determinant = float(np.log(np.diagonal(factor)).sum())
        inverse, _ = dtrtri(factor, lower=1)
        mean = inverse.T @ (inverse @ sums.target)
        trace = float(np.einsum("ij,ij->", inverse, inverse))
        kl = half_log_determinant + 0.5 * (trace - len(mean) + float(mean @ mean))
        if not math.isfinite(kl):
            raise NotPositiveDefiniteError(f"the KL of the sparse posterior is {kl}")
        return cls(factor, inverse, mean, max(kl, 0.0))  # rounding can leave a KL one ulp below 0

    def half_variance(self, V: FloatArray, out: FloatArray) -> FloatArray:
        """Write U = L_B^-1 V [M, rows] to `out` and return it. V'S V = U'U."""
        out[...] = V
        # in this direction the solve is faster than the product
        dtrsm(1.0, self.factor, out.T, side=1, lower=1, trans_a=1, overwrite_b=1)
        return out


def not_positive_definite() -> NotPositiveDefiniteError:
    return NotPositiveDefiniteError(f"K_ZZ is not positive definite even with {JITTERS[-1]:g} sigma_f^2 I")


def with_gram(total: FloatArray, block: FloatArray) -> FloatArray:
    """Return total + block block' for a block [M, rows]: only the lower triangle, in the memory of `total`."""
    return np.asarray(dsyrk(1.0, block.T, beta=1.0, c=total, trans=1, lower=1, overwrite_c=1))


def add_product(total: FloatArray, left: FloatArray, right: FloatArray) -> None:
    """Add left [M, k] right [k, rows] to a block [M, rows] in place. All in C order."""
    dgemm(1.0, right.T, left.T, beta=1.0, c=total.T, overwrite_c=1)


def block_of(buffer: FloatArray, n_inducing: int, rows: slice) -> FloatArray:
    """Return the block [M, rows] of a flat buffer of n M numbers: a contiguous piece in C order."""
    piece = buffer[n_inducing * rows.start : n_inducing * rows.stop]
    return piece.reshape(n_inducing, rows.stop - rows.start)


def head_of(buffer: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    return buffer[: math.prod(shape)].reshape(shape)


def squared_norms(block: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->j", block, block))


def symmetric(lower: FloatArray, width: int = 1) -> FloatArray:
    """Return the symmetric matrix of a lower block triangle with whole diagonal blocks [width, width]."""
    full = lower + lower.T
    for i in range(0, len(full), width):
        full[i : i + width, i : i + width] *= 0.5
    return full


def weighted_rows(X: FloatArray, y: FloatArray, rows: IntArray | None) -> tuple[FloatArray, FloatArray, float]:
    """Return the chosen rows of X [N, D] and y [N], all for None, and N over their number."""
    if rows is None:
        return X, y, 1.0
    return X[rows], y[rows], len(y) / len(rows)


def checked_inducing(Z: FloatArray, dimension: int, n_inducing: int | None = None) -> FloatArray:
    """Return Z [M, D] as a new contiguous float64 array. M must be `n_inducing` if that is given.

    Raises:
        ValueError: if Z is not [M, D] with M >= 1, has another M, or a value is not finite.
    """
    Z = np.array(Z, dtype=np.float64, order="C")
    if Z.ndim != 2 or Z.shape[1] != dimension or len(Z) == 0:
        raise ValueError(f"expected Z [M, {dimension}] with M >= 1, got {Z.shape}")
    if not np.isfinite(Z).all():
        raise ValueError("Z must be finite")
    if n_inducing not in (None, len(Z)):
        raise ValueError(f"expected {n_inducing} inducing inputs, got {len(Z)}")
    return Z


def check_alpha(alpha: float) -> None:
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"alpha must be in [0, 1], got {alpha!r}")


class KernelContraction:
    """Sums adjoint times kernel derivative over blocks of K_ZX and over K_ZZ.

    With H = adjoint * K elementwise: d ln sigma_f^2 = sum H, d ln l_j = sum_mi H_mi (z_mj - x_ij)^2 / l_j^2 and
    d z_mj = sum_i H_mi (x_ij - z_mj) / l_j^2. The squares are expanded, so H is only in thin products.

    Attributes:
        d_log_variance: derivative in ln sigma_f^2, without the part from the diagonal of K_XX.
        d_Z: derivative in Z [M, D].
    """

    def __init__(self, inducing: InducingKernel) -> None:
        self._inducing = inducing
        self.d_log_variance = 0.0
        self.d_Z = np.zeros_like(inducing.scaled)
        self._per_dimension = np.zeros(inducing.scaled.shape[1])

    def add(self, adjoint: FloatArray, features: FloatArray, cross: FloatArray) -> None:
        """Add a block's adjoint of K_ZX [M, rows], given the inputs' features and K_ZX. The adjoint is overwritten."""
        Zs, D = self._inducing.scaled, self._inducing.scaled.shape[1]
        adjoint *= cross
        products = adjoint @ features  # H Xs and, in the last column, the row sums of H
        HX, row_sums = products[:, :D], products[:, -1]
        self.d_log_variance += float(row_sums.sum())
        # the features hold -|x|^2/2 summed over dimensions. Here every dimension is needed separately
        squares = adjoint.sum(axis=0) @ features[:, :D] ** 2
        self._per_dimension += row_sums @ Zs**2 - 2.0 * np.einsum("ij,ij->j", Zs, HX) + squares
        self.d_Z += (HX - row_sums[:, None] * Zs) / self._inducing.lengthscales

    def add_prior(self, adjoint: FloatArray) -> None:
        """Add the symmetric adjoint of K_ZZ [M, M]."""
        Zs = self._inducing.scaled
        J = adjoint * self._inducing.matrix
        self.d_log_variance += float(J.sum())
        np.fill_diagonal(J, 0.0)  # the diagonal depends only on the variance
        row_sums, JZ = J.sum(axis=1), J @ Zs
        self._per_dimension += 2.0 * (row_sums @ Zs**2 - np.einsum("ij,ij->j", Zs, JZ))
        self.d_Z += 2.0 * (JZ - row_sums[:, None] * Zs) / self._inducing.lengthscales

    def d_log_lengthscales(self, n_lengthscales: int) -> FloatArray:
        whole = self._per_dimension
        return whole if n_lengthscales == len(whole) else whole.sum(keepdims=True)


# The alpha = 0 posterior in terms of K_ZX itself, for a well-conditioned K_ZZ. It takes a third less time than
# whitening.
#
# With constant noise no point needs its own |V_i|^2. So V = L^-1 K_ZX is never formed, and L^-1 multiplies only M x M
# matrices. The error grows with the condition number of K_ZZ. `is_accurate` checks this number.
def is_accurate(inducing: InducingKernel, noise_variance: float) -> bool:
    """Return whether the condition number of K_ZZ is small enough for the covariance form."""
    norm = float(inducing.matrix.sum(axis=0).max())  # all entries are positive, so this is the 1-norm
    reciprocal, _ = dpocon(inducing.factor, norm, uplo="L")
    return float(reciprocal) * _MAX_CONDITION >= max(1.0, inducing.variance / noise_variance)


def whitened_matrix(inducing: InducingKernel, matrix: FloatArray) -> FloatArray:
    """Return L^-1 A L^-T of a symmetric A [M, M], symmetric."""
    half = dtrsm(1.0, inducing.factor, matrix, side=0, lower=1)
    whole = dtrsm(1.0, inducing.factor, half, side=1, lower=1, trans_a=1, overwrite_b=1)
    return np.asarray(0.5 * (whole + whole.T))


def whitened_vector(inducing: InducingKernel, vector: FloatArray) -> FloatArray:
    """Return L^-1 a [M]."""
    return np.asarray(dtrsm(1.0, inducing.factor, vector[:, None], side=0, lower=1)[:, 0])


@dataclass(frozen=True)
class CovarianceForm:
    """Mean K'mean and variance sigma_f^2 - |factor' K_i|^2 of the posterior. Build it with `derive`.

    Attributes:
        factor: T_K [M, M], upper triangular, Fortran order, with T_K T_K' = L^-T (I - S) L^-1.
        mean: L^-T b [M].
    """

    factor: FloatArray
    mean: FloatArray

    @classmethod
    def derive(
        cls, inducing: InducingKernel, sums: WhitenedSums, posterior: WhitenedPosterior
    ) -> CovarianceForm | None:
        """Return the form from sums with the whole gram matrix, or None if I - S cannot be factorised."""
        inverse = posterior.inverse_factor
        shrinkage = inverse.T @ (inverse @ sums.gram)  # I - S = S (V Lambda^-1 V') without cancellation
        shrinkage = 0.5 * (shrinkage + shrinkage.T)
        shrinkage[np.diag_indices_from(shrinkage)] += _SHIFT
        # reversed rows and columns turn the lower Cholesky factor into an upper triangular one
        lower, info = dpotrf(shrinkage[::-1, ::-1], lower=1, clean=1)
        if info != 0:
            return None
        upper = np.asfortranarray(lower[::-1, ::-1])
        factor = dtrsm(1.0, inducing.factor, upper, side=0, lower=1, trans_a=1, overwrite_b=1)
        return cls(factor, inducing.unwhitened_vector(posterior.mean))

    def half_reduction(self, K: FloatArray, out: FloatArray) -> FloatArray:
        """Write U = T_K' K [M, rows] to `out` and return it."""
        out[...] = K
        dtrmm(1.0, self.factor, out.T, side=1, lower=0, trans_a=0, overwrite_b=1)
        return out

    def adjoint(
        self, U: FloatArray, d_variance: FloatArray, K: FloatArray, weights: FloatArray, out: FloatArray
    ) -> FloatArray:
        """Write -2 T_K U diag(d_variance) + weights K [M, rows] to `out` and return it. `weights` is symmetric."""
        np.multiply(U, -2.0 * d_variance, out=out)
        dtrmm(1.0, self.factor, out.T, side=1, lower=0, trans_a=1, overwrite_b=1)
        dgemm(1.0, K.T, weights, beta=1.0, c=out.T, overwrite_c=1)
        return out


def stores(n: int, n_inducing: int, arrays: int) -> bool:
    """Return whether `arrays` n x M arrays need at most `STORED_BYTES`."""
    return 8 * n * n_inducing * arrays <= STORED_BYTES


class BlockArray:
    """Blocks [M, rows] in C order. Each has its own memory, or all share one block and are computed again if needed."""

    def __init__(self, n: int, n_inducing: int, stored: bool) -> None:
        self.stored = stored
        self._n_inducing = n_inducing
        self._memory = np.zeros(n_inducing * (n if stored else longest_block(n)))

    def block(self, rows: slice) -> FloatArray:
        place = rows if self.stored else slice(0, rows.stop - rows.start)
        return block_of(self._memory, self._n_inducing, place)


class WeightedGram:
    """Sum over blocks of V diag(weights) V', for weights of either sign."""

    def __init__(self, n_inducing: int) -> None:
        self._panels = np.zeros((n_inducing, n_inducing))

    def add(self, V: FloatArray, weights: FloatArray) -> None:
        for first in range(0, len(V), _PANEL):
            panel = slice(first, first + _PANEL)
            self._panels[panel, : panel.stop] += (V[panel] * weights) @ V[: panel.stop].T

    def total(self) -> FloatArray:
        return symmetric(self._panels, _PANEL)


@dataclass(frozen=True)
class RiskSums:
    """Losses and their derivatives at every point, with the sums over V that the gradient needs. See `sum_risk`.

    Attributes:
        d_mean: derivatives of the losses in the mean [N].
        d_variance: derivatives of the losses in the variance [N].
        C: V diag(d_variance) V' [M, M].
        V_d_mean: V d_mean [M].
    """

    mean: FloatArray
    loss: FloatArray
    d_mean: FloatArray
    d_variance: FloatArray
    C: FloatArray
    V_d_mean: FloatArray

    def scaled(self, factor: float) -> RiskSums:
        """Return the sums with every derivative times a factor."""
        return replace(
            self,
            d_mean=self.d_mean * factor,
            d_variance=self.d_variance * factor,
            C=self.C * factor,
            V_d_mean=self.V_d_mean * factor,
        )


def sum_risk(
    loss: Loss,
    y: FloatArray,
    n_inducing: int,
    block_at: Callable[[slice], FloatArray],
    moments: Callable[[FloatArray, slice], tuple[FloatArray, FloatArray]],
) -> RiskSums:
    """Return the sums of the losses, block by block. The bound's derivative is not applied yet: it needs their mean."""
    n = len(y)
    mean, losses, d_mean, d_variance = (np.empty(n) for _ in range(4))
    gram, V_d_mean = WeightedGram(n_inducing), np.zeros(n_inducing)
    for rows in blocks(n):
        V = block_at(rows)
        mean[rows], variance = moments(V, rows)
        parts = loss.expected_with_gradient(y[rows], mean[rows], variance)
        losses[rows], d_mean[rows], d_variance[rows] = parts
        gram.add(V, d_variance[rows])
        V_d_mean += V @ d_mean[rows]
    return RiskSums(mean, losses, d_mean, d_variance, gram.total(), V_d_mean)


# Outward slack of a sparse certificate's risk and KL for the rounding of K_ZZ.
#
# In float64 the factorised matrix is K_ZZ + E with |E_ij| of a few ulps of sigma_f^2. Let G be a number's derivative in
# K_ZZ. The number computed from the factor differs from the exact one by at most sum |G_ij| |E_ij| to first order. If
# K_ZZ is nearly singular, G is large, but only along directions that the data fix. The condition number of K_ZZ does
# not depend on the data. It would give a far larger slack.
@dataclass(frozen=True)
class Slopes:
    """The derivatives of a number, a risk or the KL, in the moments from which it is computed.

    Attributes:
        d_mean: derivatives in the posterior means at the training inputs [N].
        d_variance: derivatives in their variances [N].
        size: largest value of the number, 1 for a risk. Apart from K_ZZ, rounding adds a few ulps of it.
    """

    d_mean: FloatArray
    d_variance: FloatArray
    d_kl: float = 0.0
    size: float = 1.0

    @classmethod
    def of_risk(cls, loss: Loss, y: FloatArray, mean: FloatArray, variance: FloatArray) -> Slopes:
        """Return the slopes of the Gibbs risk at training points with these moments, [N] each."""
        _, d_mean, d_variance = loss.expected_with_gradient(y, mean, variance)
        return cls(d_mean / len(y), d_variance / len(y))

    @classmethod
    def of_kl(cls, n: int, kl: float) -> Slopes:
        return cls(np.zeros(n), np.zeros(n), 1.0, 1.0 + kl)


def sparse_slack(
    inducing: InducingKernel,
    posterior: WhitenedPosterior,
    X: FloatArray,
    y: FloatArray,
    noise: float,
    alpha: float,
    slopes: Slopes,
) -> float:
    """Return the largest change, by rounding of K_ZZ, of a number of the posterior between FITC and VFE.

    The derivative in K_ZZ is -L^-T Y L^-1 / 2, as in `SparseGPObjective`. Y = F (I - S - b b') - 2 C - 2 P + u b' + b
    u' - 2 alpha E. Here P = S (F V Lambda^-1 V'/2 - C) S, C = V diag(gv) V', u = S (V gm + F b) and E = V diag(d/d
    Lambda) V'.
    """
    b, F, M = posterior.mean, slopes.d_kl, len(posterior.mean)
    S = posterior.inverse_factor.T @ posterior.inverse_factor
    C, gram, V_d_mean = WeightedGram(M), WeightedGram(M), np.zeros(M)
    for rows, V, spare in _whitened_blocks(inducing, X):
        if slopes.d_kl == 0.0:
            C.add(V, slopes.d_variance[rows])
        else:
            gram.add(V, 1.0 / (noise + alpha * spare))
        V_d_mean += V @ slopes.d_mean[rows]
    P = S @ (0.5 * F * gram.total() - C.total()) @ S
    u = S @ (V_d_mean + F * b)
    Y = F * (np.eye(M) - S - np.outer(b, b)) - 2.0 * C.total() - P - P.T + np.outer(u, b) + np.outer(b, u)
    if alpha > 0.0:
        E = WeightedGram(M)
        for rows, V, spare in _whitened_blocks(inducing, X):
            slope = (u @ V) * (b @ V - y[rows]) - np.einsum("ij,ij->j", V, P @ V)
            E.add(V, slope / (noise + alpha * spare) ** 2)
        Y -= 2.0 * alpha * E.total()
    G = 0.5 * inducing.variance * np.abs(inducing.unwhitened_matrix(Y)).sum()
    G *= 1.0 + inducing.whitening_error  # the derivative is also taken at a rounded factor
    # sigma_f^2 - |V_i|^2 is also a difference, added to the noise
    return inducing.entry_error * float(G + slopes.size * (1.0 + alpha * inducing.variance / noise))


def free_form_slack(
    inducing: InducingKernel, mean: FloatArray, factor: FloatArray, X: FloatArray, slopes: Slopes
) -> float:
    """Return the largest change, by rounding of K_ZZ, of a risk of the whitened posterior N(m, T T').

    The KL does not depend on K_ZZ. The risk's derivative in K_ZZ is L^-T (Phi + Phi') L^-1 / 2, as in
    `FreeFormObjective`.
    """
    M = len(mean)
    C, V_d_mean = WeightedGram(M), np.zeros(M)
    for rows, V, _ in _whitened_blocks(inducing, X):
        C.add(V, slopes.d_variance[rows])
        V_d_mean += V @ slopes.d_mean[rows]
    phi = -np.tril(np.outer(mean, V_d_mean) + 2.0 * ((factor @ factor.T - np.eye(M)) @ C.total()))
    phi[np.diag_indices_from(phi)] *= 0.5
    G = 0.5 * inducing.variance * np.abs(inducing.unwhitened_matrix(phi + phi.T)).sum()
    return inducing.entry_error * float(G + slopes.size)


def _whitened_blocks(inducing: InducingKernel, X: FloatArray) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Yield the rows of every block, V [M, rows] and sigma_f^2 - |V_i|^2 [rows]."""
    for rows in blocks(len(X)):
        V = np.empty((len(inducing.scaled), rows.stop - rows.start))
        inducing.whitened(inducing.features(X[rows]), V)
        yield rows, V, np.maximum(inducing.variance - squared_norms(V), 0.0)
