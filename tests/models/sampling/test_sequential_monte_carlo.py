"""Particles follow known posteriors through every branch, resume exactly, and reproduce the reference posterior."""

from __future__ import annotations

from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.sampling.posterior import NoFiniteStartError
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
from tests.models.posterior_reference import (
    MAIN,
    POSTERIOR,
    SAFETY,
    check_against_reference,
    main_invariants,
    main_observations,
    quantities,
    safety_observations,
    safety_quantities,
)

MODEL, DATA = LinearGaussianModel(), linear_data(0, 12)
DEFAULT = SMCSettings()
STANDARD_ERRORS = 4.5  # of a mean over independent runs: false alarms of about 1e-5 per number
SPREAD = 0.05  # of a standard deviation, over 20 runs of 128 particles: about 4 standard errors


def _follow(state: SMCState, observations: Observations, begin: int, rng: np.random.Generator) -> list[SMCState]:
    """Return the states after each observation from `begin` on, one at a time."""
    states = [state]
    for count in range(begin + 1, len(observations) + 1):
        old, new = (MODEL.likelihood(first(observations, n)) for n in (count - 1, count))
        u = states[-1].u
        states.append(update(states[-1], MODEL, NewObservations(old, new, new.value(u) - old.value(u)), rng, DEFAULT))
    return states


def _surprising(observations: Observations, surprise: float) -> Observations:
    """Add a value that lies that many predictive standard deviations above its prediction."""
    mean, covariance = MODEL.posterior(observations)
    x = np.array([1.0, -0.5, 0.5, 1.0])
    y = x @ mean + surprise * np.sqrt(x @ covariance @ x + MODEL.likelihood_noise)
    return observations.extended(x[None], np.zeros(1, dtype=np.int64), np.array([y]))


def _moments(state: SMCState) -> tuple[Array, Array]:
    weights = state.posterior.weights
    mean = weights @ state.u
    return mean, np.sqrt(weights @ (state.u - mean) ** 2)


def _check_runs(states: list[SMCState], observations: Observations) -> None:
    """Compare independent runs with the exact posterior and evidence."""
    mean, covariance = MODEL.posterior(observations)
    found = np.array([_moments(state) for state in states])
    means, sds = found[:, 0], found[:, 1]
    errors = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    assert np.all(np.abs(means.mean(axis=0) - mean) < STANDARD_ERRORS * errors)
    spread = np.sqrt(np.mean(sds**2, axis=0) + means.var(axis=0))
    np.testing.assert_allclose(spread, np.sqrt(np.diag(covariance)), rtol=SPREAD)
    # The evidence itself, not its logarithm, is estimated without bias.
    ratios = np.exp([state.log_evidence - MODEL.log_evidence(observations) for state in states])
    assert abs(ratios.mean() - 1.0) < STANDARD_ERRORS * ratios.std(ddof=1) / np.sqrt(len(ratios))
    assert ratios.std() < 0.6


@given(st.integers(0, 2**32 - 1), st.lists(st.floats(0.0, 1.0), min_size=2, max_size=40).filter(any))
@settings(max_examples=60, deadline=None)
def test_resampling_keeps_proportions(seed: int, raw: list[float]) -> None:
    weights = np.array(raw) / np.sum(raw)
    chosen = systematic_resample(weights, np.random.default_rng(seed))
    counts = np.bincount(chosen, minlength=len(weights))
    assert len(chosen) == len(counts) == len(weights)
    assert np.all(np.abs(counts - len(weights) * weights) < 1.0 + 1e-9)
    assert not counts[weights == 0.0].any()


def test_resampling_is_unbiased() -> None:
    rng, weights = np.random.default_rng(0), np.array([0.1, 0.0, 0.55, 0.35])
    counts = [np.bincount(systematic_resample(weights, rng), minlength=4) for _ in range(4000)]
    np.testing.assert_allclose(np.mean(counts, axis=0), 4.0 * weights, atol=0.04)


def test_resampling_survives_the_last_tooth_rounded_up() -> None:
    class AlmostOne:
        def random(self) -> float:
            return 1.0 - 2.0**-53

    chosen = systematic_resample(np.append(np.full(128, 1.0 / 128.0), 0.0), AlmostOne())  # type: ignore[arg-type]
    assert chosen.max() == 127


