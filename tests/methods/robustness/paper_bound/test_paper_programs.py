"""The slow variant's programs: constraints that hold and touch, duals that are valid, optima that are reached."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from gpsuite.methods.robustness import paper_bound
from gpsuite.methods.robustness.operators import OperatorForm, operator_form
from gpsuite.methods.robustness.paper_bound import Operator, Relaxation, program_variance, relaxation_of
from tests.arrays import Array
from tests.methods.robustness.made_up_posteriors import random_posterior

Box = tuple[OperatorForm, Array, Array]


def box(seed: int, d: int = 2, n: int = 5) -> Box:
    """Return a posterior over d inputs, one of them held if d = 1, and a box's centre and radius."""
    rng = np.random.default_rng(seed)
    posterior = random_posterior(rng, "squared_exponential", "probit", n, 2)
    form = operator_form(posterior, posterior.X[0] + 0.2, np.arange(d))
    return form, form.X[1] + 0.3 * rng.standard_normal(d), rng.uniform(0.1, 0.8, d)


def kernel_vector(form: OperatorForm, x: Array) -> Array:
    """Return exp(-q/2) of each datum at x [d] in units of X, q with the fixed inputs that were not folded."""
    return np.exp(-0.5 * (np.sum(((form.X - x) / form.lengthscales) ** 2, axis=1) + form.fixed))


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_constraints_hold_for_every_point_of_the_box(seed: int, d: int) -> None:
    form, centre, radius = box(seed, d)
    found = relaxation_of(form, centre, radius)
    rng = np.random.default_rng(seed)
    steps = np.concatenate([rng.uniform(-1, 1, (200, d)), rng.choice([-1.0, 1.0], (16, d))]) * radius
    for t in steps:
        v = np.concatenate([kernel_vector(form, centre + t * form.lengthscales), t])
        assert np.all(found.rows @ v <= found.right)
        assert np.all((found.low <= v) & (v <= found.high))


@pytest.mark.parametrize("seed", range(4))
def test_constraints_touch_the_lines_they_are_made_of(seed: int) -> None:
    """In one input q's chord is exact at both ends of the box and its tangent in the middle; no slack but rounding."""
    form, centre, radius = box(seed, 1)
    found = relaxation_of(form, centre, radius)
    n, r = len(form.X), float(radius[0])
    D = ((form.X - centre) / form.lengthscales)[:, 0]
    near, far = np.maximum(np.abs(D) - r, 0.0) ** 2, (np.abs(D) + r) ** 2
    middle = 0.5 * (near + far)
    for t in (-r, r):
        below = np.exp(-middle / 2) * (1 - ((D - t) ** 2 - middle) / 2)
        gap = found.right[:n] - found.rows[:n] @ np.append(below, t)
        assert np.all((gap >= 0.0) & (gap <= 1e-11))
    chord = np.exp(-near / 2) + (np.exp(-far / 2) - np.exp(-near / 2)) * (D**2 - near) / (far - near)
    gap = found.right[n:] - found.rows[n:] @ np.append(chord, 0.0)
    assert np.all((gap >= 0.0) & (gap <= 1e-11))
    ends = np.exp(-far / 2), np.exp(-near / 2)
    np.testing.assert_allclose(found.low, [*ends[0], -r], rtol=1e-10)
    np.testing.assert_allclose(found.high, [*ends[1], r], rtol=1e-10)
    assert np.all(found.low[:n] < ends[0]) and np.all(found.high[:n] > ends[1])


@pytest.mark.parametrize("seed", range(4))
def test_the_dual_bound_is_valid_and_reaches_the_optimum(seed: int) -> None:
    form, centre, radius = box(seed)
    relaxed = relaxation_of(form, centre, radius)
    cost = np.random.default_rng(seed).standard_normal(len(relaxed.low))
    bound, point = relaxed.minimum(cost)
    ends = list(zip(relaxed.low, relaxed.high, strict=True))
    solved = linprog(cost, A_ub=relaxed.rows, b_ub=relaxed.right, bounds=ends, method="highs-ipm")
    assert solved.fun - 1e-9 <= bound <= solved.fun + 1e-12
    assert point is not None and cost @ point == pytest.approx(solved.fun, abs=1e-7)


def test_a_program_without_a_solution_gives_the_bound_of_its_box() -> None:
    impossible = Relaxation(np.ones((1, 2)), np.array([-5.0]), np.array([0.0, -1.0]), np.array([2.0, 3.0]))
    bound, point = impossible.minimum(np.array([1.0, -2.0]))
    assert point is None
    assert -6.0 - 1e-11 <= bound < -6.0


def test_the_programs_optimum_is_rounded_down_by_the_size_of_its_terms() -> None:
    """Costs c on a box [1, 2]^n without constraints: sum c, less n times 1e-13 of the terms' size, 2 n c."""
    n = 6
    free = Relaxation(np.zeros((1, n)), np.zeros(1), np.ones(n), np.full(n, 2.0))
    for c in (1.0, 1e3):
        bound = free.minimum(np.full(n, c))[0]
        assert n * c - bound == pytest.approx(1e-13 * n * 2 * n * c, rel=0.05, abs=0.0)
    tied = Relaxation(np.array([[-2.0, 1.0]]), np.array([-3.0]), np.zeros(2), np.full(2, 4.0))
    bound = tied.minimum(np.array([1.0, 0.0]))[0]  # y = 1/2: sizes are |c| = 1 and y (|b| + |row|) = 3
    assert 1.5 - bound == pytest.approx(1e-13 * 2 * (1 + 3), rel=0.05, abs=0.0)


