"""One-dimensional regression data y_i = f(x_i) + e_i with a choice of functions and noises.

Confidence regions by gradient perturbation (Csaji and Kis 2019, assumption A3) apply a group to the noise. Given the
inputs, the group must not change the noise's distribution. The groups are sign changes (independent symmetric noises of
any scales) and permutations (exchangeable noises). Every noise states which groups are valid. For some noises neither
is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gpsuite.arrays import FloatArray

Size: TypeAlias = int | tuple[int, ...]


def as_shape(size: Size) -> tuple[int, ...]:
    """Return `(..., n)` for `n` or `(..., n)`.

    Raises:
        ValueError: if there is no number of points, or a number is not positive.
    """
    shape = (size,) if isinstance(size, int) else tuple(size)
    if not shape or min(shape) < 1:
        raise ValueError(f"size={size}: must be n or (..., n) of positive numbers")
    return shape


Draw = Callable[[np.random.Generator, tuple[int, ...]], FloatArray]

BIAS = 0.75  # mean of the biased Gaussian noise
LOGNORMAL_SIGMA = 1.2
MODE_WIDTH = 0.2  # standard deviation around the modes -1 and 1 of the bimodal noise


@dataclass(frozen=True)
class Noise:
    """A distribution of noise vectors.

    Attributes:
        draw: function of generator and shape that returns values. The last axis counts the points.
        signs: whether it is invariant under sign changes.
        permutations: whether it is invariant under permutations.
        input_scale: factor of the noise at a scalar input, if it depends on the input.
        formula: the distribution.
    """

    draw: Draw
    signs: bool
    permutations: bool
    formula: str
    input_scale: Callable[[FloatArray], FloatArray] | None = None


def draw_noise(
    rng: np.random.Generator, name: str, size: Size, *, inputs: FloatArray | None = None, scale: float = 1.0
) -> FloatArray:
    """Return noise of the named distribution (`NOISES`), multiplied by `scale`.

    Args:
        rng: source of randomness.
        name: a key of `NOISES`.
        size: n or (..., n).
        inputs: scalar inputs, of a shape that broadcasts to `size`. Only input-dependent noise uses them.
        scale: factor, in the unit of the targets. For noises without standard deviation it is not the standard
            deviation.

    Raises:
        KeyError: if there is no noise of that name.
        ValueError: if the noise depends on the inputs and there are none, or `scale` is negative or not finite.
    """
    noise = NOISES[name]
    if not (np.isfinite(scale) and scale >= 0):
        raise ValueError(f"scale={scale}: must be finite and not negative")
    shape = as_shape(size)
    values = scale * noise.draw(rng, shape)
    if noise.input_scale is None:
        return values
    if inputs is None:
        raise ValueError(f"noise '{name}' depends on the inputs")
    factors: FloatArray = np.broadcast_to(noise.input_scale(inputs), shape)
    return factors * values


def _scaled_t2(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    values: FloatArray = np.linspace(0.5, 1.5, shape[-1]) * rng.standard_t(2, shape)
    return values


def _bimodal(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    modes: FloatArray = rng.choice([-1.0, 1.0], shape)
    values: FloatArray = modes + MODE_WIDTH * rng.standard_normal(shape)
    return values


def _lognormal_centred(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    mean = float(np.exp(LOGNORMAL_SIGMA**2 / 2))
    return rng.lognormal(0.0, LOGNORMAL_SIGMA, shape) - mean


def _shared_shift(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    shared: FloatArray = rng.standard_normal((*shape[:-1], 1))
    return shared + rng.standard_normal(shape)


NOISES: dict[str, Noise] = {
    "gaussian": Noise(lambda rng, shape: rng.standard_normal(shape), True, True, "N(0, 1)"),
    "laplace": Noise(lambda rng, shape: rng.laplace(size=shape), True, True, "density exp(-|e|)/2, variance 2"),
    "bimodal": Noise(_bimodal, True, True, "s + 0.2 N(0, 1), s = -1 or 1 with equal probability"),
    "cauchy": Noise(lambda rng, shape: rng.standard_cauchy(shape), True, True, "standard Cauchy. It has no mean"),
    # independent, not identically distributed. Permutations are valid only if the inputs are in random order
    "scaled_t2": Noise(
        _scaled_t2, True, False, "s_i t_2 (no variance), s_i from 0.5 for the first to 1.5 for the last point"
    ),
    "heteroscedastic": Noise(
        lambda rng, shape: rng.standard_normal(shape),
        True,
        False,
        "(0.1 + |x|) N(0, 1)",
        input_scale=lambda inputs: 0.1 + np.abs(inputs),
    ),
    "exponential_centred": Noise(lambda rng, shape: rng.exponential(size=shape) - 1.0, False, True, "Exp(1) - 1"),
    "lognormal_centred": Noise(_lognormal_centred, False, True, "exp(N(0, 1.2^2)) - exp(0.72)"),
    "gaussian_biased": Noise(
        lambda rng, shape: BIAS + rng.standard_normal(shape), False, True, "N(0.75, 1): not centred"
    ),
    # exchangeable but not independent: cov(e_i, e_j) = 1
    "shared_shift": Noise(_shared_shift, False, True, "u + v_i; u, v_i independent N(0, 1), u common to all points"),
    "zero": Noise(lambda rng, shape: np.zeros(shape), True, True, "0: every comparison is a tie"),
}


DOMAIN = (-2.0, 2.0)

# `linear` is for linear models, the others have a few extrema in DOMAIN
FUNCTIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "sin_2x": lambda x: np.sin(2.0 * x),
    "cos_1.5x": lambda x: np.cos(1.5 * x),
    "linear": lambda x: 0.5 + 0.7 * x,
}


@dataclass(frozen=True, eq=False)
class RegressionSample:
    """Data of one function. All arrays have the same leading axes for repetitions.

    Attributes:
        X: inputs [..., N, 1].
        y: targets [..., N].
        f: true function at the inputs [..., N].
    """

    X: FloatArray
    y: FloatArray
    f: FloatArray


def kernel_regression(
    rng: np.random.Generator,
    size: Size,
    *,
    function: str | Callable[[FloatArray], FloatArray] = "sin_2x",
    noise: str = "laplace",
    noise_scale: float = 0.3,
    domain: tuple[float, float] = DOMAIN,
) -> RegressionSample:
    """Return y = f(x) + noise_scale * e at inputs drawn uniformly from `domain`, again in each repetition.

    Args:
        rng: source of randomness.
        size: n or (..., n).
        function: a key of `FUNCTIONS`, or a function of an array of scalar inputs.
        noise: a key of `NOISES`.
        noise_scale: factor of the noise, in the unit of the targets.
        domain: lower and upper end of the inputs.

    Raises:
        KeyError: if there is no function or noise of that name.
        ValueError: if `domain` is empty or `noise_scale` is negative.
    """
    if not domain[0] < domain[1]:
        raise ValueError(f"domain={domain}: the lower end must be below the upper")
    shape = as_shape(size)
    evaluate = FUNCTIONS[function] if isinstance(function, str) else function
    x = rng.uniform(*domain, shape)
    f = evaluate(x)
    y = f + draw_noise(rng, noise, shape, inputs=x, scale=noise_scale)
    return RegressionSample(x[..., None], y, f)
