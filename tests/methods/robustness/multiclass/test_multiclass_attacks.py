"""The local search for several classes: its objective and exact gradient, and what the searches make of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import logit, softmax

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.robustness import point_search as module
from gpsuite.methods.robustness.multiclass.softmax_bound import SoftmaxBound
from gpsuite.methods.robustness.point_search import PointSearch, Quantity, margin_attack, plug_in_attack
from gpsuite.methods.robustness.search.branch_and_bound import branch_and_bound
from gpsuite.methods.robustness.search.regions import box, linf_ball
from gpsuite.methods.robustness.verdict import HALF, Comparison, PointClasses
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from tests.models.softmax_problems import random_softmax_posterior


def drawn(C: int = 4, inputs: int = 3) -> MultiClassPosterior:
    rng = np.random.default_rng(4)
    return random_softmax_posterior(rng, "squared_exponential", C, 12, inputs, (0.5, 1.0))


def objective_of(
    posterior: MultiClassPosterior, own: int, rival: int | None, sign: int, monkeypatch: pytest.MonkeyPatch
) -> Any:
    monkeypatch.setattr(module, "climb", lambda objective, region: objective)
    region = box(posterior.X[0], [0.3, 0.0, 0.5])
    quantity = Quantity(SoftmaxBound(posterior, posterior.X[0], region.free), own, rival)
    return region, plug_in_attack(posterior, region, quantity, sign)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(("own", "rival"), [(0, None), (3, None), (1, 3), (2, 0)])
def test_the_attacks_objective_rises_with_the_quantity_and_has_its_gradient(
    own: int, rival: int | None, sign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    posterior = drawn()
    region, objective = objective_of(posterior, own, rival, sign, monkeypatch)
    points = region.start + 0.2 * np.random.default_rng(0).normal(size=(5, len(region.free)))
    mean = posterior.mean_with_gradient(region.embed(points))[0]
    value, gradient = objective(points)
    wanted = logit(softmax(mean, axis=1)[:, own]) if rival is None else mean[:, own] - mean[:, rival]
    np.testing.assert_allclose(value, sign * wanted, rtol=1e-9, atol=1e-12)
    step = 1e-5
    for place in range(len(region.free)):
        moved = step * np.eye(len(region.free))[place]
        slope = (objective(points + moved)[0] - objective(points - moved)[0]) / (2.0 * step)
        np.testing.assert_allclose(gradient[:, place], slope, rtol=1e-5, atol=1e-8)


def test_means_far_apart_do_not_overflow_the_objective(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = drawn()
    region, objective = objective_of(posterior, 0, None, 1, monkeypatch)
    far = np.array([[3000.0, 2000.0, -4000.0, 1000.0]])
    monkeypatch.setattr(MultiClassPosterior, "mean_with_gradient", lambda self, x: (far, np.ones((1, 4, x.shape[1]))))
    value, gradient = objective(region.start[None])
    assert value[0] == pytest.approx(1000.0) and np.isfinite(gradient).all()


def test_the_margin_attack_comes_nearest_at_the_points_it_returns() -> None:
    posterior = drawn(C=3, inputs=2)
    region = linf_ball(posterior.X[0], 0.4)
    search = PointSearch(posterior, posterior.X[0], region.free)
    points, margins, rivals = margin_attack(search, region, 2, np.random.default_rng(0))
    own = search.centre.own
    assert rivals.tolist() == [c for c in range(3) if c != own]
    assert region.contains(region.embed(points)).all()
    p = posterior.moments(region.embed(points)).mean
    exact = p[:, own] - p[np.arange(2), rivals]
    np.testing.assert_allclose(margins, exact, atol=1e-6)
    assert np.all(margins >= exact - 1e-9)
    some = np.random.default_rng(1).uniform(region.lower, region.upper, (200, 2))
    sampled = posterior.moments(region.embed(some)).mean
    assert np.all(exact <= (sampled[:, [own]] - sampled[:, rivals]).min(axis=0) + 1e-2)


@pytest.mark.parametrize("starts", [0, 1, 4])
def test_the_margin_attack_begins_at_the_centre_and_at_uniform_points(
    starts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    posterior, seen = drawn(), []

    def stay(*_: Any) -> Any:
        def attack(start: FloatArray) -> FloatArray:
            seen.append(start)
            return start

        return attack

    monkeypatch.setattr(module, "plug_in_attack", stay)
    region = linf_ball(posterior.X[0], 0.4)
    search = PointSearch(posterior, posterior.X[0], region.free)
    margin_attack(search, region, starts, np.random.default_rng(0))
    # for each of three rivals
    assert len(seen) == 3 * max(1, starts)
    np.testing.assert_array_equal(seen[0], region.start)
    assert len(np.unique(seen, axis=0)) == max(1, starts)


def classes(values: list[float], margins: list[float]) -> PointClasses:
    p = np.array(values)
    return PointClasses(p, p - 0.01, p + 0.01, True, np.array(margins), True)


def test_a_point_has_its_largest_class_and_the_first_of_equals_wins_ties() -> None:
    found = classes([0.1, 0.4, 0.4, 0.1], [0.6, 1.0, 0.5, 0.6])
    assert found.own == 1
    assert found.comparisons == (
        Comparison(1, 0, -1, HALF, tie=True),
        Comparison(1, 2, -1, HALF, tie=False),
        Comparison(1, 3, -1, HALF, tie=False),
    )


def test_a_point_is_undecided_where_a_rival_may_have_crossed() -> None:
    assert classes([0.1, 0.5, 0.4], [0.6, 1.0, 0.6]).undecided == ""
    assert "between classes 1 and 2" in classes([0.1, 0.5, 0.4], [0.6, 1.0, 0.49]).undecided
    # the first class would win a tie, the last would not
    assert "between classes 1 and 0" in classes([0.4, 0.5, 0.1], [0.5, 1.0, 0.6]).undecided
    assert "not finite" in classes([np.nan, 0.5, 0.5], [1.0, 1.0, 1.0]).undecided


def test_a_margin_is_above_one_half_where_its_class_wins() -> None:
    posterior = drawn()
    region = linf_ball(posterior.X[0], 0.05)
    bound = SoftmaxBound(posterior, posterior.X[0], region.free)
    lo, hi = region.lower[None], region.upper[None]
    whole, margin = Quantity(bound, 2, 0).bounds(lo, hi), bound.margin_ends(bound.over(lo, hi), 2, 0)
    for mine, theirs, side in (
        (whole.low, margin.low, -1), (whole.high, margin.high, 1), (whole.centre, margin.centre, 0),
    ):  # fmt: skip
        np.testing.assert_allclose(mine, 0.5 + 0.5 * theirs, rtol=1e-12)
        assert side * (mine[0] - (0.5 + 0.5 * theirs[0])) >= 0.0
    ends, point = (
        Quantity(bound, 2, 0).evaluate(region.start[None]),
        bound.margin_of(bound.at(region.start[None]), 2, 0),
    )
    np.testing.assert_allclose(ends, 0.5 + 0.5 * np.array(point), rtol=1e-12)


def test_probabilities_are_clipped_and_what_is_not_known_says_nothing() -> None:
    posterior = drawn()
    quantity = Quantity(SoftmaxBound(posterior, posterior.X[0], np.arange(3)), 0)
    low, high = quantity.outward_probability(np.array([-0.2, 0.3, np.nan, 1.3]), np.array([0.2, 1.4, np.nan, -0.1]))
    assert low.tolist() == [0.0, 0.3, 0.0, 1.0] and high.tolist() == [0.2, 1.0, 1.0, 0.0]


def test_a_verdict_ends_at_ties_closer_than_a_millionth_and_at_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior, seen = drawn(C=3, inputs=2), []

    def spy(quantity: Any, region: Any, tolerance: float, budget: Budget, sign: int, *args: Any, **named: Any) -> Any:
        seen.append((quantity.rival, tolerance, sign, named["decide"]))
        return branch_and_bound(quantity, region, tolerance, budget, sign, *args, **named)

    monkeypatch.setattr(module, "branch_and_bound", spy)
    search = PointSearch(posterior, posterior.X[0], np.arange(2))
    verdict, extrema = search.decide(linf_ball(posterior.X[0], 1e-4), Budget(boxes=100))
    assert verdict.status == "safe" and len(extrema) == 2
    others = [c for c in range(3) if c != search.centre.own]
    nearest = sorted(others, key=lambda c: -search.centre.probability(c)[0])
    assert [each[0] for each in seen] == nearest
    assert all(0.0 < each[1] <= 1e-6 and each[2:] == (-1, 0.5) for each in seen)
