"""The plain bound's expansions of mean and variance, each against what it expands, without tail and rounding.

With y = (kappa, psi delta) the expansions are of a'y and y'Gy for any a and positive semidefinite G <= g, exact
functions of |delta| <= r; special a and G make single terms of the bounds the only ones, and those are attained.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpsuite.methods.robustness.certificates.certify import plain_model
from gpsuite.methods.robustness.certificates.plain_bound import CURVATURE, PlainBound, PlainModel, _Range
from gpsuite.methods.robustness.certificates.plain_kernel import Long, kappa, psi
from tests.methods.robustness.made_up_posteriors import random_posterior

KERNELS = ("squared_exponential", "matern32", "matern52")
NEVER = Long(1e9)


def plain_of(kernel: str, inputs: int) -> PlainBound:
    model = plain_model(random_posterior(np.random.default_rng(0), kernel, "probit", 4, inputs))
    plain = PlainBound(model, model.X[0], np.arange(inputs))
    plain.slack_mean, plain.norm2, plain.nu = Long(0), Long(1e18), Long(0)
    return plain


def halves(rng: np.random.Generator, boxes: int, inputs: int) -> Any:
    return (10.0 ** rng.uniform(-2, 0.7, (boxes, 1)) * rng.random((boxes, inputs))).astype(Long)


def steps(rng: np.random.Generator, r: Any, points: int) -> Any:
    """Return points [B, P, d] of the boxes, a third of them corners and one a corner's face."""
    share = rng.uniform(-1, 1, (len(r), points, r.shape[1]))
    share[:, : points // 3] = np.sign(share[:, : points // 3])
    return share * r[:, None]


def projections(kernel: str, delta: Any) -> Any:
    """Return y [B, P, 1 + d]."""
    length = np.sqrt(np.sum(delta**2, axis=-1))
    return np.concatenate([kappa(kernel, length)[..., None], psi(kernel, length)[..., None] * delta], axis=-1)


def excess(found: _Range, delta: Any, value: Any) -> tuple[Any, Any, Any, Any]:
    """Return how far values [B, P] lie above and below the quadratic model, and beyond the interval."""
    model = found.middle[:, None] + np.einsum("bd,bpd->bp", found.linear, delta)
    model = model + np.einsum("bpi,bij,bpj->bp", delta, found.square, delta)
    return value - model, model - value, value - found.high[:, None], found.low[:, None] - value


def mean_range(plain: PlainBound, a: Any, r: Any, far: Any = NEVER) -> _Range:
    rho, none = np.sqrt(np.sum(r**2, axis=1)), np.zeros(len(r), dtype=Long)
    return plain._mean(a, r, rho, none, none + far)


def variance_range(plain: PlainBound, G: Any, g: float, r: Any, far: Any = NEVER) -> _Range:
    plain.g = Long(g)
    rho, none = np.sqrt(np.sum(r**2, axis=1)), np.zeros(len(r), dtype=Long)
    return plain._variance(G, none, r, rho, none, none + far)


@pytest.mark.parametrize("inputs", [1, 3])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_means_expansion_holds(kernel: str, inputs: int) -> None:
    rng, plain = np.random.default_rng(1), plain_of(kernel, inputs)
    r = halves(rng, 200, inputs)
    a = (rng.standard_normal((200, 1 + inputs)) * 10.0 ** rng.uniform(-2, 0, (200, 1 + inputs))).astype(Long)
    found, delta = mean_range(plain, a, r), steps(rng, r, 60)
    above, below, over, under = excess(found, delta, np.einsum("bm,bpm->bp", a, projections(kernel, delta)))
    assert np.all(above <= found.above[:, None]) and np.all(below <= found.below[:, None])
    assert np.all(over <= 0) and np.all(under <= 0)


@pytest.mark.parametrize("inputs", [1, 3])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_variances_expansion_holds(kernel: str, inputs: int) -> None:
    rng, plain = np.random.default_rng(2), plain_of(kernel, inputs)
    r = halves(rng, 200, inputs)
    factor = rng.standard_normal((200, 1 + inputs, 1 + inputs)) * 10.0 ** rng.uniform(
        -1.5, 0, (200, 1, 1 + inputs)
    )
    G = np.einsum("bmk,blk->bml", factor, factor)
    g = float(np.linalg.eigvalsh(G).max())
    found, delta = variance_range(plain, G.astype(Long), g, r), steps(rng, r, 60)
    y = projections(kernel, delta)
    above, below, over, under = excess(found, delta, np.einsum("bpm,bml,bpl->bp", y, G.astype(Long), y))
    assert np.all(above <= found.above[:, None]) and np.all(below <= found.below[:, None])
    assert np.all(over <= 0) and np.all(under <= 0)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_term_of_the_means_error_is_attained(kernel: str, sign: int) -> None:
    """a = (+-1, 0): kappa against its parabola, on one side only; a = (0, 1): psi against psi(0)."""
    plain, r = plain_of(kernel, 1), np.array([[0.5]], dtype=Long)
    for a in ([sign, 0.0], [0.0, sign]):
        found = mean_range(plain, np.array([a], dtype=Long), r)
        y = projections(kernel, r[:, None])
        above, below, _, _ = excess(found, r[:, None], np.einsum("bm,bpm->bp", np.array([a], dtype=Long), y))
        attained = np.maximum(above, below)[0, 0]
        assert float(max(found.above[0], found.below[0])) == pytest.approx(float(attained), rel=1e-6)
        if a[0]:
            assert float(min(found.above[0], found.below[0])) < 1e-15


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_term_of_the_variances_error_is_attained(kernel: str) -> None:
    """G = e0 e0': kappa^2 above its parabola; G = e1 e1': psi^2 below; both with their product: kappa psi below."""
    plain, r = plain_of(kernel, 1), np.array([[0.5]], dtype=Long)
    lam, y = Long(CURVATURE[kernel]), projections(kernel, r[:, None])[0, 0]
    for G, side, exact in (
        ([[1.0, 0.0], [0.0, 0.0]], "above", y[0] ** 2 - 1 + lam * r[0, 0] ** 2),
        ([[0.0, 0.0], [0.0, 1.0]], "below", lam * r[0, 0] ** 2 - y[1] ** 2),
    ):
        found = variance_range(plain, np.array([G], dtype=Long), 1.0, r)
        other = found.below if side == "above" else found.above
        assert float(getattr(found, side)[0]) == pytest.approx(float(exact), rel=1e-6)
        assert float(other[0]) < 1e-15
    crossed = variance_range(plain, np.array([[[1.0, 1.0], [1.0, 1.0]]], dtype=Long), 2.0, r)
    alone = variance_range(plain, np.array([[[1.0, 0.0], [0.0, 1.0]]], dtype=Long), 2.0, r)
    lost = 2 * (np.sqrt(lam) * r[0, 0] - y[0] * y[1])
    for side in ("above", "below"):
        assert float((getattr(crossed, side) - getattr(alone, side))[0]) == pytest.approx(
            float(lost), rel=1e-6
        )


@pytest.mark.parametrize("kernel", KERNELS)
def test_far_points_are_bounded_by_their_distance(kernel: str) -> None:
    """|mu(x) - mu(c)| <= |h| far, |sd(x) - sd(c)| <= sqrt(g) far, where these are less than the expansion gives."""
    plain, r = plain_of(kernel, 1), np.array([[3.0]], dtype=Long)
    plain.norm2 = Long(4.0)
    found = mean_range(plain, np.array([[0.3, 0.1]], dtype=Long), r, far=Long(0.01))
    assert (float(found.low[0]), float(found.high[0])) == pytest.approx((0.28, 0.32), abs=1e-12)
    G = np.array([[[0.25, 0.0], [0.0, 0.1]]], dtype=Long)
    varied = variance_range(plain, G, 1.0, r, far=Long(0.1))
    assert (float(varied.low[0]), float(varied.high[0])) == pytest.approx((0.16, 0.36), abs=1e-12)
    assert float(variance_range(plain, G, 0.3, r, far=Long(0.9)).high[0]) == pytest.approx(0.3)


def test_tail_and_rounding_widen_everything() -> None:
    """The rest of the features enters the mean with |h| sqrt(tail) and the deviation with sqrt(g tail)."""
    plain = plain_of("squared_exponential", 1)
    plain.norm2, plain.g, plain.slack_mean = Long(1.0), Long(4.0), Long(0)
    r, rho, none = np.full((1, 1), Long(1e-6)), np.array([Long(1e-6)]), np.zeros(1, dtype=Long)
    a, tail, far = np.array([[0.6, 0.0]], dtype=Long), np.array([Long(0.1)]), np.array([NEVER])
    found = plain._mean(a, r, rho, tail, far)
    assert float(found.above[0]) == pytest.approx(0.8 * 0.1, rel=1e-9)
    assert float(found.below[0]) == pytest.approx(0.8 * 0.1, rel=1e-9)
    assert (float(found.low[0]), float(found.high[0])) == pytest.approx((0.52, 0.68), rel=1e-9)
    G = np.array([[[0.25, 0.0], [0.0, 0.0]]], dtype=Long)
    varied = plain._variance(G, none, r, rho, tail, far)
    assert (float(varied.low[0]), float(varied.high[0])) == pytest.approx((0.3**2, 0.7**2), rel=1e-9)
    assert float(varied.above[0]) == pytest.approx(0.7**2 - 0.25, rel=1e-9)
    assert float(varied.below[0]) == pytest.approx(2 * 0.5 * 0.2, rel=1e-9)
    plain.slack_mean = Long(1e-3)
    rounded = plain._mean(a, r, rho, tail, far)
    assert float(rounded.above[0] - found.above[0]) > 4e-3
    slack = plain._variance(G, np.array([Long(1e-3)]), r, rho, none, far)
    assert float(slack.above[0]) == pytest.approx(4e-3, rel=1e-4) == float(slack.below[0])
    assert float(slack.high[0]) == pytest.approx(0.25 + 4e-3, rel=1e-4)


def test_the_gram_slack_bounds_products_of_perturbed_features() -> None:
    plain = plain_of("squared_exponential", 2)
    plain.slack_root, plain.unit = Long(1e-3), 0.0
    rng = np.random.default_rng(3)
    for _ in range(200):
        W, noise = rng.standard_normal((2, 5)), rng.standard_normal((2, 5))
        noise *= 1e-3 / np.sqrt(np.sum(noise**2, axis=1, keepdims=True))
        mass = np.max(np.sum(W**2, axis=1), keepdims=True)
        moved = np.abs((W + noise) @ (W + noise).T - W @ W.T).max()
        assert moved <= float(plain._gram_slack(mass)[0])
    same = np.sqrt(np.array([4.0])) @ np.array([1.0])
    assert float(plain._gram_slack(np.array([4.0]))[0]) == pytest.approx(2 * (same + 1e-3) * 1e-3 + 1e-6)
    plain.unit = 1e-2
    assert float(plain._gram_slack(np.array([4.0]))[0]) > 1e-2 * 5


def test_the_score_range_uses_both_moments() -> None:
    """Corners where the quadratic models say nothing, and the joint model where the corners are wide."""
    model = PlainModel(
        np.zeros((1, 1)),
        "squared_exponential",
        2.0,
        np.ones(1),
        np.zeros(1),
        np.zeros((1, 1)),
        -np.ones(1),
        "probit",
    )
    plain = PlainBound(model, np.zeros(1), np.arange(1))
    plain.nu = Long(0)

    def single(*values: float) -> _Range:
        middle, linear, below, above, low, high = (np.array([each], dtype=Long) for each in values)
        return _Range(middle, linear[:, None], np.zeros((1, 1, 1), dtype=Long), below, above, low, high)

    r = np.full((1, 1), Long(0.1))
    free = single(1.0, 0.0, 9.0, 9.0, 0.5, 2.0), single(0.5, 0.0, 9.0, 9.0, 0.25, 1.0)
    low, high = plain._score_range(*free, r)
    assert float(low[0]) == pytest.approx(1.0 / np.sqrt(3.0))
    assert float(high[0]) == pytest.approx(4.0 / np.sqrt(1.5))
    free = single(-1.0, 0.0, 9.0, 9.0, -2.0, -0.5), free[1]
    low, high = plain._score_range(*free, r)
    assert float(low[0]) == pytest.approx(-4.0 / np.sqrt(1.5))
    assert float(high[0]) == pytest.approx(-1.0 / np.sqrt(3.0))
    # mean 2 (1 + delta), variance 2 (.5 + 2 delta): together they hardly change the score
    tight = single(1.0, 1.0, 0.0, 0.0, 0.9, 1.1), single(0.5, 2.0, 0.0, 0.0, 0.3, 0.7)
    low, high = plain._score_range(*tight, r)
    delta = np.linspace(-0.1, 0.1, 401)
    score = 2 * (1 + delta) / np.sqrt(1 + 2 * (0.5 + 2 * delta))
    assert score.max() <= float(high[0]) <= score.max() + 0.15
    assert score.min() >= float(low[0]) >= score.min() - 0.15
    assert float(high[0] - low[0]) < float(1.1 * 2 / np.sqrt(1.6) - 0.9 * 2 / np.sqrt(2.4))
    for mean_error, variance_error in ((0.01, 0.0), (0.0, 0.01)):
        erring = (
            single(1.0, 1.0, mean_error, 2 * mean_error, 0.9, 1.1),
            single(0.5, 2.0, variance_error, 2 * variance_error, 0.3, 0.7),
        )
        lower, higher = plain._score_range(*erring, r)
        by_mean, by_variance = 2 / np.sqrt(2), 2 * 2 / (2 * 2**1.5)
        assert float(low[0] - lower[0]) == pytest.approx(
            by_mean * mean_error + 2 * by_variance * variance_error
        )
        assert float(higher[0] - high[0]) == pytest.approx(
            2 * by_mean * mean_error + by_variance * variance_error
        )


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_joint_model_pays_for_the_farther_end(mirrored: bool) -> None:
    """Constant models in the middle of unequal intervals: what is left is the remainder of the larger changes."""
    plain = plain_of("squared_exponential", 1)
    plain.s = Long(2.0)
    ends = ((0.7, 1.1), (0.3, 0.6)) if mirrored else ((0.9, 1.3), (0.4, 0.7))

    def constant(middle: float, low: float, high: float) -> _Range:
        middles, lows, highs = (np.array([each], dtype=Long) for each in (middle, low, high))
        none = np.zeros(1, dtype=Long)
        return _Range(middles, none[:, None], none[:, None, None], none, none, lows, highs)

    low, high = plain._score_range(
        constant(1.0, *ends[0]), constant(0.5, *ends[1]), np.full((1, 1), Long(0.1))
    )
    d_mean, d_variance, least, largest = 2 * 0.3, 2 * 0.2, 2 * ends[1][0], 2 * ends[0][1]
    left = d_mean * d_variance / (2 * (1 + least) ** 1.5) + 3 * d_variance**2 * largest / (
        8 * (1 + least) ** 2.5
    )
    assert float(high[0]) == pytest.approx(2 / np.sqrt(2) + left)
    assert float(low[0]) == pytest.approx(
        max(2 / np.sqrt(2) - left, 2 * ends[0][0] / np.sqrt(1 + 2 * ends[1][1]))
    )
