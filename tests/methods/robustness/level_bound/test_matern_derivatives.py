"""Matérn derivatives: orders, remainders and norms where they are sharp."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gpsuite.methods.robustness.level_bound.matern import (
    _EIGENVALUE,
    MATERN_KERNELS,
    MOST_PAIRED_INPUTS,
    _eigenvalues,
    _quartic,
    _table_of,
    expand_matern,
    kernel_orders,
    order_four,
    radial_derivatives,
)
from gpsuite.models.radial import kappa
from tests.arrays import Array
from tests.methods.robustness.level_bound.level_models import one_datum

NAMES = tuple(MATERN_KERNELS)
Wide = np.longdouble  # 64-bit mantissa: the orders cancel to far below one


def exact(name: str, q: Array) -> Array:
    z = np.sqrt(Wide(MATERN_KERNELS[name].nu) * q)
    return ((1 + z + z * z / 3) if name == "matern52" else (1 + z)) * np.exp(-z)


def orders(name: str, offset: Array, x: Array) -> list[Array]:
    """Return orders 0 to 4 of the kernel at x, for a datum at `offset`, in extended precision."""
    q, h, g = offset @ offset, -2 * offset @ x, x @ x
    nu = Wide(MATERN_KERNELS[name].nu)
    z, decay = np.sqrt(nu * q), np.exp(-np.sqrt(nu * q))
    if name == "matern52":
        f2 = Wide(25) / 12 * decay
        f1, f3 = -Wide(5) / 6 * (1 + z) * decay, -Wide(5) / 2 * f2 / z
        f4 = Wide(25) / 4 * f2 * (1 + z) / z**3
    else:
        f1, f2 = -Wide(3) / 2 * decay, Wide(9) / 4 * decay / z
        f3, f4 = -Wide(27) / 8 * decay * (1 + z) / z**3, Wide(81) / 16 * decay * (z * z + 3 * z + 3) / z**5
    return [
        exact(name, q),
        f1 * h,
        f2 * h**2 / 2 + f1 * g,
        f3 * h**3 / 6 + f2 * h * g,
        f4 * h**4 / 24 + f3 * h * h * g / 2 + f2 * g * g / 2,
    ]


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_in_the_squared_distance_agree_with_differences(name: str) -> None:
    q = np.array([0.0, 1e-8, 0.01, 0.7, 3.0, 40.0])
    found = radial_derivatives(MATERN_KERNELS[name], q)
    np.testing.assert_allclose(found[0], kappa(name, q), rtol=1e-14)
    step = 1e-4
    for order in range(4):
        up, down = (radial_derivatives(MATERN_KERNELS[name], q[3:] + s)[order] for s in (step, -step))
        np.testing.assert_allclose((up - down) / (2 * step), found[order + 1][3:], rtol=1e-5)


@pytest.mark.parametrize("order", [3, 4, 5])
@pytest.mark.parametrize("name", NAMES)
def test_what_the_orders_leave_out_is_within_the_remainder_and_nearly_reaches_it(name: str, order: int) -> None:
    kernel, best = MATERN_KERNELS[name], 0.0
    for distance in np.concatenate([np.linspace(0.02, 0.4, 20), np.linspace(0.5, 4.0, 15)]):
        for cosine in (1.0, -1.0, 0.8, 0.3, 0.0):
            for share in (0.02, 0.2, 0.6):
                offset = np.array([distance, 0.0]).astype(Wide)
                rho = share * distance
                x = rho * np.array([cosine, math.sqrt(1 - cosine**2)]).astype(Wide)
                left = exact(name, (offset - x) @ (offset - x)) - sum(orders(name, offset, x)[:order])
                z = math.sqrt(kernel.nu) * (distance - rho)
                bound = kernel.bound(order, np.array([z]))[0] * rho**order / math.factorial(order)
                assert abs(left) <= bound * (1 + 1e-9)
                best = max(best, float(abs(left)) / bound)
    assert best > 0.8


@pytest.mark.parametrize("name", NAMES)
def test_tables_bound_everything_beyond(name: str) -> None:
    rng = np.random.default_rng(3)
    kernel = MATERN_KERNELS[name]
    z = rng.uniform(0.0, 12.0, 40_000)
    beyond = z + rng.exponential(1.0, z.size) * rng.choice([0.0, 1.0], z.size)
    c = np.where(rng.random(z.size) < 0.3, 1.0, rng.random(z.size))
    for order in (3, 4, 5):
        polynomial, pole = kernel.derivatives[order - 3], kernel.poles[order - 3]
        N = sum(factor * c**a * beyond**b for (a, b), factor in polynomial.items())
        share = np.abs(N) * np.exp(-beyond) / beyond**pole / kernel.bound(order, z)
        assert 0.98 < share.max() <= 1.0  # the step of the table
    assert kernel.bound(3, np.array([np.nan, 200.0]))[0] == kernel.bound(3, np.zeros(1))[0]
    assert 0.0 < kernel.bound(5, np.array([200.0]))[0] < 1e-20


def test_order_four_sums_are_attained_for_one_datum() -> None:
    """One positive weight far away: the largest (Dx)^4 and the other terms add up to order 4 along D."""
    offset = np.array([[[1.5], [0.0]]])
    for name in NAMES:
        kernel = MATERN_KERNELS[name]
        f = radial_derivatives(kernel, np.array([[2.25]]))
        rho = np.array([0.1])
        found = kernel_orders(kernel, offset, np.full((1, 1), 1.5), f, rho, 4)
        assert found.fourth.all()
        low, high = order_four(found, np.ones((1, 1)))
        values = [
            float(orders(name, offset[0, :, 0].astype(Wide), 0.1 * np.array([math.cos(t), math.sin(t)]))[4])
            for t in np.linspace(0.0, math.pi, 181)
        ]
        assert low[0] <= min(values) <= max(values) <= high[0]
        quartic = 2.0 / 3.0 * f[4][0, 0] * (1.5 * 0.1) ** 4
        flat = 0.5 * f[2][0, 0] * 0.1**4
        assert high[0] == pytest.approx(quartic + flat, rel=1e-6)
        assert low[0] == pytest.approx(2.0 * f[3][0, 0] * 0.15**2 * 0.1**2, rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_norm_beyond_degree_one_equals_its_formula(name: str) -> None:
    """|phi(x) - phi(c) - D phi(c) x|^2 = 2 - 2 kappa + lambda rho^2 + 2 rho kappa'."""
    expansion = expand_matern(one_datum(name, np.full(1, 30.0)), np.zeros((1, 1)))
    rho = np.array([0.05, 0.3, 1.0, 4.0])
    nu, curvature = MATERN_KERNELS[name].nu, MATERN_KERNELS[name].curvature
    z = np.sqrt(Wide(nu)) * rho.astype(Wide)
    slope = -rho * (Wide(5) / 3 * (1 + z) if name == "matern52" else 3) * np.exp(-z)
    value = 2 - 2 * exact(name, rho.astype(Wide) ** 2) + curvature * rho**2 + 2 * rho * slope
    np.testing.assert_allclose(expansion._beyond_degree_one(rho), value.astype(float), rtol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_slopes_stay_within_the_bound_on_what_is_left_out_of_the_kernels(name: str) -> None:
    """2 |U_1 x (k - orders 0 to 2)| of one datum: within the bound by the data, and nearly reaching it."""
    kernel, best = MATERN_KERNELS[name], 0.0
    for distance in np.linspace(0.05, 1.5, 30):
        for rho in (0.01, 0.2 * distance, 0.5 * distance):
            form = one_datum(name, np.array([distance]), weight=5.0)
            expansion, r = expand_matern(form, np.zeros((1, 1))), np.array([[rho]])
            orders_there = kernel_orders(kernel, expansion.offset, expansion.distance, expansion.f, r[0], 2)
            bound = expansion._slopes_left_out(form, orders_there, r, r[0])[0]
            slope = abs(expansion.W[0, 1, 0])
            for x in (rho, -rho):
                offset, step = np.array([distance]).astype(Wide), np.array([x]).astype(Wide)
                left = exact(name, (offset - step) @ (offset - step)) - sum(orders(name, offset, step)[:3])
                reached = 2.0 * slope * rho * abs(float(left))
                assert reached <= bound * (1 + 1e-9)
                best = max(best, reached / bound)
    assert best > 0.8


def test_slopes_are_bounded_by_norms() -> None:
    """2 sqrt(x'V_1'R V_1 x) |phi(x) - T_2 phi(c)|: the norm's square is 2 + 25/4 r^4 - 2 k + 2 r k' - r^2 k''."""
    form = one_datum("matern52", np.array([0.7]), weight=5.0)
    expansion = expand_matern(form, np.zeros((1, 1)))
    for rho in (0.2, 0.5, 1.0):
        r = np.array([[rho]])
        found = kernel_orders(MATERN_KERNELS["matern52"], expansion.offset, expansion.distance, expansion.f, r[0], 2)
        far = replace(found, slope_remainder=np.full((1, 1), 1e9))
        bound = expansion._slopes_left_out(form, far, r, r[0])[0]
        z = np.sqrt(Wide(5)) * Wide(rho)
        decay = np.exp(-z)
        first, second = -Wide(5) / 3 * rho * (1 + z) * decay, -Wide(5) / 3 * (1 + z - z * z) * decay
        norm2 = (
            2
            + Wide(25) / 4 * rho**4
            - 2 * exact("matern52", Wide(rho) ** 2)  # type: ignore[arg-type]
            + 2 * rho * first
            - rho**2 * second
        )
        gram = abs(float(expansion.V[0, 1] @ expansion.W[0, 1])) * rho**2
        assert bound == pytest.approx(2.0 * math.sqrt(gram * float(norm2)), rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_every_datum_stops_within_its_own_remainder(name: str) -> None:
    """Whatever order is kept: |k - kept orders| is within the stated remainder, that of the next derivative."""
    kernel, met = MATERN_KERNELS[name], set()
    for distance in np.concatenate([np.linspace(0.01, 0.3, 15), np.linspace(0.4, 4.0, 13)]):
        for share in (0.05, 0.2, 0.5, 0.9, 1.5):
            offset, rho = np.array([distance, 0.0]), share * distance
            q = np.array([[distance**2]])
            found = kernel_orders(
                kernel, offset[None, :, None], np.sqrt(q), radial_derivatives(kernel, q), np.array([rho]), 4
            )
            kept = 5 if found.fourth[0, 0] else 4 if found.third[0, 0] else 3
            met.add(kept)
            z = np.sqrt(kernel.nu) * np.maximum(0.0, np.array([distance - rho]))
            next_order = kernel.bound(kept, z)[0] * rho**kept / math.factorial(kept)
            assert found.remainder[0, 0] == pytest.approx(next_order, rel=1e-2)  # a step of the table
            for cosine in (1.0, 0.8, 0.5, 0.2, 0.0, -0.5, -1.0):
                x = rho * np.array([cosine, math.sqrt(1 - cosine**2)]).astype(Wide)
                apart = offset.astype(Wide) - x
                left = abs(float(exact(name, apart @ apart) - sum(orders(name, offset.astype(Wide), x)[:kept])))
                assert left <= found.remainder[0, 0] * (1 + 1e-9) + 1e-17
    assert met == {3, 4, 5}


@pytest.mark.parametrize("order", [3, 4])
@pytest.mark.parametrize("name", NAMES)
def test_beyond_the_table_every_term_counts(name: str, order: int) -> None:
    """Past the last grid point only the sum of the terms' sizes is known to fall."""
    polynomial = MATERN_KERNELS[name].derivatives[order - 3]
    terms = sum(abs(factor) * 64.0**power for (_, power), factor in polynomial.items())
    assert _table_of(name, order)[-1] >= math.exp(-64.0) * terms


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_fourth_powers_of_many_inputs_are_bounded_by_each_sign_apart(sign: float) -> None:
    """sum_j x_j^4 over the unit ball of d inputs lies between 0 (at the centre) and 1, on the sphere above 1 / d."""
    d = MOST_PAIRED_INPUTS + 1
    low, high = _quartic(np.full((1, d), sign), np.eye(d)[None])
    ends = sorted((sign / d, sign))
    assert low[0] <= ends[0] and ends[1] <= high[0]
    assert abs(low[0]) <= 1.0 + 1e-8 and abs(high[0]) <= 1.0 + 1e-8


@pytest.mark.parametrize("sign", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("inputs", [2, MOST_PAIRED_INPUTS, MOST_PAIRED_INPUTS + 1])
def test_sums_of_fourth_powers_lie_within_their_bounds(inputs: int, sign: float) -> None:
    """Weights of one sign and of both, more data than inputs."""
    rng = np.random.default_rng(8)
    offset = rng.normal(0.0, 0.2, (1, inputs, 60))
    weights = rng.normal(size=(1, 60)) if sign == 0.0 else sign * rng.uniform(0.5, 3.0, (1, 60))
    low, high = _quartic(weights, offset)
    x = rng.standard_normal((400, inputs))
    # the ends of the quadratic forms are where a bound that is too tight is seen
    x = np.concatenate([x, np.linalg.eigh(offset[0] @ offset[0].T)[1].T])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    values = ((x @ offset[0]) ** 4) @ weights[0]
    assert low[0] <= min(0.0, values.min()) and max(0.0, values.max()) <= high[0]


def test_eigenvalues_of_weighted_sums_are_rounded_outwards() -> None:
    rng = np.random.default_rng(5)
    weights, vectors = rng.standard_normal((3, 7)), rng.standard_normal((3, 2, 7))
    values = np.linalg.eigvalsh(np.einsum("bn,bjn,bkn->bjk", weights, vectors, vectors))
    size = np.einsum("bn,bjn->b", np.abs(weights), vectors**2)
    low, high = _eigenvalues(weights, vectors)
    assert np.all(np.minimum(values[:, 0], 0.0) - low >= 0.9 * _EIGENVALUE * size)
    assert np.all(high - np.maximum(values[:, -1], 0.0) >= 0.9 * _EIGENVALUE * size)
