import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from gpsuite.methods.pac_bayes.losses import LOSSES, BandLoss, ExponentialLoss, Loss

EACH_LOSS = [BandLoss(0.6), ExponentialLoss(0.5)]


@pytest.mark.parametrize("loss", EACH_LOSS, ids=lambda loss: loss.name)
@pytest.mark.parametrize(("y", "m", "v"), [(0.3, 0.1, 0.4), (-2.0, 0.5, 0.01), (0.0, 0.0, 9.0)])
def test_expectation_equals_quadrature(loss: Loss, y: float, m: float, v: float) -> None:
    edges = [y - loss.epsilon, y + loss.epsilon]

    def integrand(f: float) -> float:
        return float(loss.pointwise(np.array(y), np.array(f))) * float(norm.pdf(f, m, np.sqrt(v)))

    low, high = m - 12.0 * np.sqrt(v), m + 12.0 * np.sqrt(v)
    points = [p for p in [*edges, m] if low < p < high]
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


def _arrays(*values: float) -> tuple[np.ndarray, ...]:
    return tuple(np.array([v], dtype=np.float64) for v in values)
