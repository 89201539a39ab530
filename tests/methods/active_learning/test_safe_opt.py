"""SafeOpt and its variants: their sets by brute force, their constants, and the package `safeopt` where installed."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.generators.safe_tuning import draw_task, known_norm
from gpsuite.methods.active_learning.constrained_ei import constrained_expected_improvement
from gpsuite.methods.active_learning.plan.ask_tell import MeasurementPlanner
from gpsuite.methods.active_learning.problem import SafetyLimit
from gpsuite.methods.active_learning.safe_opt import VARIANTS, Constants, SafeOpt, Variant, true_constants
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings
from gpsuite.seeds import stream

X = np.linspace(0.0, 1.0, 40)[:, None]
F = Constants(0.2, 2.0, 8.0, 0.05)
H = Constants(0.3, 1.5, 6.0, 0.05)
STARTS = np.array([10, 12, 14])
ROWS, Y, Z = STARTS, np.array([0.3, 0.2, 0.0]), np.array([-0.9, -0.8, -0.6])


def kernel(A: FloatArray, B: FloatArray, lengthscale: float) -> FloatArray:
    return np.asarray(np.exp(-0.5 * ((A - B.T) / lengthscale) ** 2))


def posterior(constants: Constants, rows: IntArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation by the textbook formula."""
    inverse = np.linalg.inv(kernel(X[rows], X[rows], constants.lengthscale) + constants.noise**2 * np.eye(len(rows)))
    cross = kernel(X, X[rows], constants.lengthscale)
    variance = 1.0 - np.einsum("ij,jk,ik->i", cross, inverse, cross)
    return cross @ inverse @ values, np.sqrt(np.maximum(variance, 0.0))


@pytest.mark.parametrize("variant", ["safeopt", "real_beta"])
def test_an_expander_makes_another_setting_safe_if_measured_as_low_as_it_may_be(variant: Variant) -> None:
    method = SafeOpt(variant, X, F, H, STARTS, 0.05, 10)
    sets, beta = method.sets(ROWS, Y, Z), method._beta(1, ROWS)
    mean, sd = posterior(H, ROWS, Z)
    expected = np.zeros(len(X), dtype=bool)
    for row in np.flatnonzero(sets.safe):
        more, values = np.append(ROWS, row), np.append(Z, mean[row] - beta * sd[row])
        moved, left = posterior(H, more, values)
        expected[row] = ((moved + beta * left)[~sets.safe] <= 0.0).any()
    np.testing.assert_array_equal(sets.expanders, expected)
    safe = mean + beta * sd <= 0.0
    safe[STARTS] = True
    np.testing.assert_array_equal(sets.safe, safe)


def test_the_published_bound_is_wider_than_the_real_one() -> None:
    published, real = (SafeOpt(name, X, F, H, STARTS, 0.05, 10) for name in ("safeopt", "real_beta"))
    assert published._beta(1, ROWS) > real._beta(1, ROWS) > H.norm


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_proposal_is_in_the_safe_set_and_the_widest(variant: Variant) -> None:
    method = SafeOpt(variant, X, F, H, STARTS, 0.05, 10)
    sets, row = method.sets(ROWS, Y, Z), method.propose(ROWS, Y, Z)
    asked = sets.minimisers | sets.expanders
    assert row is not None and asked[row] and sets.safe[row]
    assert sets.width[row] == sets.width[asked].max()


def test_losbo_is_safe_by_the_true_constants() -> None:
    """With the Lipschitz constant of the pool and noise within its bound no query is unsafe."""
    for number in range(5):
        task = draw_task("plateau_cliff", stream(7, "losbo", number))
        f, h = (true_constants(task.X, values, 0.02) for values in (task.F[:, 0], task.h))
        method, rows = SafeOpt("losbo", task.X, f, h, task.starts, 0.05, 30), list(task.starts)
        for _ in range(10):
            row = method.propose(np.array(rows), task.F[rows, 0], task.h[rows])
            assert row is not None and task.h[row] <= 0.0
            rows.append(row)


def test_the_norm_of_a_function_of_known_norm_is_found() -> None:
    """On many settings the interpolant's norm is nearly the function's, never above it at its own lengthscale."""
    inputs = np.random.default_rng(0).uniform(0.0, 1.0, (400, 1))
    values = known_norm(np.random.default_rng(1), inputs)
    found = true_constants(inputs, values, 0.02)
    assert 0.1 < found.lengthscale < 0.4
    assert 0.5 * 5.0 < found.norm < 2.0 * 5.0


def test_constrained_improvement_does_not_ask_for_what_was_measured() -> None:
    rng = np.random.default_rng(0)
    rows = np.array([10, 12, 14, 16, 18])
    planner = MeasurementPlanner(SafetyLimit("<= 0"), rng, smc=SMCSettings(16, 1, 5), guard=None)
    planner.tell(X[rows], np.cos(5.0 * X[rows, 0]), X[rows, 0] - 0.8)
    plan = planner.ask(X)
    measured = np.zeros(len(X), dtype=bool)
    measured[rows] = True
    assert constrained_expected_improvement(plan, measured, measured) not in rows
    with pytest.raises(ValueError, match="no measured candidate is safe"):
        constrained_expected_improvement(plan, measured, ~measured & measured)
    with pytest.raises(ValueError, match="every candidate was measured"):
        constrained_expected_improvement(plan, np.ones_like(measured), measured)


def test_the_package_safeopt_asks_for_the_same_settings() -> None:
    """An oracle, where it is installed: the same kernel, noise and half-width, without intersection of intervals."""
    safeopt, GPy = pytest.importorskip("safeopt"), pytest.importorskip("GPy")
    method, rows, y, z = SafeOpt("losbo", X, F, H, STARTS, 0.05, 20), list(STARTS), list(Y), list(Z)
    method._variant = "real_beta"
    method._beta = lambda i, rows: 2.0  # type: ignore[method-assign]
    models = [
        GPy.models.GPRegression(
            X[STARTS], sign * values[:, None], GPy.kern.RBF(1, 1.0, each.lengthscale), noise_var=each.noise**2
        )
        for sign, values, each in ((-1.0, Y, F), (-1.0, Z, H))
    ]
    other = safeopt.SafeOpt(models, X, [-np.inf, 0.0], beta=2.0, threshold=0.0)
    for _ in range(8):
        row = method.propose(np.array(rows), np.array(y), np.array(z))
        x = other.optimize()
        assert row is not None and X[row] == pytest.approx(x)
        value, safety = float(np.cos(6.0 * x[0])), float(x[0] - 0.8)
        rows, y, z = [*rows, row], [*y, value], [*z, safety]
        other.add_new_data_point(x, [-value, -safety])
