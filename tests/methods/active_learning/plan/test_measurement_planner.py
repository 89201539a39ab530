"""Ask and tell: units do not matter, batches condition on what comes first, saved planners go on bit by bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.methods.active_learning.acquisition import PIPELINES, Pipeline, entropy
from gpsuite.methods.active_learning.plan.ask_tell import MeasurementPlanner, NothingToMeasureError, Plan
from gpsuite.methods.active_learning.plan.predictions import Belief, OutputPredictions
from gpsuite.methods.active_learning.plan.safety import Units
from gpsuite.methods.active_learning.problem import SafetyLimit
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.multi_output.pool_predictions import PoolPredictions
from gpsuite.models.sampling.posterior import mixture_moments
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings

SMALL = SMCSettings(particles=24, moves=1, leapfrog=5)
LIMIT = SafetyLimit(1.0, "below")
GRID = np.linspace(-2.0, 2.0, 41)[:, None]

ROUNDING = 1e-6
"""Other units round otherwise; leapfrog trajectories magnify the last bits."""


def measured(n: int = 10, *, seed: int = 0, outputs: int = 2) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return inputs near 0, outputs measured in turn, and z = x² with noise: safe on [-1, 1]."""
    rng, most = np.random.default_rng(seed), 30  # fewer rows are the first of these
    X = rng.uniform(-0.7, 0.7, (most, 1))
    Y = np.column_stack([np.sin((2 + p) * X[:, 0]) for p in range(outputs)])
    Y += 0.1 * rng.standard_normal(Y.shape)
    if outputs > 1:
        Y[np.arange(most)[:, None] % outputs != np.arange(outputs)] = np.nan
    z = X[:, 0] ** 2 + 0.02 * rng.standard_normal(most)
    return X[:n], Y[:n], z[:n]


def new(limit: SafetyLimit = LIMIT, **options: Any) -> MeasurementPlanner:
    return MeasurementPlanner(limit, np.random.default_rng(1), smc=SMALL, **options)


def told(n: int = 10, limit: SafetyLimit = LIMIT, outputs: int = 2, **options: Any) -> MeasurementPlanner:
    planner = new(limit, **options)
    planner.tell(*measured(n, outputs=outputs))
    return planner


def choices(plan: Plan) -> list[tuple[int, int | None]]:
    return [(each.row, each.p) for each in plan.proposals]


def test_proposals_are_safe_and_in_the_order_of_entropy() -> None:
    plan = told().ask(GRID, 4)
    assert plan.status == "done"
    assert len(plan.proposals) == 4
    assert len(set(choices(plan))) == 4
    for each in plan.proposals:
        assert each.probability_safe == plan.probability_safe[each.row] > 0.95
        np.testing.assert_array_equal(each.x, GRID[each.row])
        np.testing.assert_array_equal(each.mean, plan.mean[each.row])
    entropies = [each.entropy for each in plan.proposals]
    assert entropies == sorted(entropies, reverse=True)
    assert abs(GRID[plan.safest, 0]) < 1.0
    first = plan.proposals[0]
    assert first.entropy == pytest.approx(plan.entropy[first.row, first.p], abs=1e-12)
    safe = plan.probability_safe > 0.95
    assert plan.n_safe == safe.sum()
    assert first.entropy == pytest.approx(plan.entropy[safe].max(), abs=1e-12)


def test_far_from_all_measurements_a_point_is_rather_unsafe() -> None:
    plan = told().ask(np.array([[0.0], [1e3], [-1e3]]))
    assert plan.probability_safe[0] > 0.95
    assert plan.probability_safe[1:].max() < 0.5


