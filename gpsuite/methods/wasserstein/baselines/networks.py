"""Softmax networks: maximum a posteriori, dropout kept in prediction, and the mean field over weights.

Equation: Gal & Ghahramani 2016
Equation: Lakshminarayanan et al. 2017
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_probability as tfp
from scipy.special import entr, softmax

from gpsuite.arrays import FloatArray
from gpsuite.methods.wasserstein.scoring.classification import negative_log_likelihood
from gpsuite.models.networks.network import Network
from gpsuite.models.networks.spec import NetworkSpec
from gpsuite.models.random_elements.element import checked_inputs
from gpsuite.models.random_elements.likelihoods import ClassPrediction

WEIGHT_PRECISION = 1.0  # of the normal prior of every weight
START_DEVIATION = 0.02  # of the mean field's weights
_ROWS = 2000


@dataclass(frozen=True, eq=False)
class SoftmaxNetwork:
    """A network with softmax outputs, maximum a posteriori under a normal prior of its weights.

    Attributes:
        network: its function.
        variables: its parameters.
        n_data: N, all training rows.
        dropout: probability with which a hidden unit is left out in training.
    """

    network: Network
    variables: list[Any]
    n_data: int
    dropout: float

    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        """Return the negative log posterior's estimate by a batch, in nats."""
        logits = self.network(self.variables, X, self.dropout, seed)
        penalty = tf.add_n([tf.cast(tf.nn.l2_loss(v), tf.float64) for v in self.variables])
        return _cross_entropy(logits, y, self.n_data) + WEIGHT_PRECISION * penalty

    def validation_loss(self, X: FloatArray, y: npt.NDArray[Any]) -> float:
        """Return the mean negative log probability without dropout, in nats; NaN if there is none."""
        logits = self.logits(X)
        return negative_log_likelihood(softmax(logits, axis=1), y) if np.isfinite(logits).all() else math.nan

    def logits(self, X: FloatArray) -> FloatArray:
        """Return the outputs [N, C] without dropout."""
        return _outputs(self.network, self.variables, X)

    def predict(self, X: FloatArray) -> ClassPrediction:
        """Return softmax probabilities; all their uncertainty counts as the data's."""
        return from_members([softmax(self.logits(X), axis=1)])

    def predict_with_dropout(self, X: FloatArray, draws: int, seed: int) -> ClassPrediction:
        """Return the mean over networks with units left out at random (Gal & Ghahramani 2016)."""
        seeds = [np.array([seed % 2**31, draw], np.int32) for draw in range(draws)]
        outputs = (_outputs(self.network, self.variables, X, self.dropout, seed) for seed in seeds)
        return from_members(softmax(logits, axis=1) for logits in outputs)


@dataclass(frozen=True, eq=False)
class MeanFieldNetwork:
    """Independent normal distributions over a softmax network's weights (Blundell et al. 2015).

    The prior of a weight has mean 0 and variance 2 / fan-in, of a bias variance 1: as networks are started.

    Attributes:
        network: its function.
        means: of the weights.
        scales: their deviations before softplus.
        n_data: N, all training rows.
    """

    network: Network
    means: list[Any]
    scales: list[Any]
    n_data: int

    @property
    def variables(self) -> list[Any]:
        """Trained variables."""
        return [*self.means, *self.scales]

    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        """Return the negative evidence lower bound's estimate by a batch and one draw of the weights, in nats."""
        posterior = self.posterior()
        logits = self.network(_drawn(posterior, seed), X)
        divergences = [
            tf.cast(tf.reduce_sum(tfp.distributions.kl_divergence(q, p)), tf.float64)
            for q, p in zip(posterior, self.prior(), strict=True)
        ]
        return _cross_entropy(logits, y, self.n_data) + tf.add_n(divergences)

    def posterior(self) -> list[Any]:
        """Return the distribution of each layer's weights."""
        return [
            tfp.distributions.Normal(mean, tf.nn.softplus(scale))
            for mean, scale in zip(self.means, self.scales, strict=True)
        ]

    def prior(self) -> list[Any]:
        """Return the prior of each layer's weights."""
        dtype = self.network.dtype.as_numpy_dtype
        deviations = [
            dtype(1.0 if len(shape) == 1 else math.sqrt(2.0 / math.prod(shape[:-1])))
            for shape in self.network.shapes
        ]
        return [tfp.distributions.Normal(dtype(0.0), deviation) for deviation in deviations]

    def validation_loss(self, X: FloatArray, y: npt.NDArray[Any]) -> float:
        """Return the mean negative log probability of 10 fixed draws, in nats; NaN if there is none."""
        p = self.predict(X, 10, 0).probabilities
        return negative_log_likelihood(p, y) if np.isfinite(p).all() else math.nan

    def predict(self, X: FloatArray, draws: int, seed: int) -> ClassPrediction:
        """Return the mean over draws of the weights."""
        posterior = self.posterior()
        seeds = [np.array([seed % 2**31, draw], np.int32) for draw in range(draws)]
        outputs = (_outputs(self.network, _drawn(posterior, seed), X) for seed in seeds)
        return from_members(softmax(logits, axis=1) for logits in outputs)


def build_network(
    spec: NetworkSpec,
    inputs: int,
    n_classes: int,
    n_data: int,
    rng: np.random.Generator,
    dropout: float = 0.0,
) -> SoftmaxNetwork:
    """Build an untrained softmax network.

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
    """Build an untrained mean field around a network's usual start.

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
    """Return the mean of members' probabilities [N, C] and their mean entropy; members may be a generator.

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
