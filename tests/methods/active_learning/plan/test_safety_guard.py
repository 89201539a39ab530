"""The guard: what it bounds, by other code; what does not matter to it; and how far a flat safety value reaches."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import special_ortho_group

from gpsuite.arrays import FloatArray
from gpsuite.methods.active_learning.plan.predictions import Belief
from gpsuite.methods.active_learning.plan.safety import SafetyGuard, SafetyPrediction, principal_axes
from gpsuite.methods.active_learning.problem import SafetyLimit
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization, Parameters
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.multi_output.pool_predictions import PoolPredictions
from gpsuite.models.sampling.posterior import mixture_moments
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings

LIMIT = SafetyLimit(0.3, "below")
NO_BOUNDS = SafetyGuard(spread=1e-9, extents=1e9)

OTHER_ROUTE = 1e-8
"""Eigenvalues against Cholesky factors, noise variances of 1e-3 and more."""


def problem(N: int = 12, D: int = 2, S: int = 5, seed: int = 0) -> tuple[Parameters, FloatArray, Observations]:
    """Return hyperparameter vectors, their weights, and safety values around -1."""
    rng = np.random.default_rng(seed)
    parameters = Parameters(
        rng.uniform(0.1, 4.0, (S, 1)), rng.uniform(0.2, 9.0, (S, 1)), rng.uniform(1e-3, 0.1, (S, 1)), np.ones((S, 1, 1))
    )
    X, y = rng.normal(size=(N, D)) * [1.0, 0.05, 0.5, 2.0][:D], rng.normal(-1.0, 0.3, N)
    known = Observations(X, np.zeros(N, int), y)
    weights = rng.dirichlet(np.ones(S))
    return parameters, weights, known


def points(D: int = 2, n: int = 30, seed: int = 1) -> FloatArray:
    return np.random.default_rng(seed).uniform(-4.0, 4.0, (n, D))


def moments(
    guard: SafetyGuard | None, X: FloatArray, *parts: Any, limit: SafetyLimit = LIMIT, kernel: str = "matern52"
) -> tuple[FloatArray, FloatArray]:
    parameters, weights, known = parts or problem(D=X.shape[1])
    return SafetyPrediction(kernel, parameters, weights, known, limit, guard).moments(X)


@pytest.mark.parametrize("kernel", ["matern52", "squared_exponential"])
@pytest.mark.parametrize("guard", [None, NO_BOUNDS])
def test_what_lies_within_the_bounds_is_predicted_as_ever(guard: SafetyGuard | None, kernel: str) -> None:
    parameters, weights, known = problem()
    model = LinearCoregionalization(1, mixing="identity", kernel=kernel)
    found = PoolPredictions(model, model.unconstrain(parameters), known, points())
    expected = mixture_moments(found.mean[..., 0], found.variance[..., 0], weights)
    np.testing.assert_allclose(moments(guard, points(), kernel=kernel), expected, atol=OTHER_ROUTE)


def test_bounds_and_predictions_by_plain_algebra() -> None:
    """One hyperparameter vector after the other, from what the docstrings promise."""
    guard, (parameters, weights, known) = SafetyGuard(), problem(D=3)
    axes = principal_axes(known.X)
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-12)
    turned, X = known.X @ axes, points(3)
    spans = turned.max(axis=0) - turned.min(axis=0)
    spans = np.maximum(spans, 0.2 * spans.max())
    floor = 9.0 * np.mean((known.y - LIMIT.value) ** 2)
    means, variances = [], []
    for s in range(len(weights)):
        variance = max(parameters.variance[s, 0], floor)
        lengths = np.minimum(parameters.lengthscale[s, 0], np.sqrt(12.0) * spans)

        def kernel(A: FloatArray, B: FloatArray, v: float = variance, at: FloatArray = lengths) -> FloatArray:
            a = np.sqrt(5.0) * np.linalg.norm((A[:, None] - B[None]) / at, axis=2)
            return v * (1.0 + a + a**2 / 3.0) * np.exp(-a)

        K = kernel(turned, turned) + parameters.noise[s, 0] * np.eye(len(known))
        cross = kernel(turned, X @ axes)
        means.append(cross.T @ np.linalg.solve(K, known.y))
        variances.append(variance - (cross * np.linalg.solve(K, cross)).sum(axis=0))
    assert floor > parameters.variance.min()
    expected = mixture_moments(np.array(means), np.array(variances), weights)
    np.testing.assert_allclose(moments(guard, X, parameters, weights, known), expected, atol=OTHER_ROUTE)


@pytest.mark.parametrize("levels", [2, 3])
def test_the_order_of_a_factorial_designs_rows_does_not_matter(levels: int) -> None:
    """Its inputs vary equally along many triples of axes: taken are the inputs' own."""
    X = 0.1 * np.array(list(product(range(levels), repeat=3)), dtype=float)
    parameters, weights, _ = problem(D=3)
    y = np.random.default_rng(4).normal(-1.0, 0.3, len(X))
    orders = [np.random.default_rng(seed).permutation(len(X)) for seed in range(10)]
    for order in orders:
        np.testing.assert_allclose(np.abs(principal_axes(X[order])).max(axis=0), 1.0, atol=1e-12)
    expected, *found = [
        moments(
            SafetyGuard(), points(3) * 0.1, parameters, weights, Observations(X[order], np.zeros(len(X), int), y[order])
        )
        for order in orders
    ]
    for each in found:
        np.testing.assert_allclose(each, expected, atol=OTHER_ROUTE)


