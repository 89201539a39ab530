"""Gradients against differences, estimates against their optimality, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from gpsuite.methods.perturbation.nonsmooth import lasso, polished, support_vectors
from gpsuite.methods.perturbation.objectives import valid_level
from gpsuite.methods.perturbation.quadratic import (
    EpsilonSVR,
    KernelLasso,
    KernelLSSVM,
    KernelRidge,
    LinearLSSVM,
    Objective,
    QuadraticObjective,
    SparseKernelRidge,
)
from tests.arrays import Array
from tests.methods.perturbation.made_up_objectives import gaussian, inputs, objectives, outputs

OBJECTIVES = objectives()
K = gaussian(inputs(6), inputs(6))
every_objective = pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())


@every_objective
def test_gradient_is_the_slope_of_the_objective(objective: Objective) -> None:
    y = outputs(objective)
    alpha = np.random.default_rng(1).normal(size=objective.design.shape[1])  # away from the kinks
    slope = approx_fprime(alpha, lambda a: objective.value(y, a), 1e-6)
    gradient = objective.gradient(alpha, objective.residuals(y, alpha))
    np.testing.assert_allclose(gradient, slope, rtol=2e-4, atol=1e-3)


@every_objective
def test_nothing_near_the_estimate_is_better(objective: Objective) -> None:
    y = outputs(objective)
    fitted = objective.fit(y)
    assert fitted.converged
    assert fitted.objective == objective.value(y, fitted.alpha)
    rng = np.random.default_rng(2)
    for size in (1e-3, 1e-2, 1.0):
        for step in size * rng.normal(size=(20, len(fitted.alpha))):
            assert objective.value(y, fitted.alpha + step) >= fitted.objective - 1e-12


@every_objective
def test_the_gradient_vanishes_at_the_estimate(objective: Objective) -> None:
    y = outputs(objective)
    alpha = objective.fit(y).alpha
    e = objective.residuals(y, alpha)
    gradient = objective.gradient(alpha, e)
    if isinstance(objective, QuadraticObjective):
        np.testing.assert_allclose(gradient, 0.0, atol=1e-11)
    elif isinstance(objective, KernelLasso):
        np.testing.assert_allclose(gradient[alpha != 0.0], 0.0, atol=1e-11)
        assert np.all(np.abs(gradient[alpha == 0.0]) <= objective.penalty * (1.0 + 1e-9))
        assert 0 < np.count_nonzero(alpha) < len(alpha)
    else:
        assert isinstance(objective, EpsilonSVR)
        inside, outside = np.abs(e) < objective.epsilon - 1e-9, np.abs(e) > objective.epsilon + 1e-9
        np.testing.assert_allclose(alpha[inside], 0.0, atol=1e-12)
        np.testing.assert_allclose(alpha[outside], objective.weight * np.sign(e[outside]), rtol=1e-12)
        assert np.any(outside)


@every_objective
def test_quadratic_objectives_are_what_they_say(objective: Objective) -> None:
    y = outputs(objective)
    alphas = np.random.default_rng(3).normal(size=(4, objective.design.shape[1]))
    e = objective.residuals(y, alphas)
    if isinstance(objective, QuadraticObjective):
        expected = alphas @ objective.hessian.T - objective.T @ y
        np.testing.assert_allclose(objective.gradient(alphas, e), expected, atol=1e-10)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_non_smooth_fits_are_certified_at_any_scale(scale: float) -> None:
    X = inputs(40)
    y = scale * (np.sin(3.0 * X[:, 0]) + 0.2 * np.random.default_rng(4).standard_normal(40))
    gram = gaussian(X, X)
    for objective in (EpsilonSVR(gram, 20.0 * scale, 0.1 * scale), KernelLasso(gram, 0.1 * scale)):
        fitted = objective.fit(y)
        assert fitted.converged
        assert 0.0 <= fitted.gap <= 1e-9 * objective.value(y, np.zeros(40))


def test_a_wide_tube_needs_no_support_vectors() -> None:
    objective = EpsilonSVR(K, 5.0, 10.0)
    fitted = objective.fit(np.linspace(-1.0, 1.0, 6))
    assert fitted.converged
    assert not np.any(fitted.alpha)


def test_duplicate_inputs_are_refused() -> None:
    X = inputs(6)
    X[4] = X[1]
    doubled = gaussian(X, X)
    for build in (
        lambda: KernelRidge(doubled, 0.1),
        lambda: KernelLSSVM(doubled, 1.0),
        lambda: EpsilonSVR(doubled, 1.0, 0.1),
        lambda: KernelLasso(doubled, 0.1),
    ):
        with pytest.raises(ValueError, match=r"1 and 4 \(0-based\) are equal.*A1"):
            build()


def test_rank_deficient_designs_are_refused() -> None:
    X = inputs(6, 2)
    with pytest.raises(ValueError, match=r"rank 2 for 3 coefficients from 6 data. Column 2 \(0-based\) depends"):
        LinearLSSVM(np.column_stack([X, X.sum(axis=1)]), 1.0, bias=False)
    with pytest.raises(ValueError, match=r"rank 2 for 3 coefficients from 6 data. Column 1 \(0-based\) depends"):
        LinearLSSVM(np.column_stack([X[:, 0], 2.0 * X[:, 0], X[:, 1]]), 1.0, bias=False)
    with pytest.raises(ValueError, match="rank-deficient"):
        LinearLSSVM(np.column_stack([X, np.ones(6)]), 1.0)
    with pytest.raises(ValueError, match="rank-deficient"):
        LinearLSSVM(inputs(3, 4), 1.0)
    twice = K[:, [0, 1, 1]]
    with pytest.raises(ValueError, match="rank-deficient"):
        SparseKernelRidge(twice, K[np.ix_([0, 1, 1], [0, 1, 1])], 0.1)


@pytest.mark.parametrize("labels", [[0.0, 1.0, 1.0, 0.0, 1.0, 1.0], [1.0, -1.0, 2.0, 1.0, 1.0, -1.0]])
def test_classification_asks_for_signed_labels(labels: list[float]) -> None:
    for objective in (LinearLSSVM(inputs(6, 2), 1.0, classification=True), KernelLSSVM(K, 1.0, classification=True)):
        with pytest.raises(ValueError, match=r"must be -1 or \+1"):
            objective.fit(np.array(labels))


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_weights_must_be_positive(value: float) -> None:
    for build in (
        lambda: KernelRidge(K, value),
        lambda: SparseKernelRidge(K[:, :2], K[:2, :2], value),
        lambda: LinearLSSVM(inputs(6, 2), value),
        lambda: KernelLSSVM(K, value),
        lambda: EpsilonSVR(K, value, 0.1),
        lambda: KernelLasso(K, value),
    ):
        with pytest.raises(ValueError, match="must be positive and finite"):
            build()


def test_undefined_weightings_are_refused() -> None:
    for build in (
        lambda: EpsilonSVR(K, 1.0, 0.1, "hessian"),
        lambda: KernelLasso(K, 1.0, "rkhs"),
        lambda: LinearLSSVM(inputs(6, 2), 1.0, weighting="rkhs"),
    ):
        with pytest.raises(ValueError, match=r"is not defined for .*valid: "):
            build()


def test_bad_arrays_are_refused() -> None:
    with pytest.raises(ValueError, match="symmetric"):
        KernelRidge(np.triu(K), 0.1)
    with pytest.raises(ValueError, match="symmetric"):
        KernelRidge(K[:, :3], 0.1)
    with pytest.raises(ValueError, match="positive diagonal"):
        KernelRidge(K - 2.0 * np.eye(6), 0.1)
    with pytest.raises(ValueError, match="at least 2 observations, got n=1"):
        KernelRidge(np.ones((1, 1)), 0.1)
    with pytest.raises(ValueError, match=r"must be finite: nan at position \(2, 3\)"):
        KernelRidge(np.where(np.arange(36).reshape(6, 6) == 15, np.nan, K), 0.1)
    with pytest.raises(ValueError, match="epsilon must be finite and >= 0"):
        EpsilonSVR(K, 1.0, -0.1)
    with pytest.raises(ValueError, match="y has 5 values for n=6 inputs"):
        KernelRidge(K, 0.1).fit(np.ones(5))
    with pytest.raises(ValueError, match="y must be finite"):
        KernelRidge(K, 0.1).fit(np.array([1.0, np.inf, 0.0, 0.0, 0.0, 0.0]))
    with pytest.raises(ValueError, match="for 3 centres"):
        SparseKernelRidge(K[:, :3], K[:2, :2], 0.1)


def test_gram_matrices_are_refused_at_their_limits() -> None:
    """A diagonal entry of zero; two rows are enough; asymmetry of 1e-9 of the largest entry is rounding."""
    with pytest.raises(ValueError, match=r"positive diagonal, smallest entry 0\.0"):
        KernelRidge(np.array([[1.0, 0.5], [0.5, 0.0]]), 0.1)
    two = np.array([[1.0, 0.5], [0.5, 2.0]])
    KernelRidge(two, 0.1)
    skew = np.array([[0.0, 1.0], [0.0, 0.0]])
    KernelRidge(two + 1.9e-9 * skew, 0.1)
    with pytest.raises(ValueError, match="symmetric"):
        KernelRidge(two + 2.1e-9 * skew, 0.1)
    for wrong in (two[0], two[None], np.empty((0, 0))):
        with pytest.raises(ValueError, match="non-empty array of 2 dimensions"):
            KernelRidge(wrong, 0.1)


def test_levels_are_integers_of_any_kind_but_no_flags() -> None:
    valid_level(np.int64(1), np.int32(2))  # type: ignore[arg-type]
    for q, m in ((True, 20), (1, True), (2.0, 20), (2, 20.0)):
        with pytest.raises(ValueError, match="must be an integer"):
            valid_level(q, m)  # type: ignore[arg-type]
    for q, m in ((0, 5), (5, 5)):
        with pytest.raises(ValueError, match="0 < q < m"):
            valid_level(q, m)


# The solvers behind the non-smooth objectives, each alone: optimality conditions from any start, the certified gap.
WIDE_K = gaussian(inputs(12), inputs(12))


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
    start = {"zero": np.zeros(7), "corner": bound * np.sign(r), "random": rng.uniform(-bound, bound, 7)}[begin]
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
    a = lasso(WIDE_K, y, 0.2)
    downhill = WIDE_K @ (y - WIDE_K @ a)
    np.testing.assert_allclose(downhill[a != 0.0], 0.2 * np.sign(a[a != 0.0]), atol=1e-5)
    assert np.all(np.abs(downhill) <= 0.2 + 1e-5)


@pytest.mark.parametrize("scale", [1.0, 0.01, 0.0])
def test_the_rough_support_vectors_fit_no_constant(scale: float) -> None:
    """At the optimum |e| > epsilon puts a coefficient at its bound, |e| < epsilon at zero."""
    y = scale * (2.0 + np.random.default_rng(1).normal(size=12))
    weight, epsilon = 0.8 * scale or 0.8, 0.3 * scale or 0.3
    a = support_vectors(WIDE_K, y, weight, epsilon)
    e = y - WIDE_K @ a
    outside, inside = np.abs(e) > epsilon * 1.01, np.abs(e) < epsilon * 0.99
    np.testing.assert_allclose(a[outside], weight * np.sign(e[outside]), rtol=1e-6)
    np.testing.assert_allclose(a[inside], 0.0, atol=1e-6 * weight)
    assert np.all(np.abs(a) <= weight * (1.0 + 1e-9))
    assert np.any(outside) == (scale > 0.0)


@pytest.mark.parametrize("objective", [EpsilonSVR(WIDE_K, 9.0, 0.2), KernelLasso(WIDE_K, 0.15)], ids=["svr", "lasso"])
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


@pytest.mark.parametrize("objective", [EpsilonSVR(WIDE_K, 9.0, 0.2), KernelLasso(WIDE_K, 0.15)], ids=["svr", "lasso"])
def test_the_gap_bounds_the_distance_to_the_minimum(objective: EpsilonSVR | KernelLasso) -> None:
    rng = np.random.default_rng(4)
    y = rng.normal(size=12)
    best = objective.fit(y)
    for size in (1e-4, 1e-2, 1.0):
        for step in size * rng.normal(size=(10, 12)):
            fit = objective._certified(y, best.alpha + step)
            assert fit.objective == objective.value(y, fit.alpha)
            assert fit.gap >= fit.objective - best.objective - best.gap
