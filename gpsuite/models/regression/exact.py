"""Exact Gaussian process regression."""

from __future__ import annotations

import gpflow
import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.kernels import build_kernel


def build_gpr(
    X: FloatArray, Y: FloatArray, spec: ModelSpec, hyperparameters: Hyperparameters
) -> gpflow.models.GPR:
    """Build exact GP regression with zero mean; Rasmussen & Williams 2006, Eqs. (2.25), (2.26), (2.30).

    Args:
        X: inputs, shape [N, D].
        Y: targets, shape [N] or [N, P]; P outputs share the hyperparameters.
        spec: kernel, ARD and noise floor.
        hyperparameters: values, also the start of training.

    Raises:
        ValueError: if shapes do not fit, data are not finite, or the noise is not above `spec.noise_floor`.
    """
    X, Y = regression_data(X, Y)
    return gpflow.models.GPR(
        (X, Y),
        build_kernel(spec, hyperparameters, X.shape[1]),
        likelihood=build_likelihood(spec, hyperparameters),
    )


def build_likelihood(spec: ModelSpec, hyperparameters: Hyperparameters) -> gpflow.likelihoods.Gaussian:
    """Build the Gaussian likelihood.

    Raises:
        ValueError: if the noise variance is not above `spec.noise_floor`.
    """
    if not hyperparameters.noise_variance > spec.noise_floor:
        raise ValueError(
            f"noise_variance={hyperparameters.noise_variance:g} must be above "
            f"noise_floor={spec.noise_floor:g}"
        )
    return gpflow.likelihoods.Gaussian(hyperparameters.noise_variance, variance_lower_bound=spec.noise_floor)


def regression_data(X: FloatArray, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return inputs [N, D] and targets [N, P] as checked float64 arrays; targets of shape [N] become [N, 1].

    Raises:
        ValueError: if shapes do not fit, there are no rows, or a value is not finite.
    """
    X = np.asarray(X, dtype=np.float64)
    Y = np.asarray(Y, dtype=np.float64)
    Y = Y[:, None] if Y.ndim == 1 else Y
    if X.ndim != 2 or Y.ndim != 2 or X.shape[0] != Y.shape[0] or 0 in (*X.shape, *Y.shape):
        raise ValueError(f"inputs [N, D] and targets [N] or [N, P] are needed, got {X.shape} and {Y.shape}")
    for name, values in (("X", X), ("Y", Y)):
        if not np.isfinite(values).all():
            raise ValueError(f"{name} has {np.count_nonzero(~np.isfinite(values))} non-finite values")
    return X, Y
