"""What the generators of safe active learning return."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class SafeSample:
    """Outputs to learn and a safety value that must stay above a threshold, with and without noise.

    Leading axes, if any, count independent draws; inputs may be common to all of them.

    Attributes:
        X: inputs [N, D] or [..., N, D].
        F: noise-free outputs [..., N, P].
        Y: noisy outputs [..., N, P].
        h: noise-free safety values [..., N].
        z: noisy safety values [..., N].
        threshold: a point is safe where the safety value is above it.
    """

    X: FloatArray
    F: FloatArray
    Y: FloatArray
    h: FloatArray
    z: FloatArray
    threshold: float
