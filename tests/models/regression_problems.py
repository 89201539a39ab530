"""Small regression problems and closed forms shared by the model layer's tests."""

from __future__ import annotations

import numpy as np

from gpsuite.models.config import Hyperparameters
from tests.arrays import Array

START = Hyperparameters(variance=1.3, lengthscales=(0.7,), noise_variance=0.2)


def make_problem(seed: int, count: int = 25) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(count, 2))
    Y = np.sin(2.0 * X[:, :1]) + 0.3 * X[:, 1:] + 0.1 * rng.normal(size=(count, 1))
    return X, Y


def closed_form_kernel(name: str, X: Array, X2: Array, values: Hyperparameters) -> Array:
    """Rasmussen & Williams 2006, Eqs. (4.9) and (4.17), by explicit differences."""
    scaled = (X[:, None, :] - X2[None, :, :]) / np.array(values.lengthscales)
    r = np.sqrt(np.sum(scaled**2, axis=-1))
    shape = {
        "squared_exponential": np.exp(-0.5 * r**2),
        "matern32": (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
        "matern52": (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r),
    }
    return values.variance * shape[name]
