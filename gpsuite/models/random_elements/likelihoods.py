"""Likelihoods on independent Gaussian latent values: expectation of log p for training, and predictions.

Robust max and Gaussian are closed forms (except for robust max's quadrature). Bernoulli is one-dimensional quadrature.
Softmax is sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from scipy.special import entr, ndtri, roots_hermite, roots_legendre, softmax
from scipy.stats import qmc

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.models.classification import robust_max
from gpsuite.models.classification.links import Link
from gpsuite.models.classification.variational import log_sigma

TRAINING_DRAWS = 20
PREDICTION_DRAWS = 1024
_HERMITE = 40
_BUMP, _REACH, _PANELS = 45.0, 9.0, 64
_NODES, _WEIGHTS = roots_legendre(16)
_UNIT_NODES = ((np.arange(_PANELS)[:, None] + 0.5 * (_NODES + 1.0)) / _PANELS).ravel()  # on [0, 1]
_UNIT_WEIGHTS = np.tile(0.5 * _WEIGHTS / _PANELS, _PANELS)
_BLOCK_ROWS = 500


@dataclass(frozen=True, eq=False)
class ClassPrediction:
    """Predicted class probabilities [N, C] and the part of their uncertainty that is the data's, in nats [N]."""

    probabilities: FloatArray
    data_uncertainty: FloatArray

    @property
    def total_uncertainty(self) -> FloatArray:
        """Entropy of the probabilities, in nats [N]."""
        return np.asarray(entr(self.probabilities).sum(axis=1))

    @property
    def knowledge_uncertainty(self) -> FloatArray:
        """Mutual information of the label and the latent function, in nats [N]."""
        return self.total_uncertainty - self.data_uncertainty


class ClassLikelihood(Protocol):
    """Interface of a likelihood of class labels that training and prediction use."""

    @property
    def n_latent(self) -> int:
        """Number of latent functions."""

    def expected_log(self, mean: Any, variance: Any, y: Any, seed: Any) -> Any:
        """Return E_Q log p(y | F) [N], a tensor, for labels [N]. `seed` holds two integers, for sampling."""

    def predict(self, mean: FloatArray, variance: FloatArray) -> ClassPrediction:
        """Return the prediction for latent moments [N, L]."""


