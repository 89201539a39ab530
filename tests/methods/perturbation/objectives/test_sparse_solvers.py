"""The solvers behind the non-smooth objectives, each alone: optimality conditions from any start, the certified gap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpsuite.methods.perturbation.nonsmooth import EpsilonSVR, KernelLasso, lasso, polished, support_vectors
from tests.arrays import Array
from tests.methods.perturbation.made_up_objectives import gaussian, inputs

K = gaussian(inputs(12), inputs(12))


def quadratic_program(seed: int) -> tuple[Array, Array, float, float]:
    """Return Q, r, l1, bound with coefficients at zero, free, and at the bound."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(9, 7))
    return root.T @ root / 3.0, 2.0 * rng.normal(size=7), rng.uniform(0.1, 1.0), rng.uniform(0.2, 1.5)


@given(st.integers(0, 10_000), st.sampled_from(["zero", "corner", "random"]))
@settings(max_examples=60)
def test_polishing_ends_at_the_optimum_from_any_start(seed: int, begin: str) -> None:
    Q, r, l1, bound = quadratic_program(seed)
    rng = np.random.default_rng(seed + 1)
    start = {"zero": np.zeros(7), "corner": bound * np.sign(r), "random": rng.uniform(-bound, bound, 7)}[
        begin
    ]
    a = polished(Q, r, l1, bound, start)
    downhill = r - Q @ a
    zero, at_bound = a == 0.0, np.abs(a) == bound
    free = ~zero & ~at_bound
    assert np.all(np.abs(a) <= bound)
    np.testing.assert_allclose(downhill[free], l1 * np.sign(a[free]), atol=1e-9)
    assert np.all(np.abs(downhill[zero]) <= l1 + 1e-9)
    assert np.all(downhill[at_bound] * np.sign(a[at_bound]) >= l1 - 1e-9)


def test_polishing_meets_zero_free_and_bound_coefficients() -> None:
    kinds = np.zeros(3, dtype=int)
    for seed in range(20):
        Q, r, l1, bound = quadratic_program(seed)
        a = polished(Q, r, l1, bound, np.zeros(7))
        kinds += [np.sum(a == 0.0), np.sum(np.abs(a) == bound), np.sum((a != 0.0) & (np.abs(a) < bound))]
    assert np.all(kinds > 15)


def test_a_coefficient_almost_at_zero_or_the_bound_is_put_there() -> None:
    """With Q diagonal each coefficient is on its own: soft thresholding, then the box."""
    r, l1, bound = np.array([3.0, 0.2, -1.2, -0.1, 0.9]), 0.3, 1.5
    expected = np.clip(np.sign(r) * np.maximum(np.abs(r) - l1, 0.0), -bound, bound)
    for offset in (0.0, 1e-9, -1e-9):
        np.testing.assert_allclose(polished(np.eye(5), r, l1, bound, expected + offset), expected, rtol=1e-12)


def test_the_rough_lasso_fits_no_constant() -> None:
    y = 3.0 + 0.1 * np.random.default_rng(0).normal(size=12)
    a = lasso(K, y, 0.2)
    downhill = K @ (y - K @ a)
    np.testing.assert_allclose(downhill[a != 0.0], 0.2 * np.sign(a[a != 0.0]), atol=1e-5)
    assert np.all(np.abs(downhill) <= 0.2 + 1e-5)


@pytest.mark.parametrize("scale", [1.0, 0.01, 0.0])
def test_the_rough_support_vectors_fit_no_constant(scale: float) -> None:
    """At the optimum |e| > epsilon puts a coefficient at its bound, |e| < epsilon at zero."""
    y = scale * (2.0 + np.random.default_rng(1).normal(size=12))
    weight, epsilon = 0.8 * scale or 0.8, 0.3 * scale or 0.3
    a = support_vectors(K, y, weight, epsilon)
    e = y - K @ a
    outside, inside = np.abs(e) > epsilon * 1.01, np.abs(e) < epsilon * 0.99
    np.testing.assert_allclose(a[outside], weight * np.sign(e[outside]), rtol=1e-6)
    np.testing.assert_allclose(a[inside], 0.0, atol=1e-6 * weight)
    assert np.all(np.abs(a) <= weight * (1.0 + 1e-9))
    assert np.any(outside) == (scale > 0.0)


@pytest.mark.parametrize("objective", [EpsilonSVR(K, 9.0, 0.2), KernelLasso(K, 0.15)], ids=["svr", "lasso"])
def test_converged_means_a_billionth_of_the_objective_at_zero(objective: EpsilonSVR | KernelLasso) -> None:
    y = np.random.default_rng(2).normal(size=12)
    best, limit = objective.fit(y), 1e-9 * objective.value(y, np.zeros(12))
    away = np.random.default_rng(3).normal(size=12)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        small = objective._certified(y, best.alpha + middle * away).gap <= limit
        low, high = (middle, high) if small else (low, middle)
    for step, expected in ((0.8 * low, True), (1.3 * high, False)):
        fit = objective._certified(y, best.alpha + step * away)
        assert fit.converged == expected == (fit.gap <= limit)
    assert 0.5 * limit < objective._certified(y, best.alpha + low * away).gap <= limit


@pytest.mark.parametrize("objective", [EpsilonSVR(K, 9.0, 0.2), KernelLasso(K, 0.15)], ids=["svr", "lasso"])
def test_the_gap_bounds_the_distance_to_the_minimum(objective: EpsilonSVR | KernelLasso) -> None:
    rng = np.random.default_rng(4)
    y = rng.normal(size=12)
    best = objective.fit(y)
    for size in (1e-4, 1e-2, 1.0):
        for step in size * rng.normal(size=(10, 12)):
            fit = objective._certified(y, best.alpha + step)
            assert fit.objective == objective.value(y, fit.alpha)
            assert fit.gap >= fit.objective - best.objective - best.gap