@pytest.mark.parametrize("queries", ["partial", "full"])
def test_units_do_not_matter(queries: str) -> None:
    pipeline = Pipeline("p", queries=queries)  # type: ignore[arg-type]
    plain = told(pipeline=pipeline).ask(GRID, 3)
    X, Y, z = measured()
    scale, offset = np.array([1e4, 1e-3]), np.array([5e4, -1.0])
    other = new(SafetyLimit(2.0 - 7.0, "above"), pipeline=pipeline)
    other.tell(40.0 * X + 300.0, scale * Y + offset, 2.0 - 7.0 * z)
    plan = other.ask(40.0 * GRID + 300.0, 3)
    assert choices(plan) == choices(plain)
    np.testing.assert_allclose(plan.probability_safe, plain.probability_safe, atol=ROUNDING)
    np.testing.assert_allclose(plan.entropy, plain.entropy, atol=ROUNDING)
    np.testing.assert_allclose((plan.mean - offset) / scale, plain.mean, atol=ROUNDING)
    np.testing.assert_allclose(plan.sd / scale, plain.sd, atol=ROUNDING)


@pytest.mark.parametrize("size", [1e-15, 1e12])
def test_the_unit_of_the_safety_value_does_not_matter(size: float) -> None:
    plain = told().ask(GRID, 3)
    X, Y, z = measured()
    other = new(SafetyLimit(size, "below"))
    other.tell(X, Y, size * z)
    plan = other.ask(GRID, 3)
    assert choices(plan) == choices(plain) and plan.warnings == plain.warnings
    np.testing.assert_allclose(plan.probability_safe, plain.probability_safe, atol=ROUNDING)


def test_a_candidate_that_was_measured_unsafe_is_reported() -> None:
    """The probability is that of the value without its noise, which is large here."""
    rng = np.random.default_rng(1)
    X = np.linspace(0.0, 1.0, 60)[:, None]
    z = 0.5 + 0.25 * rng.standard_normal(60)
    planner = new()
    planner.tell(X, np.sin(X), z)
    unsafe = X[z > 1.0]
    assert len(unsafe)
    plan = planner.ask(np.vstack([unsafe, unsafe + 1e-4]), 1)
    assert plan.safe.all()
    told_of = [text for text in plan.warnings if "was beyond the limit" in text]
    said = f"at {len(unsafe)} of the safe candidates a measured safety value was beyond the limit"
    assert told_of == [f"{said}: the probability is that of the value without its noise"]
    assert not any("was beyond the limit" in text for text in planner.ask(unsafe + 1e-4, 1).warnings)


def test_values_that_all_equal_the_limit_are_scatter() -> None:
    planner = new()
    X, Y, _ = measured()
    planner.tell(X, Y, np.ones(len(X)))
    assert any("mostly scatter (all at the limit)" in text for text in planner.ask(GRID, 1).warnings)


def test_expected_values_are_in_the_users_units() -> None:
    """At measured inputs the outputs to expect are near what was measured, wherever their zero and unit lie."""
    X, Y, z = measured(20)
    offset, scale = np.array([500.0, -3.0]), np.array([-20.0, 0.1])
    planner = new()
    planner.tell(X, offset + scale * Y, z)
    plan = planner.ask(np.concatenate([X, GRID]), 1)
    missed = plan.mean[:20] - (offset + scale * Y)
    assert np.nanmax(np.abs(missed) / np.abs(scale)) < 0.5, "the outputs vary by 1, their noise by 0.1"
    assert (plan.sd[:20] < 0.5 * np.abs(scale)).all()


def test_later_proposals_condition_on_the_earlier_ones() -> None:
    """The second entropy, again by one-row extensions of the predictions with the mixture's mean."""
    planner = told()
    plan = planner.ask(GRID, 2)
    first, second = plan.proposals
    belief, units = planner._beliefs["outputs"], planner._units
    assert units is not None
    posterior = belief.cloud.posterior
    found = PoolPredictions(belief.model, posterior.u, belief.observations, units.inputs(GRID), capacity=40)
    mean = mixture_moments(found.mean, found.variance, posterior.weights)[0]
    x, p = units.inputs(GRID[[first.row]]), np.array([first.p])
    found.extend(x, p, mean[first.row, p])
    after = entropy(mixture_moments(found.mean, found.variance, posterior.weights)[1])
    assert second.entropy == pytest.approx(after[second.row, second.p], abs=1e-9)
    allowed = (plan.probability_safe > 0.95)[:, None] & np.ones((1, 2), dtype=bool)
    allowed[first.row, first.p] = False
    assert second.entropy == pytest.approx(after[allowed].max(), abs=1e-9)
    assert after[first.row, first.p] < first.entropy


