"""The toy problem of safe active learning: a sine plus and minus a sigmoid (Li, Rakitsch and Zimmer 2022, I.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.generators.regression import Size, as_shape


@dataclass(frozen=True, eq=False)
class SafeSample:
    """Outputs to learn and a safety value that must stay above a threshold, with and without noise.

    Leading axes, if any, count independent draws. Inputs may be common to all of them.

    Attributes:
        X: inputs [N, D] or [..., N, D].
        F: noise-free outputs [..., N, P].
        Y: noisy outputs [..., N, P].
        h: noise-free safety values [..., N].
        z: noisy safety values [..., N].
        threshold: limit of the safety value. A point is safe if its value is above it.
    """

    X: FloatArray
    F: FloatArray
    Y: FloatArray
    h: FloatArray
    z: FloatArray
    threshold: float


Form: TypeAlias = Literal["paper", "code"]

# s of the sigmoid 1 / (1 + exp(-s x)): in the paper, and in its authors' code
STEEPNESS: dict[Form, float] = {"paper": 2.0, "code": 1.0}
EXPLORATION = (-2.0, 2.0)
START = (-0.6, 0.6)
THRESHOLD = 0.7
OUTPUT_NOISE = 0.4  # standard deviation
SAFETY_NOISE = 0.05


def true_outputs(x: FloatArray, form: Form = "paper") -> FloatArray:
    """Return f(x) = (sin 10x + sigmoid, sin 10x - sigmoid), sigmoid = 1 / (1 + exp(-s x)), as [..., 2].

    Args:
        x: scalar inputs of any shape.
        form: `paper` (s = 2) or `code` (s = 1).
    """
    wave, sigmoid = np.sin(10.0 * x), 1.0 / (1.0 + np.exp(-STEEPNESS[form] * x))
    return np.stack([wave + sigmoid, wave - sigmoid], axis=-1)


def true_safety(x: FloatArray) -> FloatArray:
    """Return h(x) = exp(-(x - 0.1)^2 / 2). Above 0.7 for x between 0.1 -+ sqrt(-2 log 0.7), about (-0.74, 0.94)."""
    values: FloatArray = np.exp(-0.5 * (x - 0.1) ** 2)
    return values


def exploration_grid(n: int = 200) -> FloatArray:
    """Return the pool of inputs: `n` equally spaced points of [-2, 2], both ends included, [n, 1]."""
    return np.linspace(*EXPLORATION, n)[:, None]


def initial_inputs(rng: np.random.Generator, size: Size = 12) -> FloatArray:
    """Return starting inputs, uniform on [-0.6, 0.6], where h is above 0.78, [..., n, 1]."""
    return rng.uniform(*START, as_shape(size))[..., None]


def sin_sigmoid(
    rng: np.random.Generator, X: FloatArray, *, form: Form = "paper", repetitions: tuple[int, ...] = ()
) -> SafeSample:
    """Return noisy observations of both outputs and of the safety value at given inputs.

    y ~ N(f(x), 0.4^2 I), z ~ N(h(x), 0.05^2), safe above 0.7.

    Args:
        rng: source of randomness.
        X: inputs [..., N, 1].
        form: `paper` or `code`, the steepness of the sigmoid.
        repetitions: shape of independent draws of the noise for the same inputs. Only Y and z have these leading axes.

    Raises:
        ValueError: if X does not have exactly one column.
    """
    if X.ndim < 2 or X.shape[-1] != 1:
        raise ValueError(f"X has shape {X.shape}. It must be [..., N, 1]")
    x = X[..., 0]
    outputs, safety = true_outputs(x, form), true_safety(x)
    noisy = outputs + OUTPUT_NOISE * rng.standard_normal((*repetitions, *outputs.shape))
    z = safety + SAFETY_NOISE * rng.standard_normal((*repetitions, *safety.shape))
    return SafeSample(X, outputs, noisy, safety, z, THRESHOLD)
