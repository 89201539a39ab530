"""Posterior predictions as numpy arrays.

Equation: Rasmussen & Williams 2006, Eq. (2.25), Eq. (2.26)
Equation: Titsias 2009, Eq. (6)
"""

from __future__ import annotations

from dataclasses import dataclass

import gpflow
import numpy as np
import tensorflow as tf
from scipy.linalg import eigh, solve_triangular

from gpsuite.arrays import FloatArray
from gpsuite.models.kernels import kernel_name
from gpsuite.models.latent import LatentPosterior
from gpsuite.models.linalg import NotPositiveDefiniteError, stable_cholesky
from gpsuite.models.radial import expanded, kappa, squared_distances
from gpsuite.models.regression.training import RegressionModel, hyperparameters_of


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


# Regressions as `LatentPosterior`: what prediction and certification need of a trained model, as arrays.


@dataclass(frozen=True, eq=False)
class RegressionPosterior:
    """A regression's latent posterior and its observation noise.

    Attributes:
        latent: f(x) ~ N(mu(x), Sigma(x)).
        noise_variance: of y = f(x) + noise, above 0.
        jitter: what was added to the diagonal of the covariance that was factorised; 0 if nothing was needed.
    """

    latent: LatentPosterior
    noise_variance: float
    jitter: float


def regression_posterior(model: gpflow.models.GPR | gpflow.models.SGPR) -> RegressionPosterior:
    """Return a model's posterior at its present hyperparameters, without jitter if none is needed.

    With A = L^-1 K_ZX, K_ZZ = L L' and I + A A'/noise = Q diag(lambda) Q', the sparse posterior has
    alpha = L^-T Q diag(1/lambda) Q' A y / noise, F = Q' L^-1, c = 1/lambda - 1.

    Raises:
        TypeError: for another model, or several outputs.
        NotPositiveDefiniteError: if a covariance cannot be factorised.
    """
    sparse = isinstance(model, gpflow.models.SGPR)
    X, Y = (np.asarray(part.numpy(), dtype=np.float64) for part in model.data)
    if not (sparse or isinstance(model, gpflow.models.GPR)) or Y.shape[1] != 1:
        raise TypeError(
            f"GPR or SGPR with one output is needed, not {type(model).__name__} with {Y.shape[1]}"
        )
    found, kernel = hyperparameters_of(model), kernel_name(model.kernel)
    noise, lengthscales = found.noise_variance, np.asarray(expanded(found.lengthscales, X.shape[1]))

    def covariance(first: FloatArray, second: FloatArray) -> FloatArray:
        q = squared_distances(first / lengthscales, second / lengthscales)
        return np.asarray(found.variance * kappa(kernel, q))

    if sparse:
        centres = np.asarray(model.inducing_variable.Z.numpy(), dtype=np.float64)
        factor = stable_cholesky(covariance(centres, centres))
        L = factor.lower
        A = solve_triangular(L, covariance(centres, X), lower=True)
        eigenvalues, Q = eigh(np.eye(len(centres)) + A @ A.T / noise)
        root = solve_triangular(L.T, Q, lower=False).T
        alpha = root.T @ ((Q.T @ (A @ Y[:, 0])) / (eigenvalues * noise))
        weights = np.minimum(1.0 / eigenvalues - 1.0, 0.0)
    else:
        centres = X
        factor = stable_cholesky(covariance(X, X) + noise * np.eye(len(X)))
        root = solve_triangular(factor.lower, np.eye(len(X)), lower=True)
        alpha, weights = root.T @ (root @ Y[:, 0]), -np.ones(len(X))
    latent = LatentPosterior(centres, kernel, found.variance, lengthscales, alpha, root, weights, 1.0)
    return RegressionPosterior(latent, noise, factor.jitter)