def test_a_cold_start_finds_the_exact_posterior_and_evidence() -> None:
    likelihood = MODEL.likelihood(DATA)
    states = [start(MODEL, likelihood, np.random.default_rng(seed), DEFAULT) for seed in range(20)]
    _check_runs(states, DATA)
    for state in states:
        found = state.diagnostics
        assert state.moved
        np.testing.assert_array_equal(state.lml, likelihood.value(state.u))
        assert found["temperatures"] >= 4.0
        assert found["gradients"] == found["temperatures"] * 128 * 31
        assert 0.6 < found["acceptance"] < 0.95
        assert found["unmoved"] < 0.1
        assert found["step_size"] == state.step_size


def test_observations_one_at_a_time_lead_to_the_same_posterior() -> None:
    states, kept = [], 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        begin = start(MODEL, MODEL.likelihood(first(DATA, 4)), rng, DEFAULT)
        path = _follow(begin, DATA, 4, rng)
        kept += sum(not state.moved for state in path[1:])
        states.append(path[-1])
        np.testing.assert_allclose(path[-1].lml, MODEL.likelihood(DATA).value(path[-1].u), atol=1e-9)
    _check_runs(states, DATA)
    assert 0 < kept < 20 * 8


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("surprise", [0.0, 1.0, 1.8, 3.0, 6.0, 20.0])
def test_an_observation_leads_to_the_branch_of_its_surprise(surprise: float, seed: int) -> None:
    rng, size = np.random.default_rng(seed), SMCSettings(particles=256)
    old = MODEL.likelihood(DATA)
    begin = start(MODEL, old, rng, size)
    observations = _surprising(DATA, surprise)
    new = MODEL.likelihood(observations)
    predictive = new.value(begin.u) - old.value(begin.u)
    after = update(begin, MODEL, NewObservations(old, new, predictive), rng, size)

    weights = np.exp(predictive - predictive.max())
    ess = weights.sum() ** 2 / np.sum(weights**2)
    share, found = ess / 256, after.diagnostics
    assert found["ess"] == pytest.approx(ess)
    assert after.moved == (share < 0.5)
    assert found["restarted"] == (share < 0.05)
    if share >= 0.05:
        assert (found["temperatures"] > 1.0) == (share < 0.3)
        assert (found["temperatures"] == 0.0) == (share >= 0.5)
    if share >= 0.5:
        assert after.u is begin.u
        assert found["gradients"] == 0.0
        assert np.isnan(found["acceptance"])
    mean, covariance = MODEL.posterior(observations)
    # 256 particles of share .3 or more: 4.5 standard errors of about .1 posterior standard deviations
    assert np.all(np.abs(_moments(after)[0] - mean) < 0.45 * np.sqrt(np.diag(covariance)))
    assert after.log_evidence == pytest.approx(MODEL.log_evidence(observations), abs=1.5)
    np.testing.assert_allclose(after.lml, new.value(after.u), atol=1e-9)


def test_each_branch_weighs_the_same_observation_alike() -> None:
    """Thresholds moved so that one observation takes every branch in turn."""
    old, new = MODEL.likelihood(DATA), MODEL.likelihood(_surprising(DATA, 2.0))
    begin = start(MODEL, old, np.random.default_rng(0), DEFAULT)
    predictive = new.value(begin.u) - old.value(begin.u)
    branches = {
        "keep": (SMCSettings(keep=0.0, temper=0.0, restart=0.0), 0),
        "move": (SMCSettings(keep=1.0, temper=0.0, restart=0.0), 1),
        "temper": (SMCSettings(keep=1.0, temper=1.0, restart=0.0), 2),
        "restart": (SMCSettings(keep=1.0, temper=1.0, restart=1.0), 4),
    }
    for branch, (chosen, stages) in branches.items():
        after = update(begin, MODEL, NewObservations(old, new, predictive), np.random.default_rng(1), chosen)
        assert after.moved == (stages > 0)
        assert min(after.diagnostics["temperatures"], 2.0) == min(stages, 2)
        assert after.diagnostics["restarted"] == (branch == "restart")
        expected = MODEL.log_evidence(_surprising(DATA, 2.0))
        assert after.log_evidence == pytest.approx(expected, abs=1.0)


