"""Exact Gaussian process regression.

Equation: Titsias 2009, Eq. (9)
Equation: Snelson & Ghahramani 2006, Eq. (9)
"""

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


# Sparse Gaussian process regression with inducing inputs: VFE (SGPR) and FITC.


def build_sgpr(
    X: FloatArray, Y: FloatArray, Z: FloatArray, spec: ModelSpec, hyperparameters: Hyperparameters
) -> gpflow.models.SGPR:
    """Build variational sparse regression with zero mean; Titsias 2009, Eq. (9).

    Args:
        X: inputs, shape [N, D].
        Y: targets, shape [N] or [N, P].
        Z: inducing inputs, shape [M, D]; trainable.
        spec: kernel, ARD and noise floor.
        hyperparameters: values, also the start of training.

    Raises:
        ValueError: if shapes do not fit, data are not finite, or the noise is not above `spec.noise_floor`.
    """
    return _build(gpflow.models.SGPR, X, Y, Z, spec, hyperparameters)


def build_fitc(
    X: FloatArray, Y: FloatArray, Z: FloatArray, spec: ModelSpec, hyperparameters: Hyperparameters
) -> gpflow.models.GPRFITC:
    """Build FITC sparse regression with zero mean; Snelson & Ghahramani 2006, Eq. (9).

    Arguments and errors as in `build_sgpr`.
    """
    return _build(gpflow.models.GPRFITC, X, Y, Z, spec, hyperparameters)


def _build(
    kind: type[gpflow.models.SGPR] | type[gpflow.models.GPRFITC],
    X: FloatArray,
    Y: FloatArray,
    Z: FloatArray,
    spec: ModelSpec,
    hyperparameters: Hyperparameters,
) -> gpflow.models.SGPR | gpflow.models.GPRFITC:
    X, Y = regression_data(X, Y)
    Z = np.asarray(Z, dtype=np.float64)
    if Z.ndim != 2 or Z.shape[0] == 0 or Z.shape[1] != X.shape[1] or not np.isfinite(Z).all():
        raise ValueError(f"finite inducing inputs [M, {X.shape[1]}] are needed, got shape {Z.shape}")
    return kind(
        (X, Y),
        build_kernel(spec, hyperparameters, X.shape[1]),
        Z,
        likelihood=build_likelihood(spec, hyperparameters),
    )
