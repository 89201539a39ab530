"""Bounds from test rows: scipy's limits, their coverage, and rows that training has seen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from gpsuite.data.splits import DifferentRows
from gpsuite.methods.pac_bayes.bounds import binomial_upper_bound, mean_loss_upper_bound
from gpsuite.methods.pac_bayes.evaluation import cautious_upper_bound

# alpha of the family of coverage checks, split over them
FAMILY_LEVEL = 1e-4


@given(data=st.data(), n=st.integers(1, 10**5), delta=st.floats(1e-6, 0.5))
def test_binomial_bound_solves_its_equation(data: st.DataObject, n: int, delta: float) -> None:
    errors = data.draw(st.integers(0, n))
    bound = binomial_upper_bound(errors, n, delta)
    assert errors / n <= bound <= 1.0 or delta > 0.4
    if errors < n:
        assert binom.cdf(errors, n, bound) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize(("errors", "n"), [(0, 20), (3, 20), (19, 20), (20, 20), (41, 1000)])
def test_binomial_bound_equals_scipys_limit(errors: int, n: int) -> None:
    limit = binomtest(errors, n, alternative="less").proportion_ci(0.99, method="exact").high
    assert binomial_upper_bound(errors, n, 0.01) == pytest.approx(limit, rel=1e-10)


@given(data=st.data(), n=st.integers(1, 10**4), delta=st.floats(1e-6, 0.5))
def test_mean_loss_bound_is_at_least_the_binomial_bound(data: st.DataObject, n: int, delta: float) -> None:
    errors = data.draw(st.integers(0, n))
    loose = mean_loss_upper_bound(errors / n, n, delta)
    assert errors / n <= loose <= 1.0
    assert loose >= binomial_upper_bound(errors, n, delta) - 1e-12


def test_no_errors_and_only_errors() -> None:
    assert binomial_upper_bound(0, 100, 0.05) == pytest.approx(1.0 - 0.05**0.01, rel=1e-14)
    assert mean_loss_upper_bound(0.0, 100, 0.05) == pytest.approx(1.0 - 0.05**0.01, rel=1e-14)
    assert binomial_upper_bound(100, 100, 0.05) == mean_loss_upper_bound(1.0, 100, 0.05) == 1.0


def test_bounds_grow_with_errors_and_fall_with_points_and_delta() -> None:
    by_errors = [binomial_upper_bound(k, 50, 0.05) for k in range(51)]
    assert (np.diff(by_errors) > 0.0).all()
    assert binomial_upper_bound(10, 100, 0.05) < binomial_upper_bound(5, 50, 0.05)
    assert binomial_upper_bound(5, 50, 0.1) < binomial_upper_bound(5, 50, 0.01)


@pytest.mark.guarantee
@pytest.mark.parametrize("risk", [0.02, 0.3, 0.9])
def test_bounds_fail_no_more_often_than_allowed(risk: float) -> None:
    delta, n, trials = 0.1, 40, 4000
    counts = np.random.default_rng(5).binomial(n, risk, trials)
    for bound in (
        lambda k: binomial_upper_bound(int(k), n, delta),
        lambda k: mean_loss_upper_bound(k / n, n, delta),
    ):
        failures = sum(bound(k) < risk for k in counts)
        assert binomtest(failures, trials, delta, alternative="greater").pvalue > FAMILY_LEVEL / 6


@pytest.mark.parametrize(
    ("errors", "n", "delta"), [(-1, 10, 0.1), (11, 10, 0.1), (0, 0, 0.1), (1, 10, 0.0), (1, 10, 1.0)]
)
def test_rejects_impossible_counts(errors: int, n: int, delta: float) -> None:
    with pytest.raises(ValueError, match=r"need|delta"):
        binomial_upper_bound(errors, n, delta)


@pytest.mark.parametrize(
    ("mean", "n", "delta"), [(math.nan, 10, 0.1), (1.1, 10, 0.1), (0.1, 0, 0.1), (0.1, 10, math.nan)]
)
def test_rejects_impossible_means(mean: float, n: int, delta: float) -> None:
    with pytest.raises(ValueError, match=r"need|delta|must"):
        mean_loss_upper_bound(mean, n, delta)


def test_a_test_row_that_training_has_seen_counts_as_an_error() -> None:
    different = DifferentRows(np.arange(10), np.arange(10) < 3)
    bound = cautious_upper_bound(np.zeros(10, dtype=bool), different, 0.05)
    assert bound == binomial_upper_bound(3, 10, 0.05)