def test_axes_of_equal_variation_are_chosen_only_where_there_are_such() -> None:
    """By singular values alone: those of a skew plane are orthonormal, in it, and the same in any order."""
    skew = np.linalg.qr(np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]).T)[0]
    X = np.array(list(product([0.0, 1.0], repeat=3))) * [3.0, 1.0, 1.0] @ skew.T
    expected = principal_axes(X)
    np.testing.assert_allclose(expected.T @ expected, np.eye(3), atol=1e-12)
    variances = np.var(X @ expected, axis=0)
    np.testing.assert_allclose(variances, [2.25, 0.25, 0.25], rtol=1e-12)
    assert abs(expected[:, 0] @ skew[:, 0]) == pytest.approx(1.0)
    for seed in range(10):
        found = principal_axes(X[np.random.default_rng(seed).permutation(8)])
        np.testing.assert_allclose(np.abs(found.T @ expected), np.eye(3), atol=1e-7)
    Z = np.random.default_rng(0).normal(size=(7, 3))
    np.testing.assert_array_equal(principal_axes(Z), np.linalg.svd(Z - Z.mean(axis=0))[2].T)


def test_a_safe_point_is_safe_by_the_mixture_and_by_its_moments() -> None:
    """A normal distribution with the moments of a mixture can promise more than the mixture holds."""
    parameters, _, known = problem(N=4, S=2, seed=3)
    one, other = 0.2, 1.2  # a vector that sees no further than the data, and one that does
    parameters = replace(
        parameters,
        variance=np.array([[0.05], [0.05]]),
        lengthscale=np.array([[one], [other]]),
        noise=np.full((2, 1), 1e-3),
    )
    model, X = LinearCoregionalization(1, mixing="identity"), points(n=400) * 0.2
    found = PoolPredictions(model, model.unconstrain(parameters), known, X)
    mean, variance = found.mean[..., 0], found.variance[..., 0]
    larger = 0
    for weight in (0.05, 0.2, 0.5):
        weights = np.array([weight, 1.0 - weight])
        own = weights @ ndtr((LIMIT.value - mean) / np.sqrt(variance))
        centre, spread = mixture_moments(mean, variance, weights)
        matched = ndtr((LIMIT.value - centre) / np.sqrt(spread))
        larger += int((matched > own + 1e-3).sum())
        prediction = SafetyPrediction("matern52", parameters, weights, known, LIMIT, None)
        np.testing.assert_allclose(prediction.probability(X), np.minimum(own, matched), atol=OTHER_ROUTE)
    assert larger > 10, "the problem must be one where they differ"


def test_many_candidates_are_predicted_as_few() -> None:
    X = points(n=25_000)
    np.testing.assert_allclose(
        [each[-9:] for each in moments(SafetyGuard(), X)], moments(SafetyGuard(), X[-9:]), atol=1e-12
    )


def test_sides_rotations_and_the_order_of_rows_do_not_matter() -> None:
    parameters, weights, known = problem(D=3)
    X = points(3)
    plain = np.array(moments(SafetyGuard(), X, parameters, weights, known))
    mirrored = Observations(known.X, known.p, -known.y)
    above = np.array(moments(SafetyGuard(), X, parameters, weights, mirrored, limit=SafetyLimit(-0.3, "above")))
    np.testing.assert_allclose(above * [[-1.0], [1.0]], plain, rtol=1e-12)
    turn, order = special_ortho_group.rvs(3, random_state=0), np.random.default_rng(2).permutation(len(known))
    turned = Observations(known.X[order] @ turn + 5.0, known.p, known.y[order])
    np.testing.assert_allclose(
        moments(SafetyGuard(), X @ turn + 5.0, parameters, weights, turned), plain, atol=OTHER_ROUTE
    )