@dataclass(frozen=True)
class RobustMax:
    """p(y | f) = 1 - epsilon where y = argmax f, otherwise epsilon / (C - 1). See `classification.robust_max`."""

    n_classes: int
    epsilon: float = robust_max.EPSILON

    @property
    def n_latent(self) -> int:
        return self.n_classes

    def expected_log(self, mean: Any, variance: Any, y: Any, seed: Any) -> Any:
        S = label_probability(mean, variance, y)
        return robust_max.expected_log_likelihood(S, self.n_classes, self.epsilon)

    def predict(self, mean: FloatArray, variance: FloatArray) -> ClassPrediction:
        """Return (1 - epsilon) S + epsilon / (C - 1) (1 - S).

        Raises:
            ArithmeticError: if the probabilities of the largest latent value do not sum to 1 within 1e-8.
        """
        S = robust_max.largest_probabilities(mean, variance)
        if not robust_max.sum_error(S) < 1e-8:
            raise ArithmeticError(f"sum of S is off by {robust_max.sum_error(S):.1e}: the quadrature failed")
        data = robust_max.data_uncertainty(self.n_classes, self.epsilon)
        probabilities = robust_max.predictive_probabilities(S, self.epsilon)
        return ClassPrediction(probabilities, np.full(len(mean), data))

    def label_slopes(self, mean: FloatArray, variance: FloatArray, y: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the probability of each label [N] and its slopes in the latent variances [N, C]."""
        S = robust_max.label_probability(mean, variance, y)
        wrong = self.epsilon / (self.n_classes - 1)
        rise = 1.0 - self.epsilon - wrong
        return wrong + rise * S.value, rise * S.by_variance


@dataclass(frozen=True)
class Softmax:
    """p(y | f) = exp f_y / sum_j exp f_j, by sampling: new draws in training, fixed points in prediction."""

    n_classes: int

    @property
    def n_latent(self) -> int:
        return self.n_classes

    def expected_log(self, mean: Any, variance: Any, y: Any, seed: Any) -> Any:
        """Return E_Q log p(y | F) [N]. Its first term is exact, the normaliser by `TRAINING_DRAWS` draws."""
        shape = tf.concat([[TRAINING_DRAWS], tf.shape(mean)], axis=0)
        draws = mean + tf.sqrt(variance) * tf.random.stateless_normal(shape, seed, dtype=tf.float64)
        normaliser = tf.reduce_mean(tf.reduce_logsumexp(draws, axis=2), axis=0)
        return tf.gather(mean, y, axis=1, batch_dims=1) - normaliser

    def predict(self, mean: FloatArray, variance: FloatArray) -> ClassPrediction:
        """Return the mean softmax over `PREDICTION_DRAWS` Sobol points. Errors: 2e-3 at deviations of 3, 5e-3 at 30."""
        normals = normal_points(mean.shape[1])
        probabilities, data = np.empty_like(mean), np.empty(len(mean))
        for at in range(0, len(mean), _BLOCK_ROWS):
            rows = slice(at, at + _BLOCK_ROWS)
            p = softmax(mean[rows] + np.sqrt(variance[rows]) * normals[:, None, :], axis=2)
            probabilities[rows], data[rows] = p.mean(axis=0), entr(p).sum(axis=2).mean(axis=0)
        return ClassPrediction(probabilities, data)

    def label_slopes(self, mean: FloatArray, variance: FloatArray, y: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the probability of each label [N] and its slopes in the latent variances [N, C], at fixed points."""
        normals = normal_points(mean.shape[1])
        value, slopes = np.empty(len(mean)), np.empty_like(mean)
        for at in range(0, len(mean), _BLOCK_ROWS):
            rows = slice(at, at + _BLOCK_ROWS)
            s, labels = np.sqrt(variance[rows]), y[rows]
            p = softmax(mean[rows] + s * normals[:, None, :], axis=2)
            own = p[:, np.arange(len(labels)), labels]
            value[rows] = own.mean(axis=0)
            # d p_y / d f_l = p_y ([l = y] - p_l), and f_l moves by z_l / (2 s_l)
            one_hot = np.eye(mean.shape[1])[labels]
            moved = np.einsum("sn,sc->nc", own, normals) * one_hot - np.einsum("sn,snc,sc->nc", own, p, normals)
            slopes[rows] = 0.5 * moved / (len(normals) * s)
        return value, slopes


@dataclass(frozen=True)
class Bernoulli:
    """p(y = 1 | f) = sigma(f) of one latent function, labels 0 and 1. Probit or logistic."""

    link: Link

    @property
    def n_latent(self) -> int:
        return 1

    def expected_log(self, mean: Any, variance: Any, y: Any, seed: Any) -> Any:
        """Return E_Q log p(y | F) [N] by Gauss-Hermite quadrature. No sampling."""
        nodes, weights = roots_hermite(_HERMITE)
        f = mean + tf.sqrt(2.0 * variance) * nodes
        signs = 2.0 * tf.cast(y, tf.float64)[:, None] - 1.0
        return tf.linalg.matvec(log_sigma(self.link)(signs * f), weights / np.sqrt(np.pi))

    def predict(self, mean: FloatArray, variance: FloatArray) -> ClassPrediction:
        """Return E sigma(F), in the order of the labels 0, 1."""
        one = self.link.probability(mean[:, 0], variance[:, 0])
        blocks = (slice(at, at + _BLOCK_ROWS) for at in range(0, len(mean), _BLOCK_ROWS))
        data = [self._data_uncertainty(mean[rows], variance[rows]) for rows in blocks]
        return ClassPrediction(np.stack([1.0 - one, one], axis=1), np.concatenate(data) if data else one)

    def _data_uncertainty(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Return E H[y | F] in nats [N]: the entropy is a peak at f = 0 that nodes over a wide density would miss."""
        s = np.sqrt(variance)
        low, high = np.maximum(-_BUMP, mean - _REACH * s), np.minimum(_BUMP, mean + _REACH * s)
        f = low + np.maximum(high - low, 0.0) * _UNIT_NODES
        density = np.exp(-0.5 * ((f - mean) / s) ** 2) / (np.sqrt(2.0 * np.pi) * s)
        # here the entropy is constant, 0 unless sigma is squeezed
        far = self._entropy(np.array([_BUMP]))
        bump = ((self._entropy(f) - far) * density) @ _UNIT_WEIGHTS
        return np.asarray(far + bump * np.maximum(high - low, 0.0)[:, 0])

    def _entropy(self, f: FloatArray) -> FloatArray:
        p = self.link.sigma(f)
        return np.asarray(entr(p) + entr(1.0 - p))


class GaussianNoise:
    """y = F(x) + noise with a trained variance. ValueError if it is not positive."""

    n_latent = 1

    def __init__(self, variance: float) -> None:
        if not variance > 0.0:
            raise ValueError(f"noise variance {variance}: must be positive")
        self._log_variance = tf.Variable(np.log(variance), dtype=tf.float64)
        self.variables = [self._log_variance]

    @property
    def variance(self) -> float:
        return float(np.exp(self._log_variance.numpy()))

    def expected_log(self, mean: Any, variance: Any, y: Any, seed: Any) -> Any:
        """Return E_Q log p(y | F) = -log(2 pi s) / 2 - ((y - m_Q)^2 + r) / (2 s) [N], targets [N]."""
        s = tf.exp(self._log_variance)
        square = (y - mean[:, 0]) ** 2 + variance[:, 0]
        return -0.5 * (np.log(2.0 * np.pi) + self._log_variance) - 0.5 * square / s

    def score(self, mean: Any, variance: Any, y: Any) -> Any:
        """Return the mean negative log density of targets [N] at latent moments [N, 1], variances tempered.

        As `wasserstein.scoring.tempered_log_density`, in TensorFlow. NaN if it is not finite.
        """
        total = variance[:, 0] + tf.exp(self._log_variance)
        factor = tf.reduce_mean((y - mean[:, 0]) ** 2 / total)
        least = tf.math.log(tf.maximum(factor, np.finfo(np.float64).tiny))
        found = 0.5 * (tf.reduce_mean(tf.math.log(2.0 * np.pi * total)) + least + 1.0)
        return tf.where(tf.math.is_finite(found), found, tf.constant(np.nan, tf.float64))


@tf.custom_gradient  # type: ignore[untyped-decorator]
def label_probability(mean: Any, variance: Any, y: Any) -> tuple[Any, Any]:
    """Return S_y [N] of `classification.robust_max` as a tensor with its slopes."""
    count, classes = mean.shape
    S, by_mean, by_variance = tf.numpy_function(_label_probability, (mean, variance, y), (tf.float64,) * 3)
    S.set_shape([count])
    for slopes in (by_mean, by_variance):
        slopes.set_shape([count, classes])

    def slopes_of(upstream: Any) -> tuple[Any, Any, None]:
        return upstream[:, None] * by_mean, upstream[:, None] * by_variance, None

    return S, slopes_of


def _label_probability(
    mean: FloatArray, variance: FloatArray, y: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
        return np.full(len(mean), np.nan), np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    found = robust_max.label_probability(mean, variance, y)
    return found.value, found.by_mean, found.by_variance


def normal_points(dimension: int) -> FloatArray:
    """Return `PREDICTION_DRAWS` points of the standard normal distribution, always the same, [S, L]."""
    points = qmc.Sobol(dimension, scramble=True, seed=0).random(PREDICTION_DRAWS)
    return np.asarray(ndtri(np.clip(points, 1e-12, 1.0 - 1e-12)))
