"""The stated rounding slack against arithmetic of 50 digits on the stored floats, near the origin and far from it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Context, Decimal, localcontext

import numpy as np
import pytest

from gpsuite.methods.robustness.level_bound.cubic import sum_slack
from gpsuite.methods.robustness.level_bound.level_bound import level_bound
from gpsuite.methods.robustness.operators import operator_form, operator_range, squared_norm
from gpsuite.methods.robustness.paper_bound import paper_bound
from gpsuite.methods.robustness.rounding import (
    UNIT,
    above,
    below,
    dot_product_unit,
    outward_radius,
    rounding_slack,
    spread_unit,
)
from gpsuite.models.classification.approximation import BinaryProblem, GPCPosterior
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.training import INFERENCES
from gpsuite.models.composite import single_kernel
from gpsuite.models.config import Hyperparameters, ModelSpec
from tests.arrays import Array
from tests.methods.robustness.exact_posterior import DIGITS, ExactPosterior, kappa, probit
from tests.methods.robustness.made_up_posteriors import KERNELS, random_posterior

OFFSETS = (0.0, 1e4, 1e8)


def moved(posterior: GPCPosterior, offset: float) -> GPCPosterior:
    """Return the posterior with its data moved by so many lengthscales; the other numbers stay as they are."""
    return replace(posterior, X=posterior.X + offset * posterior.lengthscales)


def exact_gram(posterior: GPCPosterior, centre: Array, free: Array) -> tuple[list[Decimal], list[list[Decimal]]]:
    """Return a_m and <e_m, G e_m'> of degrees 0 and 1 around a point [D], from the raw inputs."""
    exact = ExactPosterior(posterior)
    x, scales = [Decimal(float(each)) for each in centre], exact.lengthscales
    basis = []
    for row in exact.X:
        apart = [(b - a) / scale for a, b, scale in zip(x, row, scales, strict=True)]
        q = sum((each * each for each in apart), Decimal(0))
        slope = {
            "squared_exponential": lambda q: (-q / 2).exp(),
            "matern32": lambda q: Decimal(3).sqrt() * (-(3 * q).sqrt()).exp(),
            "matern52": lambda q: (Decimal(5) / 3).sqrt() * (1 + (5 * q).sqrt()) * (-(5 * q).sqrt()).exp(),
        }[posterior.kernel](q)
        basis.append([kappa(single_kernel(posterior.kernel, "test"), q), *(slope * apart[j] for j in free)])
    columns = list(zip(*basis, strict=True))
    mean = [sum(a * v for a, v in zip(exact.alpha, column, strict=True)) for column in columns]
    rows = [[sum(f * v for f, v in zip(row, c, strict=True)) for c in columns] for row in exact.root]
    gram = [
        [
            (1 if i == j else 0)
            + exact.variance * sum(w * r[i] * r[j] for w, r in zip(exact.weights, rows, strict=True))
            for j in range(len(columns))
        ]
        for i in range(len(columns))
    ]
    return mean, gram


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("sparse", [False, True])
def test_coefficients_are_known_to_the_stated_slack_at_any_offset(kernel: str, sparse: bool, offset: float) -> None:
    rng = np.random.default_rng(OFFSETS.index(offset))
    free = np.array([0, 2])
    posterior = moved(random_posterior(rng, kernel, "probit", 30, 3, sparse), offset)
    x0 = posterior.X[0] + 0.1 * posterior.lengthscales
    bound = level_bound(posterior, x0, free)
    form = bound.form
    centre = form.X.T[:2] + 0.1 * rng.standard_normal((2, 2)) * form.lengthscales
    expansion = bound.expand(centre)
    (mean_slope, _), (variance_slope, _) = expansion.taylor()
    s = posterior.variance
    root = {"squared_exponential": 1.0, "matern32": np.sqrt(3.0), "matern52": np.sqrt(5.0 / 3.0)}[kernel]
    with localcontext(Context(prec=DIGITS)):
        for b in range(len(centre)):
            point = x0.copy()
            point[free] = centre[b]
            mean, gram = exact_gram(posterior, point, free)
            mean_allowed, gram_allowed = 0.2 * form.mean_error, 0.2 * form.gram_error
            known = [expansion.mean[b] / s, *(mean_slope[b] / s / root)]
            for value, exact in zip(known, mean, strict=True):
                assert abs(Decimal(float(value)) - exact) <= Decimal(float(mean_allowed))
            known = [expansion.variance[b] / s, *(variance_slope[b] / s / root / 2.0)]
            for value, exact in zip(known, gram[0], strict=True):
                assert abs(Decimal(float(value)) - exact) <= Decimal(float(gram_allowed))


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_norm_and_operator_are_bounded_at_any_offset(kernel: str, offset: float) -> None:
    rng = np.random.default_rng(5)
    posterior = moved(random_posterior(rng, kernel, "probit", 25, 2, True), offset)
    form = operator_form(posterior, posterior.X[0], np.arange(2))
    exact = ExactPosterior(posterior)
    with localcontext(Context(prec=DIGITS)):
        K = [[kappa(kernel, exact._distance(a, b)) for b in exact.X] for a in exact.X]
        Ka = [sum(a * k for a, k in zip(exact.alpha, row, strict=True)) for row in K]
        norm2 = sum(a * k for a, k in zip(exact.alpha, Ka, strict=True))
        FK = [[sum(f * k for f, k in zip(row, column, strict=True)) for column in K] for row in exact.root]
        M = [[exact.variance * sum(a * b for a, b in zip(x, y, strict=True)) for y in exact.root] for x in FK]
    assert norm2 <= Decimal(form.norm2)
    # rounding the exact Gram matrix to floats moves its eigenvalues by far less than what is compared
    largest = np.linalg.eigvalsh(np.array(M, dtype=float))[-1]
    found = operator_range(posterior)
    c = posterior.weights
    assert found.below >= max(0.0, -c.min()) * largest - 1.0 - 1e-12
    assert found.above >= 1.0 + max(0.0, c.max()) * largest - 1e-12
    assert found.size >= np.abs(c).max() * largest - 1e-12
    tight = 1e-9 if offset == 0.0 else 1e-4
    assert found.below <= max(0.0, -c.min() * largest - 1.0) + tight


