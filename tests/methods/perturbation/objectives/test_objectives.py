"""Gradients against differences, estimates against their optimality, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

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
    with pytest.raises(
        ValueError, match=r"rank 2 for 3 coefficients from 6 data; column 2 \(0-based\) depends"
    ):
        LinearLSSVM(np.column_stack([X, X.sum(axis=1)]), 1.0, bias=False)
    with pytest.raises(
        ValueError, match=r"rank 2 for 3 coefficients from 6 data; column 1 \(0-based\) depends"
    ):
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
    for objective in (
        LinearLSSVM(inputs(6, 2), 1.0, classification=True),
        KernelLSSVM(K, 1.0, classification=True),
    ):
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
