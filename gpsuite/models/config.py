"""Settings of a model, as plain data. No TensorFlow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.errors import UserError, unknown_name

KERNEL_NAMES = ("squared_exponential", "matern32", "matern52")


@dataclass
class ModelSpec:
    """Structure of a Gaussian process with zero mean and Gaussian noise. Usable with `OmegaConf.structured`.

    Attributes:
        kernel: squared_exponential, matern32 or matern52.
        ard: one lengthscale per input (automatic relevance determination) instead of one for all.
        noise_floor: exclusive lower bound of the noise variance, in squared units of Y (default: GPflow's).

    Raises:
        UserError: if the kernel is unknown or the floor is not a non-negative number.
    """

    # Not frozen: OmegaConf makes a frozen dataclass read-only, and no override could be merged into it.
    kernel: str = "squared_exponential"
    ard: bool = False
    noise_floor: float = 1e-6

    def __post_init__(self) -> None:
        if self.kernel not in KERNEL_NAMES:
            raise unknown_name("model.kernel", self.kernel, KERNEL_NAMES)
        if not (math.isfinite(self.noise_floor) and self.noise_floor >= 0.0):
            fault = f"model.noise_floor={self.noise_floor}: must be a number >= 0"
            raise UserError(fault, key="model.noise_floor")


@dataclass(frozen=True)
class Hyperparameters:
    """Values of a model's hyperparameters, all positive.

    Attributes:
        variance: kernel (signal) variance, in squared units of Y.
        lengthscales: one for all inputs, or one per input. In units of X.
        noise_variance: variance of the Gaussian observation noise, in squared units of Y.

    Raises:
        ValueError: if a value is not positive and finite, or there is no lengthscale.
    """

    variance: float = 1.0
    lengthscales: tuple[float, ...] = (1.0,)
    noise_variance: float = 1.0

    def __post_init__(self) -> None:
        if not self.lengthscales:
            raise ValueError("lengthscales: at least one is needed")
        for name, value in (
            ("variance", self.variance),
            ("noise_variance", self.noise_variance),
            *((f"lengthscales[{i}]", value) for i, value in enumerate(self.lengthscales)),
        ):
            if not (math.isfinite(value) and value > 0.0):
                raise ValueError(f"{name}={value}: must be positive and finite")

    @property
    def n_kernel(self) -> int:
        return 1 + len(self.lengthscales)

    def to_log(self) -> FloatArray:
        """Return the natural logarithms of (variance, lengthscales..., noise variance), [T + 1]."""
        return np.log(np.array([self.variance, *self.lengthscales, self.noise_variance], dtype=np.float64))

    @classmethod
    def from_log(cls, theta: FloatArray) -> Hyperparameters:
        """Build from the natural logarithms of (variance, lengthscales..., noise variance), [T + 1]."""
        values = [float(value) for value in np.exp(theta)]
        return cls(values[0], tuple(values[1:-1]), values[-1])

    def to_dict(self) -> dict[str, Any]:
        return {
            "variance": self.variance,
            "lengthscales": list(self.lengthscales),
            "noise_variance": self.noise_variance,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Hyperparameters:
        """Build from what `to_dict` returns.

        Raises:
            KeyError: if a value is missing.
            ValueError: if a value is not a positive number.
        """
        return cls(
            variance=float(values["variance"]),
            lengthscales=tuple(float(value) for value in values["lengthscales"]),
            noise_variance=float(values["noise_variance"]),
        )
