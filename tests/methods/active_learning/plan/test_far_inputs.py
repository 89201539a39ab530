"""Measured inputs that lie far from all others and from every candidate: typed in another unit, most of all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpsuite.arrays import FloatArray
from gpsuite.methods.active_learning.plan.ask_tell import DEFAULT_GUARD, MeasurementPlanner, Plan
from gpsuite.methods.active_learning.plan.safety import (
    SafetyGuard,
    SafetyJudgement,
    SafetyModel,
    Units,
    far_inputs,
)
from gpsuite.methods.active_learning.problem import SafetyLimit
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization, Parameters
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.sampling.posterior import HyperPosterior

CANDIDATES = np.random.default_rng(5).uniform(-1.0, 1.0, (300, 2))


def planned(X: FloatArray, z: FloatArray, **words: str) -> Plan:
    """Return the next measurement of the bowl z <= 1, the inputs as they were typed."""
    planner = MeasurementPlanner(SafetyLimit(1.0, "below"), np.random.default_rng(0), input_names=("u", "v"))
    planner.tell(X, X, z)
    return planner.ask(CANDIDATES, 1, **words)  # type: ignore[arg-type]


@pytest.mark.parametrize(("rows", "factor"), [(1, 15.0), (1, 100.0), (2, 1000.0), (2, -1e6)])
def test_inputs_in_another_unit_do_not_make_everything_safe(rows: int, factor: float) -> None:
    """With them in what counts as the measured range, up to all of the candidates were called safe."""
    X = np.random.default_rng(3).uniform(-0.4, 0.4, (14, 2))
    z = (X**2).sum(axis=1)
    X[-rows:] *= factor
    plan = planned(X, z)
    unsafe = (CANDIDATES**2).sum(axis=1) > 1.0
    assert 0 < plan.n_safe < 200
    assert (plan.safe & unsafe).sum() <= 0.05 * plan.n_safe
    assert all((CANDIDATES[each.row] ** 2).sum() <= 1.0 for each in plan.proposals)
    told = [text for text in plan.warnings if "in another unit, or mistyped?" in text]
    assert told or abs(factor) < 20.0


def measured() -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return inputs and safety values of a bowl, and the same with one far input of another value."""
    X = np.random.default_rng(3).uniform(-0.4, 0.4, (14, 2))
    z = (X**2).sum(axis=1)
    return X, z, np.vstack([X, [[600.0, -0.1]]]), np.append(z, -3.0)


def test_units_are_those_of_the_other_inputs() -> None:
    X, z, more, values = measured()
    limit = SafetyLimit(1.0, "below")
    found, expected = Units.of(CANDIDATES, more, more, values, limit), Units.of(CANDIDATES, X, X, z, limit)
    np.testing.assert_array_equal(found.x_offset, expected.x_offset)
    np.testing.assert_array_equal(found.x_scale, expected.x_scale)


@pytest.mark.parametrize("variation", [1.0, 0.01])
def test_a_far_input_changes_no_probability_and_no_step(variation: float) -> None:
    """It has no covariance with any candidate; in the measured range it would lift the bound on lengthscales.

    Where the others hardly vary its value is no variation, and the step is not from its place.
    """
    X, z, more, values = measured()
    z, values = z * variation, values * np.append(np.full(14, variation), 1.0)
    model = LinearCoregionalization(1, mixing="identity")
    vectors = Parameters(
        np.full((1, 1), 50.0), np.full((1, 1), 30.0), np.full((1, 1), 1e-3), np.ones((1, 1, 1))
    )
    posterior = HyperPosterior(model.unconstrain(vectors), np.ones(1))

    def judged(inputs: FloatArray, safety: FloatArray, guard: SafetyGuard | None) -> SafetyJudgement:
        known = Observations(inputs, np.zeros(len(safety), dtype=np.int64), safety)
        believed = SafetyModel(model, posterior, known, SafetyLimit(1.0, "below"))
        return believed.judge(CANDIDATES, 0.05, guard, lambda: False)

    found, expected = judged(more, values, DEFAULT_GUARD), judged(X, z, DEFAULT_GUARD)
    np.testing.assert_allclose(found.probability, expected.probability, atol=1e-12)
    np.testing.assert_array_equal(found.beyond_step, expected.beyond_step)
    assert expected.beyond_step.any() == (variation < 1.0)
    assert judged(X, z, None).safe.sum() > 1.2 * expected.safe.sum()  # the bound is felt


def test_which_are_far() -> None:
    X = np.full((10, 2), 5.0)
    X[:, 0] = [0.0, 0.2, 0.1, 0.3, 7.1, -5.1, 4.9, 0.15, 0.25, 0.05]
    X[5, 1] = 6.0
    candidates = np.array([[-1.0, 5.0], [1.0, 5.0]])
    # a width of 2: beyond -7 and 7 in the first input; in the second neither candidates nor most inputs vary
    assert far_inputs(X, candidates).nonzero()[0].tolist() == [4]
    assert far_inputs(-1e3 * X, -1e3 * candidates).nonzero()[0].tolist() == [4]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(1, 4))
def test_what_lies_among_the_candidates_is_not_far(seed: int, n: int, inputs: int) -> None:
    rng = np.random.default_rng(seed)
    candidates = rng.normal(size=(10, inputs))
    X = rng.uniform(candidates.min(axis=0), candidates.max(axis=0), (n, inputs))
    assert not far_inputs(X, candidates).any()
    assert not far_inputs(X[:1] + 1e9, candidates).any()  # a single one is its own middle


@pytest.mark.parametrize("copies", [1, 6])
def test_the_safest_of_equally_unknown_candidates_is_the_nearest(copies: int) -> None:
    """One measured place says nothing of any other: the prior's probability was highest at a far corner."""
    X = np.tile([[0.1, -0.2]], (copies, 1))
    plan = planned(X, np.full(copies, 0.2), when_nothing_is_safe="safest")
    assert plan.n_safe == 0
    nearest = int(np.argmin(((CANDIDATES - X[0]) ** 2).sum(axis=1)))
    assert [each.row for each in plan.proposals] == [nearest] == [plan.safest]
