"""Branch and bound on functions whose extrema are known, with interval and Lipschitz bounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from gpsuite.budget import Budget
from gpsuite.methods.robustness.search.branch_and_bound import (
    Extremum,
    UnsoundBoundError,
    branch_and_bound,
    choose_cuts,
)
from gpsuite.methods.robustness.search.regions import Region, box, interval_box, l1_ball, l2_ball
from tests.arrays import Array

EPS = 1e-3


@dataclass
class Answer:
    low: Array
    high: Array
    centre: Array
    split_score: Array


class Lipschitz:
    """Bounds f(c) -+ L'r of a function with partial derivatives bounded by L; probability = logistic(score)."""

    def __init__(self, function: Callable[[Array], Array], constants: Array) -> None:
        self.function, self.constants, self.calls = function, np.asarray(constants, dtype=float), 0

    def bounds(self, lo: Array, hi: Array) -> Answer:
        self.calls += 1
        value = self.function(0.5 * (lo + hi))
        parts = self.constants * (0.5 * (hi - lo))
        reach = parts.sum(axis=1) + 1e-14
        return Answer(value - reach, value + reach, value, parts)

    def evaluate(self, points: Array) -> tuple[Array, Array]:
        return self.function(points), self.function(points)

    def outward_probability(self, low: Array, high: Array) -> tuple[Array, Array]:
        return expit(low), expit(high)


def wave(x: Array) -> Array:
    """Many local extrema; on [-2, 2]^d the maximum 1 per input is at 0."""
    return np.sum(np.cos(5 * x) - 0.3 * x**2, axis=-1) / x.shape[-1]


def wave_bound(inputs: int) -> Lipschitz:
    return Lipschitz(wave, np.full(inputs, (5 + 1.2) / inputs))


def run(bounding: Lipschitz, region: Region, sign: int = 1, **more) -> Extremum:
    more = {"tolerance": EPS, "budget": Budget(boxes=200_000)} | more
    return branch_and_bound(bounding, region, sign=sign, **more)  # type: ignore[arg-type]


def covering_bounds(found: Extremum) -> Array:
    return found.sign * found.tree.bound[found.tree.leaves]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("inputs", [1, 2])
def test_a_known_extremum_is_enclosed_within_the_tolerance(inputs: int, sign: int) -> None:
    bounding = Lipschitz(lambda x: sign * wave(x), wave_bound(inputs).constants)
    found = run(bounding, box(np.full(inputs, 0.3), 1.5), sign)
    truth = expit(sign * 1.0)
    assert found.status == "closed"
    assert found.gap <= EPS
    assert sign * found.inner <= sign * truth <= sign * found.outer
    np.testing.assert_allclose(found.witness, 0.0, atol=0.03)  # type: ignore[arg-type]


def test_the_outer_bound_is_the_worst_over_all_leaves_open_or_fathomed() -> None:
    for boxes in (1, 3, 64, 301, 5000):
        found = run(wave_bound(2), box([0.3, 0.3], 1.5), budget=Budget(boxes=boxes))
        assert found.boxes <= boxes
        assert found.outer == pytest.approx(expit(covering_bounds(found).max()), abs=1e-15)
        assert found.outer >= expit(1.0)


def test_the_trace_is_monotone_and_ends_with_the_result() -> None:
    found = run(wave_bound(2), box([0.3, 0.3], 1.5))
    boxes, seconds, inner, outer = found.trace.T
    assert (np.diff(boxes) >= 0).all() and (np.diff(seconds) >= 0).all()
    assert (np.diff(inner) >= 0).all() and (np.diff(outer) <= 0).all()
    assert (inner <= outer).all()
    assert (inner[-1], outer[-1]) == (found.inner, found.outer)
    assert ((np.diff(inner) > 0) | (np.diff(outer) < 0)).all(), "only what is new is noted"


def test_a_batch_that_changes_neither_bound_is_not_noted() -> None:
    """Four quarters of equal bounds, cut one at a time: the outer bound falls with the last of them only."""
    bounding = wave_bound(2)
    found = run(bounding, box(np.zeros(2), 1.5), batch=2, tolerance=0.05)
    _, _, inner, outer = found.trace.T
    assert ((np.diff(inner) > 0) | (np.diff(outer) < 0)).all()
    assert len(found.trace) < bounding.calls / 2


