"""Gaussian Wasserstein inference for classification and regression: building, training, predicting.

Equation: Wild et al. 2022, Notes Sec. 2
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.wasserstein.objective import WassersteinObjective
from gpsuite.methods.wasserstein.options import CHOSEN, GWIOptions
from gpsuite.methods.wasserstein.scoring.classification import negative_log_likelihood
from gpsuite.methods.wasserstein.scoring.regression import negative_log_density
from gpsuite.models.networks.network import Network
from gpsuite.models.nngp import NNGP
from gpsuite.models.random_elements.basis import InducingBasis
from gpsuite.models.random_elements.element import GaussianElement
from gpsuite.models.random_elements.kernels import NetworkKernel, SparseKernel, VariationalKernel
from gpsuite.models.random_elements.likelihoods import ClassLikelihood, ClassPrediction, GaussianNoise
from gpsuite.models.random_elements.means import KernelMean, NetworkMean, VariationalMean
from gpsuite.models.random_elements.prior import fit_prior
from gpsuite.models.regression.inducing import kmeans_inducing


@dataclass(frozen=True, eq=False)
class GWIClassifier:
    """A classifier in training or trained: `training.Trainable`, and predictions.

    Attributes:
        element: the Gaussian measures.
        likelihood: robust max, softmax or Bernoulli.
        objective: what is minimised.
    """

    element: GaussianElement
    likelihood: ClassLikelihood
    objective: WassersteinObjective

    @property
    def variables(self) -> list[Any]:
        """Trained variables."""
        return self.element.variables

    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        """Return the objective on a batch."""
        return self.objective.loss(X, y, seed)

    def validation_loss(self, X: FloatArray, y: npt.NDArray[Any]) -> float:
        """Return the mean negative log predictive probability, in nats; NaN if there is no prediction."""
        try:
            return negative_log_likelihood(self.predict(X).probabilities, y)
        except ArithmeticError:
            return math.nan

    def predict(self, X: FloatArray) -> ClassPrediction:
        """Return class probabilities [N, C] and their data uncertainty.

        Raises:
            ValueError: if X is not finite or not of shape [N, D].
            ArithmeticError: if a prediction is not finite, or the quadrature failed.
        """
        return self.likelihood.predict(*self.element.predict(X))


@dataclass(frozen=True, eq=False)
class GWIRegressor:
    """A regression in training or trained; attributes as `GWIClassifier`."""

    element: GaussianElement
    likelihood: GaussianNoise
    objective: WassersteinObjective

    @property
    def variables(self) -> list[Any]:
        """Trained variables."""
        return [*self.element.variables, *self.likelihood.variables]

    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        """Return the objective on a batch."""
        return self.objective.loss(X, y, seed)

    def validation_loss(self, X: FloatArray, y: npt.NDArray[Any]) -> float:
        """Return the mean negative log predictive density, in nats; NaN if there is no prediction."""
        try:
            return negative_log_density(y, *self.predict(X))
        except (ArithmeticError, ValueError):
            return math.nan

    def predict(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean [N] and variance [N] of the targets, noise included, not tempered.

        Raises:
            ValueError: if X is not finite or not of shape [N, D].
            ArithmeticError: if a prediction is not finite.
        """
        mean, variance = self.element.predict(X)
        return mean[:, 0], variance[:, 0] + self.likelihood.variance


def build_gwi_classifier(
    X: FloatArray,
    y: npt.NDArray[Any],
    likelihood: ClassLikelihood,
    options: GWIOptions,
    rng: np.random.Generator,
) -> GWIClassifier:
    """Build a classifier ready for training: prior fitted, variational kernel at the sparse posterior of the labels.

    The prior's targets are the labels as indicators (+-1 for one latent function), less its mean.

    Args:
        X: training inputs [N, D].
        y: labels 0, ..., C - 1 [N].
        likelihood: of the labels.
        options: the measures.
        rng: draws rows, inducing inputs and the network's first parameters.

    Raises:
        ValueError: if data or options do not fit.
    """
    y = np.asarray(y, dtype=np.int64)
    targets = (
        2.0 * y[:, None] - 1.0
        if likelihood.n_latent == 1
        else np.eye(likelihood.n_latent)[y].astype(np.float64)
    )
    element, _ = _build_element(X, targets, options, rng)
    objective = WassersteinObjective(element, likelihood.expected_log, len(X), options.chosen)
    return GWIClassifier(element, likelihood, objective)


def build_gwi_regressor(
    X: FloatArray, y: FloatArray, options: GWIOptions, rng: np.random.Generator
) -> GWIRegressor:
    """Build a regression ready for training; arguments as `build_gwi_classifier`, targets [N]."""
    element, noise_variance = _build_element(X, np.asarray(y, np.float64)[:, None], options, rng)
    likelihood = GaussianNoise(noise_variance)
    objective = WassersteinObjective(element, likelihood.expected_log, len(X), options.chosen)
    return GWIRegressor(element, likelihood, objective)


def inducing_count(rows: int, multiple: float) -> int:
    """Return M = multiple sqrt(N), at least 1 and at most N."""
    return int(min(max(round(multiple * math.sqrt(rows)), 1), rows))


def _build_element(
    X: FloatArray, targets: FloatArray, options: GWIOptions, rng: np.random.Generator
) -> tuple[GaussianElement, float]:
    centred = targets - options.prior_mean
    budget = Budget(evaluations=options.prior_evaluations)
    prior = fit_prior(options.prior, X, centred, rng, budget)
    basis = None
    if options.mean == "kernel" or options.kernel == "sparse":
        M = min(inducing_count(len(X), options.inducing), len(np.unique(X, axis=0)))
        basis = InducingBasis(prior.kernel, kmeans_inducing(X, M, rng))
    mean, kernel = _variational(X, centred, basis, prior.kernel, prior.noise_variance, options, rng)
    element = GaussianElement(options.prior_mean, prior.kernel, mean, kernel, basis, X.shape[1])
    return element, prior.noise_variance


def _variational(
    X: FloatArray,
    centred: FloatArray,
    basis: InducingBasis | None,
    prior: gpflow.kernels.Kernel,
    noise_variance: float,
    options: GWIOptions,
    rng: np.random.Generator,
) -> tuple[VariationalMean, VariationalKernel]:
    latent = centred.shape[1]
    mean: VariationalMean = NetworkMean(options.prior_mean, Network(options.network, X.shape[1], latent), rng)
    kernel: VariationalKernel
    if options.kernel == "nngp":
        # as large as the prior where it stands, so that the distance starts small
        scale = float(tf.reduce_mean(prior(X[:CHOSEN], full_cov=False)))
        own = float(tf.reduce_mean(NNGP()(X[:CHOSEN], full_cov=False)))
        kernel = NetworkKernel([NNGP(scale=scale / own) for _ in range(latent)])
    if basis is not None:
        weights, covariance = basis.regression(X, centred, noise_variance)
        if options.mean == "kernel":
            mean = KernelMean(options.prior_mean, weights)
        if options.kernel == "sparse":
            kernel = SparseKernel.from_covariance(basis, covariance, latent)
    return mean, kernel
