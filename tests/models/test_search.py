"""The search by itself: what scipy is shown, when it ends, and what is kept."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import Bounds, OptimizeResult

from gpsuite.budget import Budget
from gpsuite.models.search import Objective, RecordedLoss, StepRules, _conclude, _projected_slope, minimise
from tests.arrays import Array


def bowl(u: Array) -> tuple[float, Array]:
    """|u - 1|^2 / 2, not defined where u_0 > 2."""
    if u[0] > 2.0:
        return np.nan, np.full_like(u, np.nan)
    return float(0.5 * np.sum((u - 1.0) ** 2)), u - 1.0


def test_a_point_without_a_loss_looks_like_a_parabola_through_the_origin_of_its_line() -> None:
    """Slope at the origin as it is, minimum at a quarter of the step, above the origin at its end."""
    search = RecordedLoss(bowl, Budget())
    origin = np.array([0.0, 0.5])
    start, gradient = search.evaluate(origin)
    step = np.array([3.0, 0.1])
    loss, slope = search.evaluate(origin + step)
    fall = -float(gradient @ step)
    parabola = np.poly1d([2.0 * fall, -fall, start])
    assert fall > 0.0
    assert loss == pytest.approx(parabola(1.0))
    assert float(slope @ step) == pytest.approx(np.polyder(parabola)(1.0))
    assert np.roots(np.polyder(parabola))[0] == pytest.approx(0.25)
    np.testing.assert_allclose(slope / step, slope[0] / step[0])
    assert (len(search.failures), search.evaluations) == (1, 2)
    assert search.best is not None
    np.testing.assert_array_equal(search.best.point, origin)


def test_after_an_accepted_step_rejections_start_from_there() -> None:
    search = RecordedLoss(bowl, Budget())
    search.evaluate(np.array([0.0, 0.0]))
    moved = np.array([1.5, 0.5])
    loss, gradient = search.evaluate(moved)
    search.count_iteration(moved)
    step = np.array([2.0, 0.0])
    assert search.evaluate(moved + step)[0] == pytest.approx(loss + abs(gradient @ step))
    assert search.iterations == 1


def test_one_undefined_slope_is_a_rejection() -> None:
    def loss(u: Array) -> tuple[float, Array]:
        return float(u @ u), np.where(np.abs(u) > 5.0, np.inf, 2.0 * u)

    search = RecordedLoss(loss, Budget())
    search.evaluate(np.array([1.0, 1.0]))
    assert np.isfinite(search.evaluate(np.array([9.0, 1.0]))[1]).all()
    assert len(search.failures) == 1


def test_the_best_point_is_kept_not_the_last() -> None:
    search = RecordedLoss(bowl, Budget())
    for u in ([0.0, 0.0], [1.0, 1.5], [1.0, 0.5], [-1.0, 0.0]):
        search.evaluate(np.array(u))
    assert search.best is not None
    assert search.best.point.tolist() == [1.0, 1.5]
    assert search.minimum("done", "reason").loss == 0.125


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_the_budget_ends_the_search_but_not_before_the_start(limit: int) -> None:
    def rosenbrock(u: Array) -> tuple[float, Array]:
        across = u[1] - u[0] ** 2
        slope = np.array([-400.0 * u[0] * across - 2.0 * (1.0 - u[0]), 200.0 * across])
        return float(100.0 * across**2 + (1.0 - u[0]) ** 2), slope

    budget = Budget(evaluations=limit)
    report = minimise(rosenbrock, np.array([-1.0, 1.0]), budget)
    assert (report.status, report.evaluations) == ("budget", max(limit, 1))
    assert budget.best == (4.0 if limit > 1 else np.inf)  # told with the next evaluation


def test_a_start_without_a_loss_is_said() -> None:
    report = minimise(bowl, np.array([3.0, 0.0]), Budget())
    assert (report.status, report.loss, report.iterations) == ("diverged", np.inf, 0)
    assert report.reason == "not defined at the start: the objective or its gradient is not finite"
    np.testing.assert_array_equal(report.point, [3.0, 0.0])


def test_a_wall_is_flat_and_above_all_seen() -> None:
    search = RecordedLoss(bowl, Budget(), StepRules(undefined="wall"))
    losses = [search.evaluate(np.array(u))[0] for u in ([0.0, 0.0], [-3.0, 1.0])]
    loss, gradient = search.evaluate(np.array([2.5, 0.0]))
    assert loss == max(losses) + 1.0
    np.testing.assert_array_equal(gradient, np.zeros(2))
    assert search.best is not None
    assert search.best.loss == min(losses)


@pytest.mark.parametrize(
    ("loss", "slope", "status"),
    [
        (1000.0, 0.09, "done"),
        (1000.0, 0.11, "diverged"),
        (-1000.0, 0.09, "done"),
        (0.001, 0.9e-4, "done"),
        (0.001, 1e-4, "done"),
        (0.001, 1.1e-4, "diverged"),
    ],
)
def test_a_stalled_line_search_has_converged_where_the_slope_is_rounding(
    loss: float, slope: float, status: str
) -> None:
    """Below 1e-4 of max(1, |loss|)."""
    search = RecordedLoss(lambda u: (loss, np.array([slope, 0.0])), Budget())
    search.evaluate(np.zeros(2))
    report = _conclude(search, OptimizeResult(status=2, message="ABNORMAL"), None)  # type: ignore[call-arg]
    assert (report.status, report.message) == (status, "ABNORMAL")


def test_scipys_own_ends_are_reported() -> None:
    search = RecordedLoss(bowl, Budget())
    search.evaluate(np.zeros(2))
    ends = {0: ("done", "converged"), 1: ("budget", "0 iterations used up")}
    for status, expected in ends.items():
        report = _conclude(search, OptimizeResult(status=status, message=""), None)  # type: ignore[call-arg]
        assert (report.status, report.reason) == expected


def test_a_slope_that_pushes_out_of_the_box_does_not_count() -> None:
    """At the lower limit a rising loss holds the point there; elsewhere at most the way to the limit counts."""
    search = RecordedLoss(lambda u: (0.0, np.array([5.0, -0.25, 0.5])), Budget())
    search.evaluate(np.array([0.0, 0.5, 0.9]))
    assert search.best is not None
    box = Bounds(np.zeros(3), np.ones(3))
    assert _projected_slope(search.best, box) == 0.5
    assert _projected_slope(search.best, None) == 5.0
    shifted = Bounds(np.array([-1.0, 0.0, 0.0]), np.ones(3))
    assert _projected_slope(search.best, shifted) == 1.0


def steep(points: list[Array], steepness: float) -> Objective:
    """steepness |u - 1/3|^2 / 2, which notes where it is asked."""

    def loss(u: Array) -> tuple[float, Array]:
        points.append(u.copy())
        return float(0.5 * steepness * np.sum((u - 1.0 / 3.0) ** 2)), steepness * (u - 1.0 / 3.0)

    return loss


@pytest.mark.parametrize("steepness", [1.5, 3e2, 1e4, 1e9])
def test_the_first_step_in_a_box_is_no_longer_than_one(steepness: float) -> None:
    """L-BFGS-B by itself goes to the box's corner; half as long at most would waste evaluations."""
    points: list[Array] = []
    start = np.array([2.0, -5.0, 0.1])
    report = minimise(steep(points, steepness), start, Budget(), Bounds(np.full(3, -20.0), np.full(3, 20.0)))
    np.testing.assert_array_equal(points[0], start)
    assert 0.2 < np.linalg.norm(points[1] - start) <= 1.0
    assert report.evaluations == len(points)
    assert report.status == "done"
    np.testing.assert_allclose(report.point, 1.0 / 3.0, atol=1e-4)