def test_at_given_hyperparameters_the_next_entropies_do_not_depend_on_the_value() -> None:
    rng = np.random.default_rng(0)
    X, Y, _ = measured()
    model = LinearCoregionalization(2)
    belief = Belief.cold(model, Observations.from_table(X, Y), rng, SMALL)
    one = replace(belief.cloud, u=np.repeat(belief.cloud.u[:1], len(belief.cloud.u), axis=0))
    belief = Belief(model, belief.observations, one)
    spreads = []
    for y in (0.0, 5.0):
        longer = belief.observations.extended(np.array([[1.0]]), np.array([0]), np.array([y]))
        outputs = OutputPredictions(Belief(model, longer, one), one.posterior, GRID, full=False)
        outputs.predict(np.arange(len(GRID)), lambda: False)
        spreads.append(outputs.variance)
    np.testing.assert_allclose(spreads[0], spreads[1], rtol=1e-9)


def test_telling_a_longer_table_again_is_the_same_as_telling_its_new_rows() -> None:
    X, Y, z = measured(12)
    again, only_new = told(10), told(10)
    again.ask(GRID)
    only_new.ask(GRID)
    again.tell(X, Y, z)
    only_new.tell(X[10:], Y[10:], z[10:])
    first, second = again.ask(GRID, 3), only_new.ask(GRID, 3)
    assert again.n_values == only_new.n_values == 24
    assert first.started == "warm: 20 values known, 4 new"
    np.testing.assert_array_equal(first.mean, second.mean)
    assert choices(first) == choices(second)
    assert again.lost(X, Y, z) == 0
    assert again.lost(X[:10], Y[:10], z[:10]) == 4


def test_without_new_values_the_answer_is_the_same() -> None:
    planner = told()
    first, second = planner.ask(GRID, 2), planner.ask(GRID, 2)
    assert second.started == "warm: 20 values known, 0 new"
    np.testing.assert_array_equal(first.sd, second.sd)
    assert choices(first) == choices(second)


def test_a_saved_planner_goes_on_bit_by_bit() -> None:
    X, Y, z = measured(14)
    one = told(10)
    one.ask(GRID)
    saved = one.state()
    one.tell(X, Y, z)
    other = new()
    other.restore(saved)
    assert other.lost(X, Y, z) == 0
    other.tell(X, Y, z)
    np.testing.assert_array_equal(one.ask(GRID).mean, other.ask(GRID).mean)
    for name, array in one.state().items():
        np.testing.assert_array_equal(array, other.state()[name], err_msg=name)


def test_a_warm_start_agrees_with_a_cold_one() -> None:
    X, Y, z = measured(24)
    smc = SMCSettings(particles=96)
    plans = []
    for begin in (12, 24):
        planner = MeasurementPlanner(LIMIT, np.random.default_rng(begin), smc=smc)
        planner.tell(X[:begin], Y[:begin], z[:begin])
        planner.ask(GRID)
        planner.tell(X, Y, z)
        plans.append(planner.ask(GRID))
    warm, cold = plans
    assert warm.started.startswith("warm: 24 values known, 24 new")
    assert np.abs(warm.mean - cold.mean).max() < 0.35 * cold.sd.max()
    assert np.abs(warm.probability_safe - cold.probability_safe).max() < 0.1


