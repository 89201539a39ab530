"""The goal of an optimum: expected improvement, the value of access, and a planner that goes on and stays safe."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from gpsuite.arrays import FloatArray
from gpsuite.methods.active_learning.acquisition import Pipeline
from gpsuite.methods.active_learning.plan.ask_tell import AGAIN, FARTHER, MeasurementPlanner, NothingToMeasureError
from gpsuite.methods.active_learning.plan.optimum import Access, expected_improvement
from gpsuite.methods.active_learning.plan.safety import SafetyGuard, SafetyPrediction
from gpsuite.methods.active_learning.problem import SafetyLimit
from gpsuite.models.multi_output.coregionalization import Parameters
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings

SMALL = SMCSettings(particles=24, moves=1, leapfrog=5)
LIMIT = SafetyLimit(1.0, "below")
GRID = np.linspace(-2.0, 2.0, 81)[:, None]
FULL = Pipeline("full", queries="full")
ROUNDING = 1e-6  # other units round otherwise; leapfrog trajectories magnify the last bits


def measure(X: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return two outputs, the first least at the edge x = 1 of the safe part, and z = x² with noise."""
    Y = np.column_stack([-X[:, 0] + 0.3 * np.sin(3.0 * X[:, 0]), X[:, 0] ** 2])
    return Y + 0.01 * rng.standard_normal(Y.shape), X[:, 0] ** 2 + 0.01 * rng.standard_normal(len(X))


def told(seed: int = 0, sign: float = 1.0, **options: Any) -> MeasurementPlanner:
    rng = np.random.default_rng(seed)
    X = rng.choice(GRID[(np.abs(GRID[:, 0]) < 0.5)], 8, replace=False)
    planner = MeasurementPlanner(LIMIT, np.random.default_rng(1), smc=SMALL, **{"pipeline": FULL, **options})
    Y, z = measure(X, rng)
    planner.tell(X, sign * Y, z)
    return planner


def test_expected_improvement_is_the_integral() -> None:
    mean, variance = np.array([[0.3, -0.2], [0.1, 1.5]]), np.array([[0.5, 0.04], [1.0, 0.2]])
    best, weights = np.array([0.0, 0.4]), np.array([0.3, 0.7])
    found = expected_improvement(mean, variance, best, weights)
    each = [[improvement(best[s], mean[s, i], variance[s, i] ** 0.5) for i in range(2)] for s in range(2)]
    np.testing.assert_allclose(found, weights @ each, rtol=1e-7)


def improvement(best: float, mean: float, sd: float) -> float:
    """Return the expected improvement by quadrature."""
    return float(quad(lambda f: (best - f) * norm.pdf(f, mean, sd), -12.0, best)[0])


def test_without_variance_the_improvement_is_what_is_known() -> None:
    found = expected_improvement(np.array([[1.0, 3.0, np.nan]]), np.zeros((1, 3)), np.array([2.0]), np.ones(1))
    np.testing.assert_array_equal(found, [1.0, 0.0, np.nan])


@pytest.mark.parametrize("guard", [None, SafetyGuard()])
def test_what_is_reported_is_the_share_of_the_variance_that_a_measurement_takes_away(guard: SafetyGuard | None) -> None:
    """The same by conditioning on one more measurement, at fixed hyperparameters and bounds of the guard."""
    rng = np.random.default_rng(3)
    X, z = rng.uniform(-1.0, 1.0, (7, 2)), np.full(7, -1.0)
    inside, outside = rng.uniform(-1.0, 1.0, (3, 2)), rng.uniform(-2.0, 2.0, (4, 2))
    parameters = Parameters(np.array([[1.3]]), np.array([[0.8]]), np.array([[0.05]]), np.ones((1, 1, 1)))

    def prediction(X: FloatArray, z: FloatArray) -> SafetyPrediction:
        known = Observations(X, np.zeros(len(X), dtype=np.int64), z)
        return SafetyPrediction("matern52", parameters, np.ones(1), known, SafetyLimit("<= 0"), guard, counted)

    counted = X.copy()
    before = prediction(X, z)
    told = before.told(inside, outside)
    for i, x in enumerate(inside):
        longer = prediction(np.vstack([X, x]), np.append(z, -1.0))  # the same distance to the limit: the same bounds
        left = longer.moments(outside)[1] / before.moments(outside)[1]
        np.testing.assert_allclose(1.0 - told[i], left, rtol=1e-7)


def test_access_is_worth_nothing_where_nothing_lies_outside() -> None:
    access = Access(np.empty(0), np.empty((3, 0)))
    np.testing.assert_array_equal(access.at(np.arange(3)), np.zeros(3))


def test_access_that_is_reported_is_not_reported_again() -> None:
    access = Access(np.array([2.0, 1.0]), np.array([[0.9, 0.0], [0.5, 0.5]]))
    np.testing.assert_allclose(access.at(np.arange(2)), [1.8, 1.0])
    np.testing.assert_allclose(access.after(0).at(np.arange(2)), [0.18, 0.5])


