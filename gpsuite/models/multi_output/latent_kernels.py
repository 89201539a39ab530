"""Isotropic kernels of unit variance for many lengthscales at once, with their derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpsuite.arrays import FloatArray

# Elements per batch of kernel values: the few arrays of a batch stay in the cache of one core.
CHUNK = 60_000


def squared_distances(X: FloatArray, X2: FloatArray) -> FloatArray:
    """Return |x - x2|^2 [N, N2] of inputs [N, D] and [N2, D], exactly zero for equal rows."""
    total = np.zeros((len(X), len(X2)))
    for column in range(X.shape[1]):
        total += (X[:, None, column] - X2[None, :, column]) ** 2
    return total


class LatentKernel:
    """A kernel of unit variance at given distances, as a function of the lengthscale.

    Attributes:
        r2: squared distances, any shape.
        r: distances.
    """

    def __init__(self, name: str, r2: FloatArray) -> None:
        """Take the kernel's name, one of `LATENT_KERNELS`, and the squared distances."""
        self.r2 = r2
        self.r = np.sqrt(r2)
        self._fill = LATENT_KERNELS[name]

    def fill(self, lengthscale: FloatArray, value: FloatArray, slope: FloatArray, work: FloatArray) -> None:
        """Compute k and l dk/dl into arrays of the shape to which r and the lengthscale broadcast.

        Args:
            lengthscale: broadcasts with r.
            value: receives k.
            slope: receives l dk/dl.
            work: overwritten.
        """
        self._fill(self, lengthscale, value, slope, work)


def _matern52(
    kernel: LatentKernel, lengthscale: FloatArray, value: FloatArray, slope: FloatArray, work: FloatArray
) -> None:
    # k = (1 + a) e + (a^2 / 3) e and l dk/dl = (a^2 / 3) (1 + a) e with a = sqrt(5) r / l, e = exp(-a)
    np.multiply(kernel.r, -math.sqrt(5.0) / lengthscale, out=work)
    np.exp(work, out=value)
    np.multiply(kernel.r2, (5.0 / 3.0) / lengthscale**2, out=slope)
    np.subtract(1.0, work, out=work)
    work *= value
    value *= slope
    value += work
    slope *= work


def _squared_exponential(
    kernel: LatentKernel, lengthscale: FloatArray, value: FloatArray, slope: FloatArray, work: FloatArray
) -> None:
    # k = exp(-b / 2) and l dk/dl = b k with b = r^2 / l^2
    np.multiply(kernel.r2, lengthscale**-2.0, out=slope)
    np.multiply(slope, -0.5, out=work)
    np.exp(work, out=value)
    slope *= value


LATENT_KERNELS: dict[str, Callable[[LatentKernel, FloatArray, FloatArray, FloatArray, FloatArray], None]] = {
    "matern52": _matern52,
    "squared_exponential": _squared_exponential,
}
