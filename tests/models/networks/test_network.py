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


def test_3c3d_has_its_layers() -> None:
    """3c3d of DeepOBS on 28 x 28 pixels: 28 - 24 - 12 - 10 - 5 - 5 - 3 pixels a side."""
    spec = NetworkSpec((64, 96, 128), image=(28, 28, 1), architecture="3c3d")
    network = Network(spec, 784, 10)
    convolutions = ((5, 5, 1, 64), (64,), (3, 3, 64, 96), (96,), (3, 3, 96, 128), (128,))
    assert network.shapes == (*convolutions, (1152, 512), (512,), (512, 256), (256,), (256, 10), (10,))
    assert spec.multiplications(784, 10) == (
        24**2 * 25 * 64 + 10**2 * 9 * 64 * 96 + 5**2 * 9 * 96 * 128 + 1152 * 512 + 512 * 256 + 256 * 10
    )
    small = Network(NetworkSpec((3, 4, 5), image=(14, 14, 1), architecture="3c3d"), 196, 2)
    rng = np.random.default_rng(1)
    parameters, X = small.initial(rng), rng.uniform(size=(4, 196))
    parameters = [np.asarray(each + 0.1 * rng.standard_normal(each.shape), np.float32) for each in parameters]
    hidden = np.asarray(X, np.float32).reshape(4, 14, 14, 1)
    for layer, half in ((0, 0), (2, 0), (4, 1)):
        hidden = pooled(np.maximum(convolved(hidden, parameters[layer], half) + parameters[layer + 1], 0.0))
    dense = hidden.reshape(4, 5)
    for layer in (6, 8):
        dense = np.tanh(dense @ parameters[layer] + parameters[layer + 1])
    np.testing.assert_allclose(small(parameters, X), dense @ parameters[10] + parameters[11], rtol=1e-4, atol=1e-5)


def convolved(images: Array, filters: Array, half: int) -> Array:
    """Return images [N, H, W, C] convolved with filters [S, S, C, D], `half` rows of zeros around them."""
    padded = np.pad(images, ((0, 0), (half, half), (half, half), (0, 0)))
    height, width = (side - len(filters) + 1 for side in padded.shape[1:3])
    return np.sum(
        [
            padded[:, i : i + height, j : j + width] @ filters[i, j]
            for i in range(len(filters))
            for j in range(len(filters))
        ],
        axis=0,
    )


def pooled(images: Array) -> Array:
    """Return the largest of 3 x 3 pixels around every second one: of an even number of rows 0 to 2, 2 to 4, ..."""
    rows, columns = ([2 * at - side % 2 for at in range((side + 1) // 2)] for side in images.shape[1:3])
    lines = [
        np.stack([images[:, max(i, 0) : i + 3, max(j, 0) : j + 3].max(axis=(1, 2)) for j in columns], axis=1)
        for i in rows
    ]
    return np.stack(lines, axis=1)


def test_what_does_not_fit_3c3d_is_refused() -> None:
    for spec in ({"widths": (4, 4, 4)}, {"widths": (4, 4), "image": (28, 28, 1)}):
        with pytest.raises(UserError, match="only with convolution=true and three widths"):
            NetworkSpec(**spec, architecture="3c3d")
    with pytest.raises(UserError, match="leave nothing of 8 x 8 pixels"):
        NetworkSpec((4, 4, 4), image=(8, 8, 3), architecture="3c3d")
    with pytest.raises(UserError, match="architecture"):
        NetworkSpec((4,), image=IMAGE, architecture="3c2d")
