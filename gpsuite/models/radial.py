"""Stationary kernels as numpy functions of the scaled squared distance: the fast path next to GPflow's kernels.

k(x, x') = s kappa(r), r^2 = q = sum_j (x_j - x'_j)^2 / l_j^2, equal to the kernels of `gpsuite.models.kernels`.
No TensorFlow.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial.distance import cdist

from gpsuite.arrays import FloatArray
from gpsuite.errors import unknown_name
from gpsuite.models.config import KERNEL_NAMES

# Up to this number of inputs direct differences are as fast as a matrix product, and lose no digits.
_FEW_INPUTS = 8
# Beyond this size of scaled inputs |a|^2 + |b|^2 - 2 a'b has too few digits, 2e-8. Then differences are taken.
FAR = 1e4
# From this squared distance on exp(-sqrt(3 q)) is 0: an infinite q would make infinity times 0.
_VANISHED = 1e6


def is_far(*scaled: FloatArray) -> bool:
    """Return whether an entry of scaled inputs, centred or not, is so large that squares must not be subtracted."""
    return any(each.size > 0 and bool(np.abs(each).max() > FAR) for each in scaled)


def squared_distances(A: FloatArray, B: FloatArray) -> FloatArray:
    """Return |a_i - b_k|^2, shape [I, K], for scaled inputs A [I, D] and B [K, D].

    For many inputs they are computed by |a|^2 + |b|^2 - 2 a'b, with error about 1e-16 (|a|^2 + |b|^2): centre the
    inputs first. If an entry is beyond `FAR`, they are computed by differences.
    """
    if A.shape[1] <= _FEW_INPUTS or is_far(A, B):
        return np.asarray(cdist(A, B, "sqeuclidean"))
    q = A @ B.T
    q *= -2.0
    q += np.einsum("ij,ij->i", A, A)[:, None]
    q += np.einsum("ij,ij->i", B, B)
    np.maximum(q, 0.0, out=q)
    if A is B:
        np.fill_diagonal(q, 0.0)
    return q


def kappa(kernel: str, q: FloatArray) -> FloatArray:
    """Return the kernel at scaled squared distance q, in units of its variance."""
    return kappa_and_slope(kernel, q)[0]


def kappa_and_slope(kernel: str, q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return kappa(q) and -2 dkappa/dq, so that dk/dx_j = -s slope (x_j - x'_j) / l_j^2."""
    match kernel:
        case "squared_exponential":
            value = np.multiply(q, -0.5)
            np.exp(value, out=value)
            return value, value
        case "matern32":
            z = np.sqrt(3.0 * np.minimum(q, _VANISHED))
            decay = np.exp(-z)
            return (1.0 + z) * decay, 3.0 * decay
        case "matern52":
            z = np.sqrt(5.0 * np.minimum(q, _VANISHED))
            decay = np.exp(-z)
            return (1.0 + z + z * z / 3.0) * decay, (5.0 / 3.0) * (1.0 + z) * decay
    raise unknown_name("kernel", kernel, KERNEL_NAMES)


def expanded(lengthscales: tuple[float, ...] | FloatArray, input_dim: int) -> FloatArray:
    """Return one lengthscale per input, shape [D].

    Raises:
        ValueError: if not one or D are given, or one is not positive and finite.
    """
    given = np.asarray(lengthscales, dtype=np.float64).ravel()
    if given.size not in (1, input_dim):
        raise ValueError(f"{given.size} lengthscales given for D={input_dim} inputs; allowed: 1 or {input_dim}")
    if not all(math.isfinite(value) and value > 0.0 for value in given):
        raise ValueError("lengthscales must be positive and finite")
    return np.array(np.broadcast_to(given, (input_dim,)))
