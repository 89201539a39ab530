import math
from decimal import Context, Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.methods.pac_bayes.kl_inverse import _kl_of_logit, binary_kl, kl_inverse, kl_inverse_lower
from tests.arrays import Array

probabilities = st.floats(0.0, 1.0)
levels = st.floats(0.0, 50.0)


@given(q=st.floats(1e-9, 1.0 - 1e-9), c=st.floats(1e-9, 5.0))
def test_inverts_the_divergence(q: float, c: float) -> None:
    inverse = kl_inverse(q, c)
    if inverse.one_minus_p > 0.0:
        # near p = 1 the divergence is read from 1 - p, which is the accurate one
        back = q * np.log(q / inverse.p) + (1.0 - q) * np.log((1.0 - q) / inverse.one_minus_p)
        assert back == pytest.approx(c, rel=1e-6, abs=1e-14)
    if inverse.one_minus_p > 1e-3:
        assert float(binary_kl(q, inverse.p)) == pytest.approx(c, rel=1e-6, abs=1e-14)


@given(q=probabilities, c=levels)
def test_lies_between_risk_and_pinsker_bound(q: float, c: float) -> None:
    p = float(kl_inverse(q, c).p)
    assert q <= p <= min(1.0, q + np.sqrt(c / 2.0) + 1e-15)


@given(q=probabilities, c=levels, more=st.floats(0.0, 1.0))
def test_grows_with_both_arguments(q: float, c: float, more: float) -> None:
    p = float(kl_inverse(q, c).p)
    slack = 1e-15
    assert float(kl_inverse(q, c + more).p) >= p - slack
    assert float(kl_inverse(q + more * (1.0 - q), c).p) >= p - slack


@given(q=probabilities, c=st.one_of(levels, st.floats(0.0, allow_infinity=True)))
def test_complements_add_up_and_nothing_is_nan(q: float, c: float) -> None:
    inverse = kl_inverse(q, c)
    assert float(inverse.p) + float(inverse.one_minus_p) == pytest.approx(1.0, abs=1e-15)
    assert float(inverse.dp_dq) >= 0.0
    assert float(inverse.dp_dc) >= 0.0


@pytest.mark.parametrize("q", [1e-6, 0.03, 0.4, 0.6, 0.97])
@pytest.mark.parametrize("c", [1e-3, 0.05, 0.7])
def test_derivatives_agree_with_differences(q: float, c: float) -> None:
    inverse = kl_inverse(q, c)
    steps = np.array([-2.0, -1.0, 1.0, 2.0])
    weights = np.array([1.0, -8.0, 8.0, -1.0]) / 12.0

    def values(qs: Array, cs: Array) -> Array:
        # differences of the smaller of p and 1 - p keep their digits
        moved = kl_inverse(qs, cs)
        return moved.p if inverse.p < 0.5 else -moved.one_minus_p

    h, k = 1e-3 * min(q, 1.0 - q), 1e-3 * c
    assert weights @ values(q + h * steps, np.full(4, c)) / h == pytest.approx(float(inverse.dp_dq), rel=1e-8)
    assert weights @ values(np.full(4, q), c + k * steps) / k == pytest.approx(float(inverse.dp_dc), rel=1e-8)


def test_edges_are_exact() -> None:
    at_zero_risk = kl_inverse(0.0, [0.0, 2.0, np.inf])
    np.testing.assert_array_equal(at_zero_risk.p, [0.0, -np.expm1(-2.0), 1.0])
    np.testing.assert_array_equal(at_zero_risk.dp_dq, [1.0, np.inf, 0.0])
    np.testing.assert_array_equal(kl_inverse([0.3, 1.0], 0.0).p, [0.3, 1.0])
    certain = kl_inverse([0.2, 1.0], [np.inf, 0.5])
    np.testing.assert_array_equal(certain.p, 1.0)
    np.testing.assert_array_equal(certain.one_minus_p, 0.0)
    np.testing.assert_array_equal(certain.dp_dq, 0.0)
    np.testing.assert_array_equal(certain.dp_dc, 0.0)


def test_smallest_numbers_do_not_break_it() -> None:
    inverse = kl_inverse([[5e-324], [1e-300], [0.5]], [5e-324, 1e-200, 1e-3, 1e300])
    assert np.isfinite(inverse.p).all()
    assert (inverse.p[:, -1] == 1.0).all()


def test_broadcasts_without_touching_its_inputs() -> None:
    q, c = np.array([[0.1], [0.5]]), np.array([0.01, 0.1, 1.0])
    inverse = kl_inverse(q, c)
    assert inverse.p.shape == inverse.dp_dc.shape == (2, 3)
    assert inverse.p[1, 2] == kl_inverse(0.5, 1.0).p
    np.testing.assert_array_equal(q, [[0.1], [0.5]])


