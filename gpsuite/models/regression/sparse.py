"""Sparse Gaussian process regression with inducing inputs: VFE (SGPR) and FITC.

Equation: Titsias 2009, Eq. (9)
Equation: Snelson & Ghahramani 2006, Eq. (9)
"""

from __future__ import annotations

import gpflow
import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.kernels import build_kernel
from gpsuite.models.regression.exact import build_likelihood, regression_data


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
