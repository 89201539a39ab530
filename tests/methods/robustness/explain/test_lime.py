"""LIME's weights: exact on linear functions, the published settings, against scikit-learn and the package lime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.explain.effects import lime_mask_weights, lime_weights, proximity, weighted_slopes

RECORDED = json.loads((Path(__file__).parent / "lime.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda case: f"seed {case['seed']}")
def test_slopes_are_those_of_the_package_lime_on_its_own_samples(case: dict[str, Any]) -> None:
    """`made` in the file says how lime was called; weights by distance, floor and fit are all seen in its answer."""
    samples, point = np.array(case["samples"]), np.array(case["point"])
    found = weighted_slopes(samples, np.array(case["values"]), proximity(samples, point))
    np.testing.assert_allclose(found, case["slopes"], rtol=1e-9, atol=1e-12)


def test_a_linear_function_is_found_exactly() -> None:
    slopes = np.array([0.5, -2.0, 0.0])
    found = lime_weights(lambda X: 0.3 + X @ slopes, np.array([1.0, 2.0, 3.0]), np.random.default_rng(0))
    np.testing.assert_allclose(found, slopes, atol=1e-12)


def test_slopes_are_those_of_weighted_least_squares() -> None:
    rng = np.random.default_rng(1)
    X, values, weights = rng.standard_normal((90, 4)), rng.random(90), rng.random(90)
    oracle = LinearRegression().fit(X, values, sample_weight=weights)
    np.testing.assert_allclose(weighted_slopes(X, values, weights), oracle.coef_, rtol=1e-10)


def test_samples_far_in_angle_count_little_and_never_nothing() -> None:
    point = np.array([1.0, 0.0])
    samples = np.array([[2.0, 0.0], [1.0, 1.0], [-1.0, 0.0], [0.0, 0.0]])
    cosine_distance = 1.0 - np.sqrt(0.5)
    wanted = [1.0, np.exp(-0.5 * (cosine_distance / 0.25) ** 2), 0.01, 0.01]
    np.testing.assert_allclose(proximity(samples, point), wanted)
    np.testing.assert_allclose(proximity(samples, np.zeros(2)), 0.01)


def test_lime_draws_thirty_samples_per_input_around_the_point() -> None:
    seen: list[FloatArray] = []

    def probability(X: FloatArray) -> FloatArray:
        seen.append(X)
        return X[:, 0]

    point = np.full(40, 7.0)
    lime_weights(probability, point, np.random.default_rng(2))
    assert seen[0].shape == (1200, 40)
    assert np.mean(seen[0]) == pytest.approx(7.0, abs=0.02)
    assert np.std(seen[0]) == pytest.approx(1.0, abs=0.02)


def test_masks_keep_or_blacken_the_pixels_above_zero() -> None:
    image, slopes = np.array([0.5, 0.0, 1.0, 0.25]), np.array([0.4, 9.0, -0.2, 0.8])
    seen: list[FloatArray] = []

    def probability(X: FloatArray) -> FloatArray:
        seen.append(X)
        return np.asarray(0.3 + X @ slopes)

    found = lime_mask_weights(probability, image, np.random.default_rng(3))
    np.testing.assert_allclose(found, image * slopes, atol=1e-12)  # black ones get 0, whatever they would do
    assert seen[0].shape == (1 + 3 * 30, 4)
    np.testing.assert_array_equal(seen[0][0], image)
    assert ((seen[0] == 0.0) | (seen[0] == image)).all()
    kept = seen[0][1:, [0, 2, 3]] > 0.0
    assert 0.3 < kept.mean() < 0.7 and len(np.unique(kept, axis=0)) == 8


def test_a_black_image_has_no_weights() -> None:
    assert not lime_mask_weights(lambda X: X[:, 0], np.zeros(3), np.random.default_rng(4)).any()
