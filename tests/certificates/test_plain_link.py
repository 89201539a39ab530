"""The checker's own expectations of the logistic, and its largest value along a line."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from scipy.special import ndtr

from gpsuite.certificates import plain_scores
from gpsuite.certificates.plain_scores import (
    LOGISTIC,
    QUADRATURE,
    WIDE,
    largest_on_line,
    logistic_moments,
    logistic_value,
)
from tests.methods.robustness.decimal_oracle import exact_logistic, many_digits


def test_the_logistics_derivative_bounds_are_largest_values_rounded_up() -> None:
    f = np.linspace(-10, 10, 200001)
    s = 1 / (1 + np.exp(-f))
    slope = s * (1 - s)
    largest = (slope * (1 - 2 * s), slope * (1 - 6 * slope), slope * (1 - 2 * s) * (1 - 12 * slope))
    for stated, values in zip(LOGISTIC, largest, strict=True):
        assert 0 < stated - np.abs(values).max() + 1e-9 < 1e-6


@pytest.mark.parametrize("deviation", [0.0, 1e-3, 0.7, 0.999 * WIDE, 1.001 * WIDE, 10.0, 40.0])
def test_logistic_expectations_keep_their_error(deviation: float) -> None:
    mean = np.array([-30.0, -3.0, 0.0, 1.0] if deviation < 5 else [-7.0, 20.0])
    variance = np.full(len(mean), deviation**2)
    value, first, second = logistic_moments(mean, variance)
    np.testing.assert_array_equal(value, logistic_value(mean, variance))
    exact = [exact_logistic(m, deviation**2) for m in mean.tolist()]
    assert all(abs(Decimal(a) - b) <= Decimal(QUADRATURE) / 10 for a, b in zip(value.tolist(), exact, strict=True))
    h = 1e-3
    with many_digits():
        for place, m in enumerate(mean.tolist()):
            up, down = exact_logistic(m + h, deviation**2), exact_logistic(m - h, deviation**2)
            assert first[place] == pytest.approx(float(up - down) / (2 * h), rel=1e-6, abs=1e-18)
            bend = float(up + down - 2 * exact[place]) / h**2
            assert second[place] == pytest.approx(bend / 2, rel=1e-5, abs=1e-8 * first[place] + 1e-18)


def test_a_huge_variance_costs_nothing_more() -> None:
    value, first, _ = logistic_moments(np.array([0.0, 1e3, -1e150]), np.array([1e12, 1e300, 1e300]))
    np.testing.assert_allclose(value, [0.5, 0.5, ndtr(-1.0)], atol=1e-3)  # type: ignore[arg-type]
    assert np.all(first >= 0)


def test_the_largest_probability_on_a_line_is_above_all_and_close() -> None:
    rng = np.random.default_rng(13)
    low = rng.uniform(0, 4, 60)
    high = low + rng.choice([0.0, 0.1, 5.0], 60)
    G, slope = rng.normal(0, 3, 60), rng.normal(0, 0.5, 60)
    found = largest_on_line(G, slope, low, high)
    v = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, 101)
    p = logistic_value((G[:, None] + slope[:, None] * v).ravel(), v.ravel()).reshape(v.shape).max(axis=1)
    assert np.all(p <= found) and np.all(found - p <= 5e-3)
    # curved along the line: without the second derivative the cells' ends alone are too low
    bend = largest_on_line(np.array([-0.5]), np.array([0.0]), np.zeros(1), np.array([40.0]))
    assert bend[0] > p.min()
    assert largest_on_line(*(np.full(1, each) for each in (np.nan, 0.0, 0.0, 1.0)))[0] == 1.0


def test_the_largest_on_a_line_is_a_probability() -> None:
    G, one = np.array([50.0, 1e6, -50.0]), np.ones(3)
    found = largest_on_line(G, 0.0 * one, 0.5 * one, 2.0 * one)
    np.testing.assert_array_equal(found[:2], 1.0)
    assert 0.0 <= found[2] < 1e-3


def test_the_largest_value_on_a_line_allows_for_the_rounding_of_its_argument() -> None:
    """1e10 - 1e10 v at v = 1 is off by 1e-6 at most, the probability by a quarter of that."""
    found = largest_on_line(*(np.array([each]) for each in (1e10, -1e10, 1.0, 1.0)))[0]
    assert 0.9e-15 * 2e10 <= found - 0.5 <= 1.1e-15 * 2e10


def test_what_lies_between_the_ends_of_a_cell_is_allowed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second derivative along the line, times an eighth of the squared width."""
    monkeypatch.setattr(plain_scores, "CELLS", 1)
    monkeypatch.setattr(plain_scores, "LOGISTIC", (0.0962251, 0.0, 0.0))
    low, high, slope = np.zeros(1), np.ones(1), np.array([2.0])
    found = largest_on_line(np.array([-1.0]), slope, low, high)
    ends = logistic_value(np.array([-1.0, 1.0]), np.array([0.0, 1.0])).max()
    assert found[0] - ends == pytest.approx(0.0962251 * 4.0 / 8.0, rel=1e-9)
