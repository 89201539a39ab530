import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from gpsuite.methods.pac_bayes.losses import (
    LOSSES,
    BandLoss,
    CappedAbsoluteLoss,
    CappedSquareLoss,
    ExponentialLoss,
    Loss,
)
from tests.arrays import Array

CAPPED = [CappedSquareLoss(0.6), CappedAbsoluteLoss(0.4)]
EACH_LOSS = [BandLoss(0.6), ExponentialLoss(0.5), *CAPPED]


@pytest.mark.parametrize("loss", EACH_LOSS, ids=lambda loss: loss.name)
@pytest.mark.parametrize(("y", "m", "v"), [(0.3, 0.1, 0.4), (-2.0, 0.5, 0.01), (0.0, 0.0, 9.0)])
def test_expectation_equals_quadrature(loss: Loss, y: float, m: float, v: float) -> None:
    edges = [y - loss.epsilon, y + loss.epsilon]

    def integrand(f: float) -> float:
        return float(loss.pointwise(np.array(y), np.array(f))) * float(norm.pdf(f, m, np.sqrt(v)))

    low, high = m - 12.0 * np.sqrt(v), m + 12.0 * np.sqrt(v)
    points = [p for p in [*edges, y, m] if low < p < high]
    value, _ = quad(integrand, low, high, points=points, limit=400, epsabs=1e-12)
    assert float(loss.expected(*_arrays(y, m, v))[0]) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("loss", EACH_LOSS, ids=lambda loss: loss.name)
def test_gradient_agrees_with_fourth_order_differences(loss: Loss) -> None:
    rng = np.random.default_rng(0)
    y, m, v = rng.normal(size=40), rng.normal(size=40), rng.uniform(0.05, 3.0, 40)
    value, d_mean, d_variance = loss.expected_with_gradient(y, m, v)
    np.testing.assert_array_equal(value, loss.expected(y, m, v))
    h = 1e-3 * v
    for derivative, arguments in ((d_mean, lambda t: (y, m + t, v)), (d_variance, lambda t: (y, m, v + t))):
        near = loss.expected(*arguments(h)) - loss.expected(*arguments(-h))
        far = loss.expected(*arguments(2 * h)) - loss.expected(*arguments(-2 * h))
        np.testing.assert_allclose((8.0 * near - far) / (12.0 * h), derivative, atol=1e-9)


def test_tails_keep_their_digits() -> None:
    tail = float(BandLoss(1.0).expected(*_arrays(0.0, 0.0, 0.01))[0])
    assert tail == pytest.approx(2.0 * norm.sf(10.0), rel=1e-12)


@pytest.mark.parametrize("loss", EACH_LOSS, ids=lambda loss: loss.name)
@pytest.mark.parametrize("y", [0.0, 0.55, 3.0, 1e12])
def test_zero_variance_gives_the_pointwise_loss(loss: Loss, y: float) -> None:
    results = loss.expected_with_gradient(*_arrays(y, 0.0, 0.0))
    assert all(np.isfinite(part).all() for part in results)
    assert float(results[0][0]) == pytest.approx(float(loss.pointwise(np.array(y), np.array(0.0))))


@pytest.mark.parametrize("loss", EACH_LOSS, ids=lambda loss: loss.name)
def test_values_stay_in_the_unit_interval(loss: Loss) -> None:
    rng = np.random.default_rng(2)
    values = loss.expected(5 * rng.normal(size=500), rng.normal(size=500), 10.0 ** rng.uniform(-20, 4, 500))
    assert values.min() >= 0.0
    assert values.max() <= 1.0 + 1e-15


