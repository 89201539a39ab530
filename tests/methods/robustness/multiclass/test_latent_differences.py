"""The shared expansion of all differences: each pair's models are those of its own binary classifier."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.class_probability import latent_ranges
from gpsuite.methods.robustness.level_bound.cubic import MomentModel
from gpsuite.methods.robustness.level_bound.level_bound import level_bound
from gpsuite.methods.robustness.multiclass import latent_differences as module
from gpsuite.methods.robustness.multiclass.latent_differences import LatentDifferences, class_pairs, latent_differences
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.config import KERNEL_NAMES
from tests.models.softmax_problems import random_softmax_posterior

BOXES = 3
SAME = 1e-9  # sums over the data in another order; bounds of size 1
C = 4


def around(
    kernel: str, inputs: int, seed: int = 3
) -> tuple[MultiClassPosterior, LatentDifferences, FloatArray, FloatArray]:
    rng = np.random.default_rng([seed, inputs])
    posterior = random_softmax_posterior(rng, kernel, C, 9, inputs, (-0.5, 0.5))
    centre = posterior.X[:BOXES] + 0.2 * rng.standard_normal((BOXES, inputs)) * posterior.lengthscales
    half = np.array([[0.02], [0.2], [0.8]]) * posterior.lengthscales / np.sqrt(inputs)
    half[0, 0] = 0.0
    free = np.arange(inputs)
    return posterior, latent_differences(posterior, posterior.X[0], free), centre - half, centre + half


def assert_same(mine: MomentModel, theirs: MomentModel) -> None:
    for name in ("below", "above", "low", "high"):
        np.testing.assert_allclose(getattr(mine, name), getattr(theirs, name), rtol=SAME, atol=SAME)
    for name in ("constant", "linear", "quadratic", "cubic"):
        ours, own = getattr(mine.model, name), getattr(theirs.model, name)
        assert (ours is None) == (own is None)
        if ours is not None:
            np.testing.assert_allclose(ours, own, rtol=SAME, atol=SAME)


@pytest.mark.parametrize("inputs", [1, 3, 5, 66])
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_every_pair_has_the_models_of_its_own_classifier(kernel: str, inputs: int) -> None:
    """Up to three inputs with orders 4 and 5, up to 64 with cubic models, above with quadratic ones."""
    posterior, differences, lo, hi = around(kernel, inputs)
    models, _ = differences.over(lo, hi)
    for pair in class_pairs(C):
        own = level_bound(posterior.difference(*pair), posterior.X[0], np.arange(inputs))
        _, latent = own.latent_model(lo, hi)
        found = models.of(pair)
        np.testing.assert_array_equal(found.radius, latent.radius)
        assert_same(found.mean, latent.mean)
        assert_same(found.variance, latent.variance)


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_points_are_known_as_well_as_for_each_pair(kernel: str) -> None:
    posterior, differences, lo, hi = around(kernel, 2)
    points = 0.5 * (lo + hi)
    together = latent_ranges(differences.form, points)
    for place, pair in enumerate(class_pairs(C)):
        own = latent_ranges(level_bound(posterior.difference(*pair), posterior.X[0], np.arange(2)).form, points)
        for name, values in vars(own).items():
            np.testing.assert_allclose(getattr(together, name)[place], values, rtol=SAME, atol=SAME)


def test_groups_of_pairs_give_the_models_of_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _, differences, lo, hi = around("squared_exponential", 4)
    whole, ranges = differences.over(lo, hi)
    monkeypatch.setattr(module, "ENTRIES", 2 * BOXES * 5 * 9)
    parts, their_ranges = differences.over(lo, hi)
    assert_same(parts.mean, whole.mean)
    assert_same(parts.variance, whole.variance)
    np.testing.assert_allclose(their_ranges.change_high, ranges.change_high, atol=SAME)


def test_combined_means_are_the_weighted_differences() -> None:
    posterior, differences, lo, hi = around("squared_exponential", 2)
    models, _ = differences.over(lo, hi)
    rng = np.random.default_rng(5)
    weights = rng.standard_normal((BOXES, C))
    for own in range(C):
        total, below, above = models.combined_means(own, weights)
        for share in (-1.0, 0.3, 1.0):
            x = 0.5 * (lo + hi) + share * 0.5 * (hi - lo)
            mean = posterior.latent(x)[0]
            exact = sum(weights[:, j] * (mean[:, own] - mean[:, j]) for j in range(C) if j != own)
            for box in range(BOXES):
                offset = share * 0.5 * (hi - lo)[box] / posterior.lengthscales
                row = total.take(np.array([box])).at(offset[None])[0]
                assert row - below[box] - SAME <= exact[box] <= row + above[box] + SAME


def test_what_is_kept_with_a_posterior_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior, differences, _, _ = around("matern52", 2)
    monkeypatch.setattr(MultiClassPosterior, "difference", None)
    again = latent_differences(posterior, posterior.X[1], np.arange(2))
    assert again.form.reductions is differences.form.reductions
