"""Tests behind claims, scipy being the oracle."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gpsuite.statistics.estimates import proportion
from gpsuite.statistics.significance import (
    LEVEL,
    MOST_EXACT,
    all_shown,
    binomial_p,
    bonferroni_p,
    chi_square_p,
    corrected_t_p,
    holm,
    least_wilcoxon_p,
    rank_correlation,
    shown,
    shown_by_t,
    shown_together,
    wilcoxon_p,
)
from tests.arrays import Array


@pytest.mark.parametrize("seed", range(3))
def test_the_t_test_is_scipys_with_the_corrected_variance(seed: int) -> None:
    values = 0.3 + np.random.default_rng(seed).standard_normal(10)
    t = stats.ttest_1samp(values, 0.0, alternative="greater")
    assert corrected_t_p(values) == pytest.approx(t.pvalue, rel=1e-12)
    corrected = stats.t.sf(t.statistic * math.sqrt(0.1 / 0.35), 9)  # 1/10 + .25 in place of 1/10
    assert corrected_t_p(values, 0.25) == pytest.approx(corrected, rel=1e-12)


def test_values_that_are_all_the_same_prove_what_their_signs_do_and_one_proves_nothing() -> None:
    assert corrected_t_p(np.full(3, 2.0), 0.25) == 0.5**3
    assert corrected_t_p([0.1, 0.1]) == 0.25  # of -.1, 0 and .1 at random two are .1 in every ninth pair
    assert corrected_t_p(np.full(3, -2.0), 0.25) == corrected_t_p(np.zeros(3), 0.25) == 1.0
    assert corrected_t_p(np.array([1.1, 2.1, 0.3]) - np.array([1.0, 2.0, 0.2]), 0.25) == 0.5**3  # up to rounding
    for too_few in ([], [3.0], [1.0, math.nan], [1.0, math.inf]):
        assert corrected_t_p(too_few, 0.25) == 1.0


@given(st.integers(1, 12), st.integers(0, 2**12 - 1))
def test_wilcoxons_test_is_the_exact_one(n: int, signs: int) -> None:
    size = np.arange(1.0, n + 1.0)
    difference = np.where([signs >> k & 1 for k in range(n)], size, -size)
    expected = stats.wilcoxon(difference, alternative="less", method="exact").pvalue
    assert wilcoxon_p(difference, np.zeros(n)) == pytest.approx(expected, rel=1e-12)
    assert wilcoxon_p(-size, np.zeros(n)) == pytest.approx(least_wilcoxon_p(n), rel=1e-12)


def by_all_signs(difference: Array) -> float:
    """The definition: the share of all signs of the differences with no larger sum of positive ranks."""
    used = difference[difference != 0.0]
    ranks = stats.rankdata(np.abs(used))
    signs = np.array(list(itertools.product([False, True], repeat=len(used))))
    return float(np.mean(signs @ ranks <= ranks[used > 0.0].sum()))


@pytest.mark.parametrize("n", [1, 4, 7, 14])
def test_wilcoxons_test_with_ties_and_zeros_is_the_exact_one(n: int) -> None:
    for seed in range(3):
        difference = np.random.default_rng(seed).integers(-2, 3, n) / 4.0
        difference[0] = 0.25
        assert wilcoxon_p(difference, np.zeros(n)) == pytest.approx(by_all_signs(difference), rel=1e-12)


@pytest.mark.parametrize("zeros", [0, 9, 10, 36, 1000])
def test_pairs_without_a_difference_are_no_evidence(zeros: int) -> None:
    first = np.concatenate([-np.ones(4), np.zeros(zeros)])
    assert wilcoxon_p(first, np.zeros(len(first))) == 0.5**4


def test_wilcoxons_test_of_many_pairs_is_scipys() -> None:
    for n in (50, MOST_EXACT, MOST_EXACT + 1):
        difference = np.random.default_rng(n).standard_normal(n) - 0.1
        method = "exact" if n <= MOST_EXACT else "approx"
        expected = stats.wilcoxon(difference, alternative="less", method=method).pvalue
        assert wilcoxon_p(difference, np.zeros(n)) == pytest.approx(expected, rel=1e-9)


def test_wilcoxons_test_leaves_out_missing_pairs() -> None:
    a, b = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 4.0, 6.0, 8.0])
    assert wilcoxon_p(np.append(a, np.nan), np.append(b, 0.0)) == wilcoxon_p(a, b) == 1 / 16
    assert wilcoxon_p(np.append(a, 9.0), np.append(b, np.nan)) == 1 / 16
    assert wilcoxon_p(a, a) == 1.0
    equal, rising = np.ones(20), np.linspace(1.0, 2.0, 20)
    assert wilcoxon_p(equal, equal) == 1.0
    assert wilcoxon_p(rising - 0.5, rising) < 1e-3  # ties
    assert wilcoxon_p(rising + 0.5, rising) > 0.99


@given(st.integers(1, 200), st.floats(0.01, 0.99), st.data())
def test_the_binomial_test_agrees_with_scipys_tails_and_with_the_interval(
    count: int, probability: float, data: st.DataObject
) -> None:
    held = data.draw(st.integers(0, count))
    less, greater = (stats.binomtest(held, count, probability, alternative=side).pvalue for side in ("less", "greater"))
    assert binomial_p(held, count, probability, "less") == pytest.approx(less, rel=1e-9)
    p = binomial_p(held, count, probability)
    assert p == pytest.approx(min(1.0, 2.0 * min(less, greater)), rel=1e-9)
    if abs(p - 0.05) > 1e-6:
        assert (p < 0.05) == (not proportion(held, count).contains(probability))


def test_the_chi_square_test_adds_up_independent_sets() -> None:
    counts, expected = np.array([18, 22, 20]), np.full(3, 20.0)
    single = stats.chisquare(counts, expected)
    assert chi_square_p([(counts, expected)]) == (pytest.approx(single.pvalue), 2)
    p, freedom = chi_square_p([(counts, expected)] * 2)
    assert freedom == 4 and p == pytest.approx(stats.chi2.sf(2 * single.statistic, 4))


def test_the_tails_are_twice_the_smaller_one_at_most_1() -> None:
    assert binomial_p(50, 100, 0.5) == 1.0
    assert binomial_p(0, 10, 0.5) == binomial_p(10, 10, 0.5) == pytest.approx(2.0 * 0.5**10)
    assert bonferroni_p([0.5, 0.01, 0.2]) == pytest.approx(0.03)
    assert bonferroni_p([0.5, 0.9]) == 1.0


def test_holm_steps_down() -> None:
    assert holm([0.01, 0.04, 0.03]) == [True, False, False]  # .03 > .05 / 2
    assert holm([0.01, 0.04, 0.02]) == [True, True, True]
    assert holm([0.01, 0.04, 0.02], level=0.01) == [False] * 3
    assert holm([]) == []
    assert holm([math.nan, 0.001]) == [False, True]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.2))
def test_holm_lies_between_bonferroni_and_single_tests(p_values: list[float], level: float) -> None:
    rejected = holm(p_values, level)
    for p, said in zip(p_values, rejected, strict=True):
        assert said or p > level / len(p_values)
        assert not said or p <= level


@pytest.mark.guarantee
def test_holm_keeps_the_family_wise_level() -> None:
    """2000 families of five true hypotheses, seed fixed: a false rejection in 5 % of them, plus three deviations."""
    rng = np.random.default_rng(3)
    wrong = sum(any(holm(rng.uniform(size=5).tolist())) for _ in range(2000))
    assert wrong <= 2000 * LEVEL + 3.0 * math.sqrt(2000 * LEVEL * (1.0 - LEVEL))


def test_the_rank_correlation_needs_three_pairs_that_vary() -> None:
    assert rank_correlation([1.0, 2.0, 3.0], [2.0, 9.0, 10.0]) == pytest.approx(1.0)
    assert rank_correlation([1.0, 2.0, 3.0], [2.0, 1.0, 3.0]) == pytest.approx(0.5)
    assert math.isnan(rank_correlation([1.0, 2.0], [2.0, 3.0]))
    assert math.isnan(rank_correlation([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]))


def test_several_tests_together_are_at_most_certain_to_mean_nothing() -> None:
    assert bonferroni_p([0.6, 0.7]) == 1.0


def test_an_infinite_difference_is_the_largest() -> None:
    smaller, larger = np.array([1.0, 1.0, 1.0, 1.0, np.inf]), np.array([2.0, 2.0, 2.0, 2.5, 1.0])
    assert wilcoxon_p(smaller, larger) == wilcoxon_p(np.append(smaller[:4], 99.0), larger)
    assert wilcoxon_p(larger, smaller) == wilcoxon_p(larger, np.append(smaller[:4], 99.0))
    assert wilcoxon_p(np.array([-1.0, np.inf]), np.array([0.0, np.inf])) == 0.5  # equal ones do not count


def test_what_a_test_shows_is_the_claim_its_opposite_or_neither() -> None:
    assert (shown(0.01, 0.99), shown(0.99, 0.01), shown(0.3, 0.7)) == (True, False, None)
    rises = np.array([1.0, 1.1, 0.9, 1.2])
    assert (shown_by_t(rises, 0.1), shown_by_t(-rises, 0.1)) == (True, False)
    assert shown_by_t(np.array([1.0, -1.0, 0.5]), 0.1) is shown_by_t(rises[:1], 0.1) is None
    assert shown_by_t(rises, 0.1, level=1e-6) is None


def test_claims_together_are_as_their_weakest() -> None:
    assert (all_shown([True, True]), all_shown([True, None]), all_shown([None, False])) == (True, None, False)
    assert shown_together([0.01, 0.04, 0.97], [0.99, 0.96, 0.03], level=0.05) == [True, None, None]  # by Holm
    assert shown_together([0.01, 0.02], [0.99, 0.98]) == [True, True]
    assert shown_together([0.99], [0.01]) == [False]
