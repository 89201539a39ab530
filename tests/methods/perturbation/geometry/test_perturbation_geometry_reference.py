"""Comparison with perturbation.json: ellipsoid radii, the ellipsoid's bands, ray lengths, unboundedness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpsuite.methods.perturbation.bands import ellipsoid_band, pointwise_band
from gpsuite.methods.perturbation.ellipsoid import PerturbedQuadratic, in_metric, inequality_chunks, outer_ellipsoid
from gpsuite.methods.perturbation.rays import single_point_directions
from tests.arrays import Array
from tests.methods.perturbation.reference_cases import REFERENCE, features_of, region_of

pytestmark = pytest.mark.reference

TOLERANCE = 1e-6  # as the file states for radii and ray lengths


def _with(section: str) -> list[Any]:
    return [pytest.param(c, id=c["name"]) for c in REFERENCE.get("cases", []) if section in c]


def _near(quadratic: PerturbedQuadratic) -> Array:
    """Return each radius' tolerance [I]: they lie outward, as A's eigenvalues are lowered by ties and rounding."""
    if not np.isfinite(quadratic.condition):
        return np.full(quadratic.count, TOLERANCE)
    scaled, lowered = in_metric(quadratic)
    least = np.concatenate([np.linalg.eigvalsh(part.A)[:, 0] for _, part in inequality_chunks(scaled)])
    return np.asarray(TOLERANCE + 3.0 * lowered / np.maximum(least, lowered))


def _near_at(q: int, gammas: Array, near: Array) -> float:
    """Return the tolerance of the q-th largest radius."""
    return float(near[np.argsort(-gammas, kind="stable")[q - 1]])


@pytest.mark.parametrize("case", _with("eoa"))
def test_ellipsoid_radii_equal_the_references(case: dict[str, Any]) -> None:
    for q, radius in case["eoa"]["radius"].items():
        ellipsoid = region_of(case, int(q)).ellipsoid()
        expected = np.array(case["eoa"]["gamma_per_perturbation"], dtype=np.float64)
        near = _near(region_of(case, int(q)).quadratic)
        assert np.all(ellipsoid.gammas >= expected * (1.0 - TOLERANCE))
        assert np.all(ellipsoid.gammas <= expected * (1.0 + near))
        at_q = _near_at(int(q), ellipsoid.gammas, near)
        assert ellipsoid.radius == pytest.approx(float(radius), rel=at_q)
        assert ellipsoid.radius >= float(radius) * (1.0 - 1e-9)
        shape = ellipsoid.triangle.T @ ellipsoid.triangle
        np.testing.assert_allclose(shape, case["eoa"]["shape_matrix_H"], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", _with("eoa_band"))
def test_ellipsoid_bands_equal_the_references(case: dict[str, Any]) -> None:
    rows = features_of(case, np.asarray(case["eoa_band"]["x"], dtype=np.float64))
    for q, half in case["eoa_band"]["half_width"].items():
        half, region = np.array(half, dtype=np.float64), region_of(case, int(q))
        ellipsoid = region.ellipsoid()
        band, near = (ellipsoid_band(ellipsoid, rows), _near_at(int(q), ellipsoid.gammas, _near(region.quadratic)))
        np.testing.assert_allclose(band.centre, case["eoa_band"]["centre"], rtol=0.0, atol=1e-8)
        np.testing.assert_allclose(band.upper - band.centre, half, rtol=near)
        np.testing.assert_allclose(band.centre - band.lower, half, rtol=near)
        narrow = pointwise_band(region.quadratic, int(q), rows)
        assert np.all((narrow.lower >= band.lower - 1e-9) & (narrow.upper <= band.upper + 1e-9))


@pytest.mark.parametrize("case", _with("rays_from_alpha_hat"))
def test_rays_end_where_the_reference_says(case: dict[str, Any]) -> None:
    directions = np.array([ray["direction"] for ray in case["rays_from_alpha_hat"]])
    for q in case["q_values"]:
        boundary = region_of(case, q).boundary(directions)
        steps = np.array([ray["boundary_step"][str(q)] for ray in case["rays_from_alpha_hat"]], np.float64)
        np.testing.assert_allclose(boundary.inside, steps, rtol=TOLERANCE)
        np.testing.assert_allclose(boundary.outside, steps, rtol=TOLERANCE)


@pytest.mark.parametrize("case", _with("expected_rank_along_direction_j"))
def test_unbounded_exactly_where_the_rank_stays_low(case: dict[str, Any]) -> None:
    quadratic = region_of(case, 1).quadratic
    rays = single_point_directions(quadratic.design)
    ranks = np.array([case["expected_rank_along_direction_j"][str(j)] for j in range(case["n"])] * 2)
    for q in range(1, case["m"]):
        boundary = region_of(case, q).boundary(rays)
        assert boundary.unbounded.tolist() == (ranks <= case["m"] - q).tolist()
    assert isinstance(quadratic, PerturbedQuadratic)
    assert outer_ellipsoid(quadratic, case["q_values"][-1]).radius == np.inf
