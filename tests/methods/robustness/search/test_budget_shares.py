"""A range is two searches: the minimum gets half of what is left, the maximum the rest."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.methods.robustness import point_search
from gpsuite.methods.robustness.point_search import PointSearch
from gpsuite.methods.robustness.search.regions import linf_ball
from tests.methods.robustness.made_up_posteriors import random_posterior
from tests.models.softmax_problems import random_softmax_posterior


@pytest.fixture(params=["level_search", "branch_and_bound", "several classes"])
def searched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that searches a range, and the budgets its searches began with: sign, boxes, seconds."""
    rng, seen = np.random.default_rng(2), []
    name = "level_search" if request.param == "level_search" else "branch_and_bound"
    real = getattr(point_search, name)

    def spy(bounding: Any, region: Any, tolerance: float, budget: Budget, sign: int, *args: Any, **named: Any) -> Any:
        seen.append((sign, budget.boxes, budget.spent_boxes, budget.seconds))
        return real(bounding, region, tolerance, budget, sign, *args, **named)

    monkeypatch.setattr(point_search, name, spy)
    if request.param == "several classes":
        posterior = random_softmax_posterior(rng, "squared_exponential", 3, 6, 2, (0.0, 0.1))
        several = PointSearch(posterior, posterior.X[0], np.arange(2))
        region = linf_ball(posterior.X[0], 1e-3)
        return lambda budget: several.range(region, 1.0, budget, 0), seen
    binary = random_posterior(rng, "squared_exponential", "probit", 6, 2, False)
    bound = "rkhs_taylor" if request.param == "level_search" else "paper"
    search, region = PointSearch(binary, binary.X[0], np.arange(2), bound), linf_ball(binary.X[0], 1e-3)
    return lambda budget: search.range(region, 1.0, budget), seen


def test_the_minimum_gets_half_and_the_maximum_what_is_left(searched: Any) -> None:
    run, seen = searched
    found = run(Budget(boxes=101, spent_boxes=31))
    (first, half, _, no_limit), (second, whole, spent, _) = seen
    assert (first, half, no_limit) == (-1, 35, None)
    assert (second, whole, spent) == (1, 101, 31 + found.minimum.boxes)


def test_so_do_seconds(searched: Any) -> None:
    run, seen = searched
    run(Budget(seconds=1e6, started=time.monotonic() - 2e5))
    (_, boxes, _, half), (_, _, _, whole) = seen
    assert boxes is None and half == pytest.approx(4e5, abs=100.0) and whole == 1e6
