"""What a search says when scores are known up to rounding only: inward for what is attained, outward for bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.methods.robustness.search.branch_and_bound import (
    Extremum,
    UnsoundBoundError,
    branch_and_bound,
    choose_cuts,
)
from gpsuite.methods.robustness.search.regions import Region, box, interval_box, l2_ball
from tests.arrays import Array
from tests.methods.robustness.search.test_branch_and_bound import Answer


class Blurred:
    """Bounds of a linear score slope'x + constant that are wider by `blur` on both sides; the probability is the score.

    `seen` is how much further off the score of a box's centre is that is only proposed.
    """

    def __init__(self, slope: list[float], constant: float, blur: float, seen: float = 0.0) -> None:
        self.slope, self.constant, self.blur, self.seen = np.array(slope), constant, blur, seen
        self.evaluated: list[Array] = []

    def bounds(self, lo: Array, hi: Array) -> Answer:
        middle = self.constant + 0.5 * (lo + hi) @ self.slope
        parts = 0.5 * (hi - lo) * np.abs(self.slope)
        reach = parts.sum(axis=1) + self.blur
        return Answer(middle - reach, middle + reach, middle + self.seen, parts)

    def evaluate(self, points: Array) -> tuple[Array, Array]:
        self.evaluated.append(points)
        value = self.constant + points @ self.slope
        return value - self.blur, value + self.blur

    def outward_probability(self, low: Array, high: Array) -> tuple[Array, Array]:
        return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def run(bounding: Blurred, region: Region, sign: int = 1, tolerance: float = 1e-6, **more: Any) -> Extremum:
    budget = Budget(boxes=more.pop("boxes", 4000))
    return branch_and_bound(bounding, region, tolerance, budget, sign, **more)


@pytest.mark.parametrize("sign", [1, -1])
def test_what_is_attained_is_rounded_inwards(sign: int) -> None:
    found = run(Blurred([0.25], 0.5, 1e-9), box([0.0], 1.0), sign, incumbent=np.array([[1.0], [-1.0]]))
    truth = 0.5 + sign * 0.25
    assert found.status == "closed"
    assert found.inner == pytest.approx(truth - sign * 1e-9, abs=1e-15)
    assert found.outer == pytest.approx(truth + sign * 1e-9, abs=1e-15)
    assert found.rounding == pytest.approx(2e-9, abs=1e-15)
    assert found.gap == pytest.approx(2e-9, abs=1e-15)
    np.testing.assert_array_equal(found.witness, [sign])  # type: ignore[arg-type]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_contradiction_of_the_last_bit_is_raised_and_agreement_is_not(sign: int) -> None:
    class Pinned(Blurred):
        attained = 0.5

        def evaluate(self, points: Array) -> tuple[Array, Array]:
            return np.full(len(points), self.attained), np.full(len(points), self.attained)

    bounding = Pinned([0.0], 0.5, 0.0)
    found = run(bounding, box([0.0], 1.0), sign)
    assert (found.inner, found.outer, found.gap) == (0.5, 0.5, 0.0)
    bounding.attained = float(np.nextafter(0.5, sign))
    with pytest.raises(UnsoundBoundError, match="attained"):
        run(bounding, box([0.0], 1.0), sign)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_search_ends_where_rounding_hides_what_is_left(sign: int) -> None:
    bounding = Blurred([0.25], 0.5, 1e-3)
    found = run(bounding, box([0.0], 1.0), sign, boxes=100_000)
    assert found.status == "exhausted"
    assert "0.002 only, by rounding" in found.reason
    assert found.boxes < 200
    assert 2e-3 <= found.gap <= 4e-3
    wide = run(bounding, box([0.0], 1.0), sign, tolerance=5e-3)
    assert wide.status == "closed"


@pytest.mark.parametrize(("sign", "ties"), [(1, False), (-1, True)])
def test_the_threshold_itself_counts_as_below(sign: int, ties: bool) -> None:
    # exact scores that take one half and nothing beyond it
    flat = run(Blurred([0.0], 0.5, 0.0), box([0.0], 1.0), sign, decide=0.5)
    assert flat.status == "decided"
    assert ("attained value" in flat.reason) == ties
    beyond = run(Blurred([0.0], np.nextafter(0.5, sign), 0.0), box([0.0], 1.0), sign, decide=0.5)
    assert (beyond.status, "attained value" in beyond.reason) == ("decided", True)
    near = run(Blurred([0.0], np.nextafter(0.5, -sign), 0.0), box([0.0], 1.0), sign, decide=0.5)
    assert (near.status, near.reason) == ("decided", "no box reaches the threshold")


@pytest.mark.parametrize("sign", [1, -1])
def test_a_decision_does_not_end_at_what_rounding_hides_elsewhere(sign: int) -> None:
    # The extremum stays .01 short of one half, rounding is .004: the range cannot close, the decision can.
    bounding = Blurred([sign * 0.1], 0.5 - sign * 0.11, 0.004)
    decided = run(bounding, box([0.0], 1.0), sign, decide=0.5)
    assert (decided.status, decided.reason) == ("decided", "no box reaches the threshold")
    tie = run(Blurred([sign * 0.1], 0.5 - sign * 0.102, 0.004), box([0.0], 1.0), sign, decide=0.5)
    assert tie.status == "exhausted"
    assert "by rounding" in tie.reason
    assert tie.boxes < 200


@pytest.mark.parametrize("sign", [1, -1])
def test_a_decision_ends_at_the_first_point_beyond(sign: int) -> None:
    found = run(Blurred([0.25], 0.5, 0.0), box([0.0], 1.0), sign, decide=0.5, incumbent=np.array([[0.5 * sign]]))
    assert (found.status, found.boxes) == ("decided", 1)
    np.testing.assert_array_equal(found.witness, [0.5 * sign])  # type: ignore[arg-type]


def test_proposals_are_evaluated_before_they_are_believed() -> None:
    # Centres that seem better by .3 than they are.
    bounding = Blurred([0.25], 0.5, 1e-9, seen=0.3)
    found = run(bounding, box([0.0], 1.0), boxes=200)
    assert found.inner <= 0.75
    assert found.status == "closed"
    assert found.witness is not None
    assert found.inner == pytest.approx(0.5 + 0.25 * found.witness[0] - 1e-9, abs=1e-15)


def test_points_outside_the_region_are_never_evaluated_nor_kept() -> None:
    bounding = Blurred([0.1, 0.1], 0.5, 0.0)
    region = l2_ball([0.0, 0.0], 1.0)
    found = run(bounding, region, boxes=60, incumbent=np.array([[1.0, 1.0], [0.6, 0.6], [7.0, 0.0]]))
    assert all(region.contains(points).all() for points in bounding.evaluated)
    assert found.inner >= 0.5 + 0.1 * 1.2 - 1e-12


def test_points_without_a_value_are_passed_over() -> None:
    class Partly(Blurred):
        def evaluate(self, points: Array) -> tuple[Array, Array]:
            low, high = super().evaluate(points)
            unknown = points[:, 0] > 0.5
            return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)

    for sign in (1, -1):
        bounding = Partly([0.25], 0.5, 0.0)
        found = run(bounding, box([0.0], 1.0), sign, boxes=50, incumbent=np.array([[0.9], [0.4], [-0.4]]))
        assert found.witness is not None and found.witness[0] <= 0.5
        assert sign * found.inner >= sign * (0.5 + sign * 0.1)
    nowhere = run(Partly([0.25], 0.5, 0.0), interval_box([0.8], [0.7], [0.9]), boxes=20)
    assert nowhere.witness is None
    assert (nowhere.inner, nowhere.rounding) == (0.0, 0.0)


def test_where_nothing_says_what_to_cut_the_widest_input_is_cut() -> None:
    lo, hi = np.array([[10.0, 0.0, -9.0]]), np.array([[11.0, 3.0, -8.0]])
    axis, middle, divisible = choose_cuts(lo, hi, np.zeros((1, 3)))
    assert (axis[0], middle[0], divisible[0]) == (1, 1.5, True)


def test_the_attack_starts_from_the_best_point_and_only_if_it_helps() -> None:
    starts: list[float] = []

    def attack(point: Array) -> Array:
        starts.append(float(point[0]))
        return point

    run(Blurred([0.25], 0.5, 0.0), box([0.0], 1.0), incumbent=np.array([[0.3], [0.7]]), attack=attack, boxes=1)
    assert starts == [0.7]
    starts.clear()
    # improvements below a tenth of the tolerance are not worth an attack
    run(Blurred([0.25], 0.5, 0.0), box([0.0], 1.0), incumbent=np.array([[0.999]]), attack=attack, tolerance=0.1)
    assert len(starts) == 1


class Uneven(Blurred):
    """To the right of 0 a score that is surely 0.6, to the left one that may be .9 but surely is only 0.55."""

    def evaluate(self, points: Array) -> tuple[Array, Array]:
        sure = points[:, 0] > 0.0
        return np.where(sure, 0.60, 0.55), np.where(sure, 0.65, 0.90)


class Mirrored(Uneven):
    """The same of 1 minus the score."""

    def evaluate(self, points: Array) -> tuple[Array, Array]:
        low, high = super().evaluate(points)
        return 1.0 - high, 1.0 - low


@pytest.mark.parametrize(("kind", "sign", "attained"), [(Uneven, 1, 0.6), (Mirrored, -1, 0.4)])
def test_the_witness_is_the_point_that_surely_attains_most_not_the_one_that_might(
    kind: type[Blurred], sign: int, attained: float
) -> None:
    points = np.array([[1.0], [-1.0]])
    found = run(kind([0.0], 0.5, 0.5), box([0.0], 1.0), sign, incumbent=points, boxes=2)
    assert found.witness is not None
    assert found.witness[0] == 1.0
    assert found.inner == attained
