"""Steps of an attack: gradient and curvature of the score, and a climb that reaches the model's maximum in a box."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.methods.robustness.level_bound.level_bound import level_bound
from gpsuite.methods.robustness.level_bound.level_search import SHARES, STEPS, _ascend, newton_steps, score_derivatives
from tests.arrays import Array
from tests.methods.robustness.made_up_posteriors import random_posterior


@pytest.mark.parametrize("seed", range(5))
def test_the_climb_comes_as_near_as_accelerated_gradients_do(seed: int) -> None:
    """Concave: at most 2 L |x*|^2 / (k + 1)^2 below the maximum after k steps (Beck and Teboulle 2009, Theorem 4.4)."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    hessian = -(turn * np.geomspace(1e-2, 1.0, 8)) @ turn.T
    peak = rng.uniform(-1.0, 1.0, 8)
    gradient = -2.0 * hessian @ peak
    largest = 2.0 * np.abs(hessian).sum(axis=1).max()
    free = _ascend(gradient, hessian, np.full(8, -9.0), np.full(8, 9.0))
    gap = -(free - peak) @ hessian @ (free - peak)
    assert 0.0 <= gap <= 2.0 * largest * (peak @ peak) / (STEPS + 1) ** 2
    held = _ascend(gradient, hessian, np.full(8, -0.3), np.full(8, 0.2))
    assert np.all((held >= -0.3) & (held <= 0.2))
    slope = gradient + 2.0 * hessian @ held
    inside = (held > -0.3) & (held < 0.2)
    assert np.all(np.abs(slope[inside]) < 0.1 * np.abs(gradient).max())


def test_without_curvature_the_climb_ends_in_the_corner() -> None:
    low, high = np.array([-1.0, -2.0, -3.0]), np.array([4.0, 5.0, 6.0])
    found = _ascend(np.array([1.0, -1.0, 0.0]), np.zeros((3, 3)), low, high)
    assert found.tolist() == [4.0, -2.0, 0.0]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kernel", ["squared_exponential", "matern52"])
def test_steps_raise_the_score_by_what_the_model_says(kernel: str, sign: int) -> None:
    posterior = random_posterior(np.random.default_rng(5), kernel, "probit", 8, 2)
    bound = level_bound(posterior, posterior.X[0], np.arange(2))
    centre = posterior.X[0] + 0.2 * posterior.lengthscales

    def score(x: Array) -> float:
        mean, variance = (float(each[0]) for each in posterior.latent(x[None]))
        return sign * mean / np.sqrt(1.0 + variance)

    gradient, hessian = score_derivatives(bound.expand(centre[None]), bound.level, sign)
    h, slope = 1e-5, np.empty(2)
    for axis in range(2):
        step = h * posterior.lengthscales * (np.arange(2) == axis)
        slope[axis] = (score(centre + step) - score(centre - step)) / (2 * h)
    cosine = gradient @ slope / np.sqrt((gradient @ gradient) * (slope @ slope))
    assert cosine == pytest.approx(1.0, abs=1e-6)
    reach = np.full(2, 0.05)
    steps, gain = newton_steps(bound.expand(centre[None]), bound.level, sign, -reach, reach)
    assert steps.shape == (len(SHARES), 2) and np.all(np.abs(steps) <= reach)
    np.testing.assert_allclose(steps, np.array(SHARES)[:, None] * steps[0])
    assert gain == pytest.approx(gradient @ steps[0] + steps[0] @ hessian @ steps[0])
    assert score(centre + steps[0] * posterior.lengthscales) > score(centre)


@pytest.mark.parametrize("kernel", ["squared_exponential", "matern52"])
def test_the_curvature_is_that_of_the_gradient(kernel: str) -> None:
    """The half Hessian against the same function's values at neighbours, along each input and across."""
    posterior = random_posterior(np.random.default_rng(6), kernel, "probit", 8, 2)
    bound = level_bound(posterior, posterior.X[0], np.arange(2))
    centre = posterior.X[0] + 0.3 * posterior.lengthscales
    mean, variance = (float(each[0]) for each in posterior.latent(centre[None]))
    by_mean, by_variance, mixed, twice = (
        float(each[0]) for each in bound.level.derivatives(np.array([mean]), np.array([variance]))
    )

    def moments(x: Array) -> tuple[float, float]:
        return tuple(float(each[0]) for each in posterior.latent((centre + x * posterior.lengthscales)[None]))  # type: ignore[return-value]

    def to_second_order(x: Array) -> float:
        d_mean, d_variance = np.subtract(moments(x), (mean, variance))
        return by_mean * d_mean + by_variance * d_variance + mixed * d_mean * d_variance + 0.5 * twice * d_variance**2

    hessian = score_derivatives(bound.expand(centre[None]), bound.level, 1)[1]
    h = 1e-3
    for direction in np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]):
        curved = 0.5 * (to_second_order(h * direction) + to_second_order(-h * direction)) / h**2
        assert direction @ hessian @ direction == pytest.approx(curved, rel=1e-4, abs=1e-5 * np.abs(hessian).max())