def test_points_far_from_the_origin_are_enclosed() -> None:
    # |X| / lengthscale reaches 1e8: a bound that takes the scaled inputs for exact is off by up to 4e-3 here.
    for kernel in KERNELS:
        for lengthscale in (1e-4, 1e-6, 1e-8):
            rng = np.random.default_rng(14)
            X = 1 + lengthscale * rng.standard_normal((20, 1))
            y = np.where(X[:, 0] + 0.3 * lengthscale * rng.standard_normal(20) > 1, 1.0, -1.0)
            h = Hyperparameters(1e4, (lengthscale,))
            fit = INFERENCES.get("laplace")(
                BinaryProblem(X, y, ModelSpec(kernel, ard=True), LINKS.get("probit")), h, None
            )
            bound = level_bound(fit.posterior, np.zeros(1), np.arange(1))
            points = X[:6] + lengthscale / 2
            found, evaluated = bound.bounds(points, points), bound.evaluate(points)
            for low, high in ((found.low, found.high), evaluated):
                for i, point in enumerate(points):
                    t = probit(*ExactPosterior(fit.posterior).moments(point))
                    assert Decimal(float(low[i])) <= t <= Decimal(float(high[i]))
                assert np.all(high - low < 1e-6)


def test_the_operators_range_takes_the_extreme_weights_and_rows() -> None:
    # Data far apart: the Gram matrix of the z_k is diagonal, here 2 and 8.
    X, root = np.array([[0.0], [1e3]]), np.diag([1.0, 2.0])
    made_up = random_posterior(np.random.default_rng(0), "matern52", "probit", 2, 1)
    for weights, least, most, size in (
        ([-0.5, -2.0], 15.0, 1.0, 16.0),
        ([0.5, 3.0], 0.0, 25.0, 24.0),
        ([-0.25, 0.5], 1.0, 5.0, 8.0),
        ([-0.1, 0.0], 0.0, 1.0, 8.0),
    ):
        posterior = replace(made_up, X=X, variance=2.0, lengthscales=np.ones(1), root=root, weights=np.array(weights))
        found = operator_range(posterior)
        assert (found.below, found.above, found.size) == pytest.approx((least, most, size), abs=1e-9)
        assert found.above >= most and found.size >= size and found.below >= least
        assert operator_range(posterior) is found