def test_a_flat_start_and_variables_without_two_limits_keep_their_unit() -> None:
    """There L-BFGS-B takes the whole gradient of a flat start, and shortens a steep one itself."""
    everywhere = Bounds(np.full(2, -9.0), np.full(2, 9.0))
    half = Bounds(np.full(2, -9.0), np.array([9.0, np.inf]))
    for steepness, box in ((0.01, everywhere), (1e4, half), (1e4, None)):
        points: list[Array] = []
        minimise(steep(points, steepness), np.array([3.0, 1.0]), Budget(evaluations=2), box)
        slope = float(np.linalg.norm(steepness * (points[0] - 1.0 / 3.0)))
        assert np.linalg.norm(points[1] - points[0]) == pytest.approx(min(slope, 1.0), rel=1e-12)


def test_the_ends_of_a_box_are_met_exactly() -> None:
    """The unit is a power of two: an end such as log 1e6 is not moved by it."""
    low, high = np.log([1e-6, 0.3]), np.log([1e6, 7.0])

    def slope(u: Array) -> tuple[float, Array]:
        return float(30.0 * (u[0] - u[1])), np.array([30.0, -30.0])

    report = minimise(slope, np.zeros(2), Budget(), Bounds(low, high))
    assert report.point.tolist() == [low[0], high[1]]


@pytest.mark.filterwarnings("error")
def test_a_point_without_a_loss_warns_nobody() -> None:
    """A step to a lengthscale that underflows to 0 is a rejection like any other, not a message on the terminal."""

    def loss(u: Array) -> tuple[float, Array]:
        inverse = 1.0 / np.exp(-(np.maximum(u, 0.0) ** 4))  # infinite far from 0
        return float(inverse.sum() - 9.0 * u.sum()), 4.0 * np.maximum(u, 0.0) ** 3 * inverse - 9.0

    search = RecordedLoss(loss, Budget())
    search.evaluate(np.array([0.5]))
    search.evaluate(np.array([9.0]))
    assert search.failures == ["the objective or its gradient is not finite"]