def test_the_best_safe_setting_is_found_and_no_unsafe_one_is_measured() -> None:
    planner, rng = told(goal="minimise"), np.random.default_rng(9)
    for _ in range(12):
        plan = planner.ask(GRID)
        [proposal] = plan.proposals
        assert proposal.probability_safe > 0.95
        assert abs(proposal.x[0]) <= 1.0
        Y, z = measure(proposal.x[None], rng)
        planner.tell(proposal.x, Y[0], z[0])
    best = planner.ask(GRID).recommendation
    assert best is not None
    assert 0.7 < best.x[0] <= 1.0
    assert best.probability_safe > 0.95
    truth = -best.x[0] + 0.3 * np.sin(3.0 * best.x[0])
    assert best.low - 0.02 <= truth <= best.high + 0.02


@pytest.mark.parametrize("queries", ["partial", "full"])
def test_to_maximise_is_to_minimise_the_negative(queries: str) -> None:
    pipeline = Pipeline("p", queries=queries, mixing="identity")  # type: ignore[arg-type]
    least, most = told(goal="minimise", pipeline=pipeline), told(goal="maximise", sign=-1.0, pipeline=pipeline)
    plan, other = least.ask(GRID, 3), most.ask(GRID, 3)
    assert [each.row for each in plan.proposals] == [each.row for each in other.proposals]
    assert plan.recommendation is not None and other.recommendation is not None
    assert plan.recommendation.value == pytest.approx(-other.recommendation.value, abs=ROUNDING)
    assert plan.recommendation.low == pytest.approx(-other.recommendation.high, abs=ROUNDING)


def test_units_do_not_matter() -> None:
    plain = told(goal="minimise").ask(GRID, 3)
    rng = np.random.default_rng(0)
    X = rng.choice(GRID[(np.abs(GRID[:, 0]) < 0.5)], 8, replace=False)
    Y, z = measure(X, rng)
    options: dict[str, Any] = {"smc": SMALL, "pipeline": FULL, "goal": "minimise"}
    other = MeasurementPlanner(SafetyLimit(2.0 - 7.0, "above"), np.random.default_rng(1), **options)
    other.tell(40.0 * X + 300.0, 1e4 * Y + 5e4, 2.0 - 7.0 * z)
    plan = other.ask(40.0 * GRID + 300.0, 3)
    assert [each.row for each in plan.proposals] == [each.row for each in plain.proposals]
    for each, theirs in zip(plan.proposals, plain.proposals, strict=True):
        assert each.gain == pytest.approx(1e4 * theirs.gain, rel=1e-3)
    assert plan.recommendation is not None and plain.recommendation is not None
    assert plan.recommendation.x[0] == pytest.approx(40.0 * plain.recommendation.x[0] + 300.0)
    assert plan.recommendation.pays == plain.recommendation.pays


def test_a_safe_candidate_is_measured_again_when_all_were_measured() -> None:
    planner = told(goal="minimise")
    known = np.random.default_rng(0).choice(GRID[(np.abs(GRID[:, 0]) < 0.5)], 8, replace=False)
    candidates = np.vstack([known, [[5.0]]])
    plan = planner.ask(candidates)
    assert plan.reason == AGAIN
    assert plan.status == "done"
    [proposal] = plan.proposals
    assert proposal.row < 8
    learning = told().ask(candidates)
    assert learning.status == "infeasible" and not learning.proposals


def test_only_the_objective_is_requested_by_partial_measurements() -> None:
    plan = told(goal="minimise", objective=1, pipeline=Pipeline("p")).ask(GRID, 3)
    assert {each.p for each in plan.proposals} == {1}


def test_a_saved_planner_goes_on_bit_by_bit() -> None:
    planner = told(goal="minimise")
    planner.ask(GRID)
    other = MeasurementPlanner(LIMIT, np.random.default_rng(5), smc=SMALL, pipeline=FULL, goal="minimise")
    other.restore(planner.state())
    plan, same = planner.ask(GRID, 2), other.ask(GRID, 2)
    assert [each.row for each in plan.proposals] == [each.row for each in same.proposals]
    assert [each.gain for each in plan.proposals] == [each.gain for each in same.proposals]


@pytest.mark.parametrize("objective", [2, -1, "torque"])
def test_an_objective_that_there_is_not_is_refused(objective: int | str) -> None:
    with pytest.raises(ValueError, match="must be one of"):
        told(goal="minimise", objective=objective).ask(GRID)


def test_equal_candidates_are_proposed_once() -> None:
    plan = told(goal="minimise").ask(np.repeat(GRID[35:46:5], 3, axis=0), 3)
    assert len({each.x.tobytes() for each in plan.proposals}) == len(plan.proposals)


