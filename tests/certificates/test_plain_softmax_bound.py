"""The plain bound of several classes encloses the truth in extended precision; its cubatures keep their errors."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from gpsuite.certificates import plain_softmax
from gpsuite.certificates import plain_softmax_bound as softmax_bound
from gpsuite.certificates.certificate import ClassQuantity
from gpsuite.certificates.model import SOFTMAX, JointProducts, Model
from gpsuite.certificates.plain_softmax import (
    CURVATURE,
    PRODUCTS,
    covariance_root,
    covariance_step,
    expectations,
    independent_expectations,
    independent_variances,
    tilted,
)
from gpsuite.certificates.plain_softmax_bound import ClassExpansions, SoftmaxPlainBound
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.composite import single_kernel
from tests.arrays import Array
from tests.methods.robustness.multiclass.softmax_study import Claimed, drawn_region, outside, settled_probabilities
from tests.models.softmax_oracle import Long, direct_probabilities, utility_probabilities
from tests.models.softmax_problems import random_softmax_posterior, separable_softmax_posterior


def stored(p: MultiClassPosterior) -> Model:
    return Model(p.X, single_kernel(p.kernel, "test"), p.variance, p.lengthscales, p.alpha, p.root, p.weights, SOFTMAX)


def stated_value(quantity: ClassQuantity, p: Any) -> Any:
    """Return the quantity [B] of class probabilities [B, C]."""
    own = p[:, quantity.own]
    return own if quantity.rival is None else (1 + own - p[:, quantity.rival]) / 2


def violations(seed: int, C: int, kernel: str, models: int, regions: int = 3) -> tuple[int, int]:
    """Count bounds over boxes and at points that the truth breaks, and all checks."""
    rng, bad, total = np.random.default_rng([seed, C]), 0, 0
    for _ in range(models):
        separable = C > 2
        draw = separable_softmax_posterior if separable else random_softmax_posterior
        posterior = draw(rng, kernel, C, int(rng.integers(1, 9)), int(rng.integers(1, 4)), (-2.0, 0.8))
        products = JointProducts(stored(posterior))
        for _ in range(regions):
            region = drawn_region(rng, posterior)
            own = int(rng.integers(C))
            rival = (own + 1 + int(rng.integers(C - 1))) % C
            expansions = ClassExpansions(stored(posterior), region.centre, region.free, products)
            share = rng.random((4, len(region.free)))
            share[::2] = np.round(share[::2])
            points = region.lower + share * (region.upper - region.lower)
            claims: list[Claimed] = []
            for quantity in (ClassQuantity(own), ClassQuantity(own, rival)):
                bound, none = SoftmaxPlainBound(expansions, quantity), np.zeros(1)
                ends = [bound.bound(region.lower[None], region.upper[None], sign, none)[0] for sign in (-1, 1)]
                value = partial(stated_value, quantity)
                claims += [(value, ends[0], ends[1]), (value, *bound.at(points))]
            p = settled_probabilities(posterior, region.embed(points), claims)[0]
            bad += sum(outside(p, claim) for claim in claims)
            total += len(claims) * len(points)
    return bad, total


@pytest.mark.parametrize(("C", "kernel"), [(2, "matern52"), (3, "squared_exponential"), (5, "matern32")])
def test_no_point_lies_outside(C: int, kernel: str) -> None:
    assert violations(1, C, kernel, models=1) == (0, 48)


@pytest.mark.slow
@pytest.mark.guarantee
@pytest.mark.parametrize("kernel", ["squared_exponential", "matern32", "matern52"])
@pytest.mark.parametrize("C", range(2, 11))
def test_no_point_of_many_lies_outside(C: int, kernel: str) -> None:
    bad, total = violations(2, C, kernel, models=40)
    assert (bad, total) == (0, 40 * 3 * 16)


@pytest.mark.parametrize("rival", [None, 2])
def test_fewer_and_fewer_classes_are_kept_until_something_is_known(
    rival: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    posterior = separable_softmax_posterior(np.random.default_rng(0), "matern52", 5, 3, 2, (-2.0, 0.8))
    expansions = ClassExpansions(stored(posterior), np.zeros(2), np.arange(2), JointProducts(stored(posterior)))
    tried = []

    def nothing(bound: SoftmaxPlainBound, kept: tuple[int, ...], lo: Array, *of: object) -> tuple[Array, Array]:
        tried.append(len(kept))
        return np.full(len(lo), np.nan), np.zeros(lo.shape)

    monkeypatch.setattr(SoftmaxPlainBound, "_among", nothing)
    found, _ = SoftmaxPlainBound(expansions, ClassQuantity(0, rival)).bound(
        np.zeros((1, 2)), np.ones((1, 2)), 1, np.zeros(1)
    )
    assert tried == [4, 3, 2, 5]
    assert found == [1.0]


@pytest.mark.parametrize("fault", ["moved_by_covariance", "tilted"])
def test_a_forgotten_term_is_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    instead = {"moved_by_covariance": lambda p, *of: p, "tilted": lambda p, h: p}
    monkeypatch.setattr(softmax_bound, fault, instead[fault])
    assert any(violations(seed, 3, "squared_exponential", models=3)[0] for seed in range(3, 9))


def steepest_bend() -> tuple[float, float]:
    """Return the bound of p_0 over an interval, and its truth, where the logistic bends most.

    A latent difference of no variance, linear to third order: at -log(2 + sqrt(3)) half of sigma'' is the constant,
    and the largest change of log-odds is exact as well, so that the bound is within its cubic terms of the truth.
    """
    bend, s = -np.log(2 + np.sqrt(3)), 1e-9
    alpha = np.array([[bend / (s * np.exp(-0.5))], [0.0]])
    model = Model(
        np.zeros((1, 1)), "squared_exponential", s, np.ones(1), alpha, np.zeros((0, 2, 1)), np.zeros(0), SOFTMAX
    )
    expansions = ClassExpansions(model, np.ones(1), np.arange(1), JointProducts(model))
    ends = np.array([[0.95]]), np.array([[1.05]])
    found = SoftmaxPlainBound(expansions, ClassQuantity(0)).bound(*ends, 1, np.zeros(1))[0][0]
    return float(found), float(expit(bend * np.exp(0.5 - 0.5 * 1.05**2)))


def test_the_curvature_is_all_that_keeps_the_bound_above_the_steepest_bend(monkeypatch: pytest.MonkeyPatch) -> None:
    bound, truth = steepest_bend()
    assert truth <= bound <= truth + 1e-5
    monkeypatch.setattr(softmax_bound, "CURVATURE", 0.0)
    bound, truth = steepest_bend()
    assert bound < truth - 1e-4


def test_the_constants_are_the_largest_of_their_terms() -> None:
    """Half of p (1 - p) |1 - 2 p|, and p (1 - p)^2 / 2 of two other classes that share what is left."""
    p = np.linspace(0.0, 1.0, 100_001)
    assert np.max(p * (1 - p) * np.abs(1 - 2 * p)) / 2 == pytest.approx(CURVATURE, rel=1e-8)
    assert np.max(p * (1 - p) ** 2) / 2 == pytest.approx(PRODUCTS, rel=1e-8)
    low, high = np.zeros((1, 3, 3)), np.zeros((1, 3, 3))
    low[0, 1, 2] = low[0, 2, 1] = -2.0
    high[0, 0, 1] = high[0, 1, 0] = 3.0
    rise, rate = covariance_step(low, high, 0, 1)
    assert rise[0] == pytest.approx(3 * CURVATURE + 2 * PRODUCTS / 2) and rate[0] == pytest.approx(2.5)
    assert covariance_step(low, high, 0, -1)[0][0] == pytest.approx(3 * CURVATURE)


@pytest.mark.parametrize("K", [2, 3])
def test_the_product_rule_keeps_its_error(K: int) -> None:
    rng = np.random.default_rng(K)
    for scale in (0.0, 0.3, 2.0):
        mean = rng.standard_normal((4, K))
        A = scale * rng.standard_normal((4, K, K))
        S = A @ A.transpose(0, 2, 1)
        d = np.einsum("bcc->bc", S)
        root, D = covariance_root(d[:, :, None] + d[:, None] - 2 * S)
        np.testing.assert_allclose(D, d[:, :, None] + d[:, None] - 2 * S, atol=1e-12)
        found = expectations(mean, root)
        for row in range(4):
            truth = direct_probabilities(mean[row].astype(Long), S[row].astype(Long))
            assert np.max(np.abs(found.mean[row] - truth)) <= found.error[row] < 1e-6
        np.testing.assert_allclose(found.product.sum(axis=2), found.mean, atol=1e-7)


@pytest.mark.parametrize("K", [3, 10])
def test_the_rule_of_independent_values_keeps_its_error(K: int) -> None:
    rng = np.random.default_rng(K)
    for scale in (0.0, 0.5, 3.0):
        mean, variance = 2 * rng.standard_normal((1, K)), (scale * rng.random((1, K))) ** 2
        found = independent_expectations(mean, variance)
        deviation, none = np.sqrt(variance[0]).astype(Long), np.zeros(K, Long)
        truth = utility_probabilities(mean[0].astype(Long), deviation, none)
        assert np.max(np.abs(found.mean[0] - truth)) <= found.error[0] < 1e-3
        # the gradient in the second mean
        step = Long(1e-6) * (np.arange(K) == 1)
        ends = [utility_probabilities(mean[0] + way * step, deviation, none) for way in (1, -1)]
        slope = (ends[0] - ends[1]) / Long(2e-6)
        wanted = -slope
        wanted[1] += truth[1]
        assert np.max(np.abs(found.product[0, 1] - wanted)) <= found.error[0]


def test_variances_of_independent_values_are_found() -> None:
    d = np.array([[0.5, 1.0, 0.0, 2.0]])
    D = d[:, :, None] + d[:, None]
    np.einsum("bcc->bc", D)[...] = 0.0
    np.testing.assert_allclose(independent_variances(D), d, atol=1e-12)


def test_what_takes_too_many_nodes_is_not_known_and_bounds_nothing() -> None:
    root = np.zeros((1, 4, 3))
    root[0, 0] = 1e4
    assert np.isnan(expectations(np.zeros((1, 4)), root).mean).all()
    assert np.isnan(independent_expectations(np.zeros((1, 5)), np.full((1, 5), 1e6)).mean).all()
    wild = Model(
        np.zeros((1, 1)), "matern52", 1e12, np.ones(1), np.array([[1.0], [0.0]]), np.zeros((1, 2, 1)),
        -np.ones(1), SOFTMAX,
    )  # fmt: skip
    expansions = ClassExpansions(wild, np.zeros(1), np.arange(1), JointProducts(wild))
    bound = SoftmaxPlainBound(expansions, ClassQuantity(0))
    low, high = bound.at(np.zeros((1, 1)))
    assert (low[0], high[0]) == (0.0, 1.0)
    assert not np.signbit(bound.claimed(-0.0)).any()  # a minimum is minus the bound of a search upwards


def test_a_sure_class_stays_sure_and_an_impossible_one_impossible_however_far_the_fall() -> None:
    h = np.array([-1e300, -1000.0, 1000.0, 1e300])
    np.testing.assert_array_equal(tilted(np.ones(4), h), 1.0)
    np.testing.assert_array_equal(tilted(np.zeros(4), h), 0.0)


def test_what_is_not_finite_of_a_class_left_out_counts_as_all_of_it() -> None:
    low, spread = np.array([-1.0, -np.inf, np.nan, -1.0, -1.0]), np.array([0.5, 0.5, 0.5, np.nan, np.inf])
    ends = SimpleNamespace(mean=SimpleNamespace(low=low, high=-low), variance=SimpleNamespace(low=spread, high=spread))
    expander = SimpleNamespace(expand_in=lambda around: ends)
    expansions = SimpleNamespace(s=1.0, model=SimpleNamespace(functions=2), expander=lambda i, j: expander)
    bound: Any = SimpleNamespace(expansions=expansions)
    around: Any = SimpleNamespace(r=np.zeros(5))
    for kept, own in (((0,), 0), ((1,), 1)):
        lost = SoftmaxPlainBound._loss(bound, kept, own, around)
        assert 0.6 < lost[0] < 0.75
        np.testing.assert_array_equal(lost[1:], 1.0)


@pytest.mark.parametrize("apart", [500.0, 800.0, 3000.0])
def test_a_class_far_ahead_is_sure(apart: float) -> None:
    found = independent_expectations(np.array([[0.0, apart, 1.0]]), np.full((1, 3), 0.5))
    np.testing.assert_allclose(found.mean, [[0.0, 1.0, 0.0]], atol=1e-9)


def test_sums_over_nodes_leave_none_out_at_the_end_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    mean, root = np.array([[0.3, -0.2, 0.1]]), 0.5 * np.eye(3)[None, :, :2]
    whole = expectations(mean, root)
    for entries in (3, 6, 12, 24):  # blocks of 1, 2, 4 and 8 nodes: the last of one node for an odd number of them
        monkeypatch.setattr(plain_softmax, "ENTRIES", entries)
        np.testing.assert_allclose(expectations(mean, root).mean, whole.mean, rtol=0.0, atol=1e-13)
