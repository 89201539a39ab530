"""Kernels of infinitely wide dense networks (NNGP) in closed form, as numpy functions and as GPflow kernels.

Dense-[activation-Dense]^depth with independent normal weights and biases: K_0 = b + w x'x / D and
K_(l+1) = b + w E[act(u) act(v)], (u, v) ~ N(0, K_l), with weight variance w and bias variance b (Neal 1996; Cho &
Saul 2009 for ReLU; Williams 1998 for erf).
"""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from gpsuite.errors import unknown_name

ACTIVATIONS = ("relu", "erf")


class NNGP(gpflow.kernels.Kernel):  # type: ignore[misc]
    """The covariance of a random dense network's output.

    Args:
        depth: number of hidden activations, >= 1.
        activation: one of `ACTIVATIONS`.
        weight_variance: w > 0; for ReLU 2 keeps the diagonal through the layers.
        bias_variance: b >= 0; it is not trained where it is 0.
        scale: the kernel is multiplied by it, > 0.

    Raises:
        UserError: if the activation is unknown.
        ValueError: if the depth is below 1, or a variance is out of its range.
    """

    def __init__(
        self,
        depth: int = 1,
        activation: str = "relu",
        weight_variance: float = 2.0,
        bias_variance: float = 0.1,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise unknown_name("activation", activation, ACTIVATIONS)
        if depth < 1 or weight_variance <= 0.0 or bias_variance < 0.0 or scale <= 0.0:
            raise ValueError("depth >= 1, weight_variance > 0, bias_variance >= 0 and scale > 0 are needed")
        self.depth, self.activation = depth, activation
        positive = gpflow.utilities.positive(lower=0.0)
        self.weight_variance = gpflow.Parameter(weight_variance, transform=positive)
        self.bias_variance = (
            gpflow.Parameter(bias_variance, transform=positive)
            if bias_variance > 0.0
            else gpflow.Parameter(0.0, trainable=False)
        )
        self.scale = gpflow.Parameter(scale, transform=positive)

    def K(self, X: Any, X2: Any = None) -> Any:
        """Return k(X, X2), shape [N, N2] (of X with itself without X2)."""
        X2 = X if X2 is None else X2
        w, b, scale = self._values()
        inputs = tf.cast(tf.shape(X)[-1], X.dtype)
        cross = b + w * tf.matmul(X, X2, transpose_b=True) / inputs
        left, right = (b + w * tf.reduce_sum(part * part, axis=-1) / inputs for part in (X, X2))
        left, right = left[:, None], right[None, :]
        for _ in range(self.depth):
            cross = b + w * self._expectation(cross, left, right)
            left, right = (b + w * self._expectation(d, d, d, equal=True) for d in (left, right))
        return scale * cross

    def K_diag(self, X: Any) -> Any:
        """Return k(x, x) of each row, shape [N]."""
        w, b, scale = self._values()
        diagonal = b + w * tf.reduce_sum(X * X, axis=-1) / tf.cast(tf.shape(X)[-1], X.dtype)
        for _ in range(self.depth):
            diagonal = b + w * self._expectation(diagonal, diagonal, diagonal, equal=True)
        return scale * diagonal

    def _values(self) -> tuple[Any, Any, Any]:
        """Return weight variance, bias variance and scale, each transformed once."""
        parameters = (self.weight_variance, self.bias_variance, self.scale)
        weight, bias, scale = (tf.convert_to_tensor(parameter) for parameter in parameters)
        return weight, bias, scale

    def _expectation(self, cross: Any, left: Any, right: Any, equal: bool = False) -> Any:
        """Return E[act(u) act(v)] for normal (u, v) with variances `left`, `right`; `equal` says u = v."""
        if self.activation == "erf":
            ratio = 2.0 * cross / tf.sqrt((1.0 + 2.0 * left) * (1.0 + 2.0 * right))
            return 2.0 / np.pi * tf.asin(ratio)
        if equal:
            return 0.5 * cross
        return _relu_expectation(cross, left, right)


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _relu_expectation(cross: Any, left: Any, right: Any) -> tuple[Any, Any]:
    """Return sqrt(k11 k22) (sin t + (pi - t) cos t) / (2 pi), cos t = k12 / sqrt(k11 k22).

    Its slopes are finite where automatic differentiation divides by sin t = 0: in k12 it is (pi - t) / (2 pi), in k11
    sin t / (4 pi) sqrt(k22 / k11).
    """
    norm = tf.sqrt(left * right)
    safe = tf.where(norm > 0.0, norm, tf.ones_like(norm))
    cosine = tf.clip_by_value(cross / safe, -1.0, 1.0)
    sine = tf.sqrt((1.0 - cosine) * (1.0 + cosine))
    angle = tf.acos(cosine)
    value = (norm * sine + (np.pi - angle) * cross) / (2.0 * np.pi)

    def slopes(upstream: Any) -> tuple[Any, Any, Any]:
        by_cross = upstream * (np.pi - angle) / (2.0 * np.pi)
        half = upstream * sine * norm / (4.0 * np.pi)
        by_left = tf.reduce_sum(tf.math.divide_no_nan(half, left), axis=1, keepdims=True)
        by_right = tf.reduce_sum(tf.math.divide_no_nan(half, right), axis=0, keepdims=True)
        return by_cross, by_left, by_right

    return value, slopes