def test_a_search_whose_candidates_were_all_measured_measures_again() -> None:
    planner = told(goal="minimise")
    few = GRID[38:42]
    planner.tell(few, *measure(few, np.random.default_rng(3)))
    plan = planner.ask(few)
    assert AGAIN in plan.reason and len(plan.proposals) == 1 and plan.recommendation is not None
    with pytest.raises(NothingToMeasureError):
        told().ask(told()._known["outputs"].observations.X)


def test_where_nothing_can_be_proposed_nothing_pays() -> None:
    planner = MeasurementPlanner(LIMIT, np.random.default_rng(5), smc=SMALL, pipeline=FULL, goal="minimise")
    planner.tell([[0.0]], [1.0], [1.0])
    plan = planner.ask([[50.0]])
    best = plan.recommendation
    assert not plan.proposals and best is not None and not best.pays and np.isnan(best.gain)
    assert str(best).endswith("No measurement is proposed")
    assert any("no setting is known to be safe enough" in each for each in plan.warnings)


def test_a_series_gives_the_output_its_name() -> None:
    planner = MeasurementPlanner(LIMIT, np.random.default_rng(5), smc=SMALL, goal="minimise", objective="cost")
    X = pd.DataFrame({"a": [-0.2, 0.0, 0.2, 0.3]})
    planner.tell(X, pd.Series([1.0, 0.5, 0.7, 0.9], name="cost"), pd.Series([-1.0, -0.9, -0.8, -0.5], name="heat"))
    assert "measure cost at a = " in repr(planner.ask(pd.DataFrame({"a": np.linspace(-0.3, 0.4, 8)})))


def test_a_goal_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one of learn, minimise, maximise"):
        told(goal="minimize")


def test_a_learning_plan_recommends_nothing() -> None:
    plan = told().ask(GRID)
    assert plan.recommendation is None
    assert np.isnan(plan.proposals[0].gain)


def test_the_chance_to_pass_is_that_of_many_measurements() -> None:
    """By conditioning on draws of the measured value: the share with which the other setting is safe enough."""
    rng = np.random.default_rng(3)
    X, limit = rng.uniform(-1.0, 1.0, (7, 1)), SafetyLimit("<= 0")
    z = X[:, 0] ** 2 - 1.5
    parameters = Parameters(np.array([[1.3]]), np.array([[0.8]]), np.array([[0.05]]), np.ones((1, 1, 1)))

    def prediction(X: FloatArray, z: FloatArray) -> SafetyPrediction:
        known = Observations(X, np.zeros(len(X), dtype=np.int64), z)
        return SafetyPrediction("matern52", parameters, np.ones(1), known, limit, None)

    x, u = np.array([[1.05]]), np.array([[1.2]])
    before = prediction(X, z)
    mean, variance = (float(each[0]) for each in before.moments(x))
    drawn = mean + np.sqrt(variance + 0.05) * rng.standard_normal(4000)
    safe = [
        float(prediction(np.vstack([X, x]), np.append(z, value)).probability(u)[0]) > 0.95 for value in drawn.tolist()
    ]
    assert before.probability(u)[0] < 0.95
    assert 0.02 < np.mean(safe) < 0.98
    assert before.passing(x, u, 0.05)[0, 0] == pytest.approx(np.mean(safe), abs=4.0 * 0.5 / np.sqrt(4000))


def test_what_is_reached_is_the_share_of_the_way_into_the_step() -> None:
    guard, X = SafetyGuard(step=0.5), np.array([[0.0], [1.0]])
    found = guard.reached(X, np.array([[0.5], [1.2], [1.5]]), np.array([[2.0]]))
    # outside before: 1 range; after 1.2: 0.8 of 1.2; after 1.5: 0.5 of 1.5, within the step of 0.5
    np.testing.assert_allclose(found[:, 0], [0.0, (1.0 - 0.8 / 1.2) / 0.5, 1.0])


@pytest.mark.parametrize(("apart", "reason"), [(0.2, FARTHER), (0.4, AGAIN)])
def test_the_nearest_candidate_beyond_the_step_follows_when_all_within_it_were_measured(
    apart: float, reason: str
) -> None:
    """In measured ranges; the step is 0.15, and while the safety value hardly varies nothing farther is proposed."""
    X = np.linspace(0.0, 1.0, 9)[:, None]
    options: dict[str, Any] = {"smc": SMALL, "pipeline": FULL}
    search, learner = (
        MeasurementPlanner(LIMIT, np.random.default_rng(1), goal=goal, **options) for goal in ("minimise", "learn")
    )
    for planner in (search, learner):
        planner.tell(X, np.cos(3.0 * X), 0.001 * np.random.default_rng(2).standard_normal(9))
    candidates = np.vstack([X, [[1.0 + apart]], [[1.9]]])
    plan = search.ask(candidates)
    assert not plan.safe[9] and plan.probability_safe[9] > 0.95
    assert plan.reason == reason
    assert (plan.proposals[0].row == 9) == (reason == FARTHER)
    assert learner.ask(candidates).status == "infeasible"
