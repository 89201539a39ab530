from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds

from gpsuite.budget import Budget
from gpsuite.models.linalg import NotPositiveDefiniteError
from gpsuite.models.projected_lbfgs import (
    LARGEST_FACTOR,
    LEARN_FROM,
    Evaluation,
    Grid,
    InverseHessian,
    descend,
    evaluated,
    minimise_on_grid,
)
from gpsuite.models.search import Objective
from tests.arrays import Array

FREE = Bounds(-np.inf, np.inf)


def quadratic(curvature: Array, centre: Array) -> Objective:
    return lambda x: (0.5 * float(curvature @ (x - centre) ** 2), curvature * (x - centre))


def begin(objective: Objective, point: Array) -> Evaluation:
    found = evaluated(objective, point)
    assert found is not None
    return found


def run(
    objective: Objective, point: Array, inverse: InverseHessian | None = None, box: Bounds = FREE, most: int = 200
) -> list[Evaluation]:
    inverse = InverseHessian(np.ones_like(point)) if inverse is None else inverse
    return list(islice(descend(objective, begin(objective, point), box, inverse, np.ones_like), most))


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_a_quadratic_in_a_box_ends_at_its_clipped_centre_and_never_rises(seed: int) -> None:
    rng = np.random.default_rng(seed)
    curvature, centre = 10.0 ** rng.uniform(-2, 2, 6), rng.normal(size=6) * 2.0
    box = Bounds(np.full(6, -1.0), np.full(6, 1.0))
    objective, start = quadratic(curvature, centre), rng.uniform(-1, 1, 6)
    points = run(objective, start, box=box)
    losses = [objective(start)[0], *(at.loss for at in points)]
    assert all(later <= earlier for earlier, later in pairwise(losses))
    assert all((at.point >= -1.0).all() and (at.point <= 1.0).all() for at in points)
    np.testing.assert_allclose(points[-1].point, np.clip(centre, -1.0, 1.0), atol=1e-5)


def test_pairs_carried_to_a_similar_quadratic_save_iterations() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(30, 30))
    hessian = root @ root.T + 0.1 * np.eye(30)

    def objective(matrix: Array, centre: float) -> Objective:
        return lambda x: (0.5 * float((x - centre) @ matrix @ (x - centre)), matrix @ (x - centre))

    inverse = InverseHessian(np.ones(30))
    run(objective(hessian, 0.0), rng.normal(size=30), inverse)
    near, start = objective(1.02 * hessian + 0.01 * np.eye(30), 0.5), rng.normal(size=30)
    carried, alone = run(near, start, inverse), run(near, start)
    assert carried[-1].loss < 1e-12
    assert len(carried) < 0.5 * len(alone)


@pytest.mark.parametrize("undefined", [np.inf, np.nan])
def test_a_value_that_is_not_finite_shortens_the_step(undefined: float) -> None:
    def objective(x: Array) -> tuple[float, Array]:
        if x[0] >= 1.0:
            return undefined, np.full(1, undefined)
        return float(-np.log1p(-x[0]) - 50.0 * x[0]), np.array([1.0 / (1.0 - x[0]) - 50.0])

    points = run(objective, np.zeros(1))
    assert points[-1].point[0] == pytest.approx(0.98, abs=1e-6)


def test_an_objective_that_lies_about_its_slope_ends_the_search() -> None:
    def objective(x: Array) -> tuple[float, Array]:
        return float(x @ x), -2.0 * x

    assert run(objective, np.ones(3)) == []


def test_what_the_objective_raises_leaves_the_last_point_standing() -> None:
    whole, left = quadratic(np.array([1.0, 100.0]), np.ones(2)), [6]

    def objective(x: Array) -> tuple[float, Array]:
        left[0] -= 1
        if left[0] < 0:
            raise InterruptedError
        return whole(x)

    seen = []
    with pytest.raises(InterruptedError):
        for at in descend(objective, begin(whole, np.zeros(2)), FREE, InverseHessian(np.ones(2)), np.ones_like):
            seen.append(at.loss)
    assert seen
    assert seen[-1] < whole(np.zeros(2))[0]


def learned(curvature: Array, guess: Array, pairs: int = 60) -> Array:
    rng = np.random.default_rng(1)
    inverse = InverseHessian(guess)
    for _ in range(pairs):
        step = rng.normal(size=len(curvature))
        inverse.add(step, curvature * step)
    inverse.learn(guess)
    return inverse.diagonal


def test_the_diagonal_is_ordered_as_the_inverse_hessian() -> None:
    curvature = np.array([100.0, 10.0, 1.0, 0.1])
    diagonal = learned(curvature, np.ones(4))
    assert (np.diff(diagonal) > 0.0).all()
    assert diagonal[3] / diagonal[0] > 30.0  # of 1000: the offset holds back what has moved little


@pytest.mark.parametrize("guess", [1.0, 7.0])
def test_the_diagonal_stays_within_its_limits(guess: float) -> None:
    diagonal = learned(np.array([1e12, 1.0, 1.0, 1e-12]), np.full(4, guess))
    assert diagonal.max() <= guess * LARGEST_FACTOR
    assert diagonal.min() >= guess / LARGEST_FACTOR
    assert diagonal.max() / diagonal.min() > 10.0