def flat(N: int, D: int, seed: int) -> tuple[Parameters, FloatArray, Observations]:
    """Return the posterior of a safety value that is flat in a cube, in units as a plan chooses them."""
    rng = np.random.default_rng(seed)
    known = Observations(rng.uniform(-0.5, 0.5, (N, D)), np.zeros(N, int), -1.0 + 0.01 * rng.standard_normal(N))
    model = LinearCoregionalization(1, mixing="identity")
    cloud = Belief.cold(model, known, rng, SMCSettings(48, 1, 8)).cloud
    return model.constrain(cloud.u), cloud.posterior.weights, known


@pytest.mark.parametrize(("N", "D"), [(10, 1), (40, 2), (20, 4)])
def test_a_flat_value_reaches_less_than_two_ranges(N: int, D: int) -> None:
    parts, far = flat(N, D, N), np.linspace(0.0, 5.0, 101)
    limit = SafetyLimit(-0.33, "below")  # the prior's mean is half as far beyond
    line = np.zeros((101, D))
    line[:, 0] = 0.5 + far
    reached = []
    for guard in (SafetyGuard(), None):
        safe = limit.probability(*moments(guard, line, *parts, limit=limit)) > 0.95
        reached.append(far[safe].max())
    assert 0.1 < reached[0] < 2.0
    assert reached[0] < 0.75 * reached[1]


def test_where_an_input_never_varied_it_reaches_less_than_one_range() -> None:
    parameters, weights, known = flat(20, 1, 3)
    plane = Observations(np.column_stack([known.X, np.zeros(20)]), known.p, known.y)
    limit, far = SafetyLimit(-0.33, "below"), np.linspace(0.0, 3.0, 61)
    line = np.column_stack([np.zeros(61), far])
    safe = limit.probability(*moments(SafetyGuard(), line, parameters, weights, plane, limit=limit)) > 0.95
    assert far[safe].max() < 1.0


def test_odd_designs_are_finite() -> None:
    rng = np.random.default_rng(4)
    for N, D in ((2, 1), (3, 5), (48, 13)):
        X = np.repeat(rng.normal(size=(N, D)), 2, axis=0)
        X[:, -1] = X[0, -1]
        known = Observations(X, np.zeros(2 * N, int), rng.normal(-1.0, 0.1, 2 * N))
        parameters, weights, _ = problem()
        found = moments(SafetyGuard(), rng.normal(size=(9, D)), parameters, weights, known)
        assert np.isfinite(found).all()


def test_measured_at_one_input_nothing_else_is_known() -> None:
    parameters, weights, _ = problem()
    known = Observations(np.ones((6, 2)), np.zeros(6, int), np.full(6, -2.0))
    mean, variance = moments(SafetyGuard(), np.array([[1.0, 1.0], [1.001, 1.0]]), parameters, weights, known)
    assert mean[0] == pytest.approx(-2.0, abs=0.05)
    assert mean[1] == pytest.approx(0.0, abs=1e-12), "the prior's"
    assert LIMIT.probability(mean, variance)[0] > 0.95 > LIMIT.probability(mean, variance)[1]


def test_distance_outside_is_counted_in_measured_ranges() -> None:
    X = np.array([[0.0, 10.0], [4.0, 10.0], [2.0, 10.0]])
    candidates = np.array([[1.0, 10.0], [6.0, 10.0], [-1.0, 10.4], [4.0, 10.8]])
    # the second input never varied: a fifth of the first's range, .8
    expected = [0.0, 0.5, np.hypot(0.25, 0.5), 1.0]
    np.testing.assert_allclose(SafetyGuard().outside(X, candidates), expected)


@pytest.mark.parametrize("side", ["above", "below"])
def test_hardly_varied_is_a_small_span_next_to_what_is_left(side: str) -> None:
    sign, guard = (1.0 if side == "above" else -1.0), SafetyGuard(varied=0.25)
    limit = SafetyLimit(2.0, side)

    def hardly(nearest: float, span: float, sd: float = 0.0) -> bool:
        margins = np.array([nearest, nearest + 0.5 * span, nearest + span])
        return guard.hardly_varied(2.0 + sign * margins, np.full(3, sd**2), limit)

    assert hardly(4.0, 0.9)
    assert not hardly(4.0, 1.1)
    assert hardly(4.0, 1.1, sd=0.1), "what may be uncertainty does not count"
    assert not hardly(-1.0, 0.5), "the limit has been met"
    guard = SafetyGuard()
    assert hardly(4.0, 0.9) and not hardly(4.0, 1.1), "a quarter unless said otherwise"


def test_impossible_guards_are_refused() -> None:
    for wrong in ({"spread": 0.0}, {"extents": -1.0}, {"thinnest": 1.1}, {"step": -0.1}, {"varied": 0.0}):
        with pytest.raises(ValueError, match="must be positive"):
            SafetyGuard(**wrong)
    with pytest.raises(ValueError, match="at least 0"):
        SafetyGuard(step=float("nan"))
    assert SafetyGuard(step=0.0, thinnest=1.0).step == 0.0
