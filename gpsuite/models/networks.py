"""Networks in TensorFlow as pure functions of their parameters: these can be sampled or linearised around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from gpsuite.arrays import FloatArray
from gpsuite.models.network_spec import NetworkSpec

_ACTIVATIONS = {"relu": tf.nn.relu, "tanh": tf.tanh}


class Network:
    """The function from inputs and parameters to outputs.

    Convolutions use float32: they are several times faster, and images have no more digits. Dense networks use float64.
    Outputs are float64.

    Raises:
        ValueError: if the inputs do not fit the spec's image.
    """

    def __init__(self, spec: NetworkSpec, inputs: int, outputs: int) -> None:
        self.spec, self.inputs, self.outputs = spec, inputs, outputs
        self.shapes = spec.shapes(inputs, outputs)
        self.dtype = tf.float64 if spec.image is None else tf.float32

    def initial(self, rng: np.random.Generator) -> list[FloatArray]:
        """Return initial parameters: normal weights of variance 2 / fan-in (He et al. 2015), biases 0.

        For tanh, and always for the output layer, the variance is 1 / fan-in.
        """
        values = []
        for weights, biases, activation in zip(self.shapes[::2], self.shapes[1::2], self._activations, strict=True):
            gain = 2.0 if activation == "relu" else 1.0
            values += [np.sqrt(gain / np.prod(weights[:-1])) * rng.standard_normal(weights), np.zeros(biases)]
        return values

    @property
    def _activations(self) -> list[str]:
        """Activation of each layer, the linear output last."""
        spec = self.spec
        return [spec.activation] * len(spec.convolutions) + [spec.dense_activation] * len(spec.dense) + ["linear"]

    def variables(self, rng: np.random.Generator) -> list[Any]:
        return [tf.Variable(value, dtype=self.dtype) for value in self.initial(rng)]

    def features(self, parameters: Sequence[Any], X: Any, dropout: float = 0.0, seed: Any = None) -> Any:
        """Return the last hidden layer [N, F]. With dropout the kept units are scaled up. `seed` holds two integers."""
        hidden = tf.cast(X, self.dtype)
        if self.spec.image is not None:
            hidden = tf.reshape(hidden, [-1, *self.spec.image])
        for layer, shape in enumerate(self.shapes[:-2:2]):
            weights, biases = parameters[2 * layer], parameters[2 * layer + 1]
            activation = _ACTIVATIONS[self._activations[layer]]
            if len(shape) == 2:
                hidden = activation(tf.matmul(tf.reshape(hidden, [-1, shape[0]]), weights) + biases)
            else:
                each = self.spec.convolutions[layer]
                padding = "SAME" if each.padded else "VALID"
                hidden = activation(tf.nn.conv2d(hidden, weights, strides=1, padding=padding) + biases)
                hidden = tf.nn.max_pool2d(hidden, each.pool, 2, padding="SAME" if each.pool == 3 else "VALID")
            if dropout > 0.0:
                hidden = tf.nn.experimental.stateless_dropout(hidden, dropout, seed=seed + layer)
        return tf.reshape(hidden, [-1, self.shapes[-2][0]])

    def __call__(self, parameters: Sequence[Any], X: Any, dropout: float = 0.0, seed: Any = None) -> Any:
        features = self.features(parameters, X, dropout, seed)
        return tf.cast(tf.matmul(features, parameters[-2]) + parameters[-1], tf.float64)