@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan, np.inf])
def test_rejects_a_width_that_is_not_positive(name: str, epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        LOSSES.get(name)(epsilon)


def test_the_table_holds_each_loss_under_its_name() -> None:
    assert {name: LOSSES.get(name)(1.0).name for name in LOSSES} == {name: name for name in LOSSES}


def _kept_by_quadrature(loss: Loss, offset: float, v: float) -> float:
    """Return E[1 - loss], an integral over |f - y| < epsilon, to about 1e-14 relative."""

    def integrand(u: float) -> float:
        kept = 1.0 - float(loss.pointwise(np.array(0.0), np.array(u)))
        return kept * float(np.exp(-0.5 * (u - offset) ** 2 / v)) / np.sqrt(2.0 * np.pi * v)

    sides = [(-loss.epsilon, 0.0), (0.0, loss.epsilon)]
    return sum(quad(integrand, *side, epsabs=0.0, epsrel=1e-13, limit=200)[0] for side in sides)


@pytest.mark.parametrize("loss", CAPPED, ids=lambda loss: loss.name)
@pytest.mark.parametrize("deviations", [0.1, 0.49999, 0.50001, 3.0])
@pytest.mark.parametrize("distance", [0.0, 0.3, 1.0, 2.5])
def test_capped_losses_are_exact_on_both_sides_of_the_switch(loss: Loss, deviations: float, distance: float) -> None:
    v = (loss.epsilon / deviations) ** 2
    kept = _kept_by_quadrature(loss, distance, v)
    assert float(loss.expected(*_arrays(0.0, distance, v))[0]) == pytest.approx(1.0 - kept, abs=3e-15)


@pytest.mark.parametrize("loss", CAPPED, ids=lambda loss: loss.name)
@given(m=st.floats(-30.0, 30.0), log_variance=st.floats(-25.0, 25.0), more=st.floats(0.0, 3.0))
def test_capped_losses_are_symmetric_in_range_and_grow_with_the_distance(
    loss: Loss, m: float, log_variance: float, more: float
) -> None:
    v = np.exp([log_variance] * 3)
    y, means = np.zeros(3), np.array([m, -m, m + np.copysign(more, m)])
    value, d_mean, d_variance = loss.expected_with_gradient(y, means, v)
    assert 0.0 <= value.min() <= value.max() <= 1.0
    assert value[0] == value[1]
    assert d_mean[0] == -d_mean[1]
    assert value[2] >= value[0] - 1e-15
    assert np.isfinite(d_variance).all()


@pytest.mark.parametrize("loss", CAPPED, ids=lambda loss: loss.name)
def test_derivatives_of_capped_losses_keep_their_digits_when_the_variance_is_large(loss: Loss) -> None:
    v = np.logspace(0.0, 20.0, 21)
    y, m = np.zeros(21), 0.7 * np.sqrt(v)
    _, d_mean, d_variance = loss.expected_with_gradient(y, m, v)
    # 1 - loss has the integral `mass`, so that the expectation is 1 - mass * density to leading order
    mass = loss.epsilon * (4.0 / 3.0 if loss.name == "capped_square" else 1.0)
    density = norm.pdf(0.7) / np.sqrt(v)
    far = v > 1e6
    np.testing.assert_allclose(d_mean[far], (mass * density * 0.7 / np.sqrt(v))[far], rtol=1e-5)
    np.testing.assert_allclose(d_variance[far], (mass * density * (1.0 - 0.49) / (2.0 * v))[far], rtol=1e-5)


def test_capped_losses_inside_the_cap_are_the_plain_moments() -> None:
    v = np.array([1e-300, 1e-30, 1e-8, 1e-4])
    y, m = np.zeros(4), np.array([0.0, 1e-12, 1e-3, 0.02])
    square, d_mean, d_variance = CappedSquareLoss(0.5).expected_with_gradient(y, m, v)
    np.testing.assert_allclose(square, (m**2 + v) / 0.25, rtol=1e-14)
    np.testing.assert_allclose(d_mean, 2.0 * m / 0.25, rtol=1e-14)
    np.testing.assert_allclose(d_variance, 1.0 / 0.25, rtol=1e-14)
    absolute = CappedAbsoluteLoss(0.5).expected(y, np.zeros(4), v)
    np.testing.assert_allclose(absolute, np.sqrt(2.0 * v / np.pi) / 0.5, rtol=1e-14)


def test_capped_losses_are_ordered_above_the_band_loss() -> None:
    rng = np.random.default_rng(6)
    y, m, v = rng.normal(size=300), rng.normal(size=300), 10.0 ** rng.uniform(-6, 6, 300)
    absolute, square = (loss(0.6).expected(y, m, v) for loss in (CappedAbsoluteLoss, CappedSquareLoss))
    assert (square <= absolute + 1e-15).all()
    assert (BandLoss(0.6).expected(y, m, v) <= square + 1e-15).all()


def _arrays(*values: float) -> tuple[Array, ...]:
    return tuple(np.array([v], dtype=np.float64) for v in values)
