"""What a network is made of, as plain data; no TensorFlow."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from gpsuite.arrays import FloatArray
from gpsuite.errors import UserError, unknown_name

ACTIVATIONS = ("relu", "tanh")
KERNEL_SIZE, POOL = 3, 2


@dataclass(frozen=True)
class NetworkSpec:
    """Hidden layers of a network whose outputs are linear in the last of them.

    Attributes:
        widths: of the hidden layers, in order.
        activation: one of `ACTIVATIONS`.
        image: height, width, channels of inputs that are images, row by row; None for plain vectors. Each hidden
            layer is then a 3 x 3 convolution of that many channels, followed by 2 x 2 pooling of the maximum.

    Raises:
        UserError: if the activation is unknown, a width is below 1, or the image is too small for the pooling.
    """

    widths: tuple[int, ...] = (100,)
    activation: str = "relu"
    image: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise unknown_name("activation", self.activation, ACTIVATIONS)
        if not self.widths or min(self.widths) < 1:
            raise UserError(f"widths={list(self.widths)}: at least one layer, each at least 1 wide", "widths")
        if self.image is not None and min(self.image[:2]) < POOL ** len(self.widths):
            height, width, _ = self.image
            raise UserError(
                f"widths={list(self.widths)}: {len(self.widths)} poolings leave nothing of {height} x {width} "
                "pixels; use fewer layers",
                "widths",
            )

    def shapes(self, inputs: int, outputs: int) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of weights and biases, layer by layer, the output layer last.

        Raises:
            ValueError: if the inputs are not as many as the image has values.
        """
        if self.image is None:
            sizes = (inputs, *self.widths)
            hidden = [shape for a, b in itertools.pairwise(sizes) for shape in ((a, b), (b,))]
            return (*hidden, (self.widths[-1], outputs), (outputs,))
        height, width, channels = self.image
        if height * width * channels != inputs:
            raise ValueError(f"{inputs} inputs are no images of {height} x {width} x {channels}")
        sizes = (channels, *self.widths)
        filters: list[tuple[int, ...]] = [
            shape for a, b in itertools.pairwise(sizes) for shape in ((KERNEL_SIZE, KERNEL_SIZE, a, b), (b,))
        ]
        left = (height // POOL ** len(self.widths)) * (width // POOL ** len(self.widths)) * self.widths[-1]
        return (*filters, (left, outputs), (outputs,))


# Networks in TensorFlow: pure functions of their parameters, so that these may be sampled or linearised around.


_ACTIVATIONS = {"relu": tf.nn.relu, "tanh": tf.tanh}


class Network:
    """The function from inputs and parameters to outputs.

    Convolutions compute in float32, where they are several times faster and images hold no more digits; dense
    networks in float64. Outputs are float64.

    Args:
        spec: the hidden layers.
        inputs: D.
        outputs: P.

    Raises:
        ValueError: if the inputs do not fit the spec's image.
    """

    def __init__(self, spec: NetworkSpec, inputs: int, outputs: int) -> None:
        self.spec, self.inputs, self.outputs = spec, inputs, outputs
        self.shapes = spec.shapes(inputs, outputs)
        self.dtype = tf.float64 if spec.image is None else tf.float32

    def initial(self, rng: np.random.Generator) -> list[FloatArray]:
        """Return parameters to start from: normal weights of variance 2 / fan-in (He et al. 2015), biases 0.

        For tanh the variance is 1 / fan-in; the output layer's always is.
        """
        gain, last = (2.0 if self.spec.activation == "relu" else 1.0), len(self.shapes) - 2
        values = []
        for index, shape in enumerate(self.shapes):
            if len(shape) == 1:
                values.append(np.zeros(shape))
            else:
                variance = (1.0 if index == last else gain) / np.prod(shape[:-1])
                values.append(np.sqrt(variance) * rng.standard_normal(shape))
        return values

    def variables(self, rng: np.random.Generator) -> list[Any]:
        """Return new variables at `initial` values."""
        return [tf.Variable(value, dtype=self.dtype) for value in self.initial(rng)]

    def features(self, parameters: Sequence[Any], X: Any, dropout: float = 0.0, seed: Any = None) -> Any:
        """Return the last hidden layer, shape [N, F].

        Args:
            parameters: tensors of `shapes`.
            X: inputs, shape [N, D].
            dropout: probability with which each hidden unit is left out, the others scaled up.
            seed: two integers, where there is dropout.
        """
        hidden, activation = tf.cast(X, self.dtype), _ACTIVATIONS[self.spec.activation]
        if self.spec.image is not None:
            hidden = tf.reshape(hidden, [-1, *self.spec.image])
        for layer in range(len(self.spec.widths)):
            weights, biases = parameters[2 * layer], parameters[2 * layer + 1]
            if self.spec.image is None:
                hidden = activation(tf.matmul(hidden, weights) + biases)
            else:
                hidden = activation(tf.nn.conv2d(hidden, weights, strides=1, padding="SAME") + biases)
                hidden = tf.nn.max_pool2d(hidden, POOL, POOL, padding="VALID")
            if dropout > 0.0:
                hidden = tf.nn.experimental.stateless_dropout(hidden, dropout, seed=seed + layer)
        return hidden if self.spec.image is None else tf.reshape(hidden, [-1, self.shapes[-2][0]])

    def __call__(self, parameters: Sequence[Any], X: Any, dropout: float = 0.0, seed: Any = None) -> Any:
        """Return the outputs, shape [N, P], float64; arguments as `features`."""
        features = self.features(parameters, X, dropout, seed)
        return tf.cast(tf.matmul(features, parameters[-2]) + parameters[-1], tf.float64)
