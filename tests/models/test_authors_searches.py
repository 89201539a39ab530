"""The searches with which Blaas et al. 2020 train: counted conjugate gradients, and BFGS with Wolfe's conditions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.models.conjugate_gradients import EVALUATIONS, conjugate_gradients
from gpsuite.models.search import Minimum, Objective
from gpsuite.models.wolfe_bfgs import DECREASE, GRADIENT, SLOPE, wolfe_bfgs

CURVES = np.array([1.0, 4.0, 25.0])


def bowl(x: FloatArray) -> tuple[float, FloatArray]:
    return float(0.5 * x @ (CURVES * x)), CURVES * x


def banana(x: FloatArray) -> tuple[float, FloatArray]:
    a, b = 1.0 - x[0], x[1] - x[0] ** 2
    return float(a * a + 100.0 * b * b), np.array([-2.0 * a - 400.0 * x[0] * b, 200.0 * b])


class Counted:
    """An objective and the points it was asked for."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.asked: list[FloatArray] = []

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        self.asked.append(x.copy())
        return self.objective(x)


@pytest.mark.parametrize(("objective", "start", "least"), [(bowl, [1.0, 1.0, 1.0], 0.0), (banana, [-1.2, 1.0], 0.0)])
def test_conjugate_gradients_find_the_minimum(objective: Objective, start: list[float], least: float) -> None:
    found = conjugate_gradients(objective, np.array(start), 200)
    assert found.loss == pytest.approx(least, abs=1e-9) and found.loss == objective(found.point)[0]


@pytest.mark.parametrize("evaluations", [1, 2, 7, 20, 40])
def test_no_more_evaluations_are_made_than_asked_and_the_best_of_them_is_kept(evaluations: int) -> None:
    counted = Counted(banana)
    found = conjugate_gradients(counted, np.array([-1.2, 1.0]), evaluations)
    assert found.evaluations == len(counted.asked) == evaluations
    assert found.loss == min(banana(x)[0] for x in counted.asked)


def test_the_first_step_is_along_the_gradient_with_length_by_its_slope() -> None:
    counted = Counted(banana)
    start = np.array([-1.2, 1.0])
    conjugate_gradients(counted, start, 2)
    gradient = banana(start)[1]
    np.testing.assert_allclose(counted.asked[1], start - gradient / (1.0 + gradient @ gradient), rtol=1e-14)


def test_where_the_loss_is_not_defined_the_step_is_halved() -> None:
    def walled(x: FloatArray) -> tuple[float, FloatArray]:
        return (math.nan, x) if np.abs(x).max() > 1.0 else (float(x @ x - 3.0 * x.sum()), 2.0 * x - 3.0)

    counted = Counted(walled)
    found = conjugate_gradients(counted, np.zeros(2), 60)
    assert np.isfinite(found.loss) and np.abs(found.point).max() <= 1.0
    assert found.loss == pytest.approx(-4.0, abs=0.05)  # at the wall's corner
    assert any(np.abs(x).max() > 1.0 for x in counted.asked)


def test_a_search_that_cannot_fall_ends_after_its_second_failure() -> None:
    def rising(x: FloatArray) -> tuple[float, FloatArray]:
        return (0.0 if not x.any() else 1.0), np.ones_like(x)  # the gradient lies

    found = conjugate_gradients(rising, np.zeros(2), 500)
    assert found.status == "done" and found.evaluations == 1 + 2 * EVALUATIONS and not found.point.any()


def test_bfgs_ends_by_its_gradient_and_every_step_meets_both_conditions() -> None:
    counted = Counted(banana)
    found = wolfe_bfgs(counted, np.array([-1.2, 1.0]), iterations=100)
    assert np.abs(banana(found.point)[1]).max() < GRADIENT or found.loss < 1e-3
    assert found.evaluations == len(counted.asked)


@pytest.mark.parametrize("iterations", [1, 2, 5])
def test_bfgs_ends_after_its_iterations(iterations: int) -> None:
    found = wolfe_bfgs(banana, np.array([-1.2, 1.0]), iterations)
    assert found.iterations == iterations


def test_the_first_line_search_meets_wolfes_conditions() -> None:
    start = np.array([-1.2, 1.0])
    loss, gradient = banana(start)
    end = wolfe_bfgs(banana, start, 1).point
    step = float((start - end) @ gradient) / float(gradient @ gradient)
    reached, slope = banana(end)[0], -float(banana(end)[1] @ gradient)
    assert reached <= loss - DECREASE * step * float(gradient @ gradient)
    assert abs(slope) <= SLOPE * float(gradient @ gradient)


@pytest.mark.parametrize("search", [lambda f, x: conjugate_gradients(f, x, 50), wolfe_bfgs])
def test_a_minimum_at_the_start_stays(search: Callable[[Objective, FloatArray], Minimum]) -> None:
    found = search(bowl, np.zeros(3))
    np.testing.assert_allclose(found.point, 0.0, atol=1e-12)
