"""The latent function that a certificate stores, over the free inputs, and the range of its covariance operator.

mu(x) = s sum_i alpha_i kappa_i(x) and Sigma(x) = max(0, s (1 - kappa(x)' R kappa(x))), R = -s sum_k c_k F_k F_k'. In
features, Sigma/s = <phi, G phi>, G = I + sum_k c_k z_k z_k*, where z_k = sqrt(s) sum_i F_ki phi(X_i).

Equation: derived, operator form of a posterior
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dtrmm
from scipy.spatial.distance import cdist

from gpsuite.arrays import FloatArray
from gpsuite.certificates.plain_kernel import CURVATURE, UNIT64, Long, gram, kappa

EXTENDED = 400
FELT = 1e-7  # from this rounding of latent moments (relative to the mean's norm) on, extended precision is used
EXTENDED_SHARE = 4.0 * float(np.finfo(Long).eps) / UNIT64  # share of the rounding of double precision
RANGE = 1e-11  # tolerance of the operator's largest eigenvalue, beyond rounding


@dataclass(frozen=True)
class PlainLatent:
    """A stored latent function.

    Attributes:
        X: [N, D] inputs.
        kernel: "squared_exponential", "matern32" or "matern52".
        variance: s.
        lengthscales: [D].
        alpha: [N].
        root: [r, N] F.
        weights: [r] c.
    """

    X: FloatArray
    kernel: str
    variance: float
    lengthscales: FloatArray
    alpha: FloatArray
    root: FloatArray
    weights: FloatArray


@dataclass(frozen=True)
class PlainModel(PlainLatent):
    """The stored classifier.

    Attributes:
        link: "probit" (with `squeeze`, the probability is squeeze + (1 - 2 squeeze) Phi(t)) or "logistic".
        squeeze: 0 for the plain probit.
    """

    link: str
    squeeze: float = 0.0


@dataclass(frozen=True)
class PlainSlice:
    """A stored function over d free inputs, with the others at a point. In units of s.

    Attributes:
        kernel: name of the kernel.
        points: data of the free inputs, [N, d].
        scale: lengthscales of the free inputs, [d].
        fixed: squared distance of the data over the other inputs, [N]. Zero if it is folded.
        fold: factor of each datum's kernel, [N]. One where nothing is folded.
        alpha: mean weights without the fold, [N].
        reduction: R, [N, N].
        below: nu with G >= -nu.
        above: g >= G.
        norm2: upper bound of |h|^2, h = sum_i alpha_i phi(X_i).
        slack_mean: rounding of sums over the data with factors of at most 1, and alpha.
        slack_gram: rounding of products of two such vectors with R between them.
    """

    kernel: str
    points: FloatArray
    scale: FloatArray
    fixed: FloatArray
    fold: FloatArray
    alpha: FloatArray
    reduction: Any
    below: float
    above: float
    norm2: float
    slack_mean: float
    slack_gram: float


@dataclass(frozen=True)
class Known:
    """R, the range of G and an upper bound of |h|^2 over all inputs. See `PlainSlice`.

    Fixing inputs is a projection in features. So a slice has no wider range and no larger norm.
    """

    reduction: Any
    below: float
    above: float
    norm2: float


class Products(Protocol):
    """Terms of the bounds of a stored function that do not depend on the point and its free inputs."""

    @property
    def most_extended(self) -> int:
        """Largest number of data for which extended precision may be requested."""

    def known(self, extended: bool) -> Known:
        """Return the products, in extended precision or not."""


class ModelProducts:
    """The products of one function, computed once.

    Args:
        model: the stored function.
        given: products in double precision from elsewhere. Only for proposed bounds, not for a check.
    """

    most_extended = EXTENDED

    def __init__(self, model: PlainLatent, given: Known | None = None) -> None:
        self.model, self.given = model, given
        n, inputs = model.X.shape
        unit = np.full(n, n + 4.0 * inputs + 64.0)
        with np.errstate(all="ignore"):  # overflow gives inf or NaN, which `plain_slice` refuses
            self.slack_mean = float(UNIT64 * (np.abs(model.alpha) @ unit))
            self.slack_root = product_slack(model, np.ones(n), unit, np.ones(len(model.weights)))
        self._made: dict[bool, Known] = {}

    def known(self, extended: bool) -> Known:
        if extended not in self._made:
            self._made[extended] = self._make(extended)
        return self._made[extended]

    def _make(self, extended: bool) -> Known:
        model, rank, given = self.model, len(self.model.weights), self.given
        shrunk = EXTENDED_SHARE if extended else 1.0
        slack = 4 * shrunk * self.slack_mean * float(np.sum(np.abs(model.alpha)))
        rounding = 4 * shrunk * self.slack_root
        if given is not None and not extended:
            least = operator_range(model.weights, least_eigenvalue(rank, rounding))
            if given.below <= least[0]:
                above = max(given.above, least[1])
                return replace(given, below=least[0], above=above, norm2=given.norm2 + slack)
        work = Long if extended else np.float64
        root, alpha = model.root.astype(work), model.alpha.astype(work)
        if extended:
            prior = gram(model.X.astype(Long), model.lengthscales.astype(Long), model.kernel)
        else:
            # from differences of stored floats: the error does not depend on the distance from the origin
            prior = kappa(model.kernel, cdist(model.X, model.X, "seuclidean", V=model.lengthscales**2))
        norm2 = max(0.0, float(alpha @ prior @ alpha)) + slack
        reduction = reduction_of(model, root)
        products = np.asarray(model.variance * congruence(root, prior), dtype=np.float64)
        return Known(reduction, *operator_range(model.weights, largest_eigenvalue(products, rounding)), norm2)


def plain_slice(
    model: PlainLatent, centre: FloatArray, free: npt.NDArray[np.int64], products: Products | None = None
) -> PlainSlice:
    """Return a stored function restricted to the free inputs.

    Products over the data are in double precision. Their rounding is bounded and added like all others. If it would
    matter, the products of up to `EXTENDED` data use extended precision.

    Args:
        model: the stored function.
        centre: [D] the point. Inputs that are not free are fixed there.
        free: [d] indices of the free inputs.
        products: the model's products, or None.

    Raises:
        ValueError: if this bound does not know the kernel, or its numbers are too large.
    """
    if model.kernel not in CURVATURE:
        raise ValueError(f"no plain bound for kernel {model.kernel}")
    products = products or ModelProducts(model)
    n, inputs = model.X.shape
    folds = model.kernel == "squared_exponential"  # this kernel factors
    fixed, fold = _fixed(model, centre, free, folds, np.float64)
    # a squared distance has relative error (D + 8) u, a kernel at most 0.77 of that, a fold half its exponent
    unit = (n + 4 * inputs + 64 + (0.5 * (inputs + 8) * fixed if folds else 0)) * fold
    with np.errstate(all="ignore"):  # overflow gives inf or NaN, which are refused
        slack_mean = float(UNIT64 * (np.abs(model.alpha) @ unit))
        slack_gram = product_slack(model, fold, unit, np.abs(model.weights))
        extended = n <= products.most_extended and model.variance * max(slack_mean, slack_gram) > FELT
        if extended:
            fixed, fold = _fixed(model, centre, free, folds, Long)
            slack_mean, slack_gram = EXTENDED_SHARE * slack_mean, EXTENDED_SHARE * slack_gram
        known = products.known(extended)
    if not np.all(np.isfinite([known.below, known.above, known.norm2, slack_mean, slack_gram])):
        raise ValueError("the model's numbers are too large")
    return PlainSlice(
        kernel=model.kernel,
        points=model.X[:, free],
        scale=model.lengthscales[free],
        fixed=np.zeros_like(fixed) if folds else fixed,
        fold=fold,
        alpha=model.alpha,
        reduction=known.reduction,
        below=known.below,
        above=known.above,
        norm2=known.norm2,
        slack_mean=slack_mean,
        slack_gram=slack_gram,
    )


def _fixed(
    model: PlainLatent, centre: FloatArray, free: npt.NDArray[np.int64], folds: bool, work: Any
) -> tuple[Any, Any]:
    """Return the squared distances of the data over the inputs that are not free, and their folds, [N] each."""
    held = np.delete(np.arange(model.X.shape[1]), free)
    moved = (model.X[:, held].astype(work) - centre[held]) / model.lengthscales[held].astype(work)
    fixed = np.sum(moved**2, axis=1)
    return fixed, np.exp(-fixed / 2) if folds else np.ones_like(fixed)


def product_slack(model: PlainLatent, fold: FloatArray, unit: FloatArray, weights: FloatArray) -> float:
    """Bound the rounding of V'RV for columns |V_i| <= fold_i with errors unit_i u: of V, of R and of the products."""
    size = np.abs(model.root)
    rows, terms = size @ fold, 2.0 * (sum(model.root.shape) + 16)
    slack = UNIT64 * model.variance * float((weights * rows) @ (2 * (size @ unit) + terms * rows))
    return slack * (1 + slack)


