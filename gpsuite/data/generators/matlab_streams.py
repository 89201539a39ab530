"""MATLAB's random numbers from a seed, for datasets that were drawn with MATLAB.

`rng(seed)` is the Mersenne Twister, as in numpy. `rand`, `randperm` and `randn` are functions of its words. The
constants of `randn` are those of Marsaglia and Tsang's ziggurat with 256 layers (2000, J. Statistical Software 5(8)).
"""

from __future__ import annotations

import math

import numpy as np

from gpsuite.arrays import FloatArray, IntArray

START_SEED = 5489  # seed of `rng(0)`, the state at start-up
LAYERS = 256
R, V = 3.6541528853610088, 0.00492867323399  # start of the tail, area of a layer


def _edges() -> list[float]:
    """Return the layers' right ends x_0 = 0 < ... < x_255 = R < x_256 = V / f(R), f(x) = exp(-x²/2)."""
    edges = [0.0] * (LAYERS + 1)
    edges[LAYERS], edges[LAYERS - 1] = V / math.exp(-0.5 * R * R), R
    for i in range(LAYERS - 2, 0, -1):
        above = edges[i + 1]
        edges[i] = math.sqrt(-2.0 * math.log(V / above + math.exp(-0.5 * above * above)))
    return edges


EDGES = _edges()
HEIGHTS = [math.exp(-0.5 * x * x) for x in EDGES]


class MatlabStream:
    """The stream after `rng(seed)`. Each call continues where the last ended.

    Args:
        seed: number from 0 to 2**32 - 1. 0 is the state at start-up.
    """

    def __init__(self, seed: int) -> None:
        self._words = np.random.RandomState(seed or START_SEED)

    def rand(self, count: int) -> FloatArray:
        """Return uniform numbers in [0, 1), [count]."""
        return self._words.random_sample(count)

    def randperm(self, count: int) -> IntArray:
        """Return a permutation of 0 to count - 1, one less than MATLAB's."""
        return np.argsort(self.rand(count), kind="stable")

    def randn(self, *shape: int) -> FloatArray:
        """Return standard normal numbers of a shape, filled column by column.

        They differ from MATLAB's by less than 1e-7: its method for the last bits is unknown.
        """
        values = [self._normal() for _ in range(math.prod(shape))]
        return np.reshape(np.array(values), shape, order="F")

    def _normal(self) -> float:
        while True:
            first, second = (int(word) for word in self._words.randint(0, 2**32, 2, dtype=np.uint64))
            u = 2.0 * (((first >> 5) * 2**26 + (second >> 6)) / 2**53) - 1.0
            layer = second >> 24
            x = u * EDGES[layer + 1]
            if abs(x) < EDGES[layer]:
                return x
            if layer == LAYERS - 1:
                return math.copysign(self._tail(), u)
            low, high = HEIGHTS[layer + 1], HEIGHTS[layer]
            if low + float(self.rand(1)[0]) * (high - low) < math.exp(-0.5 * x * x):
                return x

    def _tail(self) -> float:
        while True:
            p, q = (-math.log(float(value)) for value in self.rand(2))
            if 2.0 * q > (p / R) ** 2:
                return R + p / R
