"""The quadratic models alone, where nothing is left out: sharp tests of each remainder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpsuite.methods.robustness.class_probability import ProbitScore
from gpsuite.methods.robustness.operator_form import OperatorForm, operator_form
from gpsuite.methods.robustness.rkhs_taylor_features import Coefficients, basis_values
from gpsuite.methods.robustness.rkhs_taylor_mean import Boxes, QuadraticModel, mean_model, measure
from gpsuite.methods.robustness.rkhs_taylor_score import score_bounds
from gpsuite.methods.robustness.rkhs_taylor_variance import variance_model
from tests.methods.robustness.made_up_posteriors import KERNELS, random_posterior

FORMS = [*((kernel, 1) for kernel in KERNELS), ("squared_exponential", 2)]


def setting(
    kernel: str, d: int, half: float, degree: int
) -> tuple[OperatorForm, Boxes, np.ndarray, np.ndarray]:
    """Return a form, one box around the origin, points of it, and the basis' values there."""
    posterior = random_posterior(np.random.default_rng(0), kernel, "probit", 4, d)
    posterior = replace(posterior, lengthscales=np.ones(d), variance=1.0)
    form = operator_form(posterior, np.zeros(d), np.arange(d))
    end = np.full((1, d), half)
    grid = np.random.default_rng(1).uniform(-half, half, (200, d))
    points = np.concatenate([grid, np.sign(grid) * half])
    at_points = replace(form, X=points, fixed=np.zeros(len(points)))
    return (
        form,
        measure(form, -end, end, degree),
        points,
        basis_values(at_points, np.zeros((1, d)), degree)[:, :, 0],
    )


def assert_within(model: QuadraticModel, points: np.ndarray, values: np.ndarray) -> None:
    quadratic = (
        model.constant + points @ model.linear[0] + np.einsum("pj,jk,pk->p", points, model.matrix[0], points)
    )
    assert np.all(values >= quadratic - model.below)
    assert np.all(values <= quadratic + model.above)


@pytest.mark.parametrize("half", [0.1, 0.5])
@pytest.mark.parametrize(("kernel", "degree"), FORMS)
def test_mean_within_the_span_of_the_basis(kernel: str, degree: int, half: float) -> None:
    rng = np.random.default_rng(2)
    for trial in range(120):
        form, boxes, points, basis = setting(kernel, 1 + trial % 2, half, degree)
        a = rng.standard_normal((1, basis.shape[1])) * (rng.random(basis.shape[1]) < 0.5)
        # |h|^2 is all in the coefficients, so the part beyond the expansion is zero.
        made_up = replace(form, norm2=float(np.sum(a**2)), floor=-np.inf, ceiling=np.inf)
        model = mean_model(made_up, boxes, a)
        values = basis @ a[0]
        assert_within(model, points, values)
        assert model.low[0] <= values.min()
        assert model.high[0] >= values.max()


@pytest.mark.parametrize("half", [0.1, 0.5])
@pytest.mark.parametrize(("kernel", "degree"), FORMS)
def test_variance_within_the_span_of_the_basis(kernel: str, degree: int, half: float) -> None:
    rng = np.random.default_rng(3)
    for trial in range(120):
        form, boxes, points, basis = setting(kernel, 1 + trial % 2, half, degree)
        n_terms, first = basis.shape[1], 1 + points.shape[1]
        rows = rng.standard_normal((1 + trial % 3, n_terms)) * (rng.random(n_terms) < 0.5)
        gram = rows.T @ rows
        gram /= max(1.0, np.linalg.eigvalsh(gram)[-1])
        terms = Coefficients(
            np.zeros((1, n_terms)),
            gram[None, :first, :first],
            gram[None, 0, first:],
            np.array([np.trace(gram[first:, first:])]),
        )
        model = variance_model(form, replace(boxes, tail=np.zeros(1)), terms)
        assert_within(model, points, np.einsum("pm,mk,pk->p", basis, gram, basis))


def test_the_tail_counts_with_the_operators_bound() -> None:
    form, boxes, _, _ = setting("squared_exponential", 1, 0.1, 1)
    terms = Coefficients(np.zeros((1, 2)), np.zeros((1, 2, 2)), np.zeros((1, 0)), np.zeros(1))
    tail = np.array([1e-3])
    for bound in (1.0, 4.0):
        model = variance_model(replace(form, bound=bound), replace(boxes, tail=tail, drop=np.ones(1)), terms)
        assert model.high[0] == pytest.approx(bound * 1e-3, rel=1e-2)
        assert model.above[0] >= bound * 1e-3


@pytest.mark.parametrize("mean", [2.0, -2.0])
@pytest.mark.parametrize("side", [-0.05, 0.05])
def test_one_sided_remainders_of_the_variance_keep_their_side(mean: float, side: float) -> None:
    _, boxes, _, _ = setting("squared_exponential", 1, 1e-9, 1)
    one, zero = np.ones(1), np.zeros(1)
    flat = {"linear": np.zeros((1, 1)), "matrix": np.zeros((1, 1, 1)), "rest": zero}
    mu = QuadraticModel(constant=mean * one, below=zero, above=zero, low=mean * one, high=mean * one, **flat)
    down, up = max(-side, 0.0), max(side, 0.0)
    sigma = QuadraticModel(
        constant=one, below=down * one, above=up * one, low=one - down, high=one + up, **flat
    )
    b = score_bounds(ProbitScore(), boxes, mu, sigma)
    for variance in (1.0, 1.0 + side):
        assert b.low[0] <= mean / np.sqrt(1.0 + variance) <= b.high[0]
