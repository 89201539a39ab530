"""The algebra of kernels: against GPflow's sums and products, and what collapses to a single kernel."""

from __future__ import annotations

import math

import gpflow
import numpy as np
import numpy.typing as npt
import pytest

from gpsuite.errors import UserError
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.composite import INACTIVE, CompositeKernel, KernelSum, constant, radial, single_kernel, white
from gpsuite.models.latent import LatentPosterior

Array = npt.NDArray[np.float64]
GPFLOW = {
    "squared_exponential": gpflow.kernels.SquaredExponential,
    "matern32": gpflow.kernels.Matern32,
    "matern52": gpflow.kernels.Matern52,
}


def both(
    name: str, lengthscales: list[float], active: list[int], variance: float
) -> tuple[KernelSum, gpflow.kernels.Kernel]:
    theirs = GPFLOW[name](variance=variance, lengthscales=lengthscales, active_dims=active)
    return radial(name, lengthscales, 3, active, variance), theirs


def values(kernel: KernelSum, X: Array, Z: Array) -> Array:
    """Return k(X, Z) by the mean of a posterior with one weight at each datum."""
    latent = kernel.latent()
    nothing = np.zeros((0, 1))
    columns = [
        LatentPosterior(
            z[None], latent.kernel, latent.variance, latent.lengthscales, np.ones(1), nothing, np.zeros(0), 1.0
        )
        for z in Z
    ]
    return np.stack([each.latent(X)[0] for each in columns], axis=1)


def test_sums_and_products_are_gpflows() -> None:
    rng = np.random.default_rng(0)
    (a, their_a), (b, their_b), (c, their_c), (d, their_d) = (
        both("squared_exponential", [0.7, 1.2], [0, 2], 1.5),
        both("matern32", [0.9], [1], 0.4),
        both("matern52", [1.1, 0.8, 2.0], [0, 1, 2], 2.0),
        both("squared_exponential", [0.5, 1.5], [1, 2], 0.8),
    )
    level, their_level = constant(0.3, 3), gpflow.kernels.Constant(0.3)
    X, Z = rng.standard_normal((20, 3)), rng.standard_normal((6, 3))
    for ours, theirs in (
        (a + b, their_a + their_b),
        (a * b + c, their_a * their_b + their_c),
        ((a + level) * (b + c), (their_a + their_level) * (their_b + their_c)),
        (a * d, their_a * their_d),
        (a * d * c + level, their_a * their_d * their_c + their_level),
    ):
        assert values(ours, X, Z) == pytest.approx(theirs(X, Z).numpy(), rel=1e-12, abs=1e-14)
        assert ours.variance == pytest.approx(float(theirs(X[:1], full_cov=False)[0]), rel=1e-14)


def test_gradients_of_moments_are_those_of_differences() -> None:
    rng = np.random.default_rng(1)
    kernel = (
        radial("matern52", 0.8, 2) * radial("matern32", 1.5, 2, [1]) + radial("squared_exponential", 1.0, 2)
    ).latent()
    X, root = rng.standard_normal((9, 2)), 0.05 * rng.standard_normal((4, 9))
    posterior = LatentPosterior(
        X, kernel.kernel, kernel.variance, kernel.lengthscales, rng.standard_normal(9), root, -np.ones(4), 1.0
    )
    points, step = rng.standard_normal((7, 2)), 1e-6
    *_, d_mean, d_variance = posterior.latent_with_gradient(points)
    for j in range(2):
        ends = [posterior.latent(points + sign * step * np.eye(2)[j]) for sign in (1.0, -1.0)]
        for gradient, above, below in zip((d_mean, d_variance), *ends, strict=True):
            assert gradient[:, j] == pytest.approx((above - below) / (2.0 * step), abs=1e-7)


def test_what_is_one_kernel_collapses_to_it() -> None:
    one, other = (
        radial("squared_exponential", [1.0, 2.0], 3, [0, 1]),
        radial("squared_exponential", 2.0, 3, [1, 2], 3.0),
    )
    found = (one * other * constant(2.0, 3)).latent()
    assert (found.kernel, found.variance) == ("squared_exponential", 6.0)
    assert found.lengthscales == pytest.approx([1.0, math.sqrt(2.0), 2.0], rel=1e-15)
    twice = (radial("matern32", 0.3, 2) + radial("matern32", 0.3, 2, variance=0.5)).latent()
    assert (twice.kernel, twice.variance, twice.lengthscales.tolist()) == ("matern32", 1.5, [0.3, 0.3])
    assert radial("matern52", 1.7, 2, [1]).latent().lengthscales.tolist() == [INACTIVE, 1.7]
    assert constant(2.0, 2).latent().lengthscales.tolist() == [INACTIVE] * 2
    assert isinstance((one + other).latent().kernel, CompositeKernel)


def test_white_noise_stays_apart_and_takes_the_variance_of_its_product() -> None:
    kernel = radial("matern32", 1.0, 2, variance=3.0)
    assert (kernel + white(0.2, 2)).latent().white == 0.2
    assert (kernel * white(0.2, 2) + kernel).latent().white == pytest.approx(0.6)
    product = ((kernel + white(0.1, 2)) * (kernel + white(0.2, 2))).latent()
    assert (product.variance, product.white) == (9.0, pytest.approx(0.1 * 3.0 + 0.2 * 3.0 + 0.02))
    with pytest.raises(ValueError, match="nothing but white noise"):
        white(1.0, 2).latent()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UserError, match="unknown kernel"):
        radial("linear", 1.0, 2)
    with pytest.raises(ValueError, match="active inputs"):
        radial("matern32", 1.0, 2, [0, 2])
    with pytest.raises(ValueError, match="must be positive"):
        constant(0.0, 2)
    with pytest.raises(ValueError, match="kernels of 2 and 3 inputs"):
        constant(1.0, 2) + constant(1.0, 3)


def test_several_classes_take_a_single_kernel() -> None:
    kernel = (radial("matern32", 1.0, 2) + radial("squared_exponential", 1.0, 2)).latent()
    assert single_kernel("matern32", "a test") == "matern32"
    with pytest.raises(UserError, match=r"kernel matern32 \+ squared_exponential: a classifier of several classes"):
        MultiClassPosterior(
            np.zeros((3, 2)),
            kernel.kernel,
            1.0,
            kernel.lengthscales,
            np.zeros((3, 3)),
            np.zeros((0, 3, 3)),
            np.zeros(0),
            1.0,
        )
