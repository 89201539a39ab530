"""Ranges of quadratic forms over boxes, as the checker takes them."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.certificates import plain_kernel
from gpsuite.certificates.plain_kernel import UNIT64, quadratic_range


def test_the_quadratic_range_encloses_the_form_and_is_exact_in_one_input() -> None:
    rng = np.random.default_rng(8)
    for d in (1, 2, 3):
        b, M = rng.normal(size=(50, d)), rng.normal(size=(50, d, d))
        M, r = M + M.transpose(0, 2, 1), rng.uniform(0, 1, (50, d)) * (rng.random((50, d)) < 0.8)
        low, high = quadratic_range(b, M, r)
        delta = (rng.uniform(-1, 1, (50, 2000, d)) * 1.2).clip(-1, 1) * r[:, None]
        form = np.einsum("bd,bpd->bp", b, delta) + np.einsum("bpi,bij,bpj->bp", delta, M, delta)
        assert np.all(low <= form.min(axis=1) + 1e-14) and np.all(form.max(axis=1) <= high + 1e-14)
        if d == 1:
            np.testing.assert_allclose(low.astype(float), form.min(axis=1), atol=1e-4)
            np.testing.assert_allclose(high.astype(float), form.max(axis=1), atol=1e-4)


@pytest.mark.parametrize("n_inputs", [1, 7, 784])
def test_the_quadratic_range_allows_for_a_sum_over_all_inputs(n_inputs: int) -> None:
    """A sum of d terms, each from a row of d: d + 64 roundings of its size at least, and at most twenty times that."""
    r = np.ones((1, n_inputs))
    low, high = quadratic_range(r, 0 * r[:, :, None] * r[:, None], r)
    for paid in (high[0] - n_inputs, -n_inputs - low[0]):
        assert 64 + n_inputs - 1 <= paid / (UNIT64 * n_inputs) <= 20 * (64 + n_inputs)


def test_diagonals_allow_for_the_error_of_the_eigenvalue(monkeypatch: pytest.MonkeyPatch) -> None:
    H = np.array([2.0, 0.5])[:, None, None] * (np.eye(6) - 1.0 / 3.0)
    found = []
    for share in (0.0, 1e-3):
        monkeypatch.setattr(plain_kernel, "EIGENVALUE", share)
        found.append(plain_kernel.dominating_diagonal(H).sum(axis=1))
    np.testing.assert_allclose(found[0], [12.0, 3.0])
    np.testing.assert_allclose(found[1] - found[0], 6e-3 * np.sqrt(6.0) * np.array([2.0, 0.5]))
