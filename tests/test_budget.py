from __future__ import annotations

import math
from unittest.mock import ANY

import pytest

from gpsuite.budget import Budget


def test_the_observer_hears_every_spending_with_the_best_value_so_far() -> None:
    heard: list[tuple[int, int, float]] = []
    budget = Budget(
        observer=lambda told: heard.append((told.spent_evaluations, told.spent_boxes, told.best)),
    )
    budget.spend(evaluations=1)
    budget.spend(evaluations=2, best=0.5)
    budget.spend(boxes=4, best=0.7)
    assert heard == [(1, 0, math.inf), (3, 0, 0.5), (3, 4, 0.5)]


def test_restart_forgets_the_best_value_too() -> None:
    budget = Budget(evaluations=2)
    budget.spend(evaluations=2, best=0.1)
    assert budget.exhausted
    budget.restart()
    assert (budget.best, budget.spent_evaluations, budget.exhausted) == (math.inf, 0, False)


@pytest.mark.parametrize(
    ("budget", "share"),
    [
        (Budget(), 0.0),
        (Budget(evaluations=100), 0.25),
        (Budget(evaluations=10), 1.0),  # the last step may overspend
        (Budget(evaluations=0), 1.0),
        (Budget(evaluations=100, boxes=100), 0.5),
        (Budget(evaluations=100, run=3, runs=5), 0.45),
        (Budget(seconds=0.0), 1.0),
    ],
)
def test_the_share_follows_the_limit_nearest_to_its_end(budget: Budget, share: float) -> None:
    budget.spend(evaluations=25, boxes=50)
    assert budget.share == pytest.approx(share)


def test_a_part_is_of_what_is_left_and_never_negative() -> None:
    part = Budget(seconds=0.0, boxes=10, spent_boxes=3, observer=print).part(2)
    assert (part.seconds, part.boxes, part.spent_boxes, part.observer) == (0.0, 3, 0, None)
    assert Budget(boxes=3, spent_boxes=9).part(2) == Budget(boxes=0, started=ANY)
    assert Budget().part(3) == Budget(started=ANY)


def test_the_rest_of_a_budget_tells_of_the_whole() -> None:
    whole = Budget(seconds=10.0)
    whole.started -= 11.0
    for rest in (whole.rest(boxes=5), whole.rest().rest(), whole.rest().part(2)):
        assert rest.seconds == 0.0
        assert rest.reason == "10 seconds used up"
    assert Budget().rest(boxes=0).reason == "0 boxes used up"


def test_restart_forgets_the_boxes_too() -> None:
    budget = Budget(boxes=2)
    budget.spend(boxes=2)
    assert budget.exhausted
    budget.restart()
    assert (budget.spent_boxes, budget.exhausted) == (0, False)