@pytest.mark.parametrize("seed", range(3))
def test_the_operator_is_its_eigen_form_up_to_its_stated_error(seed: int) -> None:
    form = box(seed)[0]
    found = Operator.of(form)
    np.testing.assert_allclose(found.matrix, form.root.T @ form.root, atol=0)
    assert (found.values >= 0.0).all()
    exact = form.root.T.astype(np.longdouble) @ form.root.astype(np.longdouble)
    k = np.random.default_rng(seed).random((200, len(form.X)))
    stored = np.sum((k @ found.vectors) ** 2 * found.values, axis=1)
    true = np.einsum("bi,ij,bj->b", k, exact, k)
    assert np.all(np.abs(stored - true) <= found.error)
    # an entry of k off by its unit moves each row of F k by |F| unit
    sums = np.abs(form.root).sum(axis=1)
    assert found.error >= 2.0 * np.sum((np.abs(form.root) @ form.slack.unit) * sums)
    assert found.error <= 1e-12 * np.sum(sums**2)


@pytest.mark.parametrize("seed", range(4))
def test_squares_are_bounded_on_the_right_side_and_nearly_reached(seed: int) -> None:
    """The smallest k'Rk by another solver; the largest at vertices of the linear programs."""
    form, centre, radius = box(seed)
    relaxed, operator = relaxation_of(form, centre, radius), Operator.of(form)
    start = kernel_vector(form, centre)
    n, scale = len(start), 1.0 + float(np.sum(np.abs(operator.matrix)))
    least = paper_bound._smallest_square(relaxed, operator, start)
    constraint = {"type": "ineq", "fun": lambda v: relaxed.right - relaxed.rows @ v, "jac": lambda v: -relaxed.rows}
    solved = minimize(
        lambda v: v[:n] @ operator.matrix @ v[:n],
        np.append(start, np.zeros(len(radius))),
        jac=lambda v: np.append(2 * operator.matrix @ v[:n], np.zeros(len(radius))),
        method="SLSQP",
        bounds=list(zip(relaxed.low, relaxed.high, strict=True)),
        constraints=[constraint],
        options={"maxiter": 500, "ftol": 1e-14},
    )
    assert solved.fun - 2e-3 * min(1.0, scale) <= least <= solved.fun + 1e-9 * scale
    most = paper_bound._largest_square(relaxed, operator)
    for m in range(n):
        for sign in (-1.0, 1.0):
            cost = np.append(sign * operator.vectors[:, m], np.zeros(len(radius)))
            point = relaxed.minimum(cost)[1]
            assert point is not None
            assert point[:n] @ operator.matrix @ point[:n] <= most


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_the_variance_is_enclosed_and_small_boxes_closely(seed: int, d: int) -> None:
    form, centre, radius = box(seed, d)
    operator, widths = Operator.of(form), []
    for shrink in (1.0, 1e-3):
        low, high = program_variance(form, operator, centre, shrink * radius)
        steps = np.random.default_rng(seed).uniform(-1, 1, (100, d)) * shrink * radius
        values = [
            1.0 - float(np.sum((form.root @ kernel_vector(form, centre + t * form.lengthscales)) ** 2)) for t in steps
        ]
        assert low <= min(values) and max(values) <= high
        widths.append((high - low, max(values) - min(values)))
    size = float(np.sum(np.abs(operator.matrix)))
    assert widths[1][0] <= 2 * widths[1][1] + 2e-4 + 1e-4 * size


@pytest.mark.parametrize("seed", range(2))
def test_constraints_allow_for_the_rounding_of_their_terms(seed: int) -> None:
    """With a unit of one thousandth: a thousandth of the line's terms at least, of every datum's own; not much more."""
    form, centre, radius = box(seed, 1)
    unit = 1e-3 * np.arange(1.0, len(form.X) + 1)
    free, paid = (
        relaxation_of(replace(form, slack=replace(form.slack, unit=each)), centre, radius)
        for each in (0.0 * unit, unit)
    )
    n, D = len(form.X), ((form.X - centre) / form.lengthscales)[:, 0]
    near, far = np.maximum(np.abs(D) - radius[0], 0.0) ** 2, (np.abs(D) + radius[0]) ** 2
    slopes = np.exp(-(near + far) / 4) / 2, (np.exp(-near / 2) - np.exp(-far / 2)) / (far - near)
    for part, slope in zip((slice(0, n), slice(n, 2 * n)), slopes, strict=True):
        share = (paid.right - free.right)[part] / (unit * (1.0 + slope * far))
        assert np.all((share >= 2.0) & (share <= 10.0))
    np.testing.assert_allclose((free.low - paid.low)[:n], unit)
    np.testing.assert_allclose((paid.high - free.high)[:n], unit)


def test_the_largest_square_is_rounded_up_by_the_size_of_its_terms() -> None:
    """k = (2, ..., 2) alone is feasible: 4 n, and 1e-13 n times the sizes of the chords' terms, 16 each, and 72."""
    n = 6
    held = Relaxation(np.zeros((1, n)), np.zeros(1), np.full(n, 2.0), np.full(n, 2.0))
    most = paper_bound._largest_square(held, Operator(np.eye(n), np.ones(n), np.eye(n), 0.0))
    assert most - 4 * n == pytest.approx(1e-13 * n * (1 + 16 * n + 72), rel=0.1, abs=0.0)
