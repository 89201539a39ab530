"""Probabilities of being safe, against draws and each other; what is never safe; the safe queries of safe_al.json."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from gpsuite.arrays import FloatArray
from gpsuite.methods.active_learning.acquisition import choose, entropy, joint_entropy
from gpsuite.methods.active_learning.problem import (
    SafetyLimit,
    mixture_probability,
    moment_matched_probability,
    safe_set,
)
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization, Parameters
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.multi_output.pool_predictions import PoolPredictions
from gpsuite.models.sampling.posterior import mixture_covariance, mixture_moments
from tests.models.active_reference import TOLERANCE, cases, table

numbers = st.floats(-5.0, 5.0)


@given(numbers, st.floats(0.01, 10.0), numbers)
def test_the_sides_share_the_whole_probability(mean: float, variance: float, value: float) -> None:
    m, v = np.array(mean), np.array(variance)
    above = SafetyLimit(value, "above").probability(m, v)
    assert above == pytest.approx(norm.sf(value, mean, np.sqrt(variance)), abs=1e-14)
    assert above + SafetyLimit(value, "below").probability(m, v) == pytest.approx(1.0, abs=1e-15)


@given(st.integers(0, 1000))
def test_a_change_of_sign_exchanges_the_sides(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mean, variance, weights = (rng.normal(size=(3, 5)), rng.uniform(0.1, 2.0, (3, 5)), rng.dirichlet(np.ones(3)))
    for probability in (moment_matched_probability, mixture_probability):
        above = probability(SafetyLimit(0.4, "above"), mean, variance, weights)
        below = probability(SafetyLimit(-0.4, "below"), -mean, variance, weights)
        np.testing.assert_allclose(above, below, rtol=1e-14)


def test_the_mixture_is_what_draws_show_and_moment_matching_is_not() -> None:
    rng = np.random.default_rng(0)
    mean, variance, weights = np.array([[0.0], [3.0]]), np.array([[0.01], [0.01]]), np.array([0.1, 0.9])
    limit = SafetyLimit(1.0, "above")
    drawn = rng.normal(mean[:, 0], np.sqrt(variance[:, 0]), (20_000, 2))
    h = np.where(rng.random(20_000) < weights[0], drawn[:, 0], drawn[:, 1])
    assert mixture_probability(limit, mean, variance, weights)[0] == pytest.approx(
        limit.holds(h).mean(), abs=4 * np.sqrt(0.09 / 20_000)
    )
    matched = moment_matched_probability(limit, mean, variance, weights)[0]
    assert matched == pytest.approx(norm.sf(1.0, h.mean(), h.std()), abs=0.005)
    assert matched > 0.95 > mixture_probability(limit, mean, variance, weights)[0]  # the rule's known weakness


def test_equal_components_have_one_probability() -> None:
    mean, variance = np.full((4, 2), 0.3), np.full((4, 2), 0.5)
    weights, limit = np.full(4, 0.25), SafetyLimit(0.0, "above")
    expected = limit.probability(mean[0], variance[0])
    np.testing.assert_allclose(mixture_probability(limit, mean, variance, weights), expected, rtol=1e-14)
    np.testing.assert_allclose(moment_matched_probability(limit, mean, variance, weights), expected, rtol=1e-14)


def test_nan_and_no_variance_at_the_limit_are_never_safe() -> None:
    limit = SafetyLimit(1.0, "above")
    mean = np.array([np.nan, 9.0, 1.0, 2.0, 0.0, 2.0])
    variance = np.array([1.0, np.nan, 0.0, 0.0, 0.0, -1e-18])
    probability = limit.probability(mean, variance)
    np.testing.assert_array_equal(probability, [np.nan, np.nan, np.nan, 1.0, 0.0, 1.0])
    for delta in (0.05, 1.0):
        np.testing.assert_array_equal(safe_set(probability, delta), [False, False, False, True, False, True])
    weights = np.array([0.5, 0.5])
    mixed = mean[:2, None], np.ones((2, 1)), weights
    for rule in (moment_matched_probability, mixture_probability):
        assert not safe_set(rule(limit, *mixed), 0.05).any()


def test_safe_means_strictly_more_than_the_level() -> None:
    np.testing.assert_array_equal(safe_set(np.array([0.75, 0.7500001, 0.7]), 0.25), [False, True, False])
    np.testing.assert_array_equal(safe_set(np.array([0.0, 1e-300]), 1.0), [False, True])


def test_the_limit_itself_is_safe_and_nan_is_not() -> None:
    z = [0.9, 1.0, 1.1, np.nan]
    np.testing.assert_array_equal(SafetyLimit(1.0, "above").holds(z), [False, True, True, False])
    np.testing.assert_array_equal(SafetyLimit(1.0, "below").holds(z), [True, True, False, False])
    assert SafetyLimit(1.0, "below").holds(0.5)


def test_limits_and_levels_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        SafetyLimit(float("nan"), "above")
    with pytest.raises(ValueError, match="above, below"):
        SafetyLimit(1.0, "over")
    for delta in (0.0, 1.1, float("nan")):
        with pytest.raises(ValueError, match="delta"):
            safe_set(np.ones(2), delta)


def _predictions(samples: list[dict[str, Any]], data: Observations, X: FloatArray) -> PoolPredictions:
    """Predict under the samples of the hyperparameters, the last values by extension."""
    n_outputs, n_latent = (len(np.atleast_1d(samples[0][name])) for name in ("noise", "variance"))
    model = LinearCoregionalization(n_outputs, n_latent, mixing="free" if "W" in samples[0] else "identity")
    named = [
        np.array([s[name] for s in samples]).reshape(len(samples), -1) for name in ("variance", "lengthscale", "noise")
    ]
    W = np.array([s.get("W", np.eye(n_outputs)) for s in samples])
    u, last = model.unconstrain(Parameters(*named, W)), max(1, len(data) - 3)  # type: ignore[call-arg]
    first = Observations(data.X[:last], data.p[:last], data.y[:last])
    found = PoolPredictions(model, u, first, X, capacity=len(data), covariances=True)
    for i in range(last, len(data)):
        found.extend(data.X[i : i + 1], data.p[i : i + 1], data.y[i : i + 1])
    return found


def _query(*numbers: int | None) -> tuple[int | None, ...] | None:
    """Return what `choose` does: None where nothing may be asked."""
    return None if numbers[0] is None else numbers


@pytest.mark.reference
@pytest.mark.parametrize("case", cases("safe_query_partial", "safe_query_full"))
def test_a_safe_query_is_that_of_the_reference(case: dict[str, Any]) -> None:
    inputs, expected = case["inputs"], case["expected"]
    pool, X = np.array(inputs["pool"]), np.array(inputs["X"])
    partial = case["kind"] == "safe_query_partial"
    data = Observations.from_table(X, table(inputs["Y"]))
    main = _predictions(inputs["samples"], data, pool)
    safety_data = Observations(X, np.zeros(len(X), dtype=np.int64), np.array(inputs["Z"]))
    safety = _predictions(inputs["safety_samples"], safety_data, pool)
    weights = np.full(len(main.u), 1.0 / len(main.u))
    even = np.full(len(safety.u), 1.0 / len(safety.u))

    limit = SafetyLimit(inputs["z_bar"], inputs["mode"])
    h = safety.mean[..., 0], safety.variance[..., 0], even
    centre, spread = mixture_moments(*h)
    probability = moment_matched_probability(limit, *h)
    np.testing.assert_allclose(centre, expected["safety_mean"], **TOLERANCE)
    np.testing.assert_allclose(spread, expected["safety_var"], **TOLERANCE)
    np.testing.assert_allclose(probability, expected["safety_prob"], **TOLERANCE)
    exact = mixture_probability(limit, *h)
    np.testing.assert_allclose(exact, expected["safety_prob_exact_mixture"], **TOLERANCE)
    # a threshold of 1 is no delta in (0, 1], which `safe_set` needs
    threshold = inputs["prob_threshold"]
    safe = safe_set(probability, 1.0 - threshold) if threshold < 1.0 else probability >= 1.0
    assert np.flatnonzero(safe).tolist() == expected["safe_index"]

    available = np.array(inputs["available"])
    assert main.covariance is not None
    if partial:
        score = entropy(mixture_moments(main.mean, main.variance, weights)[1])
        chosen, nosafe = choose(score, available & safe[:, None]), choose(score, available)
        assert chosen == _query(expected["query_index"], expected["query_output"])
        assert nosafe == _query(*(expected["query_nosafe"] or (None,)))
    else:
        score = joint_entropy(mixture_covariance(main.mean, main.covariance, weights)[1])
        whole = available.all(axis=1)
        assert choose(score, whole & safe) == _query(expected["query_index"])
        assert choose(score, whole) == _query(expected["query_index_nosafe"])
    np.testing.assert_allclose(score, expected["entropy"], **TOLERANCE)