@given(seed=st.integers(0, 10_000))
def test_random_functions_are_enclosed_at_any_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, sign = int(rng.integers(1, 4)), int(rng.choice([-1, 1]))
    frequency, phase, weight = rng.uniform(0, 4, (3, d)), rng.uniform(0, 6, 3), rng.normal(size=3)

    def function(x: Array) -> Array:
        return np.sin(x @ frequency.T + phase) @ weight

    build = (lambda: box(np.zeros(d), 1.0), lambda: l2_ball(np.zeros(d), 1.0), lambda: l1_ball(np.zeros(d), 1.0))
    region = build[int(rng.integers(3))]()
    bounding = Lipschitz(function, np.abs(weight) @ frequency)
    found = run(bounding, region, sign, budget=Budget(boxes=int(rng.integers(1, 600))), tolerance=1e-2)
    samples = expit(function(region.project(rng.uniform(-1.2, 1.2, (2000, d)))))
    assert (sign * samples).max() <= sign * found.outer + 1e-12
    assert found.witness is not None and region.contains(found.witness[None])[0]
    assert found.inner == pytest.approx(expit(function(found.witness)), abs=1e-12)
    assert found.status in ("closed", "budget")
    if found.status == "closed":
        assert sign * (found.outer - found.inner) <= 1e-2


@pytest.mark.parametrize("ball", [l1_ball, l2_ball])
def test_the_extremum_over_a_ball_lies_on_its_rim(ball) -> None:
    slope = np.array([1.0, 2.0, 0.5])
    found = run(Lipschitz(lambda x: x @ slope, slope), ball([1.0, 0.0, 2.0], 0.7))
    longest = slope.max() if ball is l1_ball else np.linalg.norm(slope)
    truth = expit(2.0 + 0.7 * longest)
    assert found.status == "closed"
    assert found.inner <= truth <= found.outer <= truth + EPS


@pytest.mark.parametrize("limits", [{"boxes": 0}, {"seconds": 0.0}])
@pytest.mark.parametrize("sign", [1, -1])
def test_no_budget_gives_the_trivial_bound(limits: dict, sign: int) -> None:  # type: ignore[type-arg]
    bounding = wave_bound(1)
    found = run(bounding, box([0.3], 1.0), sign, budget=Budget(**limits))
    assert (found.status, found.boxes, bounding.calls) == ("budget", 0, 0)
    assert (found.inner, found.outer) == ((0.0, 1.0) if sign > 0 else (1.0, 0.0))
    assert found.witness is None
    assert "used up" in found.reason


def test_one_box_gives_the_root_bound() -> None:
    found = run(wave_bound(1), box([0.3], 1.0), budget=Budget(boxes=1))
    assert (found.status, found.boxes) == ("budget", 1)
    assert found.outer == pytest.approx(expit(wave(np.array([0.3])) + 6.2))
    assert len(found.tree.parent) == 1


