"""Interface of the objectives, and checks of input for objectives, groups and regions.

Equation: Csáji & Kis 2019, Perturbed Gradients
Equation: derived, objectives and gradients
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from gpsuite.arrays import FloatArray

_SYMMETRY = 1e-9
# Weightings M: the inverse Hessian, the gradient's norm in the RKHS (K inverse), the identity.
Weighting = Literal["hessian", "rkhs", "identity"]


def finite(name: str, values: npt.ArrayLike, ndim: int) -> FloatArray:
    """Return values as a new float64 array of `ndim` dimensions.

    Raises:
        ValueError: if it has another number of dimensions, is empty, or holds NaN or infinity.
    """
    array = np.array(values, dtype=np.float64)
    if array.ndim != ndim or array.size == 0:
        raise ValueError(f"{name} must be a non-empty array of {ndim} dimensions, got shape {array.shape}")
    if not np.all(np.isfinite(array)):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite: {array[where]} at position {where}")
    return array


def gram_matrix(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return a Gram matrix [n, n] of distinct inputs.

    Raises:
        ValueError: if it is not square, finite and symmetric with a positive diagonal, has fewer than two rows, or
            two equal rows. Inputs that the kernel cannot distinguish violate assumption A1.
    """
    K = finite(name, values, 2)
    enough_rows(len(K))
    if K.shape[0] != K.shape[1] or np.max(np.abs(K - K.T)) > _SYMMETRY * np.max(np.abs(K)):
        raise ValueError(f"{name} must be a symmetric matrix, got shape {K.shape}")
    if np.min(np.diagonal(K)) <= 0.0:
        raise ValueError(f"{name} must have a positive diagonal, smallest entry {np.min(np.diagonal(K))}")
    distinct_rows(K, "rows of " + name)
    return K


def distinct_rows(values: FloatArray, what: str) -> None:
    """Raise ValueError naming the first two equal rows (0-based)."""
    _, first, inverse = np.unique(values, axis=0, return_index=True, return_inverse=True)
    twin = first[np.ravel(inverse)]
    repeated = np.flatnonzero(twin != np.arange(len(values)))
    if len(repeated):
        i = int(repeated[0])
        raise ValueError(
            f"{what} {int(twin[i])} and {i} (0-based) are equal: the inputs of a kernel model must be distinct "
            "(assumption A1). Average or drop repeated measurements"
        )


def full_column_rank(name: str, design: FloatArray) -> None:
    """Raise ValueError on linearly dependent columns of a design [n, p], naming the first."""
    rank = int(np.linalg.matrix_rank(design))
    if rank < design.shape[1]:
        ranks = (int(np.linalg.matrix_rank(design[:, : j + 1])) for j in range(design.shape[1]))
        dependent = next((j for j, reached in enumerate(ranks) if reached <= j), rank)
        raise ValueError(
            f"{name} is rank-deficient: rank {rank} for {design.shape[1]} coefficients from {len(design)} data. "
            f"Column {dependent} (0-based) depends on those before it: drop dependent columns (a constant column "
            "next to a bias is one)"
        )


def positive(name: str, value: float) -> float:
    """Return a positive finite number. Raise ValueError otherwise."""
    if not (np.isfinite(value) and value > 0.0):
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return float(value)


def enough_rows(n: int) -> None:
    """Raise ValueError if n < 2."""
    if n < 2:
        raise ValueError(f"a confidence region needs at least 2 observations, got n={n}")


def class_labels(y: FloatArray) -> None:
    """Raise ValueError naming the first label other than -1 and +1."""
    other = y[np.abs(y) != 1.0]
    if len(other):
        raise ValueError(f"class labels of an LS-SVM must be -1 or +1, got {other[0]}")