@pytest.mark.parametrize(("q", "c"), [(-0.1, 1.0), (1.1, 1.0), (np.nan, 1.0), (0.5, -1e-9), (0.5, np.nan)])
def test_rejects_what_is_no_risk_or_no_divergence(q: float, c: float) -> None:
    with pytest.raises(ValueError, match="must"):
        kl_inverse(q, c)


def test_divergence_is_infinite_where_p_excludes_an_outcome() -> None:
    np.testing.assert_array_equal(binary_kl([0.5, 0.5, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0]), [np.inf, np.inf, 0.0, 0.0])
    with pytest.raises(ValueError, match="p must"):
        binary_kl(0.5, 1.5)


def _decimal_kl(q: float, p: float, one_minus_p: float) -> float:
    """Return kl(q||p) from 60 digits; the larger of p and 1 - p is derived from the smaller."""
    with localcontext() as context:
        context.prec = 60
        exact_p = Decimal(p) if p < 0.5 else 1 - Decimal(one_minus_p)
        risk = Decimal(q)
        return float(risk * (risk / exact_p).ln() + (1 - risk) * ((1 - risk) / (1 - exact_p)).ln())


@given(q=st.floats(1e-12, 1.0 - 1e-9), c=st.floats(1e-9, 5.0))
def test_lower_inverse_solves_the_equation_with_all_its_digits(q: float, c: float) -> None:
    lower = kl_inverse_lower(q, c)
    p, one_minus_p = float(lower.p), float(lower.one_minus_p)
    assert 0.0 <= p <= q
    if p > 1e-300:
        # a relative error of a few 1e-16 of p (and of 1 - p) moves kl by as much of |p - q| / min(p, 1 - p) * p
        assert _decimal_kl(q, p, one_minus_p) == pytest.approx(c, rel=1e-13, abs=1e-14 * (q - p) / one_minus_p)


@given(q=st.floats(0.05, 0.95), c=st.floats(1e-4, 3.0))
def test_lower_inverse_mirrors_the_upper_one(q: float, c: float) -> None:
    lower, mirrored = kl_inverse_lower(q, c), kl_inverse(1.0 - q, c)
    assert float(lower.p) == pytest.approx(1.0 - float(mirrored.p), rel=1e-9, abs=1e-15)
    assert float(lower.dp_dq) == pytest.approx(float(mirrored.dp_dq), rel=1e-9)
    assert float(lower.dp_dc) == pytest.approx(-float(mirrored.dp_dc), rel=1e-9)


@given(q=probabilities, c=st.one_of(levels, st.floats(0.0, allow_infinity=True)), more=st.floats(0.0, 1.0))
def test_lower_inverse_lies_below_and_falls_with_the_level(q: float, c: float, more: float) -> None:
    lower = kl_inverse_lower(q, c)
    assert max(0.0, q - np.sqrt(c / 2.0) - 1e-15) <= lower.p <= q
    assert float(lower.p) + float(lower.one_minus_p) == pytest.approx(1.0, abs=1e-15)
    assert float(kl_inverse_lower(q, c + more).p) <= lower.p + 1e-15
    assert float(kl_inverse_lower(q + more * (1.0 - q), c).p) >= lower.p - 1e-15
    assert lower.dp_dq >= 0.0
    assert lower.dp_dc <= 0.0


@pytest.mark.parametrize("q", [1e-15, 1e-6, 0.03, 0.4, 0.6, 0.97, 0.999])
@pytest.mark.parametrize("share", [0.01, 0.3, 2.0])
def test_lower_derivatives_agree_with_differences(q: float, share: float) -> None:
    c = share * min(q, 1.0 - q) if q < 0.5 else share
    lower = kl_inverse_lower(q, c)
    steps = np.array([-2.0, -1.0, 1.0, 2.0])
    weights = np.array([1.0, -8.0, 8.0, -1.0]) / 12.0

    def values(qs: Array, cs: Array) -> Array:
        moved = kl_inverse_lower(qs, cs)
        return moved.p if lower.p < 0.5 else -moved.one_minus_p

    h, k = 1e-3 * min(q, 1.0 - q), 1e-3 * c
    assert weights @ values(q + h * steps, np.full(4, c)) / h == pytest.approx(float(lower.dp_dq), rel=1e-8)
    assert weights @ values(np.full(4, q), c + k * steps) / k == pytest.approx(float(lower.dp_dc), rel=1e-8)