def test_other_spreads_start_cold() -> None:
    planner = told()
    planner.ask(GRID)
    planner.tell(np.array([[0.9]]), np.array([[30.0, np.nan]]), np.array([0.8]))
    assert planner.ask(GRID).started == "cold: the spread of measurements or candidates has changed"
    assert planner.ask(0.1 * GRID).started.startswith("cold")
    assert planner.ask(0.1 * GRID).started.startswith("warm")


def test_what_was_measured_is_not_proposed_again() -> None:
    X, Y, z = measured()
    candidates = np.concatenate([X, X[:3]])
    planner = told()
    plan = planner.ask(candidates, 100)
    assert plan.reason.startswith("only ")
    for row, p in choices(plan):
        assert np.isnan(Y[row % 10, p])
    inputs = {(float(candidates[row, 0]), p) for row, p in choices(plan)}
    assert len(inputs) == len(plan.proposals), "candidates that are listed twice are measured once"
    planner.tell(X, np.where(np.isnan(Y), 0.0, Y), z)
    with pytest.raises(NothingToMeasureError, match="all of 13 candidates have been measured"):
        planner.ask(candidates)


def test_full_queries_measure_all_outputs_of_an_unmeasured_input() -> None:
    planner = told(pipeline=Pipeline("p", queries="full"))
    plan = planner.ask(GRID, 3)
    assert [each.p for each in plan.proposals] == [None] * 3
    assert len({each.row for each in plan.proposals}) == 3
    with pytest.raises(NothingToMeasureError):
        planner.ask(measured()[0])


@pytest.mark.parametrize("name", ["RS_MOGP", "AL_indGPs"])
def test_other_pipelines_propose_safe_measurements(name: str) -> None:
    plan = told(pipeline=PIPELINES[name]).ask(GRID, 3)
    assert all(each.probability_safe > 0.95 for each in plan.proposals)
    assert len(plan.proposals) == 3


def test_one_output_and_one_candidate_give_one_measurement() -> None:
    planner = new()
    X, Y, z = measured(outputs=1)
    planner.tell(X, Y[:, 0], z)
    plan = planner.ask(np.array([[0.05]]), 3)
    assert choices(plan) == [(0, 0)]
    assert plan.reason == "only 1 of 3 measurements: no other candidate is safe and free"


def test_one_measurement_is_enough_to_begin() -> None:
    planner = new()
    planner.tell(np.array([[0.0]]), np.array([[2.0]]), np.array([0.0]))
    plan = planner.ask(GRID)
    assert np.isfinite(plan.mean).all()
    assert 0.0 <= plan.probability_safe.min() <= plan.probability_safe.max() <= 1.0


def test_where_nothing_is_safe_the_most_probable_candidate_is_named() -> None:
    candidates = np.array([[1.9], [1.3], [-2.0]])
    planner = told()
    plan = planner.ask(candidates, 2)
    assert (plan.status, plan.proposals, plan.n_safe) == ("infeasible", (), 0)
    assert plan.safest == int(np.argmax(plan.probability_safe))
    assert f"number {plan.safest + 1} at ({candidates[plan.safest, 0]:g})" in plan.reason
    assert "none of 3 candidates is safe with probability above 95 %" in plan.reason
    safest = planner.ask(candidates, 2, "safest")
    assert (safest.status, safest.reason) == ("done", plan.reason)
    assert [each.row for each in safest.proposals] == [plan.safest]


def test_replicates_are_data() -> None:
    """Repeated measurements of an output at one input count, the same value told again does not."""
    planner = told()
    X, Y, z = measured()
    known = planner.n_values
    planner.tell(X, Y, z + 1e-3)
    assert planner.n_values == known + 10
    rng, model, sd, noise = np.random.default_rng(3), LinearCoregionalization(2), [], []
    for scatter in (0.01, 0.5):
        repeated = told()
        for _ in range(3):
            repeated.tell(X, Y + scatter * rng.standard_normal(Y.shape), z)
        assert repeated.n_values == known + 30
        sd.append(repeated.ask(X[:1]).sd[0, 0])
        belief = repeated._beliefs["outputs"]
        assert belief.learnt == 40
        noise.append(belief.cloud.posterior.weights @ model.noise(belief.cloud.u))
    assert (noise[1] > 10.0 * noise[0]).all(), "scatter between replicates is noise"
    assert sd[1] > sd[0]


