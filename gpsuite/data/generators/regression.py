"""One-dimensional regression data y_i = f(x_i) + e_i with a choice of functions and noises.

For kernel ridge regression, support vector regression and the kernelised LASSO (Csaji and Kis 2019), whose
confidence regions are about the values of f at the inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.generators.noises import draw_noise
from gpsuite.data.generators.sizes import Size, as_shape

DOMAIN = (-2.0, 2.0)

# `linear` is for linear models, the others have a few turns in DOMAIN
FUNCTIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "sin_2x": lambda x: np.sin(2.0 * x),
    "cos_1.5x": lambda x: np.cos(1.5 * x),
    "linear": lambda x: 0.5 + 0.7 * x,
}


@dataclass(frozen=True, eq=False)
class RegressionSample:
    """Data of one function; all arrays have the same leading axes for repetitions.

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
    """Return y = f(x) + noise_scale * e at inputs drawn uniformly from `domain`, anew in each repetition.

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