def test_the_seconds_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, batches = [0.0], [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    slow = wave_bound(3)
    fast = slow.bounds

    def bounds(lo: Array, hi: Array) -> Answer:
        batches.append(0.002 * len(lo))
        clock[0] += batches[-1]
        return fast(lo, hi)

    slow.bounds = bounds  # type: ignore[method-assign]
    found = run(slow, box(np.zeros(3), 2.0), budget=Budget(seconds=0.3, started=0.0), tolerance=0.0)
    assert (found.status, found.seconds) == ("budget", clock[0])
    assert clock[0] - batches[-1] < 0.3 <= clock[0]


def test_a_nan_bound_is_trivial_and_never_wins() -> None:
    bounding = wave_bound(1)
    plain = bounding.bounds

    def bounds(lo: Array, hi: Array) -> Answer:
        answer = plain(lo, hi)
        wide = (hi - lo)[:, 0] > 0.5
        for array in (answer.low, answer.high, answer.centre):
            array[wide] = np.nan
        answer.split_score[wide] = np.nan
        return answer

    bounding.bounds = bounds  # type: ignore[method-assign]
    early = run(bounding, box([0.3], 1.5), budget=Budget(boxes=1))
    assert early.outer == 1.0
    found = run(bounding, box([0.3], 1.5))
    assert found.status == "closed"
    assert found.inner <= expit(1.0) <= found.outer <= expit(1.0) + EPS


def test_a_child_inherits_its_parents_better_bound() -> None:
    bounding = wave_bound(1)
    plain = bounding.bounds

    def bounds(lo: Array, hi: Array) -> Answer:
        answer = plain(lo, hi)
        answer.high[(hi - lo)[:, 0] < 1.0] += 5.0
        return answer

    bounding.bounds = bounds  # type: ignore[method-assign]
    found = run(bounding, box([0.3], 1.5), budget=Budget(boxes=51))
    tree = found.tree
    assert (tree.bound[1:] <= tree.bound[tree.parent[1:]]).all()
    assert (tree.proved < np.arange(len(tree.proved))).any()
    np.testing.assert_array_equal(tree.bound, tree.bound[tree.proved])


def test_an_unsound_bound_is_noticed() -> None:
    with pytest.raises(UnsoundBoundError, match="attained"):
        run(Lipschitz(wave, np.array([0.0])), interval_box([1.0], [-0.5], [1.0]), incumbent=np.array([[0.0]]))


def test_deciding_stops_early_on_either_side() -> None:
    region = box([0.3, 0.3], 1.5)
    full = run(wave_bound(2), region)
    yes = run(wave_bound(2), region, decide=0.5)
    assert (yes.status, yes.boxes < full.boxes) == ("decided", True)
    assert yes.inner >= 0.5
    no = run(wave_bound(2), region, decide=0.8)
    assert (no.status, no.boxes < full.boxes) == ("decided", True)
    assert no.inner <= expit(1.0) <= no.outer < 0.8


def test_a_tie_with_the_threshold_ends_at_the_tolerance() -> None:
    flat = Lipschitz(lambda x: -1e-9 - x[:, 0] ** 2, np.array([2.0]))
    found = run(flat, box([0.0], 1.0), decide=0.5, tolerance=1e-4)
    assert found.status == "closed"
    assert found.inner < 0.5 <= found.outer <= found.inner + 1e-4


def test_an_attack_and_an_incumbent_are_used_and_kept_in_the_region() -> None:
    region = box([0.9], 0.5)
    found = run(wave_bound(1), region, incumbent=np.array([[5.0], [1.25]]), attack=lambda x: np.array([7.0]))
    assert found.witness is not None and region.contains(found.witness[None])[0]
    lone = run(wave_bound(1), region, budget=Budget(boxes=1), attack=lambda x: np.array([1.25]))
    assert lone.inner == pytest.approx(expit(wave(np.array([1.25]))))


def test_candidates_are_tried_in_every_box_and_only_in_the_region() -> None:
    def candidates(lo: Array, hi: Array) -> tuple[Array, Array]:
        nearest = np.clip(0.0, lo, hi)
        outside = np.full(lo.shape, 9.0)
        return np.stack([nearest, outside], axis=1), np.stack([wave(nearest), 9.0 + 0 * lo[:, 0]], axis=1)

    region = box([0.3, 0.3], 1.5)
    found, plain = (run(wave_bound(2), region, candidates=each) for each in (candidates, None))
    assert found.inner == expit(1.0)
    assert found.witness is not None and found.witness.tolist() == [0.0, 0.0]
    assert found.status == plain.status == "closed"
    assert plain.inner < found.inner
    assert found.boxes <= plain.boxes
    root = run(wave_bound(2), region, budget=Budget(boxes=1), candidates=candidates)
    assert root.inner == expit(1.0)


def test_what_a_candidate_promises_is_not_believed() -> None:
    found = run(wave_bound(1), box([0.3], 0.5), candidates=lambda lo, hi: (hi[:, None], np.full((len(lo), 1), 8.0)))
    assert found.status == "closed"
    assert found.inner == expit(wave(found.witness))  # type: ignore[arg-type]


def test_cuts_are_floats_strictly_inside() -> None:
    tiny = np.nextafter(1.0, 2.0)
    lo, hi = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]), np.array([[tiny, 1.0], [tiny, tiny], [1.0, 3.0]])
    axis, middle, divisible = choose_cuts(lo, hi, np.array([[9.0, 1.0], [9.0, 1.0], [np.nan, 0.0]]))
    assert divisible.tolist() == [True, False, True]
    assert (axis[0], middle[0]) == (1, 0.5)
    assert (axis[2], middle[2]) == (1, 1.5)


def test_boxes_that_cannot_be_cut_end_the_search_with_a_valid_bound() -> None:
    region = interval_box([1.0], [1.0], [np.nextafter(np.nextafter(1.0, 2.0), 2.0)])
    vague = Lipschitz(lambda x: x[:, 0], np.array([1e15]))
    found = run(vague, region, tolerance=1e-9)
    assert found.status == "exhausted"
    assert found.outer >= expit(1.0)


@pytest.mark.parametrize("region", [box([0.5, 0.2], 0.0), box([0.5, 0.2], [0.0, 0.3])])
def test_regions_of_zero_width_are_closed(region: Region) -> None:
    found = run(wave_bound(1), region)
    assert found.status == "closed"
    assert found.gap <= EPS


@pytest.mark.parametrize("wrong", [{"tolerance": -1.0}, {"tolerance": np.nan}, {"sign": 2}, {"batch": 1}])
def test_wrong_arguments_are_refused(wrong: dict) -> None:  # type: ignore[type-arg]
    with pytest.raises(ValueError, match="needed"):
        branch_and_bound(**{"bounding": wave_bound(1), "region": box([0.0], 1.0), "tolerance": EPS,
                            "budget": Budget()} | wrong)  # fmt: skip


def test_the_same_search_twice_gives_the_same_tree() -> None:
    first, second = (run(wave_bound(2), box([0.3, 0.3], 1.5)) for _ in range(2))
    for name in ("parent", "dim", "cut", "bound", "proved"):
        np.testing.assert_array_equal(getattr(first.tree, name), getattr(second.tree, name))
