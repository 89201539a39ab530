"""The objective of Gaussian Wasserstein inference: -(N / N_B) sum_batch E_Q log p + sum_j W2^2(P_j, Q_j).

The notes lack the sum over the data. W2^2 is estimated on the batch:
its mean term over all rows, its covariance terms exactly on the empirical measure of the first `chosen` rows, so that
equal kernels have distance 0 whatever rows they are.

Equation: Wild et al. 2022, Notes Sec. 2.1
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from gpsuite.methods.wasserstein.distance import root_trace
from gpsuite.methods.wasserstein.options import CHOSEN
from gpsuite.models.random_elements.element import GaussianElement

ExpectedLog = Callable[[Any, Any, Any, Any], Any]
"""Latent mean [N, L], variance [N, L], targets [N] and seed -> E_Q log p(y | F) [N]."""


@dataclass(frozen=True, eq=False)
class WassersteinObjective:
    """Loss of a minibatch.

    Attributes:
        element: prior and variational measures.
        expected_log: of the likelihood.
        n_data: N, all training rows.
        chosen: |X_S|; a batch of fewer rows takes them all.
    """

    element: GaussianElement
    expected_log: ExpectedLog
    n_data: int
    chosen: int = CHOSEN

    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        """Return the objective's estimate by a batch [N_B, D], [N_B], in nats plus squared units of the functions."""
        mean, variance, R = self.element.moments(X, self.chosen)
        scale = self.n_data / tf.cast(tf.shape(X)[0], tf.float64)
        fit = scale * tf.reduce_sum(self.expected_log(mean, variance, y, seed))
        return tf.reduce_sum(squared_wasserstein(self.element, X, mean, R)) - fit


def squared_wasserstein(element: GaussianElement, X: Any, mean: Any, R: Any) -> Any:
    """Return W2^2(P_j, Q_j) [C] of a batch.

    Args:
        element: the measures.
        X: rows of the batch [N_B, D].
        mean: m_Q over them [N_B, C].
        R: r over the first S of them [C, S, S].
    """
    count = tf.cast(tf.shape(R)[1], tf.float64)
    K = element.prior_kernel(X[: tf.shape(R)[1]])
    traces = tf.linalg.trace(K) + tf.linalg.trace(R) - 2.0 * root_traces(K, R)
    return tf.reduce_mean((mean - element.prior_mean) ** 2, axis=0) + traces / count


@tf.custom_gradient  # type: ignore[untyped-decorator]
def root_traces(K: Any, R: Any) -> tuple[Any, Any]:
    """Return `distance.root_trace` [C] as a tensor with its slopes in R; K [S, S] counts as fixed."""
    values, slopes = tf.numpy_function(root_trace, (K, R), (tf.float64, tf.float64))
    values.set_shape([R.shape[0]])
    slopes.set_shape(R.shape)

    def slopes_of(upstream: Any) -> tuple[None, Any]:
        return None, upstream[:, None, None] * slopes

    return values, slopes_of
