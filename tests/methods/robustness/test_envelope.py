from __future__ import annotations

import numpy as np
import pytest

from gpsuite.methods.robustness.envelope import chord_line, distance_ranges, envelope_mean, lowest_point, tangent_line
from gpsuite.methods.robustness.operators import operator_form
from gpsuite.methods.robustness.search.regions import measure
from gpsuite.models.radial import kappa
from tests.methods.robustness.made_up_posteriors import (
    KERNELS,
    Exact,
    points_inside,
    random_boxes,
    random_posterior,
    random_setting,
)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_tangent_lies_below_and_the_chord_above_the_kernel(kernel: str) -> None:
    nearest, farthest = np.array([[0.0, 0.3, 2.0, 5.0]]), np.array([[1e-3, 4.0, 2.1, 500.0]])
    share = np.linspace(0.0, 1.0, 101)[:, None]
    q = nearest + share * (farthest - nearest)
    below, above = (line(kernel, nearest, farthest) for line in (tangent_line, chord_line))
    assert np.all(below[0] + below[1] * q <= kappa(kernel, q) + 1e-15)
    assert np.all(above[0] + above[1] * q >= kappa(kernel, q) - 1e-15)
    middle = 0.5 * (nearest + farthest)
    np.testing.assert_allclose(below[0] + below[1] * middle, kappa(kernel, middle), atol=1e-15)


def test_distance_ranges_are_attained() -> None:
    posterior = random_posterior(np.random.default_rng(5), "matern32", "probit", 8, 3)
    form = operator_form(posterior, posterior.X[0], np.array([0, 1]))
    centre, radius = np.array([[0.3, -0.4]]), np.array([[0.5, 0.2]])
    grid = np.linspace(-1.0, 1.0, 201)
    points = centre + form.lengthscales * radius * np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    q = form.squared_distances(points)
    at_centre, nearest, farthest = distance_ranges(form, centre, radius)
    np.testing.assert_allclose(farthest[0], q.max(axis=0), rtol=1e-12)
    np.testing.assert_allclose(at_centre, form.squared_distances(centre), rtol=1e-12)
    assert np.all(nearest[0] <= q.min(axis=0) + 1e-12)
    np.testing.assert_allclose(nearest[0], q.min(axis=0), rtol=1e-2, atol=1e-4)


@pytest.mark.guarantee
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_mean_lies_within(kernel: str) -> None:
    rng = np.random.default_rng(11)
    for _ in range(6):
        posterior, x0, free = random_setting(rng, kernel, "probit", 12, 10, False)
        low, high = random_boxes(rng, posterior, x0, free, 20)
        form, exact = operator_form(posterior, x0, free), Exact(posterior, x0, free)
        boxes = measure(form, low, high)
        least, most = envelope_mean(form, boxes.centre, boxes.radius)
        for b in range(20):
            mean, _ = exact(points_inside(rng, exact, low[b], high[b], 8))
            assert least[b] <= mean.min()
            assert most[b] >= mean.max()


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_envelope_is_exact_for_one_negative_weight_at_the_ends(kernel: str) -> None:
    # A single chord takes kappa's own values at the ends of the range of the distance.
    posterior = random_posterior(np.random.default_rng(6), kernel, "probit", 1, 1)
    sign = np.sign(posterior.alpha[0])
    form = operator_form(posterior, posterior.X[0], np.zeros(1, int))
    boxes = measure(form, posterior.X[0][None] + 0.1, posterior.X[0][None] + 0.5)
    low, high = envelope_mean(form, boxes.centre, boxes.radius)
    nearest = posterior.latent(posterior.X[0][None] + 0.1)[0][0]
    assert (high if sign > 0.0 else low)[0] == pytest.approx(nearest, rel=1e-9)


def test_the_lowest_point_of_a_sum_of_distances_lies_in_its_box() -> None:
    """Convex, concave, flat (opposite slopes: linear) and without any slope."""
    posterior = random_posterior(np.random.default_rng(5), "matern32", "probit", 4, 2)
    form = operator_form(posterior, posterior.X[0], np.arange(2))
    slope = np.array([[1.0, 0.0, 2.0, 0.5], [-1.0, 0.0, -2.0, -0.5], [1.0, -1.0, 0.0, 0.0], np.zeros(4)])
    centre, radius = np.tile(posterior.X[1] + 0.2, (4, 1)), np.full((4, 2), 0.3)
    with np.errstate(all="raise"):
        found = lowest_point(form, centre, radius, slope)
    assert np.all(np.abs(found - centre) <= radius * form.lengthscales * (1 + 1e-12))
    grid = np.linspace(-1.0, 1.0, 41)
    steps = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    for b in range(4):
        points = centre[b] + form.lengthscales * radius[b] * steps
        least = (form.squared_distances(points) @ slope[b]).min()
        assert float((form.squared_distances(found[b : b + 1]) @ slope[b])[0]) <= least + 1e-12
