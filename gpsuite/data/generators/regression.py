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


@dataclass(frozen=True, eq=False)
class KernelExpansion:
    """f(x) = sum_j alpha_j exp(-(x - c_j)^2 / (2 l^2)): a function with finitely many coefficients.

    A confidence region for so few coefficients can be bounded, other than one for N coefficients from N points.

    Attributes:
        centres: c [J].
        coefficients: alpha [J].
        lengthscale: l, in the unit of the inputs.
    """

    centres: FloatArray
    coefficients: FloatArray
    lengthscale: float

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return f at an array of scalar inputs, in its shape."""
        values = np.zeros_like(x)
        for centre, coefficient in zip(self.centres, self.coefficients, strict=True):
            values += coefficient * np.exp(-0.5 * ((x - centre) / self.lengthscale) ** 2)
        return values

    @property
    def squared_norm(self) -> float:
        """Squared RKHS norm alpha' K alpha of f for the kernel of unit variance."""
        values = self(self.centres)
        return float(np.sum(self.coefficients * values))


def draw_kernel_expansion(
    rng: np.random.Generator,
    n_centres: int = 8,
    *,
    lengthscale: float = 0.8,
    domain: tuple[float, float] = DOMAIN,
) -> KernelExpansion:
    """Return a function of equally spaced centres, the ends of `domain` included, and N(0, 1) coefficients.

    Raises:
        ValueError: if there are fewer than 2 centres, or the lengthscale is not positive.
    """
    if n_centres < 2 or not lengthscale > 0:
        raise ValueError(f"n_centres={n_centres}, lengthscale={lengthscale}: at least 2, and positive")
    return KernelExpansion(np.linspace(*domain, n_centres), rng.standard_normal(n_centres), lengthscale)


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
