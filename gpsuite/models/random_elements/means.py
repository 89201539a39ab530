"""Variational mean functions m_Q of C independent Gaussian measures."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from gpsuite.arrays import FloatArray
from gpsuite.models.networks.network import Network


class VariationalMean(Protocol):
    """What a Gaussian measure asks of its mean function."""

    @property
    def variables(self) -> list[Any]:
        """Trained variables."""
        ...

    def __call__(self, X: Any, features: Any) -> Any:
        """Return m_Q(X), shape [N, C]; features: A(X) of the measure's basis [M, N], or None."""
        ...


class NetworkMean:
    """m_Q = m_P + a network of C outputs, whose output layer starts at 0.

    It so starts at the prior's mean, where every class is as likely: robust max has no slope to offer where means
    differ by many deviations, and a network of random outputs would never hear of half of its rows.

    Args:
        prior_mean: the constant m_P.
        network: its function.
        rng: draws the first hidden layers.
    """

    def __init__(self, prior_mean: float, network: Network, rng: np.random.Generator) -> None:
        self.prior_mean, self.network = prior_mean, network
        self.variables = network.variables(rng)
        self.variables[-2].assign(tf.zeros_like(self.variables[-2]))

    def __call__(self, X: Any, features: Any) -> Any:
        """Return m_Q(X), shape [N, C]."""
        return self.prior_mean + self.network(self.variables, X)


class KernelMean:
    """m_Q(x) = m_P + k(x, Z) beta_j, whitened: m_P + A(x)' b_j, beta = L^-T b.

    Args:
        prior_mean: the constant m_P.
        weights: b to start from [M, C].
    """

    def __init__(self, prior_mean: float, weights: FloatArray) -> None:
        self.prior_mean = prior_mean
        self.weights = tf.Variable(weights, dtype=tf.float64)
        self.variables = [self.weights]

    def __call__(self, X: Any, features: Any) -> Any:
        """Return m_Q(X), shape [N, C]."""
        return self.prior_mean + tf.matmul(features, self.weights, transpose_a=True)