def test_few_pairs_or_no_curvature_teach_nothing() -> None:
    curvature, guess = np.array([100.0, 1.0]), np.array([2.0, 3.0])
    np.testing.assert_array_equal(learned(curvature, guess, LEARN_FROM - 1), guess)
    assert not np.array_equal(learned(curvature, guess, LEARN_FROM), guess)
    inverse = InverseHessian(guess)
    inverse.add(np.ones(2), -np.ones(2))
    inverse.add(np.ones(2), np.array([1.0, -1.0]))
    assert len(inverse) == 0


def test_two_pairs_make_the_inverse_of_a_quadratic_in_two_dimensions() -> None:
    hessian = np.array([[3.0, 1.0], [1.0, 2.0]])
    inverse = InverseHessian(np.array([1.0, 5.0]))
    first = np.array([1.0, 0.0])
    second = np.array([-1.0, 3.0])  # conjugate to the first: first' H second = 0
    for step in (first, second):
        inverse.add(step, hessian @ step)
    vector = np.array([0.3, -0.7])
    np.testing.assert_allclose(inverse.product(vector), np.linalg.solve(hessian, vector), rtol=1e-12)


def rosenbrock(x: Array) -> tuple[float, Array]:
    head, tail = x[:-1], x[1:]
    bend = tail - head**2
    slope = np.zeros_like(x)
    slope[:-1] = -400.0 * head * bend - 2.0 * (1.0 - head)
    slope[1:] += 200.0 * bend
    return float(np.sum(100.0 * bend**2 + (1.0 - head) ** 2)), slope


def blurred(objective: Objective, size: float) -> Objective:
    rng = np.random.default_rng(0)

    def evaluate(x: Array) -> tuple[float, Array]:
        loss, slope = objective(x)
        blur = size * np.abs(slope).max() * rng.standard_normal(len(x))
        return loss * (1.0 + size * rng.standard_normal()), slope + blur

    return evaluate


START = np.random.default_rng(2).uniform(-2.0, 2.0, 30)


def test_last_bits_do_not_move_the_end_of_a_search_on_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    sharp = minimise_on_grid(rosenbrock, START, Budget(evaluations=100))
    rng, exact = np.random.default_rng(5), InverseHessian.product
    monkeypatch.setattr(
        InverseHessian, "product", lambda inverse, v: exact(inverse, v) * (1.0 + 1e-14 * rng.standard_normal(len(v)))
    )
    other = minimise_on_grid(blurred(rosenbrock, 1e-10), START, Budget(evaluations=100))
    assert sharp.status == other.status == "budget"
    np.testing.assert_array_equal(sharp.point, other.point)
    assert sharp.loss < 0.01 * rosenbrock(START)[0]


def test_a_search_on_a_grid_leaves_neither_its_points_nor_its_slopes() -> None:
    grid = Grid(spacing=2.0**-6, bits=8)
    first = evaluated(rosenbrock, grid.point(START), grid)
    assert first is not None
    inverse = InverseHessian(np.ones_like(START))
    points = list(islice(descend(rosenbrock, first, FREE, inverse, np.ones_like, grid), 20))
    assert len(points) == 20
    for at in [first, *points]:
        np.testing.assert_array_equal(at.point, grid.point(at.point))
        np.testing.assert_array_equal(at.gradient, grid.gradient(rosenbrock(at.point)[1]))


def test_without_a_grid_last_bits_are_magnified() -> None:
    ends = [run(blurred(rosenbrock, b), START, most=80)[-1].point for b in (0.0, 1e-12)]
    assert np.abs(ends[0] - ends[1]).max() > 1e-8


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.floats(-200.0, 200.0))
def test_what_a_grid_rounds_away_is_small(seed: int, exponent: float) -> None:
    grid, x = Grid(spacing=2.0**-6, bits=8), np.random.default_rng(seed).normal(size=5)
    assert np.abs(grid.point(x) - x).max() <= 2.0**-7
    slope = 10.0**exponent * x
    assert np.abs(grid.gradient(slope) - slope).max() <= 2.0**-8 * np.abs(slope).max()
    np.testing.assert_array_equal(grid.gradient(np.zeros(2)), np.zeros(2))
    np.testing.assert_array_equal(grid.gradient(np.array([5e-324, 0.0])), np.zeros(2))


def test_a_search_on_the_grid_ends_next_to_the_minimum_and_reports_it() -> None:
    curvature, centre = np.array([1.0, 10.0, 1000.0]), np.array([0.3, -2.0, 5.0])
    found = minimise_on_grid(quadratic(curvature, centre), np.zeros(3), Budget(evaluations=200))
    assert found.status == "done"
    assert found.evaluations < 60
    np.testing.assert_allclose(found.point, centre, atol=2e-4)
    assert found.point.tolist() == Grid().point(found.point).tolist()


def test_a_search_on_the_grid_needs_a_loss_at_its_start_and_turns_back_elsewhere() -> None:
    def beyond(x: Array) -> tuple[float, Array]:
        if x[0] <= 0.0:
            raise NotPositiveDefiniteError("no factor")
        return float(50.0 * x[0] - np.log(x[0])), 50.0 - 1.0 / x

    never = minimise_on_grid(beyond, np.array([-1.0]), Budget(evaluations=50))
    assert (never.status, never.evaluations) == ("diverged", 1)
    assert "no factor" in never.reason
    found = minimise_on_grid(beyond, np.array([1.0]), Budget(evaluations=50))
    assert found.failures
    assert found.point[0] == pytest.approx(0.02, abs=1e-3)
