"""The bench's two sides do the same work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from gpsuite.bench import active_learning
from gpsuite.bench.timing import Work
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.pool_predictions import PoolPredictions
from gpsuite.models.sampling.hamiltonian import HMCSettings
from gpsuite.models.sampling.posterior import HyperPosterior
from gpsuite.models.sampling.sequential_monte_carlo import SMCState

SHORT = HMCSettings(burn_in=60, adaptation=60, samples=10, thinning=2, leapfrog=5)


def arrays(work: Work) -> list[np.ndarray[Any, Any]]:
    """Return the arrays or tensors that some work gives."""
    return [np.asarray(each) for each in cast("tuple[Any, Any]", work())]


@pytest.fixture(autouse=True)
def fresh_queries() -> Iterator[None]:
    active_learning._queried.cache_clear()
    yield
    active_learning._queried.cache_clear()


def test_the_goals_of_the_family_are_among_the_cases() -> None:
    cases = active_learning.cases()
    smc = [case for case in cases if case.case.startswith("SMC")]
    assert [case.reference.split("N=")[1].split(".")[0] for case in smc] == ["12", "22", "42", "100"]
    for case, comparison in zip(smc, active_learning.COMPARISONS, strict=True):
        assert f" {comparison.models} models" in case.case
        assert "1 model," in case.reference
        assert "2380 transitions" in case.reference
        assert case.goal / comparison.models == pytest.approx(1 / 25)
        assert comparison.first <= comparison.N <= comparison.last
    assert [case.goal for case in cases if case not in smc] == [3.0, 0.6, 1 / 15]
    assert len({case.case for case in cases}) == len(cases)


@pytest.mark.parametrize("cold", [False, True])
def test_both_samplers_end_where_they_should(monkeypatch: pytest.MonkeyPatch, cold: bool) -> None:
    comparison = active_learning.Comparison("toy", 13, 12, 14, cold=cold, reference_particles=64)
    monkeypatch.setattr(active_learning, "COMPARISONS", (comparison,))
    monkeypatch.setattr(active_learning, "PARTICLES", 24)
    monkeypatch.setattr(active_learning, "HMC", SHORT)
    monkeypatch.setattr(active_learning, "TOLERANCE", np.inf)
    smc, hmc = active_learning._both_samplers(comparison)
    state, repeated, posterior = smc(), smc(), hmc()
    assert isinstance(state, SMCState)
    assert isinstance(repeated, SMCState)
    assert isinstance(posterior, HyperPosterior)
    np.testing.assert_array_equal(state.u, repeated.u)
    model, observations = LinearCoregionalization(2), active_learning._queried("toy")
    assert len(observations) == 14
    np.testing.assert_allclose(state.lml, model.likelihood(observations).value(state.u), rtol=1e-9)
    assert len(posterior) == 10
    assert posterior.diagnostics["gradients"] == 1 + 5 * SHORT.transitions


def test_other_means_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains that hardly move from their prior draw."""
    comparison = active_learning.Comparison("toy", 13, 12, 14, reference_particles=64)
    monkeypatch.setattr(active_learning, "COMPARISONS", (comparison,))
    monkeypatch.setattr(active_learning, "HMC", replace(SHORT, step=1e-6))
    with pytest.raises(ArithmeticError, match="HMC at N=13"):
        active_learning._both_samplers(comparison)


def test_one_of_two_particles_is_one_deviation_away() -> None:
    model = LinearCoregionalization(1, mixing="identity")
    likelihood = model.likelihood(active_learning._observations(np.random.default_rng(0), 5, 1))
    u = np.random.default_rng(1).standard_normal((2, 3))
    both = HyperPosterior(u, np.full(2, 0.5))
    assert active_learning.mean_deviation(model, likelihood, both, both) == 0.0
    one = HyperPosterior(u[:1], np.ones(1))
    assert active_learning.mean_deviation(model, likelihood, one, both) == pytest.approx(1.0)


def test_the_stretch_both_keeps_and_moves_the_cloud() -> None:
    comparison = next(each for each in active_learning.COMPARISONS if each.N == 42)
    observations, model = active_learning._queried("toy"), LinearCoregionalization(2)
    state = active_learning._started(model, active_learning._head(observations, comparison.first))
    moved = []
    for last in range(comparison.first + 1, comparison.last + 1):
        state = active_learning._followed(state, model, active_learning._head(observations, last), last - 1)
        moved.append(state.moved)
    assert 0 < sum(moved) < len(moved)


@pytest.mark.parametrize("rows", [6, 15])
def test_tensorflow_and_the_floor_run_on_the_same_particles(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(active_learning, "PARTICLES", 7)
    ours, compiled = active_learning._against(rows, active_learning._compiled)
    (value, gradient), (their_value, their_gradient) = (arrays(work) for work in (ours, compiled))
    np.testing.assert_allclose(value, their_value, rtol=1e-9)
    np.testing.assert_allclose(gradient, their_gradient, rtol=1e-9, atol=1e-9)
    assert gradient.shape == (7, 10)
    for work in active_learning._against(rows, active_learning._floor):
        work()


def test_a_baseline_that_computes_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(active_learning, "NOISE_FLOOR", 1e-3)
    with pytest.raises(ArithmeticError, match="are not ours"):
        active_learning._against(6, active_learning._compiled)


def test_one_more_row_equals_computing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("POOL_ROWS", 30), ("POOL_OBSERVATIONS", 9), ("POOL_MEMBERS", 3)):
        monkeypatch.setattr(active_learning, name, size)
    extended, fresh = (work() for work in active_learning._pool())
    assert isinstance(extended, PoolPredictions)
    assert isinstance(fresh, PoolPredictions)
    assert len(extended.observations) == len(fresh.observations) == 10
    np.testing.assert_allclose(extended.mean, fresh.mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(extended.variance, fresh.variance, rtol=1e-9, atol=1e-9)
