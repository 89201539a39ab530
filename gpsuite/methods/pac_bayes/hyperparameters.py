"""Hyperparameters of a GP with squared-exponential kernel, and the grid that the union bound pays for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

# How far a logarithm may lie from its grid point and still count as rounded (exp and log cost a few ulps).
_ON_GRID = 1e-9


@dataclass(frozen=True)
class HyperparameterGrid:
    """The finite set Theta of each kernel hyperparameter: natural logarithms with fixed decimals in a symmetric range.

    Sec. 3.2 of Reeb et al. 2018: two decimals in [-6, 6], 1201 values per hyperparameter.

    Attributes:
        decimals: decimals of the natural logarithm.
        half_width: largest absolute logarithm.
    """

    decimals: int = 2
    half_width: int = 6

    @property
    def size(self) -> int:
        """Number of values per hyperparameter."""
        return int(2 * self.half_width * 10**self.decimals) + 1

    def log_size(self, n_hyperparameters: int) -> float:
        """Return ln|Theta| = T ln(size) in nats for T hyperparameters."""
        return n_hyperparameters * math.log(self.size)

    def round(self, values: npt.ArrayLike) -> FloatArray:
        """Return the nearest grid value in the logarithm, clipped to the range.

        Raises:
            ValueError: if a value is not positive (zero, negative, NaN).
        """
        array = np.asarray(values, dtype=np.float64)
        if not np.all(array > 0.0):
            raise ValueError(f"hyperparameters must be positive, got {values!r}")
        logs = np.clip(np.round(np.log(array), self.decimals), -self.half_width, self.half_width)
        return np.asarray(np.exp(logs), dtype=np.float64)

    def contains(self, values: npt.ArrayLike) -> bool:
        """Return whether every value is a grid value, up to rounding errors of exp and log."""
        array = np.asarray(values, dtype=np.float64)
        return bool(np.all(np.abs(np.log(array) - np.log(self.round(array))) <= _ON_GRID))


PAPER_GRID = HyperparameterGrid()


def round_to_grid(values: npt.ArrayLike) -> FloatArray:
    """Return `values` with natural logarithms rounded to two decimals in [-6, 6] (see `HyperparameterGrid`)."""
    return PAPER_GRID.round(values)


@dataclass(frozen=True)
class Hyperparameters:
    """Signal variance, lengthscales and noise variance of a GP with squared-exponential kernel.

    Attributes:
        variance: signal variance sigma_f^2, in squared units of y.
        lengthscales: one per input (ARD), or a single one for all inputs; in units of the inputs.
        noise_variance: sigma^2, in squared units of y; no penalty is paid for it.

    Raises:
        ValueError: if any is not a positive finite number or there is no lengthscale.
    """

    variance: float
    lengthscales: tuple[float, ...]
    noise_variance: float

    def __post_init__(self) -> None:
        values = (self.variance, *self.lengthscales, self.noise_variance)
        if not self.lengthscales or not all(math.isfinite(v) and v > 0.0 for v in values):
            raise ValueError(f"hyperparameters must be positive finite numbers, got {self}")

    @property
    def n_penalised(self) -> int:
        """T, the number of kernel hyperparameters that ln|Theta| counts."""
        return 1 + len(self.lengthscales)

    def to_log(self) -> FloatArray:
        """Return the natural logarithms of (variance, lengthscales..., noise variance)."""
        return np.log(np.array([self.variance, *self.lengthscales, self.noise_variance], dtype=np.float64))

    @classmethod
    def from_log(cls, theta: FloatArray) -> Hyperparameters:
        """Build from the natural logarithms of (variance, lengthscales..., noise variance)."""
        values = [float(v) for v in np.exp(theta)]
        return cls(values[0], tuple(values[1:-1]), values[-1])

    def rounded(self, grid: HyperparameterGrid = PAPER_GRID) -> Hyperparameters:
        """Return these with variance and lengthscales rounded to the grid; the noise variance stays."""
        kernel = grid.round([self.variance, *self.lengthscales])
        return Hyperparameters(float(kernel[0]), tuple(float(v) for v in kernel[1:]), self.noise_variance)

    def on_grid(self, grid: HyperparameterGrid = PAPER_GRID) -> bool:
        """Return whether variance and lengthscales lie on the grid."""
        return grid.contains([self.variance, *self.lengthscales])
