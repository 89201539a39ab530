"""Rows that count several times are the objective on that many copies of each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gpsuite.methods.pac_bayes.losses import LOSSES, BandLoss
from gpsuite.methods.pac_bayes.problem import RiskProblem
from gpsuite.methods.pac_bayes.sparse import algebra
from gpsuite.methods.pac_bayes.sparse.algebra import (
    BLOCK,
    LONG_BLOCK,
    MANY_ROWS,
    STORED_BYTES,
    BlockArray,
    CovarianceForm,
    InducingKernel,
    WeightedGram,
    WhitenedPosterior,
    WhitenedSums,
    blocks,
    is_accurate,
    stores,
)
from gpsuite.methods.pac_bayes.sparse.objective import Form, SparseGPObjective, SparseLikelihoodObjective
from tests.arrays import Array


def test_stored_blocks_keep_what_was_written() -> None:
    n = 2 * BLOCK + 5
    array = BlockArray(n, 3, stored=True)
    for rows in blocks(n):
        array.block(rows)[...] = np.arange(rows.start, rows.stop)
    for rows in blocks(n):
        np.testing.assert_array_equal(array.block(rows), np.tile(np.arange(rows.start, rows.stop), (3, 1)))


@pytest.mark.parametrize("n", [7, BLOCK + 5])
def test_blocks_that_are_not_stored_share_one_place(n: int) -> None:
    array = BlockArray(n, 3, stored=False)
    *_, last = blocks(n)
    array.block(last)[...] = 1.0
    first = array.block(slice(0, min(n, BLOCK)))
    assert first.shape == (3, min(n, BLOCK))
    assert first.flags.c_contiguous
    np.testing.assert_array_equal(first.ravel()[: 3 * (last.stop - last.start)], 1.0)


def test_many_rows_are_cut_into_long_blocks_that_cover_them() -> None:
    cut = list(blocks(MANY_ROWS + 7))
    assert [rows.start for rows in cut] == [0, *(rows.stop for rows in cut[:-1])]
    assert cut[-1].stop == MANY_ROWS + 7
    assert {rows.stop - rows.start for rows in cut[:-1]} == {LONG_BLOCK}


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_long_blocks_give_what_short_ones_do(alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(MANY_ROWS + 7, 2))
    problem = RiskProblem(X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=len(X)), BandLoss(0.6), 0.01)
    theta = np.log([1.0, 1.5, 2.0, 0.1])
    long = SparseGPObjective(problem, alpha, 5, store=False).value_and_gradient(theta, X[:5].copy())
    monkeypatch.setattr(algebra, "LONG_BLOCK", BLOCK)
    short = SparseGPObjective(problem, alpha, 5, store=True).value_and_gradient(theta, X[:5].copy())
    np.testing.assert_allclose(long[0], short[0], rtol=1e-12)
    np.testing.assert_allclose(long[1], short[1], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(long[2], short[2], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n_inducing", [1, 63, 64, 65, 200])
def test_weighted_gram_is_the_product_for_weights_of_either_sign(n_inducing: int) -> None:
    rng = np.random.default_rng(3)
    V, weights = rng.normal(size=(n_inducing, 90)), rng.normal(size=90)
    gram = WeightedGram(n_inducing)
    gram.add(np.ascontiguousarray(V[:, :50]), weights[:50])
    gram.add(np.ascontiguousarray(V[:, 50:]), weights[50:])
    np.testing.assert_allclose(gram.total(), (V * weights) @ V.T, atol=1e-12)
    np.testing.assert_array_equal(gram.total(), gram.total().T)


def test_blocks_are_stored_up_to_the_limit() -> None:
    points = STORED_BYTES // (8 * 2 * 256)
    assert stores(points, 256, 2)
    assert not stores(points + 1, 256, 2)
    assert not stores(points, 256, 3)


Z = np.linspace(-3.0, 3.0, 6)[:, None]


def _sums(inducing: InducingKernel, noise: float) -> WhitenedSums:
    rng = np.random.default_rng(2)
    V = inducing.whitened(inducing.features(rng.normal(size=(40, 1))), np.empty((6, 40)))
    return WhitenedSums(np.asfortranarray(V @ V.T / noise), V @ rng.normal(size=40) / noise)


def test_factor_and_mean_are_those_of_the_definition() -> None:
    inducing = InducingKernel.factorise(Z, np.array([0.2, 0.0, -1.0]))
    sums = _sums(inducing, 0.4)
    form = CovarianceForm.derive(inducing, sums, WhitenedPosterior.condition(sums))
    assert form is not None
    S = np.linalg.inv(np.eye(6) + sums.gram)
    inverse = np.linalg.inv(inducing.factor)
    np.testing.assert_array_equal(np.tril(form.factor, -1), 0.0)
    np.testing.assert_allclose(form.factor @ form.factor.T, inverse.T @ (np.eye(6) - S) @ inverse, atol=1e-12)
    np.testing.assert_allclose(form.mean, inverse.T @ S @ sums.target, atol=1e-12)


def test_without_a_positive_definite_reduction_there_is_no_form() -> None:
    inducing = InducingKernel.factorise(Z, np.array([0.2, 0.0, -1.0]))
    sums = _sums(inducing, 0.4)
    posterior = WhitenedPosterior.condition(sums)
    assert CovarianceForm.derive(inducing, WhitenedSums(-sums.gram, sums.target), posterior) is None


@pytest.mark.parametrize(
    ("log_lengthscale", "noise", "accurate"), [(0.0, 1.0, True), (0.0, 1e-6, False), (1.5, 1.0, False)]
)
def test_accuracy_is_a_matter_of_condition_and_noise(log_lengthscale: float, noise: float, accurate: bool) -> None:
    inducing = InducingKernel.factorise(Z, np.array([0.0, log_lengthscale, 0.0]))
    assert is_accurate(inducing, noise) == accurate


Data = tuple[Array, Array]
THETA = np.array([0.3, 0.2, 0.7, 1.1, -1.2])
CENTRES = np.random.default_rng(5).normal(size=(7, 3)) * 1.2
# rows of the data (None: all) -> value and gradient [K] of x = (theta, Z)
Make = Callable[[Array, Array, Array | None], Callable[[Array], tuple[float, Array]]]


def bound(name: str, loss: str, alpha: float, covariance: bool, store: bool = True) -> Make:
    def make(X: Array, y: Array, rows: Array | None) -> Callable[[Array], tuple[float, Array]]:
        problem = RiskProblem(X, y, LOSSES.get(loss)(0.6), 0.01, name)
        objective = SparseGPObjective(problem, alpha, len(CENTRES), store, rows)
        objective.use_covariance_form &= covariance

        def evaluate(x: Array) -> tuple[float, Array]:
            value, d_theta, d_Z, _ = objective.value_and_gradient(x[:5], x[5:].reshape(CENTRES.shape))
            return value, np.concatenate([d_theta, d_Z.ravel()])

        return evaluate

    return make


def likelihood(form: Form, covariance: bool) -> Make:
    def make(X: Array, y: Array, rows: Array | None) -> Callable[[Array], tuple[float, Array]]:
        objective = SparseLikelihoodObjective(X, y, True, form, len(CENTRES), rows)
        objective.use_covariance_form &= covariance

        def evaluate(x: Array) -> tuple[float, Array]:
            value, d_theta, d_Z = objective.value_and_gradient(x[:5], x[5:].reshape(CENTRES.shape))
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
POINT = np.concatenate([THETA, CENTRES.ravel()])


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
    (value, gradient), (all_value, all_gradient) = (make(*small_data, rows)(POINT) for rows in (None, np.arange(150)))
    assert value == all_value
    np.testing.assert_array_equal(gradient, all_gradient)


@pytest.mark.parametrize("make", OBJECTIVES.values(), ids=OBJECTIVES)
def test_the_gradient_at_weight_four_agrees_with_fourth_order_differences(small_data: Data, make: Make) -> None:
    X, y = (part[:148] for part in small_data)
    evaluate, h = make(X, y, np.arange(0, 148, 4)), 2e-3
    _, gradient = evaluate(POINT)
    for k in (0, 1, 3, 4, 5, 16, 25):
        step = np.eye(len(POINT))[k] * h
        near = evaluate(POINT + step)[0] - evaluate(POINT - step)[0]
        far = evaluate(POINT + 2 * step)[0] - evaluate(POINT - 2 * step)[0]
        assert (8.0 * near - far) / (12.0 * h) == pytest.approx(gradient[k], rel=1e-6, abs=1e-7)
