"""What a plan says about safety: held-back candidates, unsupported probabilities, warnings, and the end of its time."""

from __future__ import annotations

import re

import numpy as np
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.active_learning.plan import predictions as plan_predictions
from gpsuite.methods.active_learning.plan import safety as plan_safety
from gpsuite.methods.active_learning.plan.ask_tell import DEFAULT_GUARD, MeasurementPlanner, Plan
from gpsuite.methods.active_learning.plan.predictions import Clock
from gpsuite.methods.active_learning.plan.safety import SafetyGuard
from gpsuite.methods.active_learning.problem import SafetyLimit
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings

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
    assert any(
        f"{plan.n_beyond_step} more candidates, farther out than 0.15" in each for each in plan.warnings
    )
    assert all(plan.safe[each.row] for each in plan.proposals)


def test_where_only_the_step_forbids_it_says_so() -> None:
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


def test_where_the_data_support_no_probability_it_says_so() -> None:
    far = np.array([[1.4], [1.5]])
    plan = flat_planner().ask(far)
    assert plan.status == "infeasible"
    assert "the data do not support a probability there" in plan.reason
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
def test_points_spread_over_everything_are_warned_of_unless_they_are_dense(
    n: int, extent: float, warned: bool
) -> None:
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
        assert predicted[plan.safe].all() or not predicted[~plan.safe].any(), (
            "what may be proposed comes first"
        )
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
