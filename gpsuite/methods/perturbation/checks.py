"""Refusals of bad input, shared by the objectives, groups and regions.

Equation: none, refusals of bad input
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray

_SYMMETRY = 1e-9


def finite(name: str, values: npt.ArrayLike, ndim: int) -> FloatArray:
    """Return values as a float64 array of `ndim` dimensions, of its own.

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
            two equal rows: inputs the kernel cannot tell apart violate assumption A1.
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
    """Refuse equal rows.

    Raises:
        ValueError: naming the first two equal rows (0-based).
    """
    _, first, inverse = np.unique(values, axis=0, return_index=True, return_inverse=True)
    twin = first[np.ravel(inverse)]
    repeated = np.flatnonzero(twin != np.arange(len(values)))
    if len(repeated):
        i = int(repeated[0])
        raise ValueError(
            f"{what} {int(twin[i])} and {i} (0-based) are equal: the inputs of a kernel model must be distinct "
            "(assumption A1); average or drop repeated measurements"
        )


def full_column_rank(name: str, design: FloatArray) -> None:
    """Refuse a design [n, p] whose columns are linearly dependent.

    Raises:
        ValueError: stating rank and number of columns, and the first that depends on those before it.
    """
    rank = int(np.linalg.matrix_rank(design))
    if rank < design.shape[1]:
        ranks = (int(np.linalg.matrix_rank(design[:, : j + 1])) for j in range(design.shape[1]))
        dependent = next((j for j, reached in enumerate(ranks) if reached <= j), rank)
        raise ValueError(
            f"{name} is rank-deficient: rank {rank} for {design.shape[1]} coefficients from {len(design)} data; "
            f"column {dependent} (0-based) depends on those before it: drop dependent columns (a constant column "
            "beside a bias is one)"
        )


def positive(name: str, value: float) -> float:
    """Return a positive finite number.

    Raises:
        ValueError: otherwise.
    """
    if not (np.isfinite(value) and value > 0.0):
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return float(value)


def enough_rows(n: int) -> None:
    """Refuse a single observation.

    Raises:
        ValueError: if n < 2.
    """
    if n < 2:
        raise ValueError(f"a confidence region needs at least 2 observations, got n={n}")


def class_labels(y: FloatArray) -> None:
    """Refuse labels other than -1 and +1.

    Raises:
        ValueError: naming the first other value.
    """
    other = y[np.abs(y) != 1.0]
    if len(other):
        raise ValueError(f"class labels of an LS-SVM must be -1 or +1, got {other[0]}")


def valid_level(q: int, m: int) -> None:
    """Refuse a confidence level that is not 1 - q/m with 0 < q < m.

    Raises:
        ValueError: if q and m are not integers with 0 < q < m.
    """
    for name, value in (("q", q), ("m", m)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise ValueError(f"{name} must be an integer, got {value!r}")
    if not 0 < q < m:
        raise ValueError(f"the confidence 1 - q/m needs 0 < q < m, got q={q}, m={m}")
