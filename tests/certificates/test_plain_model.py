"""The classifier that a certificate stores, over its free inputs: range of the operator, norms, slacks of sums."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from gpsuite.certificates.plain_bound import PlainBound
from gpsuite.certificates.plain_kernel import UNIT64, Long, gram
from gpsuite.certificates.plain_model import Known, ModelProducts, PlainModel, largest_eigenvalue, plain_slice
from tests.methods.robustness.certified_point import plain_model
from tests.methods.robustness.decimal_oracle import exact_latent
from tests.methods.robustness.made_up_posteriors import random_posterior

KERNELS = ("squared_exponential", "matern32", "matern52")


@pytest.mark.parametrize("kernel", KERNELS)
def test_slacks_are_what_errors_of_all_features_at_once_can_do(kernel: str) -> None:
    """A feature of N data and D inputs is off by N + 4 D + 64 units, a folded one by more; all at worst."""
    rng = np.random.default_rng(15)
    model = dataclasses.replace(plain_model(random_posterior(rng, kernel, "probit", 7, 3, sparse=True)), variance=0.5)
    x0 = model.X[0] + 2.0 * model.lengthscales
    form = plain_slice(model, x0, np.array([0, 2]))
    held = (model.X[:, 1] - x0[1]) ** 2 / model.lengthscales[1] ** 2
    folded = kernel == "squared_exponential"
    fold, more = (np.exp(-held / 2), 5.5 * held) if folded else (np.ones(7), 0.0)
    unit = UNIT64 * (7 + 4 * 3 + 64 + more) * fold
    assert form.slack_mean == pytest.approx(float(np.abs(model.alpha) @ unit), rel=1e-9, abs=0.0)
    size = np.abs(model.root)
    moved = 0.5 * float(np.abs(model.weights) @ ((size @ (fold + unit)) ** 2 - (size @ fold) ** 2))
    sums = 0.5 * UNIT64 * float(np.abs(model.weights) @ (size @ fold) ** 2)
    assert moved + (len(model.weights) + 7) * sums <= form.slack_gram <= 1.5 * moved + 100 * sums
    K = gram(model.X.astype(Long), model.lengthscales.astype(Long), kernel)
    signed = model.alpha.astype(Long)
    slack_mean = UNIT64 * (7 + 4 * 3 + 64) * float(np.sum(np.abs(signed)))
    exact, most = float(signed @ K @ signed), slack_mean * float(np.sum(np.abs(signed)))
    assert exact + 2 * most <= form.norm2 <= exact + 8 * most  # two features and two sums are off


def test_an_operation_is_counted_for_every_datum_and_input() -> None:
    """Sums run over the data; an input adds a difference, a quotient, a square and a sum."""

    def operations(n: int, inputs: int) -> float:
        model = PlainModel(
            np.zeros((n, inputs)), "matern52", 1.0, np.ones(inputs), np.ones(n) / n, np.ones((1, n)), -np.ones(1),
            "probit",
        )  # fmt: skip
        return plain_slice(model, np.zeros(inputs), np.arange(inputs)).slack_mean / UNIT64

    start = operations(3, 1)
    assert start >= 3 + 4 + 60  # exponential, root and what follows
    assert operations(10, 1) - start >= 6.9
    assert 4 * 98 <= operations(3, 100) - start <= 32 * 99


@pytest.mark.parametrize("sparse", [False, True])
def test_the_operators_range_is_that_of_the_latent_variance(sparse: bool) -> None:
    """-nu s <= Sigma <= g s everywhere, and g is attained in the span for signed weights."""
    rng = np.random.default_rng(9)
    for _ in range(5):
        model = plain_model(random_posterior(rng, "matern52", "probit", 8, 2, sparse))
        plain = PlainBound(model, model.X[0], np.arange(2))
        M = model.root @ (model.variance * gram(model.X, model.lengthscales, model.kernel)) @ model.root.T
        values = np.linalg.eigvals(M @ np.diag(model.weights)).real
        highest = 1 + max(0.0, float(model.weights.max()))
        assert max(1.0, 1 + values.max()) <= plain.slice.above <= highest + (1e-3 if sparse else 1e-9)
        assert max(0.0, -(1 + values.min())) <= plain.slice.below <= (1e-3 if sparse else 1e-9)
        worst = max(float(exact_latent(model, x)[1]) for x in rng.normal(size=(20, 2)))
        assert worst <= plain.slice.above * model.variance


def test_negative_variances_are_covered_by_nu() -> None:
    """Weights beyond -1 make G indefinite: nu must reach its smallest eigenvalue, uniform weights or not."""
    rng = np.random.default_rng(12)
    for weights in (np.full(8, -1.5), rng.uniform(-9.0, 1.0, 8)):
        model = plain_model(random_posterior(rng, "matern52", "probit", 8, 2))
        model = dataclasses.replace(model, weights=weights)
        plain = PlainBound(model, model.X[0], np.arange(2))
        M = model.root @ (model.variance * gram(model.X, model.lengthscales, model.kernel)) @ model.root.T
        values = np.linalg.eigvals(M @ np.diag(weights)).real
        assert 1 + values.min() < 0
        assert -(1 + values.min()) <= plain.slice.below <= max(0.0, -weights.min() - 1) + 1e-9
        assert max(1.0, 1 + values.max()) <= plain.slice.above <= 1 + max(0.0, weights.max()) + 1e-9


def test_an_eigenvalue_beyond_one_is_found_and_one_below_is_not_computed() -> None:
    rng = np.random.default_rng(14)
    Q = np.linalg.qr(rng.normal(size=(9, 9)))[0]
    for top in (0.3, 1.0, 1.0 + 1e-6, 7.0):
        M = (Q * np.append(np.linspace(0, 0.2, 8), top)) @ Q.T
        for rounding in (0.0, 1e-3):
            found = largest_eigenvalue(M, rounding)
            assert max(1.0, top) + rounding <= found <= max(1.0, top) + rounding + 1e-9


def test_known_products_propose_what_the_checker_confirms() -> None:
    """Products taken from elsewhere give the same bounds, or looser ones where their norm is larger."""
    rng = np.random.default_rng(15)
    model = plain_model(random_posterior(rng, "squared_exponential", "probit", 12, 3))
    free = np.array([0, 2])
    own = PlainBound(model, model.X[0], free)
    made = own.slice
    lo = model.X[:5][:, free]
    hi = lo + 0.1 * model.lengthscales[free]
    for factor in (1.0, 4.0):
        known = Known(np.asarray(made.reduction, dtype=float), 0.0, 1.0, factor * made.norm2)
        other = PlainBound(model, model.X[0], free, ModelProducts(model, known))
        for sign in (-1, 1):
            mine, theirs = (sign * each.bound(lo, hi, sign, np.zeros(5))[0] for each in (own, other))
            assert np.all(theirs >= mine - 1e-9)
            if factor == 1.0:
                np.testing.assert_allclose(theirs, mine, rtol=1e-8, atol=1e-9)
