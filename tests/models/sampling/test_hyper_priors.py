"""Priors of hyperparameters against scipy.stats, and as densities of unconstrained vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from gpsuite.models.sampling.posterior import NoFiniteStartError, OptimumSettings, Target, find_optimum
from gpsuite.models.sampling.priors import NOISE_FLOOR, Gamma, HyperPriors, Normal, UnconstrainedPrior
from tests.arrays import Array
from tests.models.half_space_target import HalfSpace
from tests.models.linear_gaussian_target import LinearGaussianModel, linear_data

PRIORS = HyperPriors()


@pytest.fixture
def prior() -> UnconstrainedPrior:
    positive = [(PRIORS.variance, 0.0), (PRIORS.lengthscale, 0.0), (PRIORS.noise, NOISE_FLOOR)]
    return UnconstrainedPrior(positive, [PRIORS.mixing, Normal(1.0, 0.5)])


@pytest.mark.parametrize("gamma", [PRIORS.variance, PRIORS.lengthscale, PRIORS.noise, Gamma(1.0, 2.0)])
@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_gamma_is_scipys(gamma: Gamma, factor: float) -> None:
    x = np.geomspace(1e-6, 50.0, 20)
    expected = stats.gamma(gamma.shape, scale=factor / gamma.rate).logpdf(x)
    np.testing.assert_allclose(gamma.scaled(factor).log_density(x), expected, rtol=1e-12, atol=1e-12)


def test_normal_is_scipys() -> None:
    x = np.linspace(-5.0, 5.0, 11)
    found = Normal(0.5, 2.0).scaled(2.0).log_density(x)
    np.testing.assert_allclose(found, stats.norm(1.0, 4.0).logpdf(x), rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "values"), [(Gamma, (0.0, 1.0)), (Gamma, (1.0, np.inf)), (Normal, (0.0, 0.0)), (Normal, (np.nan, 1.0))]
)
def test_impossible_distributions_are_refused(kind: type, values: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        kind(*values)


def test_scaling_one_prior_leaves_the_others() -> None:
    scaled = PRIORS.scaled(lengthscale=2.0)
    assert scaled.lengthscale == Gamma(1.5, 0.5)
    assert (scaled.variance, scaled.noise, scaled.mixing) == (PRIORS.variance, PRIORS.noise, PRIORS.mixing)


def test_density_of_u_integrates_to_one() -> None:
    one = UnconstrainedPrior([(PRIORS.lengthscale, 0.0)])
    mass, _ = quad(lambda u: float(np.exp(one.log_density(np.array([[u]]))[0][0])), -30.0, 40.0)
    assert mass == pytest.approx(1.0, abs=1e-6)


def test_density_is_that_of_x_times_the_jacobian(prior: UnconstrainedPrior) -> None:
    u = prior.draw(np.random.default_rng(0), 6)
    x, value = prior.constrain(u), prior.log_density(u)[0]
    parts = [PRIORS.variance, PRIORS.lengthscale, PRIORS.noise, PRIORS.mixing, Normal(1.0, 0.5)]
    expected = sum(part.log_density(column) for part, column in zip(parts, x.T, strict=True))  # type: ignore[attr-defined]
    np.testing.assert_allclose(value, expected + np.log(prior.derivative(u)).sum(axis=1), rtol=1e-10)
    step = 1e-6
    for i, shift in enumerate(step * np.eye(len(prior))):
        slope = (prior.constrain(u + shift) - prior.constrain(u - shift))[:, i] / (2.0 * step)
        np.testing.assert_allclose(prior.derivative(u)[:, i], slope, rtol=1e-7)
        slope = (prior.log_density(u + shift)[0] - prior.log_density(u - shift)[0]) / (2.0 * step)
        np.testing.assert_allclose(prior.log_density(u)[1][:, i], slope, rtol=1e-6, atol=1e-7)


def test_the_transform_is_undone_from_tiny_to_huge_values(prior: UnconstrainedPrior) -> None:
    u = np.array([[-200.0, -30.0, -9.0, 4.0, -3.0], [-1.0, 0.0, 2.0, 0.0, 0.0], [30.0, 800.0, 1e6, 1.0, 2.0]])
    x = prior.constrain(u)
    assert (x[:, :3] > [0.0, 0.0, NOISE_FLOOR]).all()
    np.testing.assert_allclose(prior.unconstrain(x), u, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="floor"):
        prior.unconstrain(np.array([[1.0, 1.0, NOISE_FLOOR, 0.0, 0.0]]))


def test_draws_follow_the_priors(prior: UnconstrainedPrior) -> None:
    x = prior.constrain(prior.draw(np.random.default_rng(1), 4000))
    distributions = [
        stats.gamma(2.5),
        stats.gamma(1.5),
        stats.gamma(1.5, scale=1.0 / 3.0),
        stats.norm(0.0, 2.0),
        stats.norm(1.0, 0.5),
    ]
    for column, distribution in zip(x.T, distributions, strict=True):
        assert stats.kstest(column, distribution.cdf).pvalue > 1e-3  # fixed seed


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, -1e4])
def test_what_is_not_finite_is_minus_infinity_for_its_vector_only(prior: UnconstrainedPrior, value: float) -> None:
    u = prior.draw(np.random.default_rng(2), 2)
    good = prior.log_density(u)
    u[0, 1] = value
    density, gradient = prior.log_density(u)
    assert np.isneginf(density[0])
    assert not gradient[0].any()
    assert density[1] == good[0][1]
    np.testing.assert_array_equal(gradient[1], good[1][1])


# Optima of known densities, the best of several starts, and what happens without a usable start.
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
