"""Entropies against closed forms; the choice against a plain search, with ties, NaN and nothing left."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm

from gpsuite.methods.active_learning.acquisition import (
    choose,
    draw,
    entropy,
    joint_entropy,
    log_densities,
    rmse,
    safe_query_percent,
    safety_precision,
)
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization, Parameters
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.multi_output.pool_predictions import PoolPredictions
from gpsuite.models.sampling.posterior import mixture_covariance, mixture_moments
from tests.models.active_reference import TOLERANCE, cases, table


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


# Metrics of models and queries by hand, and the mixture's moments and log densities of safe_al.json.
def test_the_rmse_is_averaged_over_outputs_after_the_root() -> None:
    Y = np.zeros((4, 2))
    mean = np.array([[1.0, 3.0], [-1.0, 3.0], [1.0, -3.0], [1.0, 3.0]])
    assert rmse(mean, Y) == 2.0  # not sqrt((1 + 9) / 2)
    with pytest.raises(ValueError, match="same shape"):
        rmse(mean, Y[:, :1])
    with pytest.raises(ValueError, match="not empty"):
        rmse(mean[:0], Y[:0])


def test_all_conventions_agree_for_one_hyperparameter_vector_only() -> None:
    rng = np.random.default_rng(0)
    Y, mean, variance = rng.normal(size=(3, 2)), rng.normal(size=(2, 3, 2)), rng.uniform(0.1, 1.0, (2, 3, 2))
    noise = np.array([[0.1, 0.2], [0.3, 0.4]])
    one = [
        log_densities(Y, mean[:1], variance[:1], noise[:1], np.ones(1), convention)
        for convention in ("mixture", "moment_matched", "last_noise")
    ]
    np.testing.assert_allclose(one[0], one[1], rtol=1e-13)
    np.testing.assert_array_equal(one[1], one[2])
    weights = np.array([0.3, 0.7])
    two = [
        log_densities(Y, mean, variance, noise, weights, convention)
        for convention in ("mixture", "moment_matched", "last_noise")
    ]
    assert min(np.abs(two[0] - two[1]).max(), np.abs(two[1] - two[2]).max()) > 1e-3


def test_precision_is_the_share_of_safe_among_marked() -> None:
    marked, safe = np.array([True, True, True, False, False]), np.array([True, False, True, True, False])
    assert safety_precision(marked, safe) == 2 / 3
    assert safety_precision(safe, marked) == 2 / 3
    assert safety_precision(safe, safe) == 1.0
    assert math.isnan(safety_precision(np.zeros(5, dtype=bool), safe))


def test_safe_queries_are_counted_in_percent() -> None:
    assert safe_query_percent(np.array([True, True, False, True])) == 75.0
    assert math.isnan(safe_query_percent(np.zeros(0, dtype=bool)))


@pytest.mark.reference
@pytest.mark.parametrize("case", cases("moment_matching"))
def test_matched_moments_equal_the_references(case: dict[str, Any]) -> None:
    inputs, expected = case["inputs"], case["expected"]
    samples = inputs["samples"]
    n_outputs, n_latent = (len(samples[0][name]) for name in ("noise", "variance"))
    model = LinearCoregionalization(n_outputs, n_latent, mixing="free" if "W" in samples[0] else "identity")
    named = [np.array([s[name] for s in samples]) for name in ("variance", "lengthscale", "noise")]
    u = model.unconstrain(Parameters(*named, np.array([s.get("W", np.eye(n_outputs)) for s in samples])))  # type: ignore[call-arg]
    data = Observations.from_table(np.array(inputs["X"]), table(inputs["Y"]))
    found = PoolPredictions(model, u, data, np.array(inputs["Xs"]), covariances=True)
    weights = np.full(len(u), 1.0 / len(u))
    mean, variance = mixture_moments(found.mean, found.variance, weights)
    assert found.covariance is not None
    same_mean, covariance = mixture_covariance(found.mean, found.covariance, weights)
    np.testing.assert_allclose(mean, expected["mean"], **TOLERANCE)
    np.testing.assert_array_equal(same_mean, mean)
    np.testing.assert_allclose(variance, expected["var"], **TOLERANCE)
    np.testing.assert_allclose(covariance, expected["cov"], **TOLERANCE)
    np.testing.assert_allclose(entropy(variance), expected["entropy_partial"], **TOLERANCE)
    np.testing.assert_allclose(joint_entropy(covariance), expected["entropy_full"], **TOLERANCE)
    predicted = found.mean, found.variance, model.noise(u), weights
    for convention, name in {
        "mixture": "log_density_exact_mixture",
        "moment_matched": "log_density_moment_matched",
        "last_noise": "log_density_reference_quirk",
    }.items():
        densities = log_densities(np.array(inputs["y_new"]), *predicted, convention)  # type: ignore[arg-type]
        np.testing.assert_allclose(densities, expected[name], **TOLERANCE)
