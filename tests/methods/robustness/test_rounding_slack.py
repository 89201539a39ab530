"""The stated rounding slack against 80-bit arithmetic on the stored floats."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.methods.robustness.operator_form import operator_form
from gpsuite.methods.robustness.rkhs_taylor_features import coefficients
from gpsuite.methods.robustness.rounding import above, below, outward_radius
from tests.methods.robustness.made_up_posteriors import random_posterior

pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).eps > 1e-18, reason="no 80-bit floats on this machine"
)


@pytest.mark.parametrize("seed", range(4))
def test_coefficients_and_norm(seed: int) -> None:
    rng = np.random.default_rng(seed)
    posterior = random_posterior(rng, "squared_exponential", "probit", 60, 5, sparse=seed % 2 == 1)
    form = operator_form(posterior, posterior.X[0] + 0.1, np.array([0, 2, 3]))
    centre = form.U[rng.integers(60, size=6)] + 0.1 * rng.standard_normal((6, 3))
    terms = coefficients(form, np.vstack([form.root, form.alpha]), centre, 1)

    U, root, alpha = (np.asarray(part, dtype=np.longdouble) for part in (form.U, form.root, form.alpha))
    sign = np.where(np.arange(len(root)) < form.n_negative, -1, 1)
    for b in range(len(centre)):
        offset = U - np.asarray(centre[b], dtype=np.longdouble)
        value = np.exp(-np.sum(offset**2, axis=1) / 2)
        basis = np.column_stack([value, offset * value[:, None]])
        rows = root @ basis
        gram = np.eye(4) * (1 + np.longdouble(form.allowance)) + (rows.T * sign) @ rows
        error = np.abs(terms.mean[b] - alpha @ basis).max()
        assert error <= 0.2 * form.slack.coefficient
        assert np.abs(terms.gram[b] - gram).max() <= 0.2 * form.slack.gram
    apart = np.sum((U[:, None] - U[None]) ** 2, axis=2)
    exact = alpha @ np.exp(-apart / 2) @ alpha
    assert exact <= form.norm2
    assert form.norm2 - exact <= 1e-9 * (np.abs(alpha) @ np.exp(-apart / 2) @ np.abs(alpha))


def test_rounding_goes_outwards() -> None:
    value = np.array([-1.0, 0.0, 1e6])
    assert np.all(below(value) < value)
    assert np.all(above(value) > value)
    low, high = np.array([[0.1, 5.0]]), np.array([[0.3, 5.0]])
    centre = 0.5 * (low + high)
    radius = outward_radius(low, high, centre)
    assert np.all(np.longdouble(1) * centre + radius > high)
    assert np.all(np.longdouble(1) * centre - radius < low)