@pytest.mark.parametrize("name", ["rkhs_taylor", "paper"])
@pytest.mark.parametrize("offset", OFFSETS)
def test_boxes_far_from_the_point_of_expansion_are_bounded(name: str, offset: float) -> None:
    rng = np.random.default_rng(int(np.log10(offset + 1)))
    posterior = moved(random_posterior(rng, "squared_exponential", "probit", 12, 2), offset)
    x0 = np.zeros(2) if offset == 1e8 else posterior.X[3]
    bound = {"rkhs_taylor": level_bound, "paper": paper_bound}[name](posterior, x0, np.arange(2))
    exact, scales = ExactPosterior(posterior), posterior.lengthscales
    half = 10.0 ** rng.uniform(-9.0, -1.0, (8, 1)) * scales
    centre = posterior.X[:8] + 0.7 * rng.standard_normal((8, 2)) * scales
    low, high = centre - half, centre + half
    found = bound.bounds(low, high)
    for b in range(8):
        for point in (low[b], high[b], np.clip(centre[b], low[b], high[b])):
            mean, variance = exact.moments(point)
            assert Decimal(float(found.mean_low[b])) <= mean <= Decimal(float(found.mean_high[b]))
            assert Decimal(float(found.variance_low[b])) <= variance <= Decimal(float(found.variance_high[b]))


def test_units_count_what_they_say() -> None:
    assert [round((sum_slack(n) - sum_slack(0)) / UNIT) for n in (1, 784)] == [4, 4 * 784**2]
    far = dot_product_unit(10, 3, np.array([0.0, 100.0])) / UNIT
    assert far.tolist() == [10 + 12 + 64, 10 + 12 + 64 + 11 * 50]
    near = np.array([UNIT, 2 * UNIT])
    assert (spread_unit(near, 4, 1e8) / UNIT).tolist() == [8e8 + 1, 8e8 + 2]
    alpha, root = np.array([3.0, -1.0]), np.array([[2.0, -1.0], [0.0, 4.0]])
    slack = rounding_slack(near, near, alpha, root, 4.0)
    assert slack.coefficient / UNIT == 3 + 2
    zeta = np.sqrt(4.0**2 + 8.0**2)
    assert slack.gram / UNIT == pytest.approx(2 * zeta * 2 + 2 * 4 * 4, rel=1e-9)
    # of alpha' kappa alpha = 10 - 6 kappa with an error of 2 (3 + 2) 4 u
    points = np.array([[0.0], [1.0]])
    value = squared_norm("squared_exponential", points, alpha, np.zeros(2))
    assert value == pytest.approx(10 - 6 * np.exp(-0.5), rel=1e-15)
    assert squared_norm("squared_exponential", points, alpha, near * 2**40) - value == pytest.approx(  # type: ignore[arg-type]
        40 * UNIT * 2**40, rel=1e-9
    )


def test_rounding_goes_outwards() -> None:
    value = np.array([-1.0, 0.0, 1e6])
    for side, sign in ((above, 1), (below, -1)):
        np.testing.assert_allclose(side(value) - value, sign * 1e-13 * (np.abs(value) + 1.0), rtol=1e-2)
        np.testing.assert_allclose(side(value, 0.0) - value, sign * 1e-13 * np.abs(value), rtol=1e-2)


@pytest.mark.parametrize("offset", [0.0, 1e8, -1e15])
def test_a_radius_covers_its_box_and_a_point_has_none(offset: float) -> None:
    rng = np.random.default_rng(6)
    low = offset + rng.standard_normal((200, 2))
    high = low + rng.random((200, 2)) * (rng.random((200, 2)) < 0.7)
    scale = 10.0 ** rng.uniform(-8, 3, 2)
    centre = 0.5 * low + 0.5 * high
    radius = outward_radius(low, high, centre, scale)
    assert np.all(radius[low == high] == 0.0)
    for b in range(200):
        for j in range(2):
            with localcontext(Context(prec=DIGITS)):
                c, r = Decimal(float(centre[b, j])), Decimal(float(radius[b, j])) * Decimal(float(scale[j]))
                needed = max(Decimal(float(high[b, j])) - c, c - Decimal(float(low[b, j])))
                assert needed <= r <= needed * (1 + Decimal(24 * UNIT))
