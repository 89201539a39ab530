"""Bounds from test rows: scipy's limits, their coverage, and rows that training has seen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import binom, binomtest

from gpsuite.data.splits import DifferentRows
from gpsuite.methods.pac_bayes.bounds import (
    OBJECTIVES,
    PAPER_GRID,
    HyperparameterGrid,
    bayes_risk_bound,
    binomial_upper_bound,
    catoni_bound,
    kl_bound,
    lambda_bound,
    lambda_bound_at,
    mean_loss_upper_bound,
    optimal_lambda,
    quadratic_bound,
    sqrt_bound,
)
from gpsuite.methods.pac_bayes.evaluation import cautious_upper_bound
from gpsuite.methods.pac_bayes.kl_inverse import kl_inverse
from gpsuite.methods.pac_bayes.losses import LOSSES
from gpsuite.models.config import Hyperparameters

risks = st.floats(0.0, 1.0)
levels = st.floats(1e-8, 50.0)
SLACK = 1e-13


@given(risk=risks, c=levels)
def test_every_bound_is_at_least_the_kl_bound(risk: float, c: float) -> None:
    tightest = kl_bound(risk, c)[0]
    for name in OBJECTIVES:
        assert OBJECTIVES.get(name)(risk, c)[0] >= tightest - SLACK, name


@given(risk=risks, c=levels, more=st.floats(0.0, 1.0))
def test_bounds_grow_with_risk_and_penalty(risk: float, c: float, more: float) -> None:
    for name in OBJECTIVES:
        bound = OBJECTIVES.get(name)
        value, d_risk, d_c = bound(risk, c)
        assert bound(risk, c + more)[0] >= value - SLACK
        assert bound(risk + more * (1.0 - risk), c)[0] >= value - SLACK
        assert min(d_risk, d_c) >= 0.0


@given(risk=risks, c=levels)
def test_quadratic_beats_sqrt_exactly_below_a_quarter(risk: float, c: float) -> None:
    quadratic, root = quadratic_bound(risk, c)[0], sqrt_bound(risk, c)[0]
    if quadratic < 0.25:
        assert quadratic <= root + SLACK
    else:
        assert quadratic >= root - SLACK


@given(risk=risks, c=levels, weight=st.floats(1e-3, 1.999))
def test_optimal_lambda_is_best_and_gives_the_quadratic_bound(risk: float, c: float, weight: float) -> None:
    best = lambda_bound(risk, c)
    np.testing.assert_allclose(best, quadratic_bound(risk, c), rtol=1e-12)
    assert 0.0 < optimal_lambda(risk, c) <= 1.0
    assert optimal_lambda(risk, c) == pytest.approx(2.0 / (math.sqrt(2.0 * risk / c + 1.0) + 1.0), rel=1e-12)
    assert lambda_bound_at(risk, c, weight)[0] >= best[0] * (1.0 - SLACK)


@given(risk=st.floats(0.01, 0.9), c=st.floats(0.01, 2.0))
def test_catoni_at_its_best_constant_is_the_kl_bound(risk: float, c: float) -> None:
    inverse = kl_inverse(risk, c)
    odds = float(inverse.p / inverse.one_minus_p) * (1.0 - risk) / risk
    assert catoni_bound(risk, c, math.log(odds))[0] == pytest.approx(float(inverse.p), rel=1e-12)
    found = minimize_scalar(lambda u: catoni_bound(risk, c, math.exp(u))[0], bounds=(-7, 4), method="bounded")
    assert found.fun == pytest.approx(float(inverse.p), rel=1e-8)


@pytest.mark.parametrize("constant", [1e-6, 0.3, 1.0, 5.0])
def test_catoni_derivatives_agree_with_complex_steps(constant: float) -> None:
    risk, c, h = 0.13, 0.21, 1e-30
    _, d_risk, d_c = catoni_bound(risk, c, constant)

    def complex_bound(r: complex, level: complex) -> complex:
        return complex(np.expm1(-constant * r - level) / np.expm1(-constant))

    assert complex_bound(risk + 1j * h, c).imag / h == pytest.approx(d_risk, rel=1e-13)
    assert complex_bound(risk, c + 1j * h).imag / h == pytest.approx(d_c, rel=1e-13)


@pytest.mark.parametrize("name", ["quadratic", "lambda"])
@pytest.mark.parametrize(("risk", "c"), [(0.1, 0.3), (1e-9, 0.2), (0.9, 1e-6), (1.0, 4.0)])
def test_quadratic_derivatives_agree_with_complex_steps(name: str, risk: float, c: float) -> None:
    _, d_risk, d_c = OBJECTIVES.get(name)(risk, c)

    def complex_bound(r: complex, level: complex) -> complex:
        return complex((np.sqrt(r + level / 2.0) + np.sqrt(level / 2.0)) ** 2)

    h = 1e-30
    assert complex_bound(risk + 1j * h, c).imag / h == pytest.approx(d_risk, rel=1e-12)
    assert complex_bound(risk, c + 1j * h).imag / h == pytest.approx(d_c, rel=1e-12)


@pytest.mark.parametrize("name", ["quadratic", "lambda"])
def test_the_quadratic_bounds_have_their_limits(name: str) -> None:
    bound = OBJECTIVES.get(name)
    assert bound(0.3, 0.0) == (pytest.approx(0.3), 1.0, math.inf)
    assert bound(0.0, 0.0) == (0.0, 2.0, 2.0)
    assert bound(0.0, 0.7) == pytest.approx((1.4, 2.0, 2.0))
    assert bound(0.4, math.inf) == (math.inf, 2.0, 2.0)


def test_the_sqrt_bound_has_its_limits() -> None:
    assert sqrt_bound(0.3, 0.0) == (0.3, 1.0, math.inf)
    assert sqrt_bound(0.3, 2.0) == pytest.approx((1.3, 1.0, 0.25))
    assert sqrt_bound(0.3, math.inf) == (math.inf, 1.0, 0.0)


def test_limits_of_catoni_and_kl_are_exact() -> None:
    assert catoni_bound(0.0, 0.0)[0] == 0.0
    assert catoni_bound(1.0, 0.0)[0] == pytest.approx(1.0)
    assert catoni_bound(0.2, math.inf) == (pytest.approx(1.0 / -math.expm1(-1.0)), 0.0, 0.0)
    assert kl_bound(0.2, math.inf) == (1.0, 0.0, 0.0)
    assert kl_bound(1.0, 0.3) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize("name", list(OBJECTIVES))
@pytest.mark.parametrize(("risk", "c"), [(math.nan, 1.0), (-0.1, 1.0), (1.1, 1.0), (0.2, math.nan), (0.2, -1.0)])
def test_rejects_what_is_no_risk_or_no_penalty(name: str, risk: float, c: float) -> None:
    with pytest.raises(ValueError, match=r"risk|must"):
        OBJECTIVES.get(name)(risk, c)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_rejects_impossible_constants(value: float) -> None:
    with pytest.raises(ValueError, match="Catoni"):
        catoni_bound(0.1, 0.1, value)
    with pytest.raises(ValueError, match="lambda"):
        lambda_bound_at(0.1, 0.1, value)
    with pytest.raises(ValueError, match="lambda"):
        lambda_bound_at(0.1, 0.1, 2.0)


@pytest.mark.parametrize("name", list(LOSSES))
@given(offset=st.floats(-5.0, 5.0), log_variance=st.floats(-12.0, 8.0), epsilon=st.sampled_from([0.1, 0.6, 2.0]))
def test_twice_the_gibbs_risk_bounds_the_loss_of_the_mean(
    name: str, offset: float, log_variance: float, epsilon: float
) -> None:
    loss, y = LOSSES.get(name)(epsilon), np.zeros(1)
    m = np.array([offset])
    gibbs = float(loss.expected(y, m, np.exp([log_variance]))[0])
    assert float(loss.pointwise(y, m)[0]) <= bayes_risk_bound(gibbs) + 1e-12


def test_bayes_bound_is_capped() -> None:
    assert [bayes_risk_bound(b) for b in (0.0, 0.2, 0.5, 0.8, 1.0)] == [0.0, 0.4, 1.0, 1.0, 1.0]
    for wrong in (-0.1, math.nan):
        with pytest.raises(ValueError, match=">= 0"):
            bayes_risk_bound(wrong)


def test_at_zero_risk_the_kl_bounds_slope_is_that_of_its_limit() -> None:
    bound, d_risk, d_c = kl_bound(0.0, 0.3)
    assert (bound, d_risk, d_c) == pytest.approx((1.0 - math.exp(-0.3), 0.0, math.exp(-0.3)), rel=1e-14)
    assert kl_bound(1e-12, 0.3)[1] > 10.0


@given(log_value=st.floats(-6.0, 6.0))
def test_rounding_moves_a_logarithm_by_at_most_half_a_step(log_value: float) -> None:
    assert abs(np.log(PAPER_GRID.round(np.exp(log_value))) - log_value) <= 0.005 + 1e-12


@given(value=st.floats(1e-300, 1e300))
def test_rounding_is_idempotent_and_lands_on_the_grid(value: float) -> None:
    once = PAPER_GRID.round(value)
    np.testing.assert_array_equal(PAPER_GRID.round(once), once)
    assert PAPER_GRID.contains(once)


def test_log_size_counts_the_grid_points() -> None:
    grid = HyperparameterGrid(decimals=1, half_width=2)
    values = {float(v) for v in np.round(np.log(grid.round(np.exp(np.linspace(-3, 3, 5001)))), 6)}
    assert grid.size == len(values)
    assert grid.log_size(3) == pytest.approx(3 * np.log(len(values)))


def test_only_the_kernel_is_rounded() -> None:
    rounded = PAPER_GRID.rounded(Hyperparameters(1.2345, (0.777, 9.99), 0.12345))
    assert rounded.noise_variance == 0.12345
    assert PAPER_GRID.holds(rounded)
    assert not PAPER_GRID.holds(Hyperparameters(1.2345, (1.0,), 1.0))


def test_logarithms_round_trip() -> None:
    original = Hyperparameters(1.5, (0.3, 2.0, 7.0), 0.01)
    back = Hyperparameters.from_log(original.to_log())
    np.testing.assert_allclose(back.to_log(), original.to_log(), rtol=1e-15)
    assert (original.n_kernel, len(back.lengthscales)) == (4, 3)


@pytest.mark.parametrize("values", [(0.0, (1.0,), 1.0), (1.0, (), 1.0), (1.0, (1.0, np.nan), 1.0), (1.0, (1.0,), -1.0)])
def test_rejects_what_is_not_positive(values: tuple[float, tuple[float, ...], float]) -> None:
    with pytest.raises(ValueError, match=r"must be positive and finite|at least one"):
        Hyperparameters(*values)
    with pytest.raises(ValueError, match="must be positive"):
        PAPER_GRID.round([1.0, 0.0])


def test_the_narrowest_grid_allowed_has_three_values() -> None:
    assert HyperparameterGrid(0, 1).size == 3
    assert HyperparameterGrid(2, 1).size == 201


@pytest.mark.parametrize("logarithm", [-6.01, 6.01, 7.0])
def test_whole_hundredths_beyond_the_range_are_not_on_the_grid(logarithm: float) -> None:
    """ln|Theta| counts 1201 values: a value outside of them would not be paid for."""
    assert PAPER_GRID.contains(np.exp([-6.0, 6.0]))
    assert not PAPER_GRID.contains(np.exp(logarithm))
    assert not PAPER_GRID.holds(Hyperparameters(1.0, (1.0, float(np.exp(logarithm))), 1.0))


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


def test_bounds_of_no_and_of_only_errors_are_exact() -> None:
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
    for bound in (lambda k: binomial_upper_bound(int(k), n, delta), lambda k: mean_loss_upper_bound(k / n, n, delta)):
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
