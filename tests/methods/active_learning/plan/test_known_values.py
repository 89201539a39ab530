"""What a planner knows: repeated readings of one table, and tables that are told again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpsuite.methods.active_learning.plan.ask_tell import MeasurementPlanner
from gpsuite.methods.active_learning.problem import SafetyLimit
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings


def new(smc: SMCSettings | None = None) -> MeasurementPlanner:
    return MeasurementPlanner(SafetyLimit(1.0, "below"), np.random.default_rng(0), smc=smc)


def test_equal_readings_of_one_table_are_measurements() -> None:
    """Nine readings of an unsafe 1.2 and one of .9 at a place do not make it safe, however the sensor rounds."""
    X = np.concatenate([np.linspace(0.0, 1.0, 8), np.full(10, 0.5)])[:, None]
    z = np.concatenate([0.55 + 0.05 * np.sin(6.0 * X[:8, 0]), np.full(9, 1.2), [0.9]])
    plans = []
    for scatter in (0.0, 1e-7):
        planner = new()
        planner.tell(X, np.sin(3.0 * X), z + scatter * np.arange(len(z)))
        assert planner.n_values == 36
        plans.append(planner.ask(np.array([[0.5001], [0.1]])))
    rounded, other = plans
    assert not rounded.safe[0] and not other.safe[0]
    assert rounded.probability_safe == pytest.approx(other.probability_safe, abs=0.05)


def test_a_table_told_again_brings_only_what_is_more_of_it() -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.7, 0.7, (10, 1))
    Y, z = np.sin(2.0 * X), X[:, 0] ** 2 + 0.02 * rng.standard_normal(10)
    small = SMCSettings(particles=24, moves=1, leapfrog=5)
    planner = new(smc=small)
    for _ in range(2):
        planner.tell(X, Y, z)
        assert planner.n_values == 20
    twice = [np.concatenate([values, values[:1]]) for values in (X, Y, z)]
    planner.tell(*twice)
    assert planner.n_values == 22
    assert planner.lost(X, Y, z) == 2 and planner.lost(*twice) == 0
    planner.ask(X[:1] + 0.01)
    again = new(smc=small)
    again.restore(planner.state())
    again.tell(*twice)
    assert again.n_values == 22


def test_lists_are_told_and_asked_about_as_arrays_are() -> None:
    X, Y, z, candidates = [[0.0], [0.5], [1.0]], [0.0, 1.0, 2.0], [0.1, 0.2, 0.4], [[0.25], [0.75]]
    plans = []
    for kind in (np.array, list):
        planner = new(smc=SMCSettings(particles=16, moves=1, leapfrog=2))
        planner.tell(kind(X), kind(Y), kind(z))
        assert planner.n_values == 6 and planner.lost(kind(X), kind(Y), kind(z)) == 0
        planner.check(kind(candidates))
        plans.append(planner.ask(kind(candidates)))
    np.testing.assert_array_equal(plans[0].mean, plans[1].mean)


@pytest.mark.parametrize("n", [1.5, 2.0, "2", None, 0])
def test_a_count_that_is_no_whole_number_is_refused_at_once(n: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    planner = new()
    planner.tell([[0.0], [1.0]], [0.0, 1.0], [0.1, 0.2])
    monkeypatch.setattr(planner, "_learn", lambda *_: pytest.fail("work was begun"))
    with pytest.raises(ValueError, match=f"n={n}: a whole number of measurements"):
        planner.ask([[0.5]], n)