def test_tempering_from_the_old_posterior_is_exact() -> None:
    """A surprise of 6 standard deviations, never a restart: every run goes through stages."""
    size = SMCSettings(restart=0.0)
    few = first(DATA, 6)
    observations = _surprising(few, 6.0)
    old, new, states = MODEL.likelihood(few), MODEL.likelihood(observations), []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        begin = start(MODEL, old, rng, size)
        predictive = new.value(begin.u) - old.value(begin.u)
        states.append(update(begin, MODEL, NewObservations(old, new, predictive), rng, size))
        stages = states[-1].diagnostics["temperatures"]
        assert stages > 1.0
        # Both likelihoods count before the last stage.
        assert states[-1].diagnostics["gradients"] == (2.0 * stages - 1.0) * 128 * 31
    _check_runs(states, observations)


def test_particles_without_a_predictive_density_lose_their_weight() -> None:
    likelihood = MODEL.likelihood(DATA)
    begin = start(MODEL, likelihood, np.random.default_rng(0), DEFAULT)
    predictive = np.zeros(128)
    predictive[:3] = np.nan, -np.inf, np.inf
    after = update(begin, MODEL, NewObservations(likelihood, likelihood, predictive), np.random.default_rng(1), DEFAULT)
    assert after.posterior.weights[:3].tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(after.posterior.weights[3:], 1.0 / 125.0)
    none = NewObservations(likelihood, likelihood, np.full(128, np.nan))
    lost = update(begin, MODEL, none, np.random.default_rng(1), DEFAULT)
    assert lost.diagnostics["restarted"] == 1.0
    assert lost.diagnostics["ess"] == 0.0


@pytest.mark.parametrize("outside", [-np.inf, np.nan])
@pytest.mark.parametrize(("edge", "mass", "mean"), [(0.0, 0.5, 0.7979), (1.0, 0.1587, 1.5251)])
def test_particles_avoid_the_part_of_the_space_where_a_likelihood_fails(
    edge: float, mass: float, mean: float, outside: float
) -> None:
    size = SMCSettings(particles=1024)
    state = start(MODEL, HalfSpace(edge, outside), np.random.default_rng(0), size)
    assert state.u[:, 0].min() > edge
    assert state.u[:, 0].mean() == pytest.approx(mean, abs=0.08)
    assert np.exp(state.log_evidence) == pytest.approx(mass, abs=0.05)


def test_a_likelihood_that_fails_everywhere_is_an_error() -> None:
    with pytest.raises(NoFiniteStartError):
        start(MODEL, HalfSpace(np.inf), np.random.default_rng(0), DEFAULT)


def test_a_saved_state_goes_on_exactly() -> None:
    rng = np.random.default_rng(3)
    begin = start(MODEL, MODEL.likelihood(first(DATA, 4)), rng, DEFAULT)
    half = _follow(begin, first(DATA, 8), 4, rng)[-1]
    file = BytesIO()
    np.savez(file, **half.to_arrays())
    file.seek(0)
    generator = rng.bit_generator.state
    expected = _follow(half, DATA, 8, rng)
    assert any(state.moved for state in expected[1:])
    rng = np.random.default_rng()
    rng.bit_generator.state = generator
    with np.load(file) as arrays:
        restored = SMCState.from_arrays(arrays)
    found = _follow(restored, DATA, 8, rng)
    for left, right in zip(expected, found, strict=True):
        assert left.to_arrays().keys() == right.to_arrays().keys()
        for name, values in left.to_arrays().items():
            np.testing.assert_array_equal(values, right.to_arrays()[name])


@pytest.mark.parametrize(
    "wrong",
    [
        {"particles": 1},
        {"moves": 0},
        {"leapfrog": 0},
        {"temper": 0.6},
        {"restart": 0.4},
        {"keep": 1.1},
        {"restart": -0.1},
    ],
)
def test_smc_settings_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        SMCSettings(**wrong)  # type: ignore[arg-type]


RUNS = 7


def _runs(per_run: list[dict[str, Array]], weights: list[Array]) -> dict[str, Array]:
    """Return quantity -> mean and standard deviation of every run, [2, R]."""
    found = {}
    for name in per_run[0]:
        means = np.array([w @ values[name] for w, values in zip(weights, per_run, strict=True)])
        squares = np.array([w @ values[name] ** 2 for w, values in zip(weights, per_run, strict=True)])
        found[name] = np.stack([means, np.sqrt(squares - means**2)])
    return found


