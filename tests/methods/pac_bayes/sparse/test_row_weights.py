"""Rows that count several times are the objective on that many copies of each."""

from collections.abc import Callable

import numpy as np
import pytest

from gpsuite.methods.pac_bayes.losses import LOSSES
from gpsuite.methods.pac_bayes.problem import RiskProblem
from gpsuite.methods.pac_bayes.sparse.objective import Form, SparseGPObjective, SparseLikelihoodObjective
from tests.arrays import Array

Data = tuple[Array, Array]
THETA = np.array([0.3, 0.2, 0.7, 1.1, -1.2])
Z = np.random.default_rng(5).normal(size=(7, 3)) * 1.2
# rows of the data (None: all) -> value and gradient [K] of x = (theta, Z)
Make = Callable[[Array, Array, Array | None], Callable[[Array], tuple[float, Array]]]


def bound(name: str, loss: str, alpha: float, covariance: bool, store: bool = True) -> Make:
    def make(X: Array, y: Array, rows: Array | None) -> Callable[[Array], tuple[float, Array]]:
        problem = RiskProblem(X, y, LOSSES.get(loss)(0.6), 0.01, name)
        objective = SparseGPObjective(problem, alpha, len(Z), store, rows)
        objective.use_covariance_form &= covariance

        def evaluate(x: Array) -> tuple[float, Array]:
            value, d_theta, d_Z, _ = objective.value_and_gradient(x[:5], x[5:].reshape(Z.shape))
            return value, np.concatenate([d_theta, d_Z.ravel()])

        return evaluate

    return make


def likelihood(form: Form, covariance: bool) -> Make:
    def make(X: Array, y: Array, rows: Array | None) -> Callable[[Array], tuple[float, Array]]:
        objective = SparseLikelihoodObjective(X, y, True, form, len(Z), rows)
        objective.use_covariance_form &= covariance

        def evaluate(x: Array) -> tuple[float, Array]:
            value, d_theta, d_Z = objective.value_and_gradient(x[:5], x[5:].reshape(Z.shape))
            return value, np.concatenate([d_theta, d_Z.ravel()])

        return evaluate

    return make


OBJECTIVES = {
    "kl, FITC": bound("kl", "band01", 1.0, False),
    "kl, FITC, blocks computed again": bound("kl", "band01", 1.0, False, False),
    "kl, half way": bound("kl", "band01", 0.5, False),
    "kl, DTC": bound("kl", "band01", 0.0, True),
    "kl, DTC, whitened": bound("kl", "band01", 0.0, False),
    "sqrt, FITC": bound("sqrt", "band01", 1.0, False),
    "kl, exponential, FITC": bound("kl", "exp", 1.0, False),
    "VFE": likelihood("vfe", True),
    "VFE, whitened": likelihood("vfe", False),
    "FITC": likelihood("fitc", False),
}
POINT = np.concatenate([THETA, Z.ravel()])


@pytest.mark.parametrize("make", OBJECTIVES.values(), ids=OBJECTIVES)
def test_a_row_that_counts_three_times_is_three_copies_of_it(small_data: Data, make: Make) -> None:
    X, y = small_data
    rows = np.arange(2, 150, 3)
    value, gradient = make(X, y, rows)(POINT)
    copied, copied_gradient = make(np.repeat(X[rows], 3, axis=0), np.repeat(y[rows], 3), None)(POINT)
    assert value == pytest.approx(copied, rel=1e-12)
    np.testing.assert_allclose(gradient, copied_gradient, rtol=0.0, atol=1e-11 * np.abs(gradient).max())


@pytest.mark.parametrize("make", OBJECTIVES.values(), ids=OBJECTIVES)
def test_all_rows_are_the_objective_bit_for_bit(small_data: Data, make: Make) -> None:
    (value, gradient), (all_value, all_gradient) = (
        make(*small_data, rows)(POINT) for rows in (None, np.arange(150))
    )
    assert value == all_value
    np.testing.assert_array_equal(gradient, all_gradient)


@pytest.mark.parametrize("make", OBJECTIVES.values(), ids=OBJECTIVES)
def test_the_gradient_at_weight_four_agrees_with_fourth_order_differences(
    small_data: Data, make: Make
) -> None:
    X, y = (part[:148] for part in small_data)
    evaluate, h = make(X, y, np.arange(0, 148, 4)), 2e-3
    _, gradient = evaluate(POINT)
    for k in (0, 1, 3, 4, 5, 16, 25):
        step = np.eye(len(POINT))[k] * h
        near = evaluate(POINT + step)[0] - evaluate(POINT - step)[0]
        far = evaluate(POINT + 2 * step)[0] - evaluate(POINT - 2 * step)[0]
        assert (8.0 * near - far) / (12.0 * h) == pytest.approx(gradient[k], rel=1e-6, abs=1e-7)
