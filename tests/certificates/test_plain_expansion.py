"""Identities of the checker's expansion: orders and remainders where they are sharp, and its cubic maximum.

Points at random do not notice a remainder that is halved; the element for which it is attained does.
"""

from __future__ import annotations

import dataclasses
from math import factorial
from typing import Any

import numpy as np
import pytest

from gpsuite.certificates import plain_moments
from gpsuite.certificates.plain_bound import PlainBound
from gpsuite.certificates.plain_kernel import (
    CURVATURE,
    FEATURES,
    MOST_PAIRED,
    Long,
    Remainders,
    cubic_maximum,
    derivative_bound,
    derivatives,
    dominating_diagonal,
    first_order_remainder,
    fourth_order,
    gram,
    kappa,
    remainders,
)
from gpsuite.certificates.plain_model import PlainModel, plain_slice
from gpsuite.certificates.plain_moments import Expander, Moment
from tests.methods.robustness.certified_point import plain_model
from tests.methods.robustness.made_up_posteriors import random_posterior

KERNELS = tuple(CURVATURE)
MATERN = ("matern32", "matern52")
LAST_BOUNDED = {"matern32": 3}
"""The last order whose derivative is bounded at the datum itself, where it is below 5."""


def taylor(kernel: str, offset: Any, x: Any, order: int) -> Any:
    """Return the orders up to `order` of one datum's kernel at D = offset [..., d], x [..., d]."""
    f = derivatives(kernel, np.sum(offset**2, axis=-1), max(order, 2))
    a, s = np.sum(offset * x, axis=-1), np.sum(x**2, axis=-1)
    terms = [f[0], -2 * f[1] * a, 2 * f[2] * a**2 + f[1] * s]
    if order >= 3:
        terms.append(-4 / 3 * f[3] * a**3 - 2 * f[2] * a * s)
    if order == 4:
        terms.append(2 / 3 * f[4] * a**4 + 2 * f[3] * a**2 * s + f[2] / 2 * s**2)
    return sum(terms[: order + 1])


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_derivatives_agree_with_differences(kernel: str) -> None:
    q = np.geomspace(1e-4, 60, 300).astype(Long)
    found = derivatives(kernel, q, 3 if kernel == "squared_exponential" else 4)
    assert len(found) == (4 if kernel == "squared_exponential" else 5)
    h = Long(1e-5) * q
    for order in range(1, len(found)):
        up, down = derivatives(kernel, q + h, order - 1)[-1], derivatives(kernel, q - h, order - 1)[-1]
        np.testing.assert_allclose(found[order].astype(float), ((up - down) / (2 * h)).astype(float), rtol=1e-6)
    assert kappa(kernel, np.zeros(1))[0] == 1 and kappa(kernel, np.full(1, np.inf))[0] == 0
    curvature = (2 - 2 * kappa(kernel, np.array([1e-4], dtype=Long))[0]) / Long(1e-8)
    assert float(curvature) == pytest.approx(CURVATURE[kernel], rel=1e-3)
    points = np.array([[1e8, 0.0], [1e8 + 3e-8, 1.0]])
    expected = kappa(kernel, np.array(np.hypot((points[1, 0] - points[0, 0]) / 1e-7, 2.0)))
    np.testing.assert_allclose(gram(points, np.array([1e-7, 0.5]), kernel), [[1, expected], [expected, 1]], rtol=1e-14)


@pytest.mark.parametrize("kernel", MATERN)
def test_what_a_datum_leaves_out_is_bounded_and_nearly_attained(kernel: str) -> None:
    """|kappa_i - its orders| <= M_k rho^k / k! for data at every distance and angle, with little to spare somewhere."""
    z, angle = (each.ravel() for each in np.meshgrid(np.geomspace(1e-3, 30, 60), np.linspace(0, np.pi, 41)))
    offset = np.stack([z, 0 * z], axis=1).astype(Long)
    for order in range(1, 5):
        worst = 0.0
        for rho in (1e-3, 0.05, 0.5):
            x = rho * np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(Long)
            apart = np.sqrt(np.sum((offset - x) ** 2, axis=1))
            exact = np.abs(kappa(kernel, apart) - taylor(kernel, offset, x, order))
            with np.errstate(divide="ignore"):
                bound = derivative_bound(kernel, order + 1, np.maximum(0.0, z - rho))
            bound = bound * rho ** (order + 1) / factorial(order + 1)
            assert np.all(exact <= bound * (1 + 1e-12) + 2e-18)
            worst = max(worst, np.max(np.where(bound > 1e-12, exact / bound, 0.0)))
        assert worst > (0.5 if order + 1 == 3 and kernel == "matern52" else 0.9)


