"""What a plan says about safety: held-back candidates, unsupported probabilities, warnings, and the end of its time."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.active_learning.plan import predictions as plan_predictions
from gpsuite.methods.active_learning.plan import safety as plan_safety
from gpsuite.methods.active_learning.plan.ask_tell import DEFAULT_GUARD, MeasurementPlanner, Plan
from gpsuite.methods.active_learning.plan.predictions import Clock
from gpsuite.methods.active_learning.plan.safety import SafetyGuard, SafetyJudgement, SafetyModel, Units, far_inputs
from gpsuite.methods.active_learning.problem import SafetyLimit
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization, Parameters
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.sampling.posterior import HyperPosterior
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings
from tests.arrays import Array

SMALL = SMCSettings(particles=24, moves=1, leapfrog=5)
LIMIT = SafetyLimit(1.0, "below")
GRID = np.linspace(-2.0, 2.0, 81)[:, None]


class Ticking(Budget):
    """A budget whose seconds pass with every look at it."""

    looks = 0

    @property
    def elapsed(self) -> float:
        Ticking.looks += 1
        return float(Ticking.looks)


def flat_planner(
    n: int = 12, D: int = 1, noise: float = 0.01, guard: SafetyGuard | None = DEFAULT_GUARD, seed: int = 0
) -> MeasurementPlanner:
    """Return a planner that was told a safety value of 0 with noise, measured on [-.5, .5]^D; safe below 1."""
    rng = np.random.default_rng(seed)
    planner = MeasurementPlanner(LIMIT, np.random.default_rng(1), smc=SMALL, guard=guard)
    X = rng.uniform(-0.5, 0.5, (n, D))
    planner.tell(X, np.sin(3.0 * X[:, 0]), noise * rng.standard_normal(n))
    return planner


def edges(plan: Plan, X: FloatArray = GRID) -> tuple[float, float]:
    """Return the smallest and the largest safe candidate."""
    safe = X[plan.safe, 0]
    return float(safe.min()), float(safe.max())


def test_while_the_safety_value_has_hardly_varied_proposals_stay_near() -> None:
    plan = flat_planner().ask(GRID, 3)
    X = flat_planner()._known["safety"].observations.X
    reach = 0.15 * float(np.ptp(X))
    low, high = edges(plan)
    assert X.min() - reach - 1e-12 <= low < X.min() and X.max() < high <= X.max() + reach + 1e-12
    held_back = (plan.probability_safe > 0.95) & ~plan.safe
    assert plan.n_beyond_step == held_back.sum() > 0
    assert any(f"{plan.n_beyond_step} more candidates, farther out than 0.15" in each for each in plan.warnings)
    assert all(plan.safe[each.row] for each in plan.proposals)


def test_it_is_reported_that_only_the_step_forbids_it() -> None:
    far = np.array([[0.7], [0.75], [3.0]])
    plan = flat_planner().ask(far)
    assert (plan.status, plan.n_safe, plan.n_beyond_step) == ("infeasible", 0, 2)
    assert "no candidate that is left lies within 0.15 measured ranges" in plan.reason
    assert "2 farther out would be safe enough by the model" in plan.reason
    assert flat_planner(guard=SafetyGuard(step=0.5)).ask(far).status == "done"


def test_who_knows_better_gives_the_step() -> None:
    near, far = (flat_planner(guard=SafetyGuard(step=step)).ask(GRID) for step in (0.0, 0.4))
    assert edges(near)[1] < flat_planner()._known["safety"].observations.X.max() <= edges(far)[1] - 0.2
    np.testing.assert_array_equal(near.probability_safe, far.probability_safe)


def test_once_it_has_varied_there_is_no_step() -> None:
    X = np.linspace(-0.5, 0.5, 15)[:, None]
    planner = MeasurementPlanner(LIMIT, np.random.default_rng(1), smc=SMALL)
    planner.tell(X, np.sin(3.0 * X[:, 0]), X[:, 0] + 0.01 * np.cos(40.0 * X[:, 0]))
    plan = planner.ask(GRID)
    assert plan.n_beyond_step == 0
    assert edges(plan)[0] < -0.8, "away from the limit"
    np.testing.assert_array_equal(plan.safe, plan.probability_safe > 0.95)
    assert not plan.warnings


def test_on_a_bowl_measured_in_its_middle_first_proposals_are_safe() -> None:
    """Safe where .6 |x|^2 < 1: without the guard about a quarter of first proposals are not."""
    unsafe = {True: 0, False: 0}
    for seed in range(6):
        rng = np.random.default_rng([10, seed])
        X, candidates = rng.uniform(-0.4, 0.4, (10, 2)), rng.uniform(-2.0, 2.0, (250, 2))
        y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(10)
        z = 0.6 * (X**2).sum(axis=1) + 0.02 * rng.standard_normal(10)
        for guarded in unsafe:
            guard = SafetyGuard(step=10.0) if guarded else None  # without the step, which would hide the rest
            planner = MeasurementPlanner(LIMIT, np.random.default_rng(seed), smc=SMALL, guard=guard)
            planner.tell(X, y, z)
            for each in planner.ask(candidates).proposals:
                unsafe[guarded] += int(0.6 * (each.x**2).sum() > 1.0)
    assert unsafe[True] == 0
    assert unsafe[False] > 0, "the rule is put to the test"


def test_it_is_reported_that_the_data_support_no_probability() -> None:
    far = np.array([[1.4], [1.5]])
    plan = flat_planner().ask(far)
    assert plan.status == "infeasible"
    assert "The data do not support a probability there" in plan.reason
    assert "would allow 1, the nearest 1 measured ranges outside" in plan.reason
    free = flat_planner(guard=None).ask(far)
    assert free.status == "done"
    farthest = flat_planner().ask(np.array([[1e3]]))
    assert "do not support" not in farthest.reason, "nor would the model allow it without the guard"


def test_values_at_one_input_support_nothing_elsewhere() -> None:
    planner = MeasurementPlanner(LIMIT, np.random.default_rng(1), smc=SMALL)
    planner.tell(np.full((6, 1), 0.3), np.arange(6.0), np.linspace(-0.1, 0.1, 6))
    plan = planner.ask(GRID + 0.01)
    assert plan.status == "infeasible"
    assert "do not support a probability" in plan.reason
    assert planner.ask(GRID).n_safe == 1, "that input itself is a candidate"
    assert any("input 1 never varied" in each for each in plan.warnings)


def test_doubtful_measurements_are_warned_of() -> None:
    few = flat_planner(4).ask(GRID)
    assert any("only 4 safety values" in each for each in few.warnings)
    assert not any("only" in each for each in flat_planner(5).ask(GRID).warnings)
    scatter = flat_planner(30, noise=0.9, seed=2).ask(GRID)
    assert any("mostly scatter" in each for each in scatter.warnings)
    X = np.column_stack([np.linspace(-1.0, 1.0, 12), np.full(12, 3.0)])
    planner = MeasurementPlanner(LIMIT, np.random.default_rng(1), smc=SMALL, input_names=("speed", "load"))
    planner.tell(X, X[:, 0], 0.5 * X[:, 0])
    assert any("load never varied" in each for each in planner.ask(X + 0.01).warnings)


@pytest.mark.parametrize(("n", "extent", "warned"), [(8, 2.0, True), (60, 2.0, False), (8, 0.7, False)])
def test_points_spread_over_everything_are_warned_of_unless_they_are_dense(n: int, extent: float, warned: bool) -> None:
    planner = MeasurementPlanner(LIMIT, np.random.default_rng(1), smc=SMALL)
    X = np.linspace(-extent, extent, n)[:, None]
    planner.tell(X, X[:, 0], X[:, 0] ** 2 - 2.0)
    assert any("narrower" in each for each in planner.ask(GRID).warnings) == warned


def test_a_budget_ends_with_the_best_plan_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_predictions, "TOGETHER", 2)
    monkeypatch.setattr(plan_safety, "TOGETHER", 4)
    full = flat_planner().ask(GRID, 3, budget=Budget(seconds=1e6))
    assert (full.status, full.reason) == ("done", "")
    told = {}
    for seconds in (1.0, 20.0, 120.0):
        Ticking.looks = 0
        planner = flat_planner()
        plan = planner.ask(GRID, 3, budget=Ticking(seconds=seconds))
        assert plan.status == "budget"
        assert 1 <= len(plan.proposals) <= 3
        for each in plan.proposals:
            assert plan.safe[each.row] and np.isfinite(each.mean).all()
        assert not plan.safe[np.isnan(plan.probability_safe)].any()
        predicted = np.isfinite(plan.mean[:, 0])
        assert predicted[plan.safe].all() or not predicted[~plan.safe].any(), "what may be proposed comes first"
        told[seconds] = plan.reason
        if seconds == 1.0:
            again = planner.ask(GRID)
            assert again.started == "cold: the budget had cut the earlier inference short"
            assert again.status == "done"
    assert "inference for safety ended early" in told[1.0]
    assert "safety judged at 4 of 81 candidates" in told[1.0]
    assert "inference" not in told[120.0]
    assert re.search(r"budget used up: .*outputs predicted at \d+", told[120.0])


def test_the_clock_gives_each_part_its_share() -> None:
    Ticking.looks = 0
    clock = Clock(Ticking(seconds=10.0))
    asked = [clock.safety_inference_ended() for _ in range(4)]
    assert asked == [False, False, True, True]
    assert [clock.inference_ended() for _ in range(3)] == [False, True, True]
    assert [clock.ended() for _ in range(4)] == [False, False, True, True]
    assert not Clock(None).ended() and not Clock(Budget()).safety_inference_ended()


def test_candidates_that_there_was_no_time_to_judge_are_not_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    planner = flat_planner()
    assert planner.ask(GRID).n_safe > 9
    monkeypatch.setattr(plan_safety, "TOGETHER", 10)
    believed = planner._safety_model(planner._predicting("safety", len(GRID)))
    found = believed.judge(planner._scales.inputs(GRID), 0.05, None, lambda: True)
    judged = np.arange(len(GRID)) % 9 == 0
    assert found.judged == judged.sum()
    np.testing.assert_array_equal(np.isfinite(found.probability), judged)
    assert found.safe[judged].any()
    assert not (found.safe | found.beyond_step)[~judged].any()


# Units of plans: what varies little far from 0 varies.
FACTOR, OFFSET = 2.0**-13, 2.0**30  # nothing is rounded by them here


def asked(X: Array, z: Array, candidates: Array, limit: float = 0.0) -> Plan:
    smc = SMCSettings(particles=64)
    planner = MeasurementPlanner(SafetyLimit(limit, "below"), np.random.default_rng(0), smc=smc)
    planner.tell(X, np.sin(2.0 * np.arange(len(X))), z)
    return planner.ask(candidates)


def test_a_small_spread_at_a_large_offset_is_a_spread() -> None:
    """Time stamps in nanoseconds, say: candidates far out were called safe."""
    rng = np.random.default_rng(0)
    X, candidates = (np.round(rng.uniform(-e, e, (n, 1)) * 512) / 512 for e, n in ((1, 12), (3, 40)))
    z, unsafe = np.round((X[:, 0] ** 2 - 1.5) * 512) / 512, candidates[:, 0] ** 2 > 1.5
    near = asked(X, z, candidates)
    far = asked(X * FACTOR + OFFSET, z, candidates * FACTOR + OFFSET)
    assert near.safe.any() and not (near.safe & unsafe).any()
    np.testing.assert_allclose(far.probability_safe, near.probability_safe, atol=1e-3)
    far = asked(X, z * FACTOR + OFFSET, candidates, OFFSET)
    np.testing.assert_allclose(far.probability_safe, near.probability_safe, atol=0.05)


def test_the_rounding_of_equal_values_is_no_spread() -> None:
    X = np.full((7, 1), 0.1) * np.arange(1, 8)[:, None] / np.arange(1, 8)[:, None]
    found = Units.of(X, X, np.full((7, 1), 0.3), np.linspace(-1.0, 0.0, 7), SafetyLimit(1.0, "below"))
    assert np.ptp(X) > 0.0
    assert found.x_scale[0] > 0.09 and found.y_scale[0] > 0.29


# Measured inputs that lie far from all others and from every candidate: typed in another unit, most of all.
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
    vectors = Parameters(np.full((1, 1), 50.0), np.full((1, 1), 30.0), np.full((1, 1), 1e-3), np.ones((1, 1, 1)))
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


def test_inputs_beyond_the_candidates_width_are_far() -> None:
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