@pytest.fixture(scope="module")
def cold() -> dict[str, Array]:
    likelihood = MAIN.likelihood(main_observations())
    states = [start(MAIN, likelihood, np.random.default_rng(seed), DEFAULT) for seed in range(RUNS)]
    return _runs([main_invariants(s.u) for s in states], [s.posterior.weights for s in states])


@pytest.fixture(scope="module")
def followed() -> dict[str, Array]:
    """Runs that begin with half of the values and take in the others one by one."""
    whole = len(main_observations())
    likelihoods = [MAIN.likelihood(main_observations(count)) for count in range(whole // 2, whole + 1)]
    states = []
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        state = start(MAIN, likelihoods[0], rng, DEFAULT)
        for old, new in pairwise(likelihoods):
            state = update(state, MAIN, NewObservations(old, new, new.value(state.u) - state.lml), rng, DEFAULT)
        states.append(state)
    return _runs([main_invariants(s.u) for s in states], [s.posterior.weights for s in states])


@pytest.fixture(scope="module")
def safety() -> dict[str, Array]:
    likelihood = SAFETY.likelihood(safety_observations())
    states = [start(SAFETY, likelihood, np.random.default_rng(seed), DEFAULT) for seed in range(RUNS)]
    found = _runs([safety_quantities(s.u) for s in states], [s.posterior.weights for s in states])
    return {**found, "log_evidence": np.array([s.log_evidence for s in states])}


@pytest.mark.reference
@pytest.mark.parametrize(("name", "row"), quantities("mogp"))
def test_a_cold_start_finds_the_reference_posterior(name: str, row: dict[str, float], cold: dict[str, Array]) -> None:
    check_against_reference(*cold[name], row)  # type: ignore[call-arg]


@pytest.mark.reference
@pytest.mark.parametrize(("name", "row"), quantities("mogp"))
def test_one_value_at_a_time_leads_to_the_reference_posterior(
    name: str, row: dict[str, float], followed: dict[str, Array]
) -> None:
    check_against_reference(*followed[name], row)  # type: ignore[call-arg]


@pytest.mark.reference
@pytest.mark.parametrize(("name", "row"), quantities("safety"))
def test_particles_find_the_reference_posterior_of_the_safety_model(
    name: str, row: dict[str, float], safety: dict[str, Array]
) -> None:
    check_against_reference(*safety[name], row)  # type: ignore[call-arg]


@pytest.mark.reference
@pytest.mark.parametrize(
    "expected", [row for key, row in POSTERIOR.get("safety_quadrature", {}).items() if key == "log_evidence"]
)
def test_the_evidence_of_the_safety_model_agrees_with_quadrature(expected: float, safety: dict[str, Array]) -> None:
    ratios = np.exp(safety["log_evidence"] - expected)
    error = ratios.std(ddof=1) / np.sqrt(len(ratios))
    assert abs(ratios.mean() - 1.0) < STANDARD_ERRORS * error
    assert error < 0.25


LONG_RUN_SPREAD = 0.08  # relative; the largest deviation of six sets of seeds was .04


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("name", [key for key in POSTERIOR.get("mogp", {}) if key in ("ls_min", "ls_max")])
def test_many_moves_do_not_shrink_the_cloud(name: str, long_runs: dict[str, Array]) -> None:
    """Steps that scale with the cloud, as those of an estimated mass matrix, can narrow it further every time."""
    means, sds = long_runs[name]
    spread = np.sqrt(np.mean(sds**2) + means.var())
    assert spread == pytest.approx(POSTERIOR["mogp"][name]["sd"], rel=LONG_RUN_SPREAD)


@pytest.fixture(scope="module")
def long_runs() -> dict[str, Array]:
    """Clouds from which four values are taken away and given back, again and again, moved every time."""
    always = SMCSettings(keep=1.0, temper=0.0, restart=0.0)
    full, less = MAIN.likelihood(main_observations()), MAIN.likelihood(main_observations(12))
    clouds = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        state = start(MAIN, full, rng, always)
        for round_number in range(12):
            for old, new in ((full, less), (less, full)):
                state = update(state, MAIN, NewObservations(old, new, new.value(state.u) - state.lml), rng, always)
            if round_number >= 4:
                clouds.append(state)
    return _runs([main_invariants(s.u) for s in clouds], [s.posterior.weights for s in clouds])
