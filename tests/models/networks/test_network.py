from __future__ import annotations

import numpy as np
import pytest

from gpsuite.models.network_spec import NetworkSpec
from gpsuite.models.networks import Network

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