def valid_level(q: int, m: int) -> None:
    """Raise ValueError unless q and m are integers with 0 < q < m."""
    for name, value in (("q", q), ("m", m)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise ValueError(f"{name} must be an integer, got {value!r}")
    if not 0 < q < m:
        raise ValueError(f"the confidence 1 - q/m needs 0 < q < m, got q={q}, m={m}")


# Common parts of the objectives: residual gradients and their weighted norms.
#
# With the residuals e = y - Phi alpha, each gradient is g(alpha, e) = U lift(alpha) - V score(e). A weighting M = F'F
# gives the statistic Z = |slope lift(alpha) - pull score(e)|^2 + |rest lift(alpha)|^2. Only the rows of F on which the
# data act are kept in slope and pull. No Gram matrix is inverted.
@dataclass(frozen=True, eq=False)
class Minimiser:
    """A minimiser of the objective.

    Attributes:
        converged: whether the duality gap is below its tolerance. Always true for exact solves.
        gap: duality gap, an upper bound of the distance of `objective` to the minimum, 0 for exact solves.
    """

    alpha: FloatArray
    objective: float
    converged: bool
    gap: float = 0.0


@dataclass(frozen=True, eq=False)
class Form:
    """The weighted gradient's norm Z = |slope a - pull s|^2 + |rest a|^2, a = lift(alpha), s = score(e).

    slope is [r, p] and pull is [r, n]. rest [k, p] is a part that no perturbation changes.
    """

    slope: FloatArray
    pull: FloatArray
    rest: FloatArray


class Objective(ABC):
    """A convex objective in coefficients alpha [p], for given data y [n]."""

    weighting: Weighting
    classification: bool = False

    @property
    @abstractmethod
    def design(self) -> FloatArray:
        """Phi [n, p]: the function's values at the data are Phi alpha."""

    @property
    @abstractmethod
    def form(self) -> Form:
        """The weighted gradient's norm as a product with few rows."""

    @abstractmethod
    def value(self, y: FloatArray, alpha: FloatArray) -> float: ...

    @abstractmethod
    def gradient(self, alphas: FloatArray, e: FloatArray) -> FloatArray:
        """Return the gradient [..., p] at alphas [..., p] as a function of residuals e [..., n]."""

    @abstractmethod
    def fit(self, y: FloatArray) -> Minimiser: ...

    def lift(self, alphas: FloatArray) -> FloatArray:
        """Return the quantities in which the gradient is linear: alphas, or their signs."""
        return alphas

    def score(self, e: FloatArray) -> FloatArray:
        """Return the residuals' part of the gradient. It is odd and elementwise: perturbing e also perturbs it so."""
        return e

    def residuals(self, y: FloatArray, alphas: FloatArray) -> FloatArray:
        """Return y - Phi alpha, shape [..., n], for alphas [..., p]."""
        return np.asarray(y - alphas @ self.design.T)

    def check_outputs(self, y: npt.ArrayLike) -> FloatArray:
        """Return y as an array [n].

        Raises:
            ValueError: if it is not finite, not of length n, or not +-1 if the objective needs class labels.
        """
        outputs = finite("y", y, 1)
        if len(outputs) != len(self.design):
            raise ValueError(f"y has {len(outputs)} values for n={len(self.design)} inputs")
        if self.classification:
            class_labels(outputs)
        return outputs

    def refuse_weighting(self, *allowed: Weighting) -> None:
        if self.weighting not in allowed:
            raise ValueError(
                f"weighting={self.weighting!r} is not defined for {type(self).__name__}; valid: {', '.join(allowed)}"
            )


class QuadraticObjective(Objective):
    """An objective with gradient P alpha - T e and constant Hessian H = P + T Phi."""

    @property
    @abstractmethod
    def P(self) -> FloatArray:
        """The regulariser's part of the gradient [p, p]."""

    @property
    @abstractmethod
    def T(self) -> FloatArray:
        """The residuals' part of the gradient [p, n]."""

    @cached_property
    def hessian(self) -> FloatArray:
        return np.asarray(self.P + self.T @ self.design)

    def gradient(self, alphas: FloatArray, e: FloatArray) -> FloatArray:
        return np.asarray(alphas @ self.P.T - e @ self.T.T)

    @abstractmethod
    def solve(self, y: FloatArray) -> FloatArray:
        """Return alpha with P alpha = T (y - Phi alpha)."""

    def fit(self, y: FloatArray) -> Minimiser:
        outputs = self.check_outputs(y)
        alpha = self.solve(outputs)
        return Minimiser(alpha, self.value(outputs, alpha), True)


def spectrum(K: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the eigenvalues [r] of a Gram matrix above rounding and their eigenvectors as rows [r, n].

    Without the others the test is still exact: any weighting gives exact ranks.
    """
    values, vectors = np.linalg.eigh(K)
    kept = values > len(K) * np.finfo(np.float64).eps * values[-1]
    return values[kept], vectors[:, kept].T


def small_form(P: FloatArray, T: FloatArray, metric: FloatArray | None) -> Form:
    """Return the form of P alpha - T e in the inverse of a metric [p, p], or unweighted.

    Raises:
        ValueError: if the metric is not positive definite.
    """
    rest = np.empty((0, len(P)))
    if metric is None:
        return Form(P, T, rest)
    try:
        factor = cholesky(metric, lower=True)
    except LinAlgError as error:
        raise ValueError("the weighting's matrix is not positive definite: coefficients are not identified") from error
    whiten = [np.asarray(solve_triangular(factor, part, lower=True)) for part in (P, T)]
    return Form(whiten[0], whiten[1], rest)
