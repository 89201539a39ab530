"""Pieces of lines for several classes: the quadratic that proposes points, and where it is largest."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.methods.robustness.explain.lines import SoftmaxPieces, softmax_lines
from gpsuite.methods.robustness.multiclass.softmax_bound import Ends
from tests.models.softmax_problems import random_softmax_posterior


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_proposed_point_is_where_the_quadratic_is_largest(sign: int) -> None:
    rng = np.random.default_rng(3)
    low = rng.normal(size=200)
    high = low + 10.0 ** rng.uniform(-1.0, 1.0, 200)
    slope, bend = rng.normal(size=200) * rng.choice([0.1, 3.0], 200), rng.normal(size=200)
    bend[:20], slope[20:30] = 0.0, 0.0
    top, bottom = rng.random((2, 200))
    ends = Ends(bottom, top, bottom, np.zeros((200, 1)))
    with np.errstate(invalid="ignore"):  # as the search that asks
        found = SoftmaxPieces(low, high, ends, slope, bend).bound(sign, np.zeros(200))
    np.testing.assert_array_equal(found.outer, top if sign > 0 else -bottom)
    assert np.all((low - 1e-12 <= found.point) & (found.point <= high + 1e-12))
    centre = 0.5 * (low + high)
    grid = np.linspace(low, high, 401)
    values, reached = (sign * (slope * (x - centre) + bend * (x - centre) ** 2) for x in (grid, found.point))
    fine = 1e-9 * (1.0 + np.abs(values).max(axis=0))
    # a quadratic that bends upwards is largest at an end: the one its slope points to
    assert np.all(reached >= values.max(axis=0) - fine - np.where((slope == 0.0) & (sign * bend > 0.0), np.inf, 0.0))


def test_a_piece_that_is_flat_proposes_its_centre() -> None:
    ends = Ends(np.zeros(1), np.ones(1), np.zeros(1), np.zeros((1, 1)))
    flat = SoftmaxPieces(np.array([1.0]), np.array([4.0]), ends, np.zeros(1), np.zeros(1))
    with np.errstate(invalid="ignore"):
        assert flat.bound(1, np.zeros(1)).point.tolist() == [2.5]


def test_the_quadratic_is_that_of_the_means_at_the_centre() -> None:
    rng = np.random.default_rng(7)
    posterior = random_softmax_posterior(rng, "squared_exponential", 3, 10, 2, (0.0, 0.5))
    points, inputs = posterior.X[:2] + 0.1, np.array([1, 0])
    step = 1e-4
    for own in range(3):
        lines = softmax_lines(posterior, points, inputs, own)
        centre = np.array([points[p, i] for p in range(2) for i in inputs])
        found = lines.pieces(np.arange(4), centre - 1e-3, centre + 1e-3)
        for row, (p, i) in enumerate((p, i) for p in range(2) for i in inputs):
            weights = posterior.moments(points[p : p + 1]).product[0, own]
            near = points[p] + step * np.eye(2)[i] * np.array([[-1.0], [0.0], [1.0]])
            gradient = posterior.mean_with_gradient(near)[1][:, :, i]
            slopes = (gradient[:, own, None] - gradient) @ weights
            assert found.slope[row] == pytest.approx(slopes[1], rel=1e-6, abs=1e-9)
            bend = 0.5 * (slopes[2] - slopes[0]) / (2.0 * step)
            assert found.bend[row] == pytest.approx(bend, rel=1e-4, abs=1e-6)
