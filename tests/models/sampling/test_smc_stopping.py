"""Inference that is told to end early: it says how far it came, and its particles follow that part of the posterior."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.models.multi_output.observations import Likelihood
from gpsuite.models.sampling.sequential_monte_carlo import NewObservations, SMCSettings, start, update
from tests.models.linear_gaussian_target import LinearGaussianModel, first, linear_data

MODEL, DATA = LinearGaussianModel(), linear_data(0, 12)
SETTINGS = SMCSettings()


def after(looks: int) -> Callable[[], bool]:
    """Return what says to stop from some look on."""
    seen = [0]

    def stop() -> bool:
        seen[0] += 1
        return seen[0] > looks

    return stop


class _Counted:
    """A likelihood that notes what it is asked."""

    def __init__(self, likelihood: Likelihood) -> None:
        self._likelihood = likelihood
        self.calls: list[str] = []

    def value(self, u: FloatArray) -> FloatArray:
        self.calls.append("value")
        return self._likelihood.value(u)

    def value_and_gradient(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        self.calls.append("gradient")
        return self._likelihood.value_and_gradient(u)


TWO_STAGES = 2 * 3 * 10 + 1
"""Looks until the third stage: one before each of three trajectories, nine within it; one between two stages."""


@pytest.mark.parametrize(("looks", "stages"), [(TWO_STAGES, 2.0), (TWO_STAGES + 7, 3.0)])
def test_stopped_early_particles_follow_the_tempered_posterior(looks: int, stages: float) -> None:
    """With part beta of the log likelihood: the posterior of noise variance / beta, in closed form.

    Also where the first trajectory of a stage is cut short: the particles are then only resampled.
    """
    missed = []
    for seed in range(20):
        found = start(MODEL, MODEL.likelihood(DATA), np.random.default_rng(seed), SETTINGS, after(looks))
        beta = found.diagnostics["beta"]
        assert 0.0 < beta < 1.0
        assert found.diagnostics["temperatures"] == stages
        assert found.diagnostics["gradients"] == 128 * (2 * 31 + (stages - 2.0))
        assert (len(np.unique(found.u, axis=0)) < 128) == (stages == 3.0)
        tempered = LinearGaussianModel(likelihood_noise=MODEL.likelihood_noise / beta)
        mean, covariance = tempered.posterior(DATA)
        missed.append((found.u.mean(axis=0) - mean) / np.sqrt(np.diag(covariance)))
        np.testing.assert_array_equal(found.lml, MODEL.likelihood(DATA).value(found.u))
    # a mean of 20 runs of 128 particles: standard error .02; four and a half of them
    assert np.abs(np.mean(missed, axis=0)).max() < 0.09
    full = MODEL.posterior(DATA)[0]
    assert np.abs(full - mean).max() > 0.3 * np.sqrt(np.diag(covariance)).max(), "two different answers"


def test_the_prior_resampled_is_the_least() -> None:
    """No gradient, and each particle keeps its own log likelihood: what the likelihood costs once is all there is."""
    likelihood = _Counted(MODEL.likelihood(DATA))
    found = start(MODEL, likelihood, np.random.default_rng(0), SETTINGS, lambda: True)
    assert likelihood.calls == ["value"]
    assert found.diagnostics["temperatures"] == 1.0
    assert found.diagnostics["gradients"] == 0.0
    assert found.diagnostics["unmoved"] == 1.0
    assert found.diagnostics["beta"] < 1.0
    np.testing.assert_array_equal(found.lml, MODEL.likelihood(DATA).value(found.u))


def test_a_last_stage_without_a_trajectory_is_unfinished() -> None:
    """All of the little that was observed enters at once, and nothing moves."""
    found = start(MODEL, MODEL.likelihood(first(DATA, 1)), np.random.default_rng(0), SETTINGS, lambda: True)
    assert found.diagnostics["beta"] == 1.0


def test_whoever_never_stops_changes_nothing() -> None:
    likelihood = MODEL.likelihood(DATA)
    plain = start(MODEL, likelihood, np.random.default_rng(0), SETTINGS)
    asked = start(MODEL, likelihood, np.random.default_rng(0), SETTINGS, lambda: False)
    np.testing.assert_array_equal(plain.u, asked.u)
    assert "beta" not in plain.diagnostics


def test_an_update_can_be_stopped_too() -> None:
    rng, before, likelihood = (
        np.random.default_rng(0),
        MODEL.likelihood(first(DATA, 3)),
        MODEL.likelihood(DATA),
    )
    begin = start(MODEL, before, rng, SETTINGS)
    gain = likelihood.value(begin.u) - begin.lml
    found = update(begin, MODEL, NewObservations(before, likelihood, gain), rng, SETTINGS, lambda: True)
    assert found.moved
    assert 0.0 < found.diagnostics["beta"] < 1.0
