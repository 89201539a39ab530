"""How an unconstrained or boxed search variable u maps to the logarithm of a positive hyperparameter.

Equation: none, changes of variables
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit

from gpsuite.arrays import FloatArray
from gpsuite.registry import Registry

# Smallest value that the search may give a hyperparameter without a box (the noise variance).
_FLOOR = 1e-6


class Parametrisation(Protocol):
    """A smooth increasing map from u to the natural logarithm of a positive value."""

    def to_log(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the logarithm of the value and its derivative in u."""

    def from_log(self, theta: FloatArray) -> FloatArray:
        """Return the u of a value above 1e-6, given by its logarithm."""

    def lowest(self) -> float:
        """Return the lower limit of u for a value without a box; -inf if the map itself keeps the value positive."""


PARAMETRISATIONS: Registry[Parametrisation] = Registry("parametrisation")


@dataclass(frozen=True)
class Softplus:
    """value = ln(1 + exp(u)) + 1e-6, as in the authors' code (GPflow's positive transform)."""

    def to_log(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ln(softplus(u) + 1e-6) and its derivative."""
        value = np.logaddexp(0.0, u) + _FLOOR
        return np.log(value), np.asarray(expit(u) / value, dtype=np.float64)

    def from_log(self, theta: FloatArray) -> FloatArray:
        """Return u with softplus(u) = value - 1e-6."""
        value = np.exp(theta) - _FLOOR
        return np.asarray(value + np.log(-np.expm1(-value)), dtype=np.float64)

    def lowest(self) -> float:
        """Return -inf: any u is a value above 1e-6."""
        return -math.inf


@dataclass(frozen=True)
class Log:
    """value = exp(u)."""

    def to_log(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return u and ones."""
        return u, np.ones_like(u)

    def from_log(self, theta: FloatArray) -> FloatArray:
        """Return theta."""
        return theta

    def lowest(self) -> float:
        """Return ln 1e-6."""
        return math.log(_FLOOR)


PARAMETRISATIONS.register("softplus")(Softplus())
PARAMETRISATIONS.register("log")(Log())
