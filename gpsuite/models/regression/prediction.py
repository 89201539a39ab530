"""Posterior predictions as numpy arrays."""

from __future__ import annotations

import gpflow
import numpy as np
import tensorflow as tf

from gpsuite.arrays import FloatArray
from gpsuite.models.linalg import NotPositiveDefiniteError
from gpsuite.models.regression.parameters import RegressionModel, hyperparameters_of


def predict(model: RegressionModel, Xnew: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean and variance of the latent function, without observation noise.

    Args:
        model: GPR, SGPR or GPRFITC.
        Xnew: inputs, shape [N, D], in the units of the training inputs.

    Returns:
        Mean [N, P] in units of Y, and variance [N, P] in squared units of Y.

    Raises:
        ValueError: if `Xnew` does not have the model's D columns or is not finite.
        NotPositiveDefiniteError: if the model's covariance cannot be factorised.
        ArithmeticError: if the prediction is not finite for another reason.
    """
    Xnew = np.asarray(Xnew, dtype=np.float64)
    columns = model.data[0].shape[1]
    if Xnew.ndim != 2 or Xnew.shape[1] != columns or not np.isfinite(Xnew).all():
        raise ValueError(f"finite inputs [N, {columns}] are needed, got shape {Xnew.shape}")
    try:
        mean, variance = (np.asarray(part.numpy(), dtype=np.float64) for part in model.predict_f(Xnew))
    except tf.errors.InvalidArgumentError as error:
        raise _failure(model) from error
    if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
        raise _failure(model)
    return mean, variance


def _failure(model: RegressionModel) -> ArithmeticError:
    """Explain a failed prediction: where a factorisation fails, GPR raises and the sparse models return NaN."""
    X = model.data[0]
    hyperparameters = hyperparameters_of(model)
    if isinstance(model, gpflow.models.GPR):
        matrix = model.kernel(X).numpy() + hyperparameters.noise_variance * np.eye(X.shape[0])
    else:
        Z = model.inducing_variable.Z
        matrix = model.kernel(Z).numpy() + gpflow.default_jitter() * np.eye(Z.shape[0])
    if not np.isfinite(matrix).all():
        return ArithmeticError(f"the model's covariance is not finite; {hyperparameters}")
    return NotPositiveDefiniteError.of(matrix, (0.0,), hyperparameters)
