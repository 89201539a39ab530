"""What a planner knows: repeated readings of one table, and tables that are told again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpsuite.methods.active_learning.plan.ask_tell import MeasurementPlanner, NothingToMeasureError
from gpsuite.methods.active_learning.problem import SafetyLimit
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings
from tests.methods.active_learning.plan.test_measurement_planner import new, told


def new_values(smc: SMCSettings | None = None) -> MeasurementPlanner:
    return MeasurementPlanner(SafetyLimit(1.0, "below"), np.random.default_rng(0), smc=smc)


def test_equal_readings_of_one_table_are_measurements() -> None:
    """Nine readings of an unsafe 1.2 and one of .9 at a place do not make it safe, however the sensor rounds."""
    X = np.concatenate([np.linspace(0.0, 1.0, 8), np.full(10, 0.5)])[:, None]
    z = np.concatenate([0.55 + 0.05 * np.sin(6.0 * X[:8, 0]), np.full(9, 1.2), [0.9]])
    plans = []
    for scatter in (0.0, 1e-7):
        planner = new_values()
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
    planner = new_values(smc=small)
    for _ in range(2):
        planner.tell(X, Y, z)
        assert planner.n_values == 20
    twice = [np.concatenate([values, values[:1]]) for values in (X, Y, z)]
    planner.tell(*twice)
    assert planner.n_values == 22
    assert planner.lost(X, Y, z) == 2 and planner.lost(*twice) == 0
    planner.ask(X[:1] + 0.01)
    again = new_values(smc=small)
    again.restore(planner.state())
    again.tell(*twice)
    assert again.n_values == 22


def test_lists_are_taken_as_arrays_are() -> None:
    X, Y, z, candidates = [[0.0], [0.5], [1.0]], [0.0, 1.0, 2.0], [0.1, 0.2, 0.4], [[0.25], [0.75]]
    plans = []
    for kind in (np.array, list):
        planner = new_values(smc=SMCSettings(particles=16, moves=1, leapfrog=2))
        planner.tell(kind(X), kind(Y), kind(z))
        assert planner.n_values == 6 and planner.lost(kind(X), kind(Y), kind(z)) == 0
        planner.check(kind(candidates))
        plans.append(planner.ask(kind(candidates)))
    np.testing.assert_array_equal(plans[0].mean, plans[1].mean)


@pytest.mark.parametrize("n", [1.5, 2.0, "2", None, 0])
def test_a_count_that_is_no_whole_number_is_refused_at_once(n: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    planner = new_values()
    planner.tell([[0.0], [1.0]], [0.0, 1.0], [0.1, 0.2])
    monkeypatch.setattr(planner, "_learn", lambda *_: pytest.fail("work was begun"))
    with pytest.raises(ValueError, match=f"n={n}: a whole number of measurements"):
        planner.ask([[0.5]], n)


# Candidates that were measured already: what a plan leaves out, and what it warns of.
def test_the_safest_candidate_is_one_that_can_still_be_measured() -> None:
    planner = told()
    planner.tell(np.array([[1.3]]), np.zeros((1, 2)), np.full(1, np.nan))
    plan = planner.ask(np.array([[1.9], [1.3], [-2.0]]), 1, "safest")
    assert int(np.argmax(plan.probability_safe)) == 1
    assert plan.safest != 1
    assert [each.row for each in plan.proposals] == [plan.safest]


LAST = 1.0 + 2.0**-52


@pytest.mark.parametrize("rewritten", [lambda x: x * LAST, lambda x: float(f"{x:.15g}")])
def test_a_table_that_a_program_wrote_again_is_the_same_table(rewritten: Callable[[float], float]) -> None:
    """pandas reads a last digit wrongly, a spreadsheet writes 15 of 17; two digits further on is another number."""
    X, z = (np.array([[1000.0, 50.0], [1186.154770299128, 36.53229387871448]]), np.array([20.0 / 3.0, 0.7 / 3.0]))
    Y = X[:, :1] / 7.0
    again = [np.vectorize(rewritten)(each) for each in (X, Y, z)]
    planner = new()
    planner.tell(X, Y, z)
    assert planner.lost(*again) == 0
    planner.tell(*again)
    assert planner.n_values == 4
    with pytest.raises(NothingToMeasureError):
        planner.check(again[0][1:])
    planner.check(X * (1.0 + 1e-13))
    other = new()
    other.tell(X * (1.0 + 1e-13), Y, z)
    assert other.lost(*again) == 4


def test_a_rewritten_candidate_that_was_measured_unsafe_is_reported() -> None:
    X = 1e6 + np.linspace(0.0, 1.0, 60)[:, None]
    z = 0.5 + 0.25 * np.random.default_rng(1).standard_normal(60)
    planner = new()
    planner.tell(X, np.sin(X), z)
    plan = planner.ask(np.vstack([X[z > 1.0] * LAST, [[1e6 + 0.501]]]), 1)
    assert plan.safe.all()
    assert any(f"at {(z > 1.0).sum()} of the safe candidates" in text for text in plan.warnings)


@pytest.mark.parametrize(("known", "offered"), [(-0.0, 0.0), (0.0, -0.0)])
def test_zero_has_no_sign_where_it_was_measured_unsafe(known: float, offered: float) -> None:
    X = np.arange(-30.0, 31.0)[:, None] / 32.0  # of mean 0 exactly: the planner's own units leave the sign
    X[30] = known
    z = 0.5 + 0.25 * np.random.default_rng(1).standard_normal(61)
    z = np.minimum(z, 0.9)
    z[30] = 1.2
    planner = new()
    planner.tell(X, np.sin(X), z)
    plan = planner.ask(np.array([[offered], [1e-4]]), 1)
    assert plan.safe.all()
    assert any("at 1 of the safe candidates" in text for text in plan.warnings)


def test_only_safe_candidates_that_were_measured_unsafe_are_reported() -> None:
    rng = np.random.default_rng(1)
    X = np.append(np.linspace(0.0, 1.0, 60), 3.0)[:, None]
    z = np.append(0.5 + 0.25 * rng.standard_normal(60), 5.0)
    planner = new()
    planner.tell(X, np.sin(X), z)
    unsafe = X[:60][z[:60] > 1.0]
    plan = planner.ask(np.vstack([unsafe, unsafe[:1] + 1e-4, [[3.0]]]), 1)
    assert plan.safe.tolist() == [True] * (len(unsafe) + 1) + [False]
    assert any(f"at {len(unsafe)} of the safe candidates" in text for text in plan.warnings)