def test_mistakes_are_reported() -> None:
    planner = new()
    X, Y, z = measured()
    with pytest.raises(ValueError, match="tell what was measured first"):
        planner.ask(GRID)
    with pytest.raises(ValueError, match="ask first"):
        planner.state()
    with pytest.raises(ValueError, match=r"must be \[n, D\], \[n, P\] and \[n\]"):
        planner.tell(X, Y, z[1:])
    blank = np.where(np.arange(2) == 1, np.nan, Y)
    planner.tell(X, blank, z)
    with pytest.raises(ValueError, match="output 1 was never measured"):
        planner.ask(GRID)
    with pytest.raises(ValueError, match="earlier tables had other numbers"):
        planner.tell(X, Y[:, :1], z)
    for bad in ((np.nan, 1.0, 0.1), (1.0, np.inf, 0.1), (1.0, 1.0, np.inf)):
        with pytest.raises(ValueError, match="must be finite"):
            planner.tell(np.array([[bad[0]]]), np.array([[bad[1], np.nan]]), np.array([bad[2]]))
    with pytest.raises(ValueError, match="must be finite"):
        planner.tell(X, blank, np.where(np.arange(len(z)) == 3, -np.inf, z))
    assert planner.lost(X, blank, z) == 0
    planner.tell(X, Y, z)
    with pytest.raises(ValueError, match=r"must be \[n, 1\]"):
        planner.ask(np.zeros((3, 2)))
    unsafe = told(limit=SafetyLimit(-5.0, "below"))
    with pytest.raises(ValueError, match="no measured point is safe"):
        unsafe.ask(GRID)
    with pytest.raises(ValueError, match="safe pipeline"):
        new(pipeline=PIPELINES["AL_MOGP_nosafe"])
    with pytest.raises(ValueError, match="0 < delta <= 1"):
        new(delta=0.0)


def test_values_without_spread_have_a_unit_too() -> None:
    units = Units.of(np.full((3, 1), 5.0), np.full((2, 1), 5.0), np.array([[0.0, 7.0]] * 2), np.array([1.0]), LIMIT)
    assert units.x_scale.tolist() == [5.0]
    assert units.y_scale.tolist() == [1.0, 7.0]
    assert (units.z_offset.tolist(), units.z_scale.tolist()) == ([1.0], [1.0])
    assert units.limit(LIMIT).value == 0.0


def test_far_candidates_do_not_make_near_ones_safe() -> None:
    near = np.array([[1.5], [-1.5]])
    alone, among = told().ask(near), told().ask(np.concatenate([near, [[300.0], [-200.0]]]))
    assert alone.probability_safe.max() < 0.95
    assert among.probability_safe[:2].max() < 0.95
    X = np.array([[0.0], [2.0]])
    units = Units.of(np.array([[300.0]]), X, X, np.zeros(2), LIMIT)
    assert units.x_scale.tolist() == [4.0 * 1.0]


@pytest.mark.parametrize("side", ["above", "below"])
def test_the_safety_prior_lies_beyond_the_limit(side: str) -> None:
    limit = SafetyLimit(1.0, side)
    z = np.array([3.0, 5.0]) if side == "above" else np.array([-1.0, -3.0])
    units = Units.of(np.zeros((1, 1)), np.zeros((1, 1)), np.ones((1, 1)), z, limit)
    assert not limit.holds(units.z_offset[0])
    assert not units.limit(limit).holds(0.0), "in the models' units the prior mean is 0"
    assert units.limit(limit).holds((z - units.z_offset) / units.z_scale).all()
