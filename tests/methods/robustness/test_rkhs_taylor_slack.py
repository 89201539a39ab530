"""Models of mean and variance from coefficients that are off by their stated slack, boxes of any width."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpsuite.methods.robustness.rkhs_taylor_features import Coefficients
from gpsuite.methods.robustness.rkhs_taylor_mean import mean_model
from gpsuite.methods.robustness.rkhs_taylor_variance import variance_model
from tests.methods.robustness.test_rkhs_taylor_models import FORMS, assert_within, setting

HALVES = [1e-3, 0.5, 1.5]
OFF = 1e-2  # far above rounding, so that the slack is what decides


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize(("kernel", "degree"), FORMS)
def test_the_mean_of_coefficients_that_are_off(kernel: str, degree: int, half: float) -> None:
    rng = np.random.default_rng(4)
    for trial in range(12):
        form, boxes, points, basis = setting(kernel, 1 + trial % 2, half, degree)
        a = rng.standard_normal((1, basis.shape[1])) * (rng.random(basis.shape[1]) < 0.7)
        seen = a + OFF * rng.choice([-1.0, 1.0], a.shape)
        made_up = replace(form, norm2=float(np.sum(a**2)), floor=-np.inf, ceiling=np.inf)
        model = mean_model(replace(made_up, slack=replace(form.slack, coefficient=OFF)), boxes, seen)
        values = basis @ a[0]
        assert_within(model, points, values)
        assert model.low[0] <= values.min() <= values.max() <= model.high[0]


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("nu", [0.0, 0.3])
@pytest.mark.parametrize(("kernel", "degree"), FORMS)
def test_the_variance_of_a_gram_matrix_that_is_off(kernel: str, degree: int, nu: float, half: float) -> None:
    # H = G + nu is positive and at most 1 + nu, G itself may be negative; the variance is G's, at least zero.
    rng = np.random.default_rng(5)
    for trial in range(12):
        form, boxes, points, basis = setting(kernel, 1 + trial % 2, half, degree)
        n_terms, first = basis.shape[1], 1 + points.shape[1]
        rows = rng.standard_normal((1 + trial % 3, n_terms)) * (rng.random(n_terms) < 0.7)
        H = rows.T @ rows
        H *= (1.0 + nu) / max(1.0, np.linalg.eigvalsh(H)[-1])
        off = np.tril(OFF * rng.choice([-1.0, 1.0], H.shape))
        seen = H + off + np.tril(off, -1).T
        terms = Coefficients(
            np.zeros((1, n_terms)),
            seen[None, :first, :first],
            seen[None, 0, first:],
            np.maximum(np.array([np.trace(seen[first:, first:])]), 0.0),
        )
        made_up = replace(form, allowance=nu, bound=1.0 + nu, slack=replace(form.slack, gram=OFF))
        model = variance_model(made_up, replace(boxes, tail=np.zeros(1)), terms)
        # the part of phi that the basis leaves out has no variance under H, but counts in nu |phi|^2
        values = np.maximum(np.einsum("pm,mk,pk->p", basis, H, basis) - nu, 0.0)
        assert_within(model, points, values)
        assert model.low[0] <= values.min()
        assert values.max() <= model.high[0]
