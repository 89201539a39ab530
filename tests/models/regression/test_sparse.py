from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import cluster

from gpsuite.models.config import ModelSpec
from gpsuite.models.regression.gpflow_models import build_fitc, build_gpr, build_sgpr, predict
from gpsuite.models.regression.inducing import kmeans_inducing, limited_inducing
from tests.arrays import Array
from tests.models.regression_problems import START

Problem = tuple[Array, Array]
# GPflow adds 1e-6 to the diagonal of K_ZZ: the sparse models with Z = X differ from the exact one in that order.
INDUCING_JITTER_EFFECT = 1e-3


@pytest.mark.parametrize("build", [build_sgpr, build_fitc])
def test_all_data_as_inducing_inputs_give_the_exact_model(problem: Problem, build) -> None:
    X, Y = problem
    Xnew = np.random.default_rng(1).uniform(-2, 2, size=(7, 2))
    exact, sparse = build_gpr(X, Y, ModelSpec(), START), build(X, Y, X, ModelSpec(), START)
    np.testing.assert_allclose(
        sparse.maximum_log_likelihood_objective(),
        exact.log_marginal_likelihood(),
        atol=INDUCING_JITTER_EFFECT,
    )
    for ours, theirs in zip(predict(sparse, Xnew), predict(exact, Xnew), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=INDUCING_JITTER_EFFECT)


def test_sgpr_bounds_the_likelihood_from_below(problem: Problem) -> None:
    X, Y = problem
    exact = build_gpr(X, Y, ModelSpec(), START).log_marginal_likelihood()
    bounds = [build_sgpr(X, Y, X[:count], ModelSpec(), START).elbo() for count in (2, 8, 20)]
    assert bounds[0] < bounds[1] < bounds[2] < exact


@pytest.mark.parametrize("Z", [np.ones((3, 1)), np.ones(2), np.ones((0, 2)), np.full((1, 2), np.nan)])
def test_unusable_inducing_inputs(problem: Problem, Z: Array) -> None:
    with pytest.raises(ValueError, match=r"inducing inputs \[M, 2\]"):
        build_sgpr(*problem, Z, ModelSpec(), START)


def test_kmeans_finds_separated_clusters() -> None:
    corners = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    rng = np.random.default_rng(0)
    X = np.repeat(corners, 20, axis=0) + 0.01 * rng.normal(size=(60, 2))
    Z = kmeans_inducing(X, 3, np.random.default_rng(1))
    for corner in corners:
        assert np.min(np.linalg.norm(Z - corner, axis=1)) < 0.05


def test_kmeans_depends_on_the_generator_only(problem: Problem) -> None:
    X, _ = problem
    first, again, other = (kmeans_inducing(X, 5, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("M", [0, 4])
def test_kmeans_needs_enough_different_rows(M: int) -> None:
    X = np.array([[0.0], [1.0], [1.0], [2.0]])
    with pytest.raises(ValueError, match="3 different rows"):
        kmeans_inducing(X, M, np.random.default_rng(0))


def test_one_inducing_input_is_the_mean_and_all_rows_may_be_taken() -> None:
    X = np.array([[0.0, 1.0], [2.0, 5.0], [4.0, 0.0]])
    np.testing.assert_allclose(kmeans_inducing(X, 1, np.random.default_rng(0)), [[2.0, 2.0]])
    every = kmeans_inducing(X, 3, np.random.default_rng(0))
    np.testing.assert_allclose(every[np.argsort(every[:, 0])], X)


def test_limited_kmeans_makes_the_iterations_that_fit() -> None:
    """An iteration takes 1e-10 s per row, centre and input (four more count), the first centres as long as thirty."""
    X = np.random.default_rng(0).uniform(size=(400, 2))
    iteration = 1e-10 * 400 * 20 * 6
    found = {
        share: limited_inducing(X, 20, np.random.default_rng(1), share * iteration)
        for share in (30.9, 31.1, 32.1, 1e4)
    }
    rows, cut = found[30.9]
    assert cut and len(np.unique(rows, axis=0)) == 20
    assert all((row == X).all(axis=1).any() for row in rows), "no time for a centre: rows of X"
    for share in (31.1, 32.1):
        assert found[share][1]
        assert not any((row == X).all(axis=1).any() for row in found[share][0])
    assert not np.array_equal(found[31.1][0], found[32.1][0])
    whole = kmeans_inducing(X, 20, np.random.default_rng(1))
    assert not found[1e4][1]
    np.testing.assert_array_equal(found[1e4][0], whole)
    assert not limited_inducing(X, 20, np.random.default_rng(1), None)[1]


def test_kmeans_starts_anew_for_every_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    started: set[int] = set()

    class Started(cluster.KMeans):
        def __init__(self, *, random_state: int, **given: Any) -> None:
            started.add(random_state)
            super().__init__(random_state=random_state, **given)

    monkeypatch.setattr(cluster, "KMeans", Started)
    for seed in range(40):
        kmeans_inducing(np.arange(4.0)[:, None], 2, np.random.default_rng(seed))
    assert len(started) == 40
