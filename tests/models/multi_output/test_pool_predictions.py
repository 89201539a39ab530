"""Cached predictions agree with plain formulas, with themselves along every route, and with independent numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from gpsuite.methods.active_learning.acquisition import entropy, joint_entropy
from gpsuite.models.multi_output import pool_predictions
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization, Parameters
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.multi_output.pool_predictions import PoolPredictions, SparseMultiOutput
from tests.arrays import Array
from tests.models.active_reference import TOLERANCE, cases, table
from tests.models.prediction_problems import Problem, plain_posterior, problem


def scale_of(drawn: Problem) -> float:
    """Largest prior variance: rounding errors are in proportion to it."""
    return float(np.max(np.einsum("spp->sp", drawn.model.prior_covariance(drawn.u))))


def assert_same(found: PoolPredictions, expected: PoolPredictions, tolerance: float) -> None:
    np.testing.assert_allclose(found.mean, expected.mean, rtol=0.0, atol=tolerance)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=0.0, atol=tolerance)
    if expected.covariance is not None:
        np.testing.assert_allclose(found.covariance, expected.covariance, rtol=0.0, atol=tolerance)  # type: ignore[arg-type]


@pytest.mark.parametrize("n_outputs", [1, 2, 3])
@pytest.mark.parametrize("block", [1, 40, 100_000])
def test_predictions_are_those_of_the_plain_formula(
    n_outputs: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_predictions, "BLOCK", block)  # one input at a time, a few, everything at once
    monkeypatch.setattr(pool_predictions, "GROUP", 3 * block)
    drawn = problem(3, n_outputs)
    found = PoolPredictions(drawn.model, drawn.u, drawn.first(8), drawn.X_pool, covariances=True)
    for s in range(len(drawn.u)):
        for i, x in enumerate(drawn.X_pool):
            X, p = np.tile(x, (n_outputs, 1)), np.arange(n_outputs)
            mean, covariance = plain_posterior(drawn, drawn.first(8), s, X, p)
            np.testing.assert_allclose(found.mean[s, i], mean, rtol=1e-9, atol=1e-10)
            np.testing.assert_allclose(found.covariance[s, i], covariance, rtol=1e-9, atol=1e-10)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    n_outputs=st.integers(1, 3),
    covariances=st.booleans(),
    steps=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    block=st.sampled_from([1, 60, 100_000]),
)
def test_extending_gives_what_recomputing_gives(
    seed: int, n_outputs: int, covariances: bool, steps: list[int], block: int
) -> None:
    drawn = problem(seed, n_outputs, values=4 + sum(steps))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pool_predictions, "BLOCK", block)
        N, full = 4, 4 + sum(steps)
        found = PoolPredictions(
            drawn.model, drawn.u, drawn.first(N), drawn.X_pool, capacity=full, covariances=covariances
        )
        for step in steps:
            new = drawn.slice(N, N + step)
            found.extend(new.X, new.p, new.y)
            N += step
        expected = PoolPredictions(drawn.model, drawn.u, drawn.first(N), drawn.X_pool, covariances=covariances)
    # A new value close to an old one leaves a variance near the noise's: errors grow by the condition number.
    smallest = min(float(drawn.model.noise(drawn.u).min()), 1.0)
    assert_same(found, expected, 1e-13 * max(scale_of(drawn), 1.0) / smallest)
    np.testing.assert_array_equal(found.observations.y, drawn.first(N).y)


def test_a_query_at_a_pool_input_is_exact_to_rounding() -> None:
    rng = np.random.default_rng(0)
    model = LinearCoregionalization(2)
    u = model.unconstrain(
        Parameters(
            rng.uniform(0.5, 1.5, (4, 2)),
            rng.uniform(0.5, 1.5, (4, 2)),
            np.full((4, 2), 0.16),
            rng.normal(size=(4, 2, 2)),
        )
    )
    X_pool = np.linspace(-2.0, 2.0, 50)[:, None]
    rows, p, y = rng.permutation(50)[:30], rng.integers(0, 2, 30), rng.normal(size=30)
    data = Observations(X_pool[rows], p, y)
    found = PoolPredictions(model, u, Observations(data.X[:10], p[:10], y[:10]), X_pool, capacity=30)
    for i in range(10, 30):
        found.extend(data.X[i : i + 1], p[i : i + 1], y[i : i + 1])
    assert_same(found, PoolPredictions(model, u, data, X_pool), 1e-13)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_extending_returns_the_joint_log_density_predicted_before(n_outputs: int) -> None:
    drawn = problem(5, n_outputs)
    new = drawn.slice(8, 11)
    found = PoolPredictions(drawn.model, drawn.u, drawn.first(8), drawn.X_pool, capacity=11)
    log_predictive = found.extend(new.X, new.p, new.y)
    longer, shorter = drawn.model.likelihood(drawn.first(11)), drawn.model.likelihood(drawn.first(8))
    np.testing.assert_allclose(log_predictive, longer.value(drawn.u) - shorter.value(drawn.u), rtol=1e-9)
    for s in range(len(drawn.u)):
        mean, covariance = plain_posterior(drawn, drawn.first(8), s, new.X, new.p)
        noise = np.diag(drawn.model.noise(drawn.u)[s, new.p])
        expected = multivariate_normal(mean, covariance + noise).logpdf(new.y)
        assert log_predictive[s] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("covariances", [False, True])
def test_selected_particles_are_predicted_and_extended_like_their_originals(covariances: bool) -> None:
    drawn = problem(7, values=10)
    particles = np.array([3, 0, 0, 4, 3])
    new = drawn.slice(8, 10)
    found = PoolPredictions(drawn.model, drawn.u, drawn.first(8), drawn.X_pool, capacity=10, covariances=covariances)
    found.select(particles)
    found.extend(new.X, new.p, new.y)
    expected = PoolPredictions(drawn.model, drawn.u[particles], drawn.data, drawn.X_pool, covariances=covariances)
    assert_same(found, expected, 1e-11)
    np.testing.assert_array_equal(found.u, drawn.u[particles])


def test_recomputing_writes_into_the_same_memory_and_forgets_everything_else() -> None:
    drawn, other = problem(1), problem(2)
    found = PoolPredictions(drawn.model, drawn.u, drawn.first(8), drawn.X_pool, capacity=12)
    new = drawn.slice(8, 9)
    found.extend(new.X, new.p, new.y)
    buffers = [id(found.mean), id(found.variance), id(found._V), id(found._lower)]
    found.recompute(other.u, other.first(6))
    assert buffers == [id(found.mean), id(found.variance), id(found._V), id(found._lower)]
    fresh = PoolPredictions(other.model, other.u, other.first(6), drawn.X_pool, capacity=12)
    assert_same(found, fresh, 0.0)
    for predictions in (found, fresh):
        new = other.slice(6, 8)
        predictions.extend(new.X, new.p, new.y)
    assert_same(found, fresh, 0.0)


def test_variances_are_the_diagonals_of_the_covariances() -> None:
    drawn = problem(4, 3)
    full = PoolPredictions(drawn.model, drawn.u, drawn.first(8), drawn.X_pool, capacity=12, covariances=True)
    plain = PoolPredictions(drawn.model, drawn.u, drawn.first(8), drawn.X_pool, capacity=12)
    new = drawn.slice(8, 11)
    for predictions in (full, plain):
        predictions.extend(new.X, new.p, new.y)
    assert full.covariance is not None
    np.testing.assert_array_equal(full.variance, np.einsum("snpp->snp", full.covariance))
    np.testing.assert_allclose(full.variance, plain.variance, rtol=1e-12, atol=1e-12)
    assert np.linalg.eigvalsh(full.covariance).min() > 0.0


def test_single_precision_storage_costs_what_is_documented() -> None:
    drawn = problem(6, values=40, pool=30)
    single, double = (
        PoolPredictions(drawn.model, drawn.u, drawn.first(20), drawn.X_pool, capacity=40, dtype=dtype)
        for dtype in (np.float32, np.float64)
    )
    for predictions in (single, double):
        for i in range(20, 40):
            new = drawn.slice(i, i + 1)
            predictions.extend(new.X, new.p, new.y)
    prior = np.einsum("spp->sp", drawn.model.prior_covariance(drawn.u))[:, None]
    assert single._V.nbytes * 2 == double._V.nbytes
    error = np.abs(single.variance - double.variance) / prior
    assert 0.0 < error.max() < 5e-6
    assert np.max(np.abs(single.mean - double.mean) / np.sqrt(prior)) < 2e-5


def test_an_observation_never_raises_a_variance() -> None:
    drawn = problem(8)
    found = PoolPredictions(drawn.model, drawn.u, drawn.first(6), drawn.X_pool, capacity=12)
    for i in range(6, 12):
        before, new = found.variance.copy(), drawn.slice(i, i + 1)
        found.extend(new.X, new.p, new.y)
        assert (found.variance <= before).all()
        assert (found.variance < before).any()


def test_independent_outputs_do_not_learn_from_each_other() -> None:
    rng = np.random.default_rng(0)
    model = LinearCoregionalization(2, mixing="identity")
    X, u = rng.uniform(-1.0, 1.0, (6, 1)), model.draw_prior(rng, 3)
    first = Observations(X, np.arange(6) % 2, rng.normal(size=6))
    found = PoolPredictions(model, u, first, np.linspace(-1.0, 1.0, 5)[:, None], capacity=7)
    mean, variance = found.mean.copy(), found.variance.copy()
    found.extend(np.zeros((1, 1)), np.array([1]), np.ones(1))
    np.testing.assert_array_equal(found.mean[..., 0], mean[..., 0])
    np.testing.assert_array_equal(found.variance[..., 0], variance[..., 0])
    assert (found.variance[..., 1] <= variance[..., 1]).all()
    assert (found.variance[:, 2, 1] < variance[:, 2, 1]).all()  # at the new value's input


def test_what_does_not_fit_is_refused() -> None:
    drawn = problem(0)
    new = drawn.slice(8, 9)
    with pytest.raises(ValueError, match="8 observations exceed the capacity 7"):
        PoolPredictions(drawn.model, drawn.u, drawn.first(8), drawn.X_pool, capacity=7)
    full = PoolPredictions(drawn.model, drawn.u, drawn.first(8), drawn.X_pool, capacity=8)
    with pytest.raises(ValueError, match="9 observations exceed the capacity 8"):
        full.extend(new.X, new.p, new.y)
    with pytest.raises(ValueError, match="4 hyperparameter vectors for buffers of 5"):
        full.recompute(drawn.u[:4], drawn.first(8))
    with pytest.raises(ValueError, match="at least one observation"):
        full.recompute(drawn.u, drawn.first(0))
    unextendable = PoolPredictions(drawn.model, drawn.u, drawn.first(8), drawn.X_pool)
    with pytest.raises(ValueError, match="without a capacity"):
        unextendable.extend(new.X, new.p, new.y)
    assert unextendable._V.size == 0
    assert unextendable.covariance is None


def test_an_extension_by_nothing_changes_nothing() -> None:
    drawn = problem(6, 2)
    found, before = (
        PoolPredictions(drawn.model, drawn.u, drawn.first(5), drawn.X_pool, covariances=True, capacity=8)
        for _ in range(2)
    )
    data = drawn.first(6)
    density = found.extend(data.X[:0], data.p[:0], data.y[:0])
    assert density.shape == (len(drawn.u),)
    assert (density == 0.0).all()
    assert_same(found, before, 0.0)
    for each in (found, before):
        each.extend(data.X[5:], data.p[5:], data.y[5:])
    assert_same(found, before, 0.0)


def test_an_extension_that_fails_changes_nothing() -> None:
    model = LinearCoregionalization(1, mixing="identity")
    # The noise of 1e-6 vanishes beside a variance of 2^46: two values at one input have a singular covariance.
    u = np.array([[2.0**46, -3.0, -50.0]])
    first = Observations(np.array([[-5.0]]), np.array([0]), np.array([1e6]))
    found = PoolPredictions(model, u, first, np.array([[-5.0], [0.0], [5.0]]), capacity=3)
    mean, variance = found.mean.copy(), found.variance.copy()
    with pytest.raises(np.linalg.LinAlgError):
        found.extend(np.full((2, 1), 5.0), np.array([0, 0]), np.zeros(2))
    with pytest.raises(ValueError, match="finite"):
        found.extend(np.full((1, 1), 5.0), np.array([0]), np.array([np.nan]))
    assert found.observations is first
    np.testing.assert_array_equal(found.mean, mean)
    np.testing.assert_array_equal(found.variance, variance)
    found.extend(np.full((1, 1), 5.0), np.array([0]), np.array([3.0]))
    assert found.mean[0, 2, 0] == pytest.approx(3.0, rel=1e-12)


def test_a_jitter_is_reported_and_goes_with_its_particle() -> None:
    model = LinearCoregionalization(1, mixing="identity")
    u = np.array([[1.0, 1.0, 1.0], [2.0**46, -3.0, -50.0]])
    twice = Observations(np.full((2, 1), 5.0), np.array([0, 0]), np.zeros(2))
    found = PoolPredictions(model, u, twice, np.array([[0.0]]))
    assert found.jitter[0] == 0.0 < found.jitter[1]
    found.select(np.array([1, 0]))
    assert found.jitter[1] == 0.0 < found.jitter[0]


@pytest.mark.reference
@pytest.mark.parametrize("case", cases("prediction_fixed_hyper"))
def test_predictions_of_fixed_hyperparameters_equal_the_references(case: dict[str, Any]) -> None:
    inputs, expected = case["inputs"], case["expected"]
    model = LinearCoregionalization(len(inputs["noise"]), len(inputs["variance"]))
    named = (np.array([inputs[name]]) for name in ("variance", "lengthscale", "noise", "W"))
    u = model.unconstrain(Parameters(*named))
    data = Observations.from_table(np.array(inputs["X"]), table(inputs["Y"]))
    Xs = np.array(inputs["Xs"])
    whole = PoolPredictions(model, u, data, Xs, covariances=True)
    half = max(1, len(data) // 2)
    grown = PoolPredictions(
        model, u, Observations(data.X[:half], data.p[:half], data.y[:half]), Xs, capacity=len(data), covariances=True
    )
    grown.extend(data.X[half:], data.p[half:], data.y[half:])
    for found in (whole, grown):
        assert found.covariance is not None
        np.testing.assert_allclose(found.mean[0], expected["mean"], **TOLERANCE)
        np.testing.assert_allclose(found.variance[0], expected["var"], **TOLERANCE)
        np.testing.assert_allclose(found.covariance[0], expected["cov"], **TOLERANCE)
        np.testing.assert_allclose(entropy(found.variance[0]), expected["entropy_partial"], **TOLERANCE)
        np.testing.assert_allclose(joint_entropy(found.covariance[0]), expected["entropy_full"], **TOLERANCE)


def sparse_problem(size: int) -> tuple[LinearCoregionalization, Array, Observations, Array]:
    rng = np.random.default_rng(size)
    X = rng.uniform(-2.0, 2.0, (size, 2))
    seen = Observations(X, rng.integers(0, 3, size), np.sin(X.sum(axis=1)) + 0.2 * rng.normal(size=size))
    model = LinearCoregionalization(3)
    return model, model.draw_prior(rng, 1)[0], seen, rng.uniform(-2.0, 2.0, (9, 2))


def test_with_every_observation_as_inducing_pair_the_mean_is_the_exact_one() -> None:
    model, u, seen, X = sparse_problem(25)
    exact = PoolPredictions(model, u[None], seen, X).mean[0]
    sparse = SparseMultiOutput(model, u, seen, seen.X, seen.p)
    np.testing.assert_allclose(sparse.mean(X), exact, atol=1e-6)


def test_the_mean_solves_titsias_equation() -> None:
    model, u, seen, X = sparse_problem(40)
    Z, p = seen.X[:10] + 0.1, seen.p[:10]
    Kuu, Kuf = (model.covariance(u[None], Z, p, other, q)[0] for other, q in ((Z, p), (seen.X, seen.p)))
    noise = model.noise(u[None])[0][seen.p]
    weights = np.linalg.solve(Kuu + (Kuf / noise) @ Kuf.T, (Kuf / noise) @ seen.y)
    expected = np.stack([model.covariance(u[None], X, np.full(9, q), Z, p)[0] @ weights for q in range(3)], axis=1)
    np.testing.assert_allclose(SparseMultiOutput(model, u, seen, Z, p).mean(X), expected, rtol=1e-6)


def test_blocks_of_observations_and_inputs_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, u, seen, X = sparse_problem(30)
    whole = SparseMultiOutput(model, u, seen, seen.X[:8], seen.p[:8]).mean(X)
    monkeypatch.setattr("gpsuite.models.multi_output.pool_predictions.BLOCK", 4)
    np.testing.assert_allclose(SparseMultiOutput(model, u, seen, seen.X[:8], seen.p[:8]).mean(X), whole, rtol=1e-9)