@pytest.mark.parametrize("kernel", MATERN)
@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_bounds_of_derivatives_fall_with_the_distance(kernel: str, order: int) -> None:
    found = derivative_bound(kernel, order, np.linspace(0, 30, 30001))
    assert np.all(np.diff(found[1:]) <= 0) and found[1] <= found[0]
    assert np.isfinite(found[0]) == (order <= LAST_BOUNDED.get(kernel, 5))


@pytest.mark.parametrize("kernel", MATERN)
def test_a_datum_stops_where_it_leaves_out_least(kernel: str) -> None:
    """The value is the remainder of the orders that are kept, and no other choice of order 3 is better."""
    q, rho = np.array([[0.0, 1e-4, 0.09, 1.0, 9.0, 400.0]] * 3), np.array([1e-3, 0.2, 1.0])
    found = remainders(kernel, q, rho, 3)
    nearest = np.maximum(0, np.sqrt(q) - rho[:, None])
    with np.errstate(divide="ignore"):
        second, third, fourth = (
            derivative_bound(kernel, k, nearest) * rho[:, None] ** k / factorial(k) for k in (3, 4, 5)
        )
    kept = np.where(found.fourth, fourth, np.where(found.third, third, second))
    np.testing.assert_allclose(found.value, kept, rtol=1e-9)
    np.testing.assert_allclose(found.slope, second, rtol=1e-9)
    assert np.all(found.value <= np.minimum(second, third) * (1 + 1e-9)) and np.all(found.third | ~found.fourth)
    assert found.fourth.any() and not found.fourth.all()
    low = remainders(kernel, q, rho, 2)
    assert not low.third.any() and not low.fourth.any()
    np.testing.assert_allclose(low.slope, derivative_bound(kernel, 2, nearest) * rho[:, None] ** 2 / 2, rtol=1e-9)


@pytest.mark.parametrize("d", [1, 2, MOST_PAIRED + 1])
@pytest.mark.parametrize("kernel", MATERN)
def test_order_four_is_bounded_on_both_sides_and_nearly_attained_by_one_datum(kernel: str, d: int) -> None:
    rng = np.random.default_rng(d)
    D, rho = 1.5 + np.abs(rng.normal(size=(1, d, 5))), np.array([0.3])
    q = np.sum(D**2, axis=1)
    f, left = derivatives(kernel, q, 4), remainders(kernel, q, rho, 3)
    assert left.fourth.all()
    directions = rng.normal(size=(4000, d))
    x = rho[0] * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    orders = np.stack([taylor(kernel, D[0, :, i], x, 4) - taylor(kernel, D[0, :, i], x, 3) for i in range(5)])
    for weights in (*rng.normal(size=(20, 5)), *np.eye(5), *-np.eye(5)):
        low, high = fourth_order(weights[None], f, D, left, rho)
        values = weights @ orders
        assert low[0] <= min(0.0, values.min()) and max(0.0, values.max()) <= high[0]
    # along the datum all three terms are at their ends, of signs + - + : the outer ones are the upper bound
    if d == 1:
        low, high = fourth_order(np.eye(5)[:1], f, D, left, rho)
        steep, bent, flat = 2 / 3 * f[4][0, 0] * q[0, 0] ** 2, 2 * f[3][0, 0] * q[0, 0], f[2][0, 0] / 2
        np.testing.assert_allclose([low[0], high[0]], rho[0] ** 4 * np.array([bent, steep + flat]), rtol=1e-8)
    none = remainders(kernel, q, rho, 2)
    assert fourth_order(np.ones((1, 5)), f, D, none, rho) == (np.zeros(1), np.zeros(1))


