from __future__ import annotations

import numpy as np
import pytest

from gpsuite.errors import UserError
from gpsuite.models.network_spec import NetworkSpec
from gpsuite.models.networks import Network
from tests.arrays import Array

IMAGE = (8, 8, 3)


@pytest.mark.parametrize(
    ("spec", "inputs", "fan_in"),
    [
        (NetworkSpec((400, 300)), 200, [200, 400, 300]),
        (NetworkSpec((400, 300), "tanh"), 200, [200, 400, 300]),
        # a 3 x 3 convolution sees nine pixels of every channel, the output layer 2 x 2 pixels of every one
        (NetworkSpec((60, 50), image=IMAGE), 192, [27, 540, 200]),
    ],
)
def test_weights_start_with_the_variance_of_their_fan_in(spec: NetworkSpec, inputs: int, fan_in: list[int]) -> None:
    """He et al. 2015: 2 / fan-in before a ReLU, else 1 / fan-in; a sample variance is off by sqrt(2 / n) of itself."""
    weights = [each for each in Network(spec, inputs, 100).initial(np.random.default_rng(0)) if each.ndim > 1]
    gains = [2.0 if spec.activation == "relu" else 1.0] * 2 + [1.0]
    for each, gain, count in zip(weights, gains, fan_in, strict=True):
        assert np.var(each) * count / gain == pytest.approx(1.0, abs=5.0 * np.sqrt(2.0 / each.size))


def test_dense_layers_follow_convolutions() -> None:
    """2c2d of DeepOBS (Schneider et al. 2019) on 28 x 28 pixels: 832 + 51,264 + 3,212,288 + 10,250 parameters."""
    spec = NetworkSpec((32, 64), image=(28, 28, 1), filter_size=5, dense=(1024,))
    network = Network(spec, 784, 10)
    convolutions = ((5, 5, 1, 32), (32,), (5, 5, 32, 64), (64,))
    assert network.shapes == (*convolutions, (3136, 1024), (1024,), (1024, 10), (10,))
    assert sum(np.prod(shape) for shape in network.shapes) == 3_274_634
    assert spec.multiplications(784, 10) == 28**2 * 800 + 14**2 * 51200 + 3136 * 1024 + 1024 * 10
    small = Network(NetworkSpec((3, 4), image=(8, 8, 1), filter_size=5, dense=(6,)), 64, 2)
    rng = np.random.default_rng(1)
    parameters, X = small.initial(rng), rng.uniform(size=(5, 64))
    parameters = [np.asarray(each + 0.1 * rng.standard_normal(each.shape), np.float32) for each in parameters]
    hidden = np.asarray(X, np.float32).reshape(5, 8, 8, 1)
    for layer in (0, 2):
        hidden = pooled(np.maximum(convolved(hidden, parameters[layer]) + parameters[layer + 1], 0.0))
    dense = np.maximum(hidden.reshape(5, 16) @ parameters[4] + parameters[5], 0.0)
    np.testing.assert_allclose(small(parameters, X), dense @ parameters[6] + parameters[7], rtol=1e-4, atol=1e-5)


def convolved(images: Array, filters: Array) -> Array:
    """Return images [N, H, W, C] convolved with filters [S, S, C, D], zeros around them, [N, H, W, D]."""
    half, (height, width) = len(filters) // 2, images.shape[1:3]
    padded = np.pad(images, ((0, 0), (half, half), (half, half), (0, 0)))
    return np.sum(
        [
            padded[:, i : i + height, j : j + width] @ filters[i, j]
            for i in range(len(filters))
            for j in range(len(filters))
        ],
        axis=0,
    )


def pooled(images: Array) -> Array:
    """Return the largest of each 2 x 2 pixels."""
    count, height, width, channels = images.shape
    return images.reshape(count, height // 2, 2, width // 2, 2, channels).max(axis=(2, 4))


def test_dense_layers_without_convolutions_are_refused() -> None:
    with pytest.raises(UserError, match="only after convolutions"):
        NetworkSpec((4,), dense=(3,))
    with pytest.raises(UserError, match="at least 1"):
        NetworkSpec((4,), image=IMAGE, dense=(0,))
