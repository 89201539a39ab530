"""Entropies against closed forms; the choice against a plain search, with ties, NaN and nothing left."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm

from gpsuite.methods.active_learning.acquisition import choose, draw, entropy, joint_entropy


def test_entropies_are_those_of_the_normal_distribution() -> None:
    variance = np.array([[0.3, 2.0], [1e-8, 5.0]])
    np.testing.assert_allclose(entropy(variance), norm(0.0, np.sqrt(variance)).entropy(), rtol=1e-12)
    root = np.random.default_rng(0).normal(size=(5, 3, 3))
    covariance = root @ root.swapaxes(1, 2)
    expected = [multivariate_normal(np.zeros(3), each).entropy() for each in covariance]
    np.testing.assert_allclose(joint_entropy(covariance), expected, rtol=1e-10)
    np.testing.assert_allclose(joint_entropy(variance[..., None, None]), entropy(variance), rtol=1e-14)


def test_independent_outputs_add_their_entropies_and_dependence_takes_away() -> None:
    variance = np.array([0.5, 2.0])
    apart = np.diag(variance)
    assert joint_entropy(apart) == pytest.approx(entropy(variance).sum(), rel=1e-14)
    assert joint_entropy(apart + 0.9 * np.array([[0.0, 1.0], [1.0, 0.0]])) < joint_entropy(apart)


def test_a_determinant_that_underflows_is_no_reason_for_minus_infinity() -> None:
    tiny = np.eye(40) * 1e-20
    assert np.linalg.det(tiny) == 0.0
    assert joint_entropy(tiny) == pytest.approx(40 * entropy(np.array(1e-20)), rel=1e-12)


def test_what_rounding_left_without_variance_comes_last_and_nan_stays() -> None:
    np.testing.assert_array_equal(entropy(np.array([0.0, -1e-17, np.nan])), [-np.inf, -np.inf, np.nan])
    broken = np.array([np.diag([1.0, -1e-17]), np.zeros((2, 2)), -np.eye(2), np.full((2, 2), np.nan)])
    np.testing.assert_array_equal(joint_entropy(broken), [-np.inf, -np.inf, -np.inf, np.nan])


# Few distinct values: ties are frequent.
scores = st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 2.0, np.nan]), min_size=6, max_size=6)
masks = st.lists(st.booleans(), min_size=6, max_size=6)


@given(scores, masks)
def test_the_first_largest_allowed_score_is_chosen(values: list[float], mask: list[bool]) -> None:
    expected, best = None, None
    for i in range(3):
        for p in range(2):
            value = values[2 * i + p]
            if mask[2 * i + p] and not np.isnan(value) and (best is None or value > best):
                expected, best = (i, p), value
    score, allowed = np.array(values).reshape(3, 2), np.array(mask).reshape(3, 2)
    assert choose(score, allowed) == expected
    assert choose(np.asfortranarray(score), np.asfortranarray(allowed)) == expected
    flat = choose(score.ravel(), allowed.ravel())
    assert flat == (None if expected is None else (2 * expected[0] + expected[1],))


def test_scores_and_allowed_of_different_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="same shape"):
        choose(np.zeros((3, 2)), np.ones(3, dtype=bool))


def test_random_queries_are_uniform_over_what_is_allowed() -> None:
    allowed = np.array([[True, False], [False, False], [True, True]])
    rng = np.random.default_rng(0)
    drawn = [draw(allowed, rng) for _ in range(3000)]
    counts = {each: drawn.count(each) for each in set(drawn)}
    assert set(counts) == {(0, 0), (2, 0), (2, 1)}
    assert all(abs(count - 1000) < 4 * np.sqrt(3000 * 2 / 9) for count in counts.values())


def test_nothing_allowed_is_none_and_takes_no_random_number() -> None:
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    assert draw(np.zeros((3, 2), dtype=bool), rng) is None
    assert rng.bit_generator.state == before
    assert choose(np.zeros((3, 2)), np.zeros((3, 2), dtype=bool)) is None
