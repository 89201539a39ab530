"""What one-sided ranges say of Delta, and the budget of their two searches."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.methods.robustness.explain import effects as module
from gpsuite.methods.robustness.explain.effects import OneSidedRanges, one_sided_ranges
from gpsuite.methods.robustness.explain.lines import LineExtrema


def test_delta_adds_the_moves_of_both_extremes() -> None:
    # [lowest_proved, lowest, highest, highest_proved] of T- and of T+
    down, up = (0.1, 0.2, 0.5, 0.7), (0.3, 0.31, 0.8, 0.85)
    lowest_proved, lowest, highest, highest_proved = (np.array([[pair]]) for pair in zip(down, up, strict=True))
    closed = np.ones((1, 1, 2), dtype=bool)
    found = OneSidedRanges(closed + 0.0, lowest_proved, lowest, highest, highest_proved, closed, 0)
    assert found.delta[0, 0] == pytest.approx((0.8 - 0.5) + (0.31 - 0.2))
    low, high = found.delta_range
    assert low[0, 0] == pytest.approx((0.8 + 0.3) - (0.7 + 0.2)) and low[0, 0] < 1.1 - 0.9
    assert high[0, 0] == pytest.approx((0.85 + 0.31) - (0.5 + 0.1)) and high[0, 0] > 1.16 - 0.6


class Spied:
    """Stands in for the search: notes what it is asked and closes the intervals it is told to."""

    def __init__(self, closed: dict[int, list[bool]]) -> None:
        self.closed, self.seen = closed, []  # type: ignore[var-annotated]

    def __call__(
        self, lines: Any, which: Any, low: Any, high: Any, sign: int, tolerance: float, budget: Budget
    ) -> LineExtrema:
        self.seen.append((sign, budget.boxes, budget.seconds, budget.observer, which, low, high))
        inner = np.full(len(low), 0.5)
        return LineExtrema(sign, inner, inner + 0.1 * sign, low, np.array(self.closed[sign]), 7)


@pytest.fixture
def spied(monkeypatch: pytest.MonkeyPatch) -> Spied:
    found = Spied({-1: [True, True, False, False], 1: [True, False, True, False]})
    monkeypatch.setattr(module, "line_extrema", found)
    return found


def run(budget: Budget) -> OneSidedRanges:
    lines: Any = None
    points, inputs = np.array([[1.0, 5.0, 2.0]]), np.array([2, 0])
    return one_sided_ranges(lines, points, inputs, [0.5, 0.25], ([0.9, 0.0, 0.0], [9.0, 9.0, 2.1]), 0.1, budget)


def test_each_end_has_half_of_the_boxes_and_what_is_left_of_the_time(spied: Spied) -> None:
    watched: list[Budget] = []
    budget = Budget(boxes=111, spent_boxes=10, seconds=1e6, started=time.monotonic() - 2e5, observer=watched.append)
    found = run(budget)
    assert [(sign, boxes) for sign, boxes, *_ in spied.seen] == [(-1, 50), (1, 50)]
    assert all(each[2] == pytest.approx(8e5, abs=100.0) and each[3] is not None for each in spied.seen)
    assert found.boxes == 14 and budget.spent_boxes == 24
    run(Budget(seconds=1.0, started=time.monotonic() - 5.0))
    assert [(each[1], each[2]) for each in spied.seen[2:]] == [(None, 0.0)] * 2
    run(Budget())
    assert [(each[1], each[2]) for each in spied.seen[4:]] == [(None, None)] * 2


def test_intervals_reach_from_the_domain_to_the_point_and_on(spied: Spied) -> None:
    found = run(Budget())
    _, _, _, _, which, low, high = spied.seen[0]
    assert which.tolist() == [0, 0, 1, 1]
    assert low.tolist() == [1.5, 2.0, 0.9, 1.0] and high.tolist() == [2.0, 2.1, 1.0, 1.25]
    assert found.ends.tolist() == [[[1.5, 2.1], [0.9, 1.25]]]
    assert found.closed.tolist() == [[[True, False], [False, False]]]
    assert np.all(found.lowest_proved == 0.4) and np.all(found.highest_proved == 0.6)


@pytest.mark.parametrize("radius", [-1.0, np.inf, np.nan, [0.1, -0.1]])
def test_a_radius_that_is_none_is_refused(radius: Any) -> None:
    lines: Any = None
    with pytest.raises(ValueError, match="radius"):
        one_sided_ranges(lines, np.zeros((1, 2)), np.arange(2), radius, (-np.inf, np.inf), 0.1, Budget())


@pytest.mark.parametrize("domain", [(0.1, 1.0), (-1.0, -0.1)])
def test_a_point_outside_its_domain_is_refused(domain: tuple[float, float]) -> None:
    lines: Any = None
    with pytest.raises(ValueError, match="domain"):
        one_sided_ranges(lines, np.zeros((1, 2)), np.arange(2), 1.0, domain, 0.1, Budget())
