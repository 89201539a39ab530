"""Optima of known densities, the best of several starts, and what happens without a usable start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gpsuite.models.sampling.posterior import NoFiniteStartError, OptimumSettings, Target, find_optimum
from tests.arrays import Array
from tests.models.half_space_target import HalfSpace
from tests.models.linear_gaussian_target import LinearGaussianModel, linear_data

MODEL, DATA = LinearGaussianModel(), linear_data(0, 12)
LIKELIHOOD = MODEL.likelihood(DATA)
AT_OPTIMUM = 1e-4  # L-BFGS stops when the loss no longer changes: half its digits in the point


@dataclass(frozen=True)
class TwoPeaks:
    """Two normal densities of sd 1/3 in every direction, weights 1/4 at -2 and 3/4 at 2."""

    def value(self, u: Array) -> Array:
        """Return the log density [S], up to a constant."""
        return np.logaddexp(*self._parts(u))

    def value_and_gradient(self, u: Array) -> tuple[Array, Array]:
        """Return the log density [S] and its gradient [S, d]."""
        low, high = self._parts(u)
        share = np.exp(high - np.logaddexp(low, high))[:, None]
        return self.value(u), -9.0 * (u - 2.0 * (2.0 * share - 1.0))

    def _parts(self, u: Array) -> tuple[Array, Array]:
        low, high = (-4.5 * np.sum((u - centre) ** 2, axis=1) for centre in (-2.0, 2.0))
        return low + np.log(0.25), high + np.log(0.75)


def test_map_is_the_mode_and_ml_least_squares() -> None:
    rng = np.random.default_rng(0)
    mode = find_optimum(MODEL, LIKELIHOOD, rng, OptimumSettings("map"))
    np.testing.assert_allclose(mode.u[0], MODEL.posterior(DATA)[0], atol=AT_OPTIMUM)
    assert mode.weights.tolist() == [1.0]
    likeliest = find_optimum(MODEL, LIKELIHOOD, rng, OptimumSettings("ml"))
    expected = np.linalg.lstsq(DATA.X, DATA.y, rcond=None)[0]
    np.testing.assert_allclose(likeliest.u[0], expected, atol=AT_OPTIMUM)
    assert likeliest.diagnostics["lml"] > mode.diagnostics["lml"]


def test_diagnostics_say_value_and_effort() -> None:
    found = find_optimum(MODEL, LIKELIHOOD, np.random.default_rng(0), OptimumSettings(starts=3))
    assert found.diagnostics["log_density"] == pytest.approx(Target(MODEL, LIKELIHOOD)(found.u)[0][0])
    assert found.diagnostics["lml"] == LIKELIHOOD.value(found.u)[0]
    assert found.diagnostics["starts"] == 3.0
    assert found.diagnostics["converged"] == 1.0
    assert 6.0 < found.diagnostics["gradients"] < 150.0


def test_the_best_of_all_starts_is_kept() -> None:
    rng, settings = np.random.default_rng(0), OptimumSettings("ml", starts=0)
    low, high = np.full((1, 4), -1.5), np.full((1, 4), 1.5)
    alone = find_optimum(MODEL, TwoPeaks(), rng, settings, low)
    np.testing.assert_allclose(alone.u[0], -2.0, atol=AT_OPTIMUM)
    for both in ([low, high], [high, low]):
        found = find_optimum(MODEL, TwoPeaks(), rng, settings, np.concatenate(both))
        np.testing.assert_allclose(found.u[0], 2.0, atol=AT_OPTIMUM)


def test_given_starts_join_the_drawn_ones() -> None:
    near = np.full((2, 4), 1.5)
    found = find_optimum(MODEL, TwoPeaks(), np.random.default_rng(0), OptimumSettings("ml", 3), near)
    assert found.diagnostics["starts"] == 5.0
    np.testing.assert_allclose(found.u[0], 2.0, atol=AT_OPTIMUM)


def test_a_limit_on_evaluations_returns_the_best_so_far() -> None:
    settings = OptimumSettings(starts=2, evaluations=3)
    found = find_optimum(MODEL, LIKELIHOOD, np.random.default_rng(0), settings)
    assert found.diagnostics["gradients"] == 6.0
    assert found.diagnostics["converged"] == 0.0


def test_starts_must_exist_and_be_finite() -> None:
    rng, none = np.random.default_rng(0), OptimumSettings(starts=0)
    with pytest.raises(ValueError, match="no start"):
        find_optimum(MODEL, LIKELIHOOD, rng, none)
    with pytest.raises(NoFiniteStartError):
        find_optimum(MODEL, HalfSpace(0.0), rng, none, -np.ones((2, 4)))
    outside_and_inside = np.array([[-1.0, 0, 0, 0], [1.0, 0, 0, 0]])
    found = find_optimum(MODEL, HalfSpace(0.0), rng, none, outside_and_inside)
    assert 0.0 < found.u[0, 0] < 0.5  # the edge of the half space is nearest to the prior's mode


@pytest.mark.parametrize("wrong", [{"kind": "mle"}, {"starts": -1}, {"evaluations": 0}])
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be map or ml"):
        OptimumSettings(**wrong)