def test_the_feature_remainders_of_the_squared_exponential_are_norms() -> None:
    """|phi(c + x) - T phi|^2 from its expansion in the orthonormal basis: below the bound, and equal to it near c."""
    for k in FEATURES:
        for rho in (0.03, 0.3, 1.0, 3.0):
            E, tail = np.exp(-(rho**2) / 2), []
            for m in range(60):
                kept = sum((-(rho**2) / 2) ** j / factorial(j) for j in range((k - 1 - m) // 2 + 1)) if m < k else 0.0
                tail.append((E - kept) ** 2 * rho ** (2 * m) / factorial(m))
            exact = np.sqrt(sum(tail))
            assert exact <= FEATURES[k] * rho**k
            if rho == 0.03:
                assert exact >= 0.995 * FEATURES[k] * rho**k


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_first_order_remainder_is_a_norm(kernel: str) -> None:
    rho = np.geomspace(1e-2, 20, 200).astype(Long)
    h = Long(1e-6) * rho
    slope = (kappa(kernel, rho + h) - kappa(kernel, rho - h)) / (2 * h)
    exact = 2 - 2 * kappa(kernel, rho) + CURVATURE[kernel] * rho**2 + 2 * rho * slope
    bound = first_order_remainder(kernel, rho)
    assert np.all(exact <= bound * (1 + 1e-7) + 1e-12)
    assert float(exact[0] / bound[0]) > (0.97 if kernel != "matern52" else 0.9)


def exact_moments(model: PlainModel, x: Any) -> tuple[Any, Any]:
    """Mean and variance in units of s at points [P, d], in extended precision, negative variances as they are."""
    apart = (model.X.astype(Long) - x[:, None].astype(Long)) / model.lengthscales
    k = kappa(model.kernel, np.sqrt(np.sum(apart**2, axis=2)))
    features = k @ model.root.T.astype(Long)
    return k @ model.alpha, 1 + model.variance * (features**2 @ model.weights.astype(Long))


def polynomial(moment: Moment, x: Any) -> Any:
    value = moment.constant + x @ moment.linear[0] + np.einsum("pj,jk,pk->p", x, moment.square[0], x)
    if moment.cubic is not None:
        value = value + np.einsum("pj,pk,pl,jkl->p", x, x, x, moment.cubic[0])
    return value


@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_models_hold_and_their_error_falls_with_the_order(
    kernel: str, sparse: bool, degree: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong coefficient shows: halving the box divides the error by 2^(degree + 1)."""
    monkeypatch.setattr(plain_moments, "MOST_CUBED", 64 if degree == 3 else 0)
    rng = np.random.default_rng(3)
    for _ in range(6):
        model = plain_model(random_posterior(rng, kernel, "probit", 9, 2, sparse))
        c = model.X[0] + 0.7 * model.lengthscales
        expander = Expander(plain_slice(model, c, np.arange(2)))
        x = rng.uniform(-1, 1, (60, 2))
        errors = []
        for width in (0.04, 0.02):
            r = width * model.lengthscales
            found = expander.expand((c - r)[None], (c + r)[None])
            exact = exact_moments(model, c + x * r)
            gaps = []
            for moment, truth in zip((found.mean, found.variance), exact, strict=True):
                gap = (truth - polynomial(moment, width * x)).astype(float)
                assert np.all(-moment.below - 1e-15 <= gap) and np.all(gap <= moment.above + 1e-15)
                known = truth if moment is found.mean else np.maximum(truth, 0)
                assert np.all((moment.low <= known) & (known <= moment.high))
                gaps.append(np.abs(gap).max())
            errors.append(gaps)
        order = degree + 1
        for coarse, fine in zip(*errors, strict=True):
            assert coarse <= 1e-11 or 2 ** (order - 0.6) < coarse / fine < 2 ** (order + 1.6)


@pytest.mark.parametrize("kernel", MATERN)
def test_a_datum_next_to_the_centre_is_bounded_sharply(kernel: str) -> None:
    """Its order 3 is not kept (3/2), or order 4 goes to the remainder (5/2): a term taken twice or not at all shows."""
    model = PlainModel(
        np.full((1, 1), 1e-4), kernel, 1.0, np.ones(1), np.ones(1), np.zeros((0, 1)), np.zeros(0), "probit"
    )
    moment = (
        Expander(plain_slice(model, np.zeros(1), np.arange(1))).expand(-np.full((1, 1), 0.1), np.full((1, 1), 0.1)).mean
    )
    x = np.linspace(-0.1, 0.1, 201)[:, None]
    gap = (exact_moments(model, x)[0] - polynomial(moment, x)).astype(float)
    assert np.all(-moment.below <= gap) and np.all(gap <= moment.above)
    assert gap.max() > (0.85 if kernel == "matern32" else 0.75) * moment.above[0]


@pytest.mark.parametrize("kernel", KERNELS)
def test_wide_boxes_are_bounded_by_distance_and_norm(kernel: str) -> None:
    rng = np.random.default_rng(4)
    model = plain_model(random_posterior(rng, kernel, "probit", 9, 2))
    expander = Expander(plain_slice(model, model.X[0], np.arange(2)))
    for width in (0.5, 3.0, 1e6):
        r = width * model.lengthscales
        found = expander.expand((model.X[0] - r)[None], (model.X[0] + r)[None])
        mean, variance = exact_moments(model, model.X[0] + rng.uniform(-1, 1, (200, 2)) * r)
        assert np.all((found.mean.low <= mean) & (mean <= found.mean.high))
        assert np.all((found.variance.low <= variance) & (variance <= found.variance.high))
        assert found.variance.high <= 1 + 1e-9 and found.mean.high <= np.sqrt(expander.form.norm2)


@pytest.mark.parametrize("degree", [2, 3])
def test_the_projected_remainder_is_sharper_and_holds(degree: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A datum at distance t along the diagonal: little is known of its mean's remainder below the degree kept."""
    monkeypatch.setattr(plain_moments, "MOST_CUBED", 64 if degree == 3 else 0)
    t = 0.2
    model = PlainModel(
        np.full((1, 2), t / np.sqrt(2)), "squared_exponential", 1.0, np.ones(2), np.ones(1),
        np.zeros((0, 1)), np.zeros(0), "probit",
    )  # fmt: skip
    expander = Expander(plain_slice(model, np.zeros(2), np.arange(2)))
    r = np.full(2, t / np.sqrt(2))
    moment = expander.expand(-r[None], r[None]).mean
    x = np.random.default_rng(0).choice([-1.0, 1.0], (4, 2)) * r
    gap = np.abs(exact_moments(model, x)[0].astype(float) - polynomial(moment, x)).max()
    assert gap <= moment.above[0] < (0.5 if degree == 3 else 0.75) * FEATURES[degree + 1] * t ** (degree + 1)
    assert gap > 0.3 * moment.above[0]


@pytest.mark.parametrize(
    ("first", "second", "norm2", "expected"),
    [
        ((1.0, 0.0), 0.0, 1.0, lambda rho: rho**4 / 8),  # the constant alone: E - 1 + rho^2/2 of it
        ((0.0, 1.0), 0.0, 1.0, lambda rho: rho**5 / 8),
        ((0.0, 0.0), 1.0, 2.0, lambda rho: rho**4 / 2),  # degree 2 alone: 1 - E of it
        ((0.0, 0.0), 0.0, 1.0, lambda rho: rho**4 * np.sqrt((1 + rho**2) / 24)),  # nothing known
    ],
)
def test_the_projected_remainder_of_each_degree_alone_is_as_expected(
    first: Any, second: float, norm2: float, expected: Any
) -> None:
    """h = a_0 e_0 + a_1 e_1 + sqrt(2) a_2 e_2 in one input, and what of it is above order 3 up to rho."""
    model = plain_model(random_posterior(np.random.default_rng(1), "squared_exponential", "probit", 3, 1))
    form = dataclasses.replace(plain_slice(model, model.X[0], np.arange(1)), norm2=norm2, slack_mean=0.0)
    a, rho = np.array([first]), np.array([0.3])
    square = np.full((1, 1, 1), second) - 0.5 * a[:, :1, None]
    found = Expander(form)._projected_remainder(a, square, rho[:, None], rho)
    left = 1e-5 * rho**4  # what rounding leaves of a norm that is known
    assert expected(0.3) <= found[0] <= expected(0.3) * (1 + 2e-11) + left[0]


def test_remainders_see_the_operator_and_its_lowest_value() -> None:
    """Without data near the variance is s: the cross terms are those of G = I, two-sided, and the square is above."""
    model = PlainModel(
        np.full((1, 1), 50.0), "squared_exponential", 1.0, np.ones(1), np.ones(1),
        np.full((1, 1), 0.5), -np.ones(1), "probit",
    )  # fmt: skip
    expander = Expander(plain_slice(model, np.zeros(1), np.arange(1)))
    rho = 1.0
    found = expander.expand(np.full((1, 1), -rho), np.full((1, 1), rho)).variance
    cross = 2 * (FEATURES[4] + FEATURES[3]) * rho**4
    assert found.below[0] == pytest.approx(cross, rel=2e-10)
    assert found.above[0] == pytest.approx(cross + first_order_remainder("squared_exponential", rho), rel=2e-10)
    assert found.constant[0] == pytest.approx(1.0) and found.low[0] <= 1.0 <= found.high[0]


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("cubed", [False, True])
def test_the_cubic_maximum_encloses_and_is_exact_where_it_should_be(d: int, cubed: bool) -> None:
    rng = np.random.default_rng(5)
    constant, b, H = rng.normal(size=80), rng.normal(size=(80, d)), rng.normal(size=(80, d, d))
    C = rng.normal(size=(80, d, d, d)) * rng.choice([0.0, 0.05, 1.0], (80, 1, 1, 1)) if cubed else None
    H = H + H.transpose(0, 2, 1)
    if C is not None:
        C = sum(
            C.transpose(0, *(1 + np.array(p)))
            for p in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
        )
    bound, share = cubic_maximum(constant, b, H, C)
    z = np.clip(1.3 * rng.uniform(-1, 1, (3000, d)), -1, 1)
    value = constant[:, None] + b @ z.T + np.einsum("pj,bjk,pk->bp", z, H, z)
    if C is not None:
        value = value + np.einsum("pj,pk,pl,bjkl->bp", z, z, z, C)
    assert np.all(value.max(axis=1) <= bound) and np.all(share >= -1e-9)
    # monotone in every input: the corner is exact
    steep = 100.0 * np.sign(b) * (1 + np.abs(b)) * d**2
    bound, _ = cubic_maximum(constant, steep, H, C)
    v = np.sign(steep)
    corner = constant + np.sum(steep * v, axis=1) + np.einsum("bj,bjk,bk->b", v, H, v)
    corner = corner + (0 if C is None else np.einsum("bj,bk,bl,bjkl->b", v, v, v, C))
    np.testing.assert_allclose(bound, corner, rtol=1e-10)
    # concave: the maximum inside is found
    round_ = -np.einsum("bij,bkj->bik", H, H) - 0.5 * np.eye(d)
    top = rng.uniform(-0.5, 0.5, (80, d))
    slope = -2 * np.einsum("bjk,bk->bj", round_, top)
    bound, _ = cubic_maximum(constant, slope, round_, None)
    peak = constant - np.einsum("bj,bjk,bk->b", top, round_, top)
    assert np.all(peak <= bound) and np.median(bound - peak) < 0.5


def test_the_dominating_diagonal_dominates() -> None:
    rng = np.random.default_rng(6)
    for d in (1, 2, 5, 20):
        H = rng.normal(size=(40, d, d)) * 10.0 ** rng.uniform(-3, 3, (40, d, 1))
        H = H + H.transpose(0, 2, 1)
        A = dominating_diagonal(H)  # type: ignore[arg-type]
        assert np.all(A >= 0)
        least = np.linalg.eigvalsh(np.einsum("bj,jk->bjk", A, np.eye(d)) - H)[:, 0]
        assert np.all(least >= -1e-13 * np.linalg.norm(H, axis=(1, 2)))
        largest = np.maximum(np.linalg.eigvalsh(H)[:, -1], 0)
        assert np.all(A.sum(axis=1) <= d * largest * (1 + 1e-9) + 1e-9 * np.linalg.norm(H, axis=(1, 2)))


@pytest.mark.parametrize("link", ["probit", "logistic"])
def test_any_level_is_sound_and_the_bounds_own_loses_little(link: str) -> None:
    rng = np.random.default_rng(7)
    model = plain_model(random_posterior(rng, "squared_exponential", link, 10, 2))
    model = dataclasses.replace(model, alpha=0.1 * model.alpha)
    plain, c = PlainBound(model, model.X[0], np.arange(2)), model.X[0] + 0.2 * model.lengthscales
    r = 0.1 * model.lengthscales
    truth = np.mean(plain.at(c + rng.uniform(-1, 1, (400, 2)) * r), axis=0)
    for sign in (-1, 1):
        levels = np.array([-2.0, -0.3, 0.0, 0.3, 2.0, np.inf, np.nan]) if link == "probit" else np.linspace(0, 1, 7)
        boxes = np.repeat(c[None], len(levels), axis=0)
        found = sign * plain.bound(boxes - r, boxes + r, sign, levels)[0]
        assert np.all(np.max(sign * truth) <= found)
        # the level of the bound itself is as good as any other, up to what the relaxation loses
        own = sign * plain.bound(c[None] - r, c[None] + r, sign, np.array([sign * found.min()]))[0][0]
        assert own <= found.min() + 0.5 * (found.min() - np.max(sign * truth)) + 1e-9


def test_order_four_is_at_most_and_at_least_zero() -> None:
    """A negative flat part does not lower the upper end, a positive one does not raise the lower end."""
    kept = np.ones((2, 1), dtype=bool)
    left = Remainders(kept, kept, np.zeros((2, 1)), np.zeros((2, 1)))
    nothing, flat = np.zeros((2, 1)), np.array([[2.0], [-2.0]])
    f = (nothing, nothing, flat, nothing, nothing)
    low, high = fourth_order(np.ones((2, 1)), f, np.ones((2, 1, 1)), left, np.full(2, 0.5))
    np.testing.assert_allclose(high, [0.5**4, 0.0], atol=1e-10)
    np.testing.assert_allclose(low, [0.0, -(0.5**4)], atol=1e-10)
