"""Softmax networks: maximum a posteriori, dropout kept in prediction, and the mean field over weights.

Equation: Gal & Ghahramani 2016
Equation: Lakshminarayanan et al. 2017
Equation: Kristiadi et al. 2020
Equation: Hensman et al. 2015
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_probability as tfp
from scipy.special import entr, softmax

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.methods.wasserstein.scoring import negative_log_likelihood, tempered_log_density
from gpsuite.models.network_spec import NetworkSpec
from gpsuite.models.networks import Network
from gpsuite.models.random_elements.elements import SHORTEST, checked_inputs, fit_prior
from gpsuite.models.random_elements.likelihoods import ClassLikelihood, ClassPrediction, GaussianNoise, normal_points
from gpsuite.models.regression.inducing import different_rows, limited_inducing

WEIGHT_PRECISION = 1.0  # precision of the normal prior of every weight
START_DEVIATION = 0.02  # initial standard deviation of the mean field's weights
_ROWS = 2000
# Prior precisions of the weights. Validation rows choose one.
PRECISIONS = tuple(10.0**power for power in np.arange(-2.0, 4.5, 0.5))
_LAPLACE_ROWS = 500
_SPARSE_ROWS = 1000


@dataclass(frozen=True, eq=False)
class SoftmaxNetwork:
    """A network with softmax outputs, maximum a posteriori under a normal prior of its weights.

    Attributes:
        n_data: N, all training rows.
        dropout: probability that a hidden unit is left out in training.
    """

    network: Network
    variables: list[Any]
    n_data: int
    dropout: float

    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        logits = self.network(self.variables, X, self.dropout, seed)
        penalty = tf.add_n([tf.cast(tf.nn.l2_loss(v), tf.float64) for v in self.variables])
        return _cross_entropy(logits, y, self.n_data) + WEIGHT_PRECISION * penalty

    def validation_loss(self, X: FloatArray, y: npt.NDArray[Any]) -> float:
        logits = self.logits(X)
        return negative_log_likelihood(softmax(logits, axis=1), y) if np.isfinite(logits).all() else math.nan

    def logits(self, X: FloatArray) -> FloatArray:
        return _outputs(self.network, self.variables, X)

    def predict(self, X: FloatArray) -> ClassPrediction:
        """Return softmax probabilities. All their uncertainty counts as data uncertainty."""
        return from_members([softmax(self.logits(X), axis=1)])

    def predict_with_dropout(self, X: FloatArray, draws: int, seed: int) -> ClassPrediction:
        """Return the mean over networks with units left out at random (Gal & Ghahramani 2016)."""
        seeds = [np.array([seed % 2**31, draw], np.int32) for draw in range(draws)]
        outputs = (_outputs(self.network, self.variables, X, self.dropout, seed) for seed in seeds)
        return from_members(softmax(logits, axis=1) for logits in outputs)


@dataclass(frozen=True, eq=False)
class MeanFieldNetwork:
    """Independent normal distributions over a softmax network's weights (Blundell et al. 2015).

    The prior of a weight has mean 0 and variance 2 / fan-in. A bias has variance 1. Networks are initialised in the
    same way.

    Attributes:
        scales: standard deviations of the weights before softplus.
    """

    network: Network
    means: list[Any]
    scales: list[Any]
    n_data: int

    @property
    def variables(self) -> list[Any]:
        return [*self.means, *self.scales]

    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        posterior = self.posterior()
        logits = self.network(_drawn(posterior, seed), X)
        divergences = [
            tf.cast(tf.reduce_sum(tfp.distributions.kl_divergence(q, p)), tf.float64)
            for q, p in zip(posterior, self.prior(), strict=True)
        ]
        return _cross_entropy(logits, y, self.n_data) + tf.add_n(divergences)

    def posterior(self) -> list[Any]:
        return [
            tfp.distributions.Normal(mean, tf.nn.softplus(scale))
            for mean, scale in zip(self.means, self.scales, strict=True)
        ]

    def prior(self) -> list[Any]:
        dtype = self.network.dtype.as_numpy_dtype
        deviations = [
            dtype(1.0 if len(shape) == 1 else math.sqrt(2.0 / math.prod(shape[:-1]))) for shape in self.network.shapes
        ]
        return [tfp.distributions.Normal(dtype(0.0), deviation) for deviation in deviations]

    def validation_loss(self, X: FloatArray, y: npt.NDArray[Any]) -> float:
        """Return the mean negative log probability of 10 fixed draws, in nats. NaN if there is no value."""
        p = self.predict(X, 10, 0).probabilities
        return negative_log_likelihood(p, y) if np.isfinite(p).all() else math.nan

    def predict(self, X: FloatArray, draws: int, seed: int) -> ClassPrediction:
        posterior = self.posterior()
        seeds = [np.array([seed % 2**31, draw], np.int32) for draw in range(draws)]
        outputs = (_outputs(self.network, _drawn(posterior, seed), X) for seed in seeds)
        return from_members(softmax(logits, axis=1) for logits in outputs)


def build_network(
    spec: NetworkSpec, inputs: int, n_classes: int, n_data: int, rng: np.random.Generator, dropout: float = 0.0
) -> SoftmaxNetwork:
    """Return an untrained softmax network.

    Raises:
        ValueError: if the inputs do not fit the spec's image, or dropout is not in [0, 1).
    """
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"dropout={dropout}: must be in [0, 1)")
    network = Network(spec, inputs, n_classes)
    return SoftmaxNetwork(network, network.variables(rng), n_data, dropout)


def build_mean_field(
    spec: NetworkSpec, inputs: int, n_classes: int, n_data: int, rng: np.random.Generator
) -> MeanFieldNetwork:
    """Return an untrained mean field around a network's usual initial values.

    Raises:
        ValueError: if the inputs do not fit the spec's image.
    """
    network = Network(spec, inputs, n_classes)
    means = network.variables(rng)
    start = math.log(math.expm1(START_DEVIATION))
    return MeanFieldNetwork(
        network, means, [tf.Variable(tf.fill(m.shape, tf.cast(start, m.dtype))) for m in means], n_data
    )


def from_members(members: Iterable[FloatArray]) -> ClassPrediction:
    """Return the mean of members' probabilities [N, C] and their mean entropy. `members` may be a generator.

    Raises:
        ValueError: if there is no member.
    """
    count, total, data = 0, np.zeros(()), np.zeros(())
    for p in members:
        count, total, data = count + 1, total + p, data + entr(p).sum(axis=1)
    if count == 0:
        raise ValueError("at least one member is needed")
    return ClassPrediction(total / count, data / count)


def _drawn(posterior: list[Any], seed: Any) -> list[Any]:
    layers = [tf.constant([0, 1000 * (layer + 1)], tf.int32) for layer in range(len(posterior))]
    return [q.sample(seed=seed + layer) for q, layer in zip(posterior, layers, strict=True)]


def _cross_entropy(logits: Any, y: Any, n_data: int) -> Any:
    scale = n_data / tf.cast(tf.shape(y)[0], tf.float64)
    return scale * tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))


def _outputs(
    network: Network, parameters: list[Any], X: FloatArray, dropout: float = 0.0, seed: Any = None
) -> FloatArray:
    X = checked_inputs(X, network.inputs)
    blocks = [X[at : at + _ROWS] for at in range(0, len(X), _ROWS)]
    return np.concatenate([network(parameters, block, dropout, seed).numpy() for block in blocks])


# Laplace approximation over the last layer of a trained softmax network (Kristiadi et al. 2020).
@dataclass(frozen=True, eq=False)
class LastLayerLaplace:
    """Normal distribution of the last layer's weights around the trained ones. Features do not change.

    The covariance is (H + tau I)^-1, stored by its eigenvectors. H = sum_n (diag p - p p') (x) phi phi' is the
    Gauss-Newton matrix. phi are the features and a 1.

    Attributes:
        eigenvalues: eigenvalues of H [C (F + 1)].
        vectors: eigenvectors, rows ordered by class, then feature [C, F + 1, C (F + 1)].
        precision: tau.
    """

    model: SoftmaxNetwork
    eigenvalues: FloatArray
    vectors: FloatArray
    precision: float

    def predict(self, X: FloatArray) -> ClassPrediction:
        """Return the mean softmax over the logits' normal distribution, at fixed points."""
        probabilities, data = [], []
        X = checked_inputs(X, self.model.network.inputs)
        for at in range(0, len(X), _LAPLACE_ROWS):
            mean, covariance = self.logit_moments(X[at : at + _LAPLACE_ROWS])
            # rounding can make a covariance indefinite. The jitter is 1e-5 of a logit
            jitter = 1e-10 * np.eye(mean.shape[1])
            lower = np.linalg.cholesky(covariance + jitter)
            draws = mean + np.einsum("ncd,sd->snc", lower, normal_points(mean.shape[1])[:256])
            part = from_members(softmax(draws, axis=2))
            probabilities.append(part.probabilities)
            data.append(part.data_uncertainty)
        return ClassPrediction(np.concatenate(probabilities), np.concatenate(data))

    def logit_moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean [N, C] and covariance [N, C, C] of the logits."""
        phi = _features(self.model, X)
        weighted = self.vectors / np.sqrt(np.maximum(self.eigenvalues, 0.0) + self.precision)
        # rows of the Jacobian times a root of the covariance, one class at a time: [N, C, K]
        roots = np.stack([phi @ one for one in weighted], axis=1)
        return self.model.logits(X), roots @ roots.transpose(0, 2, 1)


def last_layer_laplace(
    model: SoftmaxNetwork, X: FloatArray, X_validation: FloatArray, y_validation: IntArray
) -> LastLayerLaplace:
    """Return the approximation from training inputs, with the precision of the best validation likelihood."""
    classes = model.network.outputs
    size = model.network.shapes[-2][0] + 1
    H = np.zeros((classes, size, classes, size))
    for at in range(0, len(X), _LAPLACE_ROWS):
        phi, p = (
            _features(model, X[at : at + _LAPLACE_ROWS]),
            softmax(model.logits(X[at : at + _LAPLACE_ROWS]), axis=1),
        )
        for i in range(classes):
            for j in range(i + 1):
                weights = p[:, i] * ((i == j) - p[:, j])
                H[i, :, j] += (phi * weights[:, None]).T @ phi
    for i in range(classes):
        for j in range(i):
            H[j, :, i] = H[i, :, j]  # each block is symmetric
    eigenvalues, vectors = np.linalg.eigh(H.reshape(classes * size, -1))
    vectors = vectors.reshape(classes, size, -1)

    def loss(precision: float) -> float:
        candidate = LastLayerLaplace(model, eigenvalues, vectors, precision)
        return negative_log_likelihood(candidate.predict(X_validation).probabilities, y_validation)

    return LastLayerLaplace(model, eigenvalues, vectors, min(PRECISIONS, key=loss))


def _features(model: SoftmaxNetwork, X: Any) -> FloatArray:
    phi = np.asarray(model.network.features(model.variables, X).numpy(), dtype=np.float64)
    return np.concatenate([phi, np.ones((len(phi), 1))], axis=1)


# GPflow's sparse variational GP (Hensman et al. 2015) as a classifier and a regression of the same training loop.
@dataclass(frozen=True, eq=False)
class SparseVariationalGP:
    """GPflow's SVGP with a likelihood of this package. Kernel, inducing inputs and q(u) are trained.

    Attributes:
        model: GPflow's model. Its likelihood is not used.
    """

    model: gpflow.models.SVGP
    likelihood: ClassLikelihood | GaussianNoise
    prior_mean: float

    @property
    def variables(self) -> list[Any]:
        return [*self.model.trainable_variables, *getattr(self.likelihood, "variables", [])]

    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        mean, variance = self.model.predict_f(X)
        scale = self.model.num_data / tf.cast(tf.shape(X)[0], tf.float64)
        fit = tf.reduce_sum(self.likelihood.expected_log(mean + self.prior_mean, variance, y, seed))
        return self.model.prior_kl() - scale * fit

    def validation_loss(self, X: FloatArray, y: npt.NDArray[Any]) -> float:
        try:
            if isinstance(self.likelihood, GaussianNoise):
                return tempered_log_density(y, *self.predict_gaussian(X))
            return negative_log_likelihood(self.predict(X).probabilities, y)
        except (ArithmeticError, ValueError, tf.errors.InvalidArgumentError):
            return math.nan

    @cached_property
    def _predict(self) -> Any:
        """Latent moments, compiled: each epoch needs the validation rows' moments."""
        rows = tf.TensorSpec([None, self.model.inducing_variable.Z.shape[1]], tf.float64)
        return tf.function(self.model.predict_f, input_signature=[rows], autograph=False)

    @property
    def graph_score(self) -> Callable[[Any, Any], Any] | None:
        noise = self.likelihood
        if not isinstance(noise, GaussianNoise):
            return None

        def score(X: Any, y: Any) -> Any:
            mean, variance = self.model.predict_f(X)
            return noise.score(mean + self.prior_mean, variance, y)

        return score

    def predict(self, X: FloatArray) -> ClassPrediction:
        """Return class probabilities and their data uncertainty.

        Raises:
            ValueError: if X is not finite or not of shape [N, D].
            TypeError: for a regression.
        """
        if isinstance(self.likelihood, GaussianNoise):
            raise TypeError("a regression predicts no classes")
        return self.likelihood.predict(*self.latent(X))

    def predict_gaussian(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean [N] and variance [N] of a regression's targets, noise included.

        Raises:
            ValueError: if X is not finite or not of shape [N, D].
            TypeError: for a classifier.
        """
        if not isinstance(self.likelihood, GaussianNoise):
            raise TypeError("a classifier predicts no numbers")
        mean, variance = self.latent(X)
        return mean[:, 0], variance[:, 0] + self.likelihood.variance

    def latent(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return latent mean [N, L] and variance [N, L]."""
        X = checked_inputs(X, self.model.inducing_variable.Z.shape[1])
        parts = [self._predict(X[at : at + _SPARSE_ROWS]) for at in range(0, len(X), _SPARSE_ROWS)]
        mean, variance = (np.concatenate([part[i].numpy() for part in parts]) for i in (0, 1))
        return mean + self.prior_mean, variance


def build_sparse_gp(
    X: FloatArray,
    targets: FloatArray,
    likelihood: ClassLikelihood | GaussianNoise | None,
    prior: str,
    prior_mean: float,
    prior_evaluations: int,
    M: int,
    rng: np.random.Generator,
    seconds: float | None = None,
) -> SparseVariationalGP:
    """Return an untrained sparse GP. Kernel and inducing inputs start as in Gaussian Wasserstein inference.

    Args:
        likelihood: likelihood of the targets. None: Gaussian noise, initialised as in that inference's regression.
        seconds: limit of the choice of the prior and of the inducing inputs.
    """
    budget = Budget(seconds, prior_evaluations)
    shortest = SHORTEST if likelihood is None else 0.0
    fitted = fit_prior(prior, X, targets - prior_mean, rng, budget, shortest=shortest)
    gpflow.set_trainable(fitted.kernel, True)
    Z, _ = limited_inducing(X, min(M, len(different_rows(X))), rng, budget.left)
    model = gpflow.models.SVGP(
        fitted.kernel, gpflow.likelihoods.Gaussian(), Z, num_latent_gps=targets.shape[1], num_data=len(X)
    )
    gpflow.set_trainable(model.likelihood, False)
    return SparseVariationalGP(model, likelihood or GaussianNoise(fitted.noise_variance), prior_mean)
