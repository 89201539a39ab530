"""Stages of sequential Monte Carlo one by one, as the module describes them, from the same random numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

from gpsuite.arrays import FloatArray
from gpsuite.models.multi_output.observations import Likelihood, Observations
from gpsuite.models.sampling.hamiltonian import Points, transition
from gpsuite.models.sampling.posterior import Target
from gpsuite.models.sampling.sequential_monte_carlo import (
    NewObservations,
    SMCSettings,
    SMCState,
    start,
    systematic_resample,
    update,
)
from tests.arrays import Array
from tests.models.half_space_target import HalfSpace
from tests.models.linear_gaussian_target import LinearGaussianModel, first, linear_data

MODEL, DATA = LinearGaussianModel(), linear_data(0, 12)
SMALL = SMCSettings(particles=40, moves=2, leapfrog=3)


def effective(log_weights: Array) -> float:
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / np.sum(weights**2))


def stages(
    u: Array,
    log_weights: Array,
    ratio: Array,
    step: float,
    direct: float,
    old: Any,
    new: Any,
    rng: np.random.Generator,
    size: SMCSettings = SMALL,
) -> dict[str, Any]:
    """Return what the stages from the old to the new posterior end with."""
    beta, gain, acceptance, unmoved, betas = 0.0, 0.0, [], [], []
    while beta < 1.0:

        def left(b: float, lw: Array = log_weights, r: Array = ratio, begin: float = beta) -> float:
            return effective(lw + (b - begin) * r)

        attainable = 0.9 * left(beta)
        if left(1.0) >= min(direct * 40, attainable):
            following = 1.0
        else:
            goal = min(size.keep * 40, attainable)
            following = brentq(lambda b, left=left, goal=goal: left(b) - goal, beta, 1.0, xtol=1e-14)
        total = log_weights + (following - beta) * ratio
        ess, beta = effective(total), following
        betas.append(beta)
        gain += float(np.log(np.sum(np.exp(total))))
        u = u[systematic_resample(np.exp(total) / np.sum(np.exp(total)), rng)]
        log_weights = np.full(40, -np.log(40.0))
        target = Target(MODEL, new, beta, old)
        points, moved = Points.at(target, u), np.zeros(40, dtype=bool)
        for _ in range(size.moves):
            result = transition(target, points, step * rng.uniform(0.7, 1.3, size=40), size.leapfrog, rng)
            points, moved = result.points, moved | result.accepted
            acceptance.append(result.acceptance.mean())
            step = min(max(step * np.exp(0.7 * (acceptance[-1] - 0.8)), 0.01), 1.2)
        unmoved.append(1.0 - moved.mean())
        u = points.u
        ratio = new.value(u) - (old.value(u) if old else 0.0)
    return {
        "u": u,
        "gain": gain,
        "betas": betas,
        "ess": ess,
        "step_size": step,
        "acceptance": np.mean(acceptance),
        "unmoved": np.mean(unmoved),
    }


def check(state: SMCState, expected: dict[str, Any], gain: float) -> None:
    np.testing.assert_allclose(state.u, expected["u"], rtol=1e-6, atol=1e-8)
    assert state.log_evidence == state.diagnostics["log_evidence"] == pytest.approx(gain, rel=1e-8)
    assert state.diagnostics["temperatures"] == len(expected["betas"])
    for name in ("step_size", "acceptance", "unmoved"):
        assert state.diagnostics[name] == pytest.approx(expected[name], rel=1e-6)
    np.testing.assert_array_equal(state.posterior.weights, np.full(40, np.exp(-np.log(40.0))))


def test_a_cold_start_is_its_stages() -> None:
    likelihood, rng = MODEL.likelihood(DATA), np.random.default_rng(5)
    u = MODEL.draw_prior(rng, 40)
    uniform = np.full(40, -np.log(40.0))
    expected = stages(u, uniform, likelihood.value(u), 0.72 / np.sqrt(2.0), 0.5, None, likelihood, rng)
    state = start(MODEL, likelihood, np.random.default_rng(5), SMALL)
    check(state, expected, expected["gain"])
    assert len(expected["betas"]) > 2
    assert state.diagnostics["ess"] == pytest.approx(expected["ess"])
    assert state.diagnostics["gradients"] == 40 * 7 * len(expected["betas"])


@pytest.mark.parametrize(("keep", "temper"), [(0.9, 0.1), (0.9, 0.9), (0.5, 0.5)])
def test_an_update_is_its_stages(keep: float, temper: float) -> None:
    """From weighted particles; in one stage down to a share of `temper`, else in stages of `keep`."""
    rng = np.random.default_rng(6)
    old, new = MODEL.likelihood(first(DATA, 6)), MODEL.likelihood(DATA)
    begin = start(MODEL, old, rng, SMALL)
    raw = rng.uniform(0.5, 1.0, 40)
    begin = replace(begin, log_weights=np.log(raw / raw.sum()))
    ratio = new.value(begin.u) - old.value(begin.u)
    share = effective(begin.log_weights + ratio) / 40
    settings = replace(SMALL, keep=keep, temper=temper, restart=0.0)
    assert share < keep
    direct = temper if share >= temper else keep
    again, cloud = np.random.default_rng(7), (begin.u, begin.log_weights, ratio, begin.step_size)
    expected = stages(*cloud, direct, old, new, again, settings)
    state = update(begin, MODEL, NewObservations(old, new, ratio), np.random.default_rng(7), settings)
    check(state, expected, begin.log_evidence + expected["gain"])
    assert state.diagnostics["ess"] == pytest.approx(40 * share)
    assert state.diagnostics["restarted"] == 0.0


class Flat(LinearGaussianModel):
    """A density that is the same everywhere: every proposal is accepted."""

    def log_prior(self, u: Array) -> tuple[Array, Array]:
        return np.zeros(len(u)), np.zeros_like(u)


def test_a_step_stays_within_its_limits() -> None:
    """Everything accepted lets the step grow to 1.2; a narrow posterior lets it shrink to .01."""
    empty = Observations(np.empty((0, 4)), np.empty(0, dtype=np.int64), np.empty(0))
    settings, rng = replace(SMALL, moves=9, leapfrog=1), np.random.default_rng(0)
    grown = start(Flat(), MODEL.likelihood(empty), rng, settings)
    assert (grown.step_size, grown.diagnostics["acceptance"]) == (1.2, 1.0)
    assert grown.diagnostics["unmoved"] == 0.0
    narrow = replace(MODEL, likelihood_noise=1e-9)
    assert start(narrow, narrow.likelihood(DATA), rng, SMALL).step_size == 0.01


def test_thresholds_may_meet() -> None:
    SMCSettings(particles=2, moves=1, leapfrog=1, keep=1.0, temper=1.0, restart=1.0)
    SMCSettings(keep=0.0, temper=0.0, restart=0.0)


def test_half_of_the_cloud_without_density_still_leads_on() -> None:
    """The goal is what the others can attain: 90 percent of their number, when that is below the share asked for."""
    state = start(MODEL, HalfSpace(1.0), np.random.default_rng(1), replace(SMALL, keep=1.0))
    assert state.u[:, 0].min() > 1.0
    assert state.diagnostics["temperatures"] == 1.0
    assert state.diagnostics["ess"] == pytest.approx(round(state.diagnostics["ess"]))


def test_the_defaults_are_those_of_the_published_runs() -> None:
    assert SMCSettings() == SMCSettings(128, 3, 10, keep=0.5, temper=0.3, restart=0.05)


class Steep(HalfSpace):
    """A likelihood so steep that no stage that a float can tell from none keeps the share asked for."""

    def value(self, u: Array) -> Array:
        return -1e30 * np.sum(u**2, axis=1)

    def value_and_gradient(self, u: Array) -> tuple[Array, Array]:
        return self.value(u), -2e30 * u


def test_a_stage_always_leads_on() -> None:
    state = start(MODEL, Steep(0.0), np.random.default_rng(2), replace(SMALL, moves=1, leapfrog=1))
    assert np.isfinite(state.log_evidence)
    assert 2.0 <= state.diagnostics["temperatures"] < 100.0


# Inference that is told to end early: it says how far it came, and its particles follow that part of the posterior.
STOPPED_MODEL, STOPPED_DATA = LinearGaussianModel(), linear_data(0, 12)
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
        found = start(
            STOPPED_MODEL, STOPPED_MODEL.likelihood(STOPPED_DATA), np.random.default_rng(seed), SETTINGS, after(looks)
        )
        beta = found.diagnostics["beta"]
        assert 0.0 < beta < 1.0
        assert found.diagnostics["temperatures"] == stages
        assert found.diagnostics["gradients"] == 128 * (2 * 31 + (stages - 2.0))
        assert (len(np.unique(found.u, axis=0)) < 128) == (stages == 3.0)
        tempered = LinearGaussianModel(likelihood_noise=STOPPED_MODEL.likelihood_noise / beta)
        mean, covariance = tempered.posterior(STOPPED_DATA)
        missed.append((found.u.mean(axis=0) - mean) / np.sqrt(np.diag(covariance)))
        np.testing.assert_array_equal(found.lml, STOPPED_MODEL.likelihood(STOPPED_DATA).value(found.u))
    # a mean of 20 runs of 128 particles: standard error .02; four and a half of them
    assert np.abs(np.mean(missed, axis=0)).max() < 0.09
    full = STOPPED_MODEL.posterior(STOPPED_DATA)[0]
    assert np.abs(full - mean).max() > 0.3 * np.sqrt(np.diag(covariance)).max(), "two different answers"


def test_the_prior_resampled_is_the_least() -> None:
    """No gradient, and each particle keeps its own log likelihood: what the likelihood costs once is all there is."""
    likelihood = _Counted(STOPPED_MODEL.likelihood(STOPPED_DATA))
    found = start(STOPPED_MODEL, likelihood, np.random.default_rng(0), SETTINGS, lambda: True)
    assert likelihood.calls == ["value"]
    assert found.diagnostics["temperatures"] == 1.0
    assert found.diagnostics["gradients"] == 0.0
    assert found.diagnostics["unmoved"] == 1.0
    assert found.diagnostics["beta"] < 1.0
    np.testing.assert_array_equal(found.lml, STOPPED_MODEL.likelihood(STOPPED_DATA).value(found.u))


def test_a_last_stage_without_a_trajectory_is_unfinished() -> None:
    """All of the little that was observed enters at once, and nothing moves."""
    found = start(
        STOPPED_MODEL,
        STOPPED_MODEL.likelihood(first(STOPPED_DATA, 1)),
        np.random.default_rng(0),
        SETTINGS,
        lambda: True,
    )
    assert found.diagnostics["beta"] == 1.0


def test_whoever_never_stops_changes_nothing() -> None:
    likelihood = STOPPED_MODEL.likelihood(STOPPED_DATA)
    plain = start(STOPPED_MODEL, likelihood, np.random.default_rng(0), SETTINGS)
    asked = start(STOPPED_MODEL, likelihood, np.random.default_rng(0), SETTINGS, lambda: False)
    np.testing.assert_array_equal(plain.u, asked.u)
    assert "beta" not in plain.diagnostics


def test_an_update_can_be_stopped_too() -> None:
    rng, before, likelihood = (
        np.random.default_rng(0),
        STOPPED_MODEL.likelihood(first(STOPPED_DATA, 3)),
        STOPPED_MODEL.likelihood(STOPPED_DATA),
    )
    begin = start(STOPPED_MODEL, before, rng, SETTINGS)
    gain = likelihood.value(begin.u) - begin.lml
    found = update(begin, STOPPED_MODEL, NewObservations(before, likelihood, gain), rng, SETTINGS, lambda: True)
    assert found.moved
    assert 0.0 < found.diagnostics["beta"] < 1.0