def test_lower_edges_are_exact() -> None:
    at_certain_loss = kl_inverse_lower(1.0, [0.0, 2.0, np.inf])
    np.testing.assert_array_equal(at_certain_loss.p, [1.0, np.exp(-2.0), 0.0])
    np.testing.assert_array_equal(at_certain_loss.one_minus_p, [0.0, -np.expm1(-2.0), 1.0])
    np.testing.assert_array_equal(at_certain_loss.dp_dq, [1.0, np.inf, 0.0])
    np.testing.assert_array_equal(kl_inverse_lower([0.0, 0.3, 1e-20], 0.0).p, [0.0, 0.3, 1e-20])
    np.testing.assert_array_equal(kl_inverse_lower([0.0, 0.3, 1.0], np.inf).p, 0.0)
    np.testing.assert_array_equal(kl_inverse_lower(0.0, [0.1, 5.0]).p, 0.0)


def test_lower_inverse_takes_the_smallest_numbers() -> None:
    q = np.array([[5e-324], [1e-300], [1e-20], [0.5], [1.0 - 1e-16]])
    lower = kl_inverse_lower(q, [5e-324, 1e-200, 1e-3, 1e5, 1e300])
    assert all(np.isfinite(part).all() for part in (lower.p, lower.one_minus_p, lower.dp_dq, lower.dp_dc))
    assert (lower.p[:4, -1] == 0.0).all()


@pytest.mark.parametrize(("q", "c"), [(-0.1, 1.0), (1.1, 1.0), (np.nan, 1.0), (0.5, -1e-9), (0.5, np.nan)])
def test_lower_inverse_rejects_what_is_no_risk_or_no_divergence(q: float, c: float) -> None:
    with pytest.raises(ValueError, match="must"):
        kl_inverse_lower(q, c)


@pytest.mark.parametrize("q", [1e-6, 0.03, 0.1, 0.2, 0.5, 0.7, 0.9, 0.97])
@pytest.mark.parametrize("d", [1e-4, 3e-3, 9.99e-3])
def test_the_series_near_zero_keeps_every_digit(q: float, d: float) -> None:
    """kl at a small logit distance: ln(1 + q (exp(d) - 1)) - q d, a sum of squares and higher powers of d."""
    with localcontext(Context(prec=60)):
        exact = (1 + Decimal(q) * (Decimal(d).exp() - 1)).ln() - Decimal(q) * Decimal(d)
    value, _ = _kl_of_logit(np.array([q]), np.array([1.0 - q]), np.array([d]))
    assert float(value[0]) == pytest.approx(float(exact), rel=4e-15, abs=0.0)


@pytest.mark.parametrize("q", [1e-6, 1e-3, 0.03, 0.2, 0.5, 0.7, 0.97, 1.0 - 1e-3])
@pytest.mark.parametrize("distance", ["3e-3", "9.9e-3", "1.01e-2"])
def test_small_gaps_keep_their_digits_on_both_sides_of_the_series_end(q: float, distance: str) -> None:
    with localcontext(Context(prec=50)):
        exact_q, grown = Decimal(q), Decimal(distance).exp()
        odds = exact_q / (1 - exact_q) * grown
        p = odds / (1 + odds)
        c = exact_q * (exact_q / p).ln() + (1 - exact_q) * ((1 - exact_q) / (1 - p)).ln()
        gap = p - exact_q
        inverse = kl_inverse(q, float(c))
        # from the end where the digits are: an ulp of it is up to 3e-14 of the gap
        near, far = Decimal(float(inverse.p)) - exact_q, 1 - exact_q - Decimal(float(inverse.one_minus_p))
        assert abs((near if q < 0.5 else far) / gap - 1) < Decimal("4e-13")


@pytest.mark.parametrize("q", [5e-324, 1e-320, 3e-310, 1e-301])
@pytest.mark.parametrize("c", [0.01, 0.13, 0.5, 3.0])
def test_a_subnormal_risk_has_the_inverse_of_none(q: float, c: float) -> None:
    """Before: .111 at q = 5e-324, c = .1335, below the exact .125."""
    assert kl_inverse(q, c).p == pytest.approx(-math.expm1(-c), rel=1e-12)
    assert kl_inverse(q, c).p >= kl_inverse(0.0, c).p * (1.0 - 1e-12)


@pytest.mark.parametrize(("q", "c"), [(1e-300, 100.0), (1e-300, 30.0), (1e-15, 700.0), (1e-100, 500.0)])
def test_what_is_left_of_one_keeps_its_digits_where_the_logit_distance_is_large(q: float, c: float) -> None:
    """With p = 1 to every digit, kl(q||p) = c is solved by ln(1 - p) = (q ln q + (1 - q) ln(1 - q) - c) / (1 - q)."""
    expected = math.exp((q * math.log(q) + (1.0 - q) * math.log1p(-q) - c) / (1.0 - q))
    inverse = kl_inverse(q, c)
    assert float(inverse.one_minus_p) == pytest.approx(expected, rel=1e-12, abs=0.0)
    assert float(inverse.dp_dc) == pytest.approx(expected, rel=1e-12, abs=0.0)  # p (1 - p) / (p - q)