def reduction_of(model: PlainLatent, root: Any) -> Any:
    """Return R = -s sum_k c_k F_k F_k' [N, N], in the precision of `root`, F."""
    half = root * np.sqrt(model.variance * np.abs(model.weights).astype(root.dtype))[:, None]
    down, up = half[model.weights < 0], half[model.weights > 0]
    return down.T @ down - up.T @ up


def congruence(root: Any, prior: Any) -> Any:
    """Return F K F' [r, r] for F [r, N] and symmetric K [N, N]. A triangular F (Laplace, EP) takes half the time."""
    if root.dtype == Long or root.shape[0] != root.shape[1] or np.any(np.triu(root, 1)):
        return root @ (prior @ root.T)
    # F in rows is F' in columns, so BLAS needs no copy
    left = dtrmm(1.0, root.T, prior.T, trans_a=1, overwrite_b=1)
    return dtrmm(1.0, root.T, left, side=1, overwrite_b=1)


def least_eigenvalue(rank: int, rounding: float) -> float:
    """Return the result of `largest_eigenvalue` for a largest eigenvalue of at most 1, as in exact arithmetic."""
    return 1.0 + RANGE + rounding + 4 * UNIT64 * rank * (rank + 16)


def largest_eigenvalue(M: FloatArray, rounding: float) -> float:
    """Return an upper bound of the largest eigenvalue of a positive semidefinite matrix [r, r].

    If a Cholesky factor of L I - M exists, it shows that M <= L up to its rounding. Otherwise an eigenvalue is
    computed.

    Args:
        M: computed matrix.
        rounding: bound of the spectral norm of its error.

    Raises:
        ValueError: if M is not finite.
    """
    if not np.all(np.isfinite(M)):
        raise ValueError("the model's numbers are too large")
    rank = len(M)
    M = (M + M.T) / 2
    try:
        np.linalg.cholesky((1.0 + RANGE) * np.eye(rank) - M)
    except np.linalg.LinAlgError:
        found = float(np.linalg.eigvalsh(M)[-1]) if rank else 0.0
        return max(1.0, found) * (1 + 64 * UNIT64 * (rank + 1)) + RANGE + rounding
    return least_eigenvalue(rank, rounding)


def operator_range(weights: FloatArray, largest: float) -> tuple[float, float]:
    """Return (nu, g) with -nu <= G <= g, from an upper bound of the largest eigenvalue of the z_k's Gram matrix.

    Let Lambda be this bound. For unit e, sum_k <z_k, e>^2 <= Lambda. So G >= 1 - max(-c)_+ Lambda and G <= 1 + max(c)_+
    Lambda.
    """
    down, up = float(np.max(-weights, initial=0.0)), float(np.max(weights, initial=0.0))
    return max(0.0, down * largest - 1.0) + 4 * UNIT64, 1.0 + up * largest + 4 * UNIT64
