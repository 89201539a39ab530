"""The grid of kernel hyperparameters that the union bound pays for.

Equation: Reeb et al. 2018, Sec. 3.1
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray
from gpsuite.models.config import Hyperparameters

# How far a logarithm may lie from its grid point and still count as rounded (exp and log cost a few ulps).
_ON_GRID = 1e-9


@dataclass(frozen=True)
class HyperparameterGrid:
    """The finite set Theta of each kernel hyperparameter: natural logarithms with fixed decimals in a symmetric range.

    Sec. 3.1 of Reeb et al. 2018: two decimals in [-6, 6], 1201 values per hyperparameter.

    Attributes:
        decimals: decimals of the natural logarithm, 0 or more.
        half_width: largest absolute logarithm, 1 or more.

    Raises:
        ValueError: if decimals or half_width is no whole number or out of range.
    """

    decimals: int = 2
    half_width: int = 6

    def __post_init__(self) -> None:
        whole = all(isinstance(each, int | np.integer) for each in (self.decimals, self.half_width))
        if not whole or self.decimals < 0 or self.half_width < 1:
            raise ValueError(
                f"need whole numbers decimals >= 0 and half_width >= 1, got {self.decimals}, {self.half_width}"
            )

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

    def rounded(self, hyperparameters: Hyperparameters) -> Hyperparameters:
        """Return these with variance and lengthscales rounded to the grid; the noise variance stays."""
        kernel = [
            float(value) for value in self.round([hyperparameters.variance, *hyperparameters.lengthscales])
        ]
        return Hyperparameters(kernel[0], tuple(kernel[1:]), hyperparameters.noise_variance)

    def holds(self, hyperparameters: Hyperparameters) -> bool:
        """Return whether variance and lengthscales lie on the grid."""
        return self.contains([hyperparameters.variance, *hyperparameters.lengthscales])


PAPER_GRID = HyperparameterGrid()
