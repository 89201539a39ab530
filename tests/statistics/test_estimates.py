"""Estimates and their intervals, scipy being the oracle."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gpsuite.statistics.estimates import (
    AS_IF_INDEPENDENT,
    CLOPPER_PEARSON,
    CORRECTED,
    T_INTERVAL,
    Estimate,
    clopper_pearson,
    corrected_mean,
    finite,
    mean,
    medians,
    proportion,
    share,
    slopes,
)

NUMBERS = st.floats(-1e6, 1e6)
SAMPLES = st.lists(NUMBERS, min_size=2, max_size=12)


@given(SAMPLES)
def test_the_mean_and_its_interval_are_scipys(values: list[float]) -> None:
    found = mean(values)
    error = stats.sem(values)
    assert (found.n, found.interval) == (len(values), T_INTERVAL)
    slack = 1e-9 * (1.0 + max(map(abs, values)))
    assert found.value == pytest.approx(np.mean(values), abs=slack)
    assert found.error == pytest.approx(error, abs=slack)
    reach = stats.t.ppf(0.975, len(values) - 1) * error
    assert (found.high - found.value, found.value - found.low) == pytest.approx((reach, reach), abs=30 * slack)


@given(SAMPLES, st.randoms(use_true_random=False))
def test_the_mean_is_rounded_twice_only_for_any_order(values: list[float], order: random.Random) -> None:
    """The sum is correctly rounded, then the quotient: half a unit each, the sum's up to two of the mean's."""
    shuffled = values[:]
    order.shuffle(shuffled)
    assert mean(values) == mean(shuffled)
    exact = sum(map(Fraction, values)) / len(values)
    assert abs(Fraction(mean(values).value) - exact) <= Fraction(3, 2) * Fraction(math.ulp(float(exact)))


@given(SAMPLES, NUMBERS, st.floats(0.1, 10.0))
def test_the_interval_moves_and_scales_with_the_values(values: list[float], shift: float, scale: float) -> None:
    plain, moved = mean(values), mean([scale * value + shift for value in values])
    slack = 1e-7 * (1.0 + abs(shift) + max(map(abs, values)) * scale)
    for end in ("value", "low", "high"):
        assert getattr(moved, end) == pytest.approx(scale * getattr(plain, end) + shift, abs=slack)


def test_too_few_values_have_no_interval_and_decide_nothing() -> None:
    for found in (mean([]), mean([3.0]), corrected_mean([3.0], 0.25), proportion(0, 0)):
        assert found.interval == "" and math.isnan(found.error)
        assert not (found.above(-math.inf) or found.below(math.inf) or found.contains(found.value))
    assert (mean([3.0]).value, mean([3.0]).n) == (3.0, 1)
    assert math.isnan(mean([]).value)


def test_what_is_not_finite_is_said_not_hidden() -> None:
    assert mean([1.0, math.inf]) == Estimate(math.inf, n=2)
    assert math.isnan(mean([1.0, math.nan]).value)
    assert math.isnan(mean([math.inf, -math.inf]).value)
    assert finite([1.0, math.nan, math.inf, 2.0]).tolist() == [1.0, 2.0]


def test_the_corrected_interval_is_nadeau_and_bengios() -> None:
    values = [1.0, 2.0, 4.0, 5.0]
    found, plain = corrected_mean(values, 0.25), mean(values)
    assert (found.value, found.n, found.interval) == (3.0, 4, CORRECTED)
    scale = np.std(values, ddof=1) * math.sqrt(0.25 + 0.25)  # 1/4 + .25 in place of 1/4
    assert found.error == pytest.approx(scale)
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, 3, loc=3.0, scale=scale))
    assert corrected_mean(values, 0.25, correct_error=False).error == plain.error
    independent = corrected_mean(values, 0.0)
    assert (independent.low, independent.high) == pytest.approx((plain.low, plain.high))


@given(st.integers(1, 400), st.data())
def test_the_interval_of_a_share_is_the_exact_one(count: int, data: st.DataObject) -> None:
    held = data.draw(st.integers(0, count))
    found = proportion(held, count)
    expected = stats.binomtest(held, count).proportion_ci(0.95, method="exact")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-8, abs=1e-12)
    assert (found.value, found.n, found.interval) == (held / count, count, CLOPPER_PEARSON)
    assert found.low <= found.value <= found.high
    mirrored = clopper_pearson(count - held, count)
    assert (1.0 - mirrored[1], 1.0 - mirrored[0]) == pytest.approx((found.low, found.high), abs=1e-12)


@pytest.mark.guarantee
@pytest.mark.parametrize("probability", [0.03, 0.5, 0.9])
def test_the_interval_of_a_share_covers(probability: float) -> None:
    """Summed over all outcomes, the 95 % interval misses the truth with probability 5 % at most."""
    count = 30
    missed = sum(
        stats.binom.pmf(held, count, probability)
        for held in range(count + 1)
        if not proportion(held, count).contains(probability)
    )
    assert 0.0 < missed <= 0.05


def test_a_share_says_that_its_cells_are_not_independent() -> None:
    found = share(np.array([True, True, False, True]))
    assert (found.value, found.n, found.interval) == (0.75, 4, AS_IF_INDEPENDENT)
    assert share([]).n == 0 and math.isnan(share([]).value)


def test_an_estimate_is_judged_by_its_whole_interval() -> None:
    found = Estimate(1.0, 0.1, 5, 0.8, 1.2, T_INTERVAL)
    assert found.above(0.7) and not found.above(0.8)
    assert found.below(1.3) and not found.below(1.2)
    assert found.contains(0.8) and found.contains(1.2) and not found.contains(1.21)
    bare = found.without_interval()
    assert (bare.value, bare.error, bare.n, bare.interval) == (1.0, 0.1, 5, "")
    assert not bare.contains(1.0)
    moved = found.moved_to(3.0)
    assert (moved.value, moved.low, moved.high) == pytest.approx((3.0, 2.8, 3.2))
    assert moved.error == 0.1
    cut = found.within(0.9, 1.1)
    assert (cut.value, cut.error, cut.low, cut.high) == (1.0, 0.1, 0.9, 1.1)
    assert found.within(0.7, 1.3) == found
    assert found.within(1.1, 1.15).contains(found.value)  # a value that cannot be stays in its interval
    assert not bare.within(0.0, 1.0).interval and not bare.within(0.0, 1.0).contains(1.0)
    with pytest.raises(ValueError, match=r"from 1.2 to 0.8"):
        Estimate(1.0, 0.1, 5, 1.2, 0.8, T_INTERVAL)
    with pytest.raises(ValueError, match="nan"):
        Estimate(1.0, interval=T_INTERVAL)


def test_medians_of_rows_leave_out_what_is_missing() -> None:
    values = np.array([[3.0, 1.0, np.nan], [np.nan] * 3, [1.0, np.inf, 2.0]])
    assert np.array_equal(medians(values), [2.0, np.nan, 1.5], equal_nan=True)


@given(
    st.integers(2, 6).flatmap(lambda n: st.tuples(st.lists(NUMBERS, min_size=n, max_size=n), st.integers(0, 2**n - 1)))
)
def test_slopes_are_numpys_over_the_known_levels(case: tuple[list[float], int]) -> None:
    line, hidden = case
    levels = np.arange(len(line)) ** 2.0
    values = np.array([value if not hidden >> k & 1 else np.nan for k, value in enumerate(line)])
    known = np.isfinite(values)
    (found,) = slopes(values[None, :], levels)
    if known.sum() < 2:
        assert math.isnan(found)
    else:
        expected = np.polyfit(levels[known], values[known], 1)[0]
        assert found == pytest.approx(expected, rel=1e-7, abs=1e-6 * (1.0 + np.abs(values[known]).max()))


@pytest.mark.parametrize("exponent", [-1040, -600, 600, 1021])
def test_means_of_values_of_any_size(exponent: int) -> None:
    values = np.array([1.0, 3.0, -2.0, 1.5])
    plain, scaled = mean(values), mean(np.ldexp(values, exponent))
    for name in ("value", "error", "low", "high"):
        assert getattr(scaled, name) == math.ldexp(getattr(plain, name), exponent)
    assert mean([1e308, 1e308]).value == 1e308
    assert mean([1e200, -1e200]).value == 0.0
