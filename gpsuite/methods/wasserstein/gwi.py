"""The objective of Gaussian Wasserstein inference: -(N / N_B) sum_batch E_Q log p + sum_j W2^2(P_j, Q_j).

The notes lack the sum over the data. W2^2 is estimated on the batch. Its mean term is over all rows. Its covariance
terms are exact on the empirical measure of the first `chosen` rows. So equal kernels have distance 0 for any rows.

Equation: Wild et al. 2022, Notes Sec. 2.1
Equation: Wild et al. 2022, Notes Sec. 2
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.wasserstein.distance import root_trace
from gpsuite.methods.wasserstein.fitting import CHOSEN, GWIOptions, TrainingRows
from gpsuite.methods.wasserstein.scoring import negative_log_likelihood, tempered_log_density
from gpsuite.models.networks import Network
from gpsuite.models.random_elements.elements import (
    NNGP,
    SHORTEST,
    GaussianElement,
    InducingBasis,
    KernelMean,
    NetworkKernel,
    NetworkMean,
    SparseKernel,
    VariationalKernel,
    VariationalMean,
    fit_prior,
)
from gpsuite.models.random_elements.likelihoods import ClassLikelihood, ClassPrediction, GaussianNoise
from gpsuite.models.regression.inducing import different_rows, limited_inducing

# Latent mean [N, L], variance [N, L], targets [N] and seed -> E_Q log p(y | F) [N].
ExpectedLog = Callable[[Any, Any, Any, Any], Any]


@dataclass(frozen=True, eq=False)
class WassersteinObjective:
    """Loss of a minibatch.

    Attributes:
        chosen: |X_S|. A smaller batch uses all its rows.
    """

    element: GaussianElement
    expected_log: ExpectedLog
    n_data: int
    chosen: int = CHOSEN

    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        """Return the objective, estimated by a batch [N_B, D], [N_B], in nats plus squared units of the functions."""
        mean, variance, R = self.element.moments(X, self.chosen)
        # the likelihood is a sum over all rows and is scaled. The distance is a mean over points and is not
        scale = self.n_data / tf.cast(tf.shape(X)[0], tf.float64)
        fit = scale * tf.reduce_sum(self.expected_log(mean, variance, y, seed))
        return tf.reduce_sum(squared_wasserstein(self.element, X, mean, R)) - fit


@dataclass(frozen=True, eq=False)
class GaussianObjective:
    """The same loss for Gaussian noise and a sparse kernel. A row of a batch needs only the computation of its mean.

    E_Q log p(y | F) is linear in r(x, x). So the mean of r(x, x) over all rows replaces that of each row of a batch.
    The sum over an epoch's batches is the same. The slopes vary less from batch to batch.

    Attributes:
        mean_variance: mean of r(x, x) over all rows of training [1].
        chosen: |X_S|, as in `WassersteinObjective`.
    """

    element: GaussianElement
    noise: GaussianNoise
    mean_variance: Callable[[], Any]
    n_data: int
    chosen: int = CHOSEN

    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        """Return the objective, estimated by a batch [N_B, D] or [N_B, D + M], [N_B]. See `WassersteinObjective`."""
        X, features = self.element.split(X)
        mean = self.element.mean(X, features)
        _, R = self.element.kernel.evaluate(X[: self.chosen], features[:, : self.chosen], self.chosen)
        fit = tf.reduce_mean(self.noise.expected_log(mean, self.mean_variance()[None], y, seed))
        return tf.reduce_sum(squared_wasserstein(self.element, X, mean, R)) - self.n_data * fit


def squared_wasserstein(element: GaussianElement, X: Any, mean: Any, R: Any) -> Any:
    """Return W2^2(P_j, Q_j) [C] of a batch.

    Args:
        R: r over the first S rows [C, S, S].
    """
    count = tf.cast(tf.shape(R)[1], tf.float64)
    K = element.prior_kernel(X[: tf.shape(R)[1]])
    traces = tf.linalg.trace(K) + tf.linalg.trace(R) - 2.0 * root_traces(K, R)
    return tf.reduce_mean((mean - element.prior_mean) ** 2, axis=0) + traces / count


@tf.custom_gradient  # type: ignore[untyped-decorator]
def root_traces(K: Any, R: Any) -> tuple[Any, Any]:
    """Return `distance.root_trace` [C] as a tensor with its slopes in R. K [S, S] counts as fixed."""
    # slopes are in closed form: TensorFlow's gradient of eigh divides by gaps between eigenvalues, which may be 0
    values, slopes = tf.numpy_function(root_trace, (K, R), (tf.float64, tf.float64))
    values.set_shape([R.shape[0]])
    slopes.set_shape(R.shape)

    def slopes_of(upstream: Any) -> tuple[None, Any]:
        return None, upstream[:, None, None] * slopes

    return values, slopes_of


@dataclass(frozen=True, eq=False)
class GWIClassifier:
    """A classifier, before and after training: a `training.Trainable` with predictions."""

    element: GaussianElement
    likelihood: ClassLikelihood
    objective: WassersteinObjective

    @property
    def variables(self) -> list[Any]:
        return self.element.variables

    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        return self.objective.loss(X, y, seed)

    def validation_loss(self, X: FloatArray, y: npt.NDArray[Any]) -> float:
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
    """A regression, before and after training. Fields are as in `GWIClassifier`."""

    element: GaussianElement
    likelihood: GaussianNoise
    objective: WassersteinObjective | GaussianObjective

    @property
    def variables(self) -> list[Any]:
        return [*self.element.variables, *self.likelihood.variables]

    def prepared(self, rows: TrainingRows) -> TrainingRows:
        """Return the rows with their features. Otherwise every step would compute these again."""
        X, X_validation = (self.element.with_features(X) for X in (rows.X, rows.X_validation))
        return replace(rows, X=X, X_validation=X_validation)

    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        return self.objective.loss(X, y, seed)

    def validation_loss(self, X: FloatArray, y: npt.NDArray[Any]) -> float:
        try:
            return tempered_log_density(y, *self.predict(X[:, : self.element.inputs]))
        except (ArithmeticError, ValueError):
            return math.nan

    def graph_score(self, X: Any, y: Any) -> Any:
        mean, variance, _ = self.element.moments(X)
        return self.likelihood.score(mean, variance, y)

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
    seconds: float | None = None,
) -> GWIClassifier:
    """Return a classifier ready for training: prior fitted, variational kernel at the sparse posterior of the labels.

    The prior's targets are indicators of the labels 0, ..., C - 1 (+-1 for one latent function), less the prior's mean.
    `seconds` limit the choice of the prior and of the inducing inputs.

    Raises:
        ValueError: if data or options do not fit.
    """
    y = np.asarray(y, dtype=np.int64)
    targets = 2.0 * y[:, None] - 1.0 if likelihood.n_latent == 1 else np.eye(likelihood.n_latent)[y].astype(np.float64)
    element, _ = _build_element(X, targets, options, rng, seconds)
    objective = WassersteinObjective(element, likelihood.expected_log, len(X), options.chosen)
    return GWIClassifier(element, likelihood, objective)


def build_gwi_regressor(
    X: FloatArray, y: FloatArray, options: GWIOptions, rng: np.random.Generator, seconds: float | None = None
) -> GWIRegressor:
    """Return a regression ready for training. Arguments are as in `build_gwi_classifier`, with targets [N]."""
    element, noise_variance = _build_element(X, np.asarray(y, np.float64)[:, None], options, rng, seconds, SHORTEST)
    likelihood = GaussianNoise(noise_variance)
    objective: WassersteinObjective | GaussianObjective
    if isinstance(element.kernel, SparseKernel):
        objective = GaussianObjective(element, likelihood, element.kernel.mean_variance(X), len(X), options.chosen)
    else:
        objective = WassersteinObjective(element, likelihood.expected_log, len(X), options.chosen)
    return GWIRegressor(element, likelihood, objective)


def inducing_count(rows: int, multiple: float) -> int:
    """Return M = multiple sqrt(N), at least 1 and at most N."""
    return int(min(max(round(multiple * math.sqrt(rows)), 1), rows))


def _build_element(
    X: FloatArray,
    targets: FloatArray,
    options: GWIOptions,
    rng: np.random.Generator,
    seconds: float | None,
    shortest: float = 0.0,
) -> tuple[GaussianElement, float]:
    centred = targets - options.prior_mean
    budget = Budget(seconds, options.prior_evaluations)
    prior = fit_prior(options.prior, X, centred, rng, budget, shortest=shortest)
    basis = None
    if options.mean == "kernel" or options.kernel == "sparse":
        M = min(inducing_count(len(X), options.inducing), len(different_rows(X)))
        basis = InducingBasis(prior.kernel, limited_inducing(X, M, rng, budget.left)[0])
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
        # scaled to the size of the prior it replaces: the distance starts small
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
