"""The margin of latent functions: what it proves is true of the softmax' expectations, and it holds over boxes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.methods.robustness.multiclass.latent_differences import class_pairs, latent_differences
from gpsuite.methods.robustness.multiclass.latent_margin import LatentMargin, _combinations
from gpsuite.methods.robustness.point_search import PointSearch
from gpsuite.methods.robustness.search.regions import Region, box, l2_ball
from gpsuite.models.classification.multiclass_posterior import centred_root, softmax_moments
from gpsuite.models.config import KERNEL_NAMES
from tests.arrays import Array
from tests.models.softmax_problems import random_softmax_posterior


def slacks(mean: Array, covariance: Array, own: int) -> Array:
    """Return the least slack of a class against each rival [B, C - 1]."""
    C = mean.shape[1]
    own_variance = np.einsum("bii->bi", covariance)
    D = own_variance[:, :, None] + own_variance[:, None] - 2.0 * covariance
    i, j = np.array(class_pairs(C)).T
    weights = _combinations(C, own)
    every = (mean[:, i] - mean[:, j]) @ weights[0].T + D[:, i, j] @ weights[1].T
    return every.reshape(len(mean), C - 1, C - 1).min(axis=2)


@pytest.mark.guarantee
@pytest.mark.parametrize(("C", "count", "least"), [(3, 17_000, 30_000), (4, 1_500, 4_000)])
def test_a_positive_slack_proves_the_larger_probability(C: int, count: int, least: int) -> None:
    """102,000 and 18,000 triples of a Gaussian, a class and a rival, within the cubature's error; none is outside."""
    rng = np.random.default_rng([20261128, C])
    root = rng.standard_normal((count, C, C)) * np.exp(rng.uniform(-2.0, 1.0, (count, 1, 1)))
    covariance = root @ root.transpose(0, 2, 1)
    mean = rng.standard_normal((count, C)) * np.exp(rng.uniform(-2.0, 1.0, (count, 1)))
    found = softmax_moments(mean, centred_root(covariance))
    shown = 0
    for own in range(C):
        rivals = [rival for rival in range(C) if rival != own]
        positive = slacks(mean, covariance, own) > 0.0
        margin = found.mean[:, [own]] - found.mean[:, rivals]
        assert (margin[positive] > -2.0 * np.repeat(found.error, C - 1).reshape(positive.shape)[positive]).all()
        shown += int(positive.sum())
    assert shown > least


def test_equal_variances_need_the_mean_only() -> None:
    """Of independent functions of one variance the larger mean wins, and a wide rival needs more than a larger mean."""
    mean = np.array([[0.1, 0.0, -1.0]])
    assert slacks(mean, 4.0 * np.eye(3)[None], 0) == pytest.approx(np.array([[0.1, 1.1]]))
    assert (slacks(mean, np.diag([1.0, 9.0, 1.0])[None], 0) < 0.0).any()


@pytest.mark.parametrize("large", [1 << 20, 0])
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
@pytest.mark.parametrize("C", [3, 6])
def test_no_point_of_a_box_has_less(C: int, kernel: str, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpsuite.methods.robustness.multiclass.latent_margin.LARGE", large)
    rng = np.random.default_rng([7, C])
    for _ in range(6):
        n, d = int(rng.integers(3, 15)), int(rng.integers(1, 4))
        posterior = random_softmax_posterior(rng, kernel, C, n, d, (-1.0, 1.0))
        margin = LatentMargin(latent_differences(posterior, posterior.X[0], np.arange(d)), int(rng.integers(C)))
        centre = posterior.X[rng.integers(n, size=8)]
        half = 10.0 ** rng.uniform(-4.0, 0.0, (8, 1)) * rng.random((8, d)) * posterior.lengthscales
        ends = margin.bounds(centre - half, centre + half)
        points = centre + rng.uniform(-1.0, 1.0, (50, 8, d)) * half
        low, high = (each.reshape(50, 8) for each in margin.evaluate(points.reshape(-1, d)))
        assert (low <= high).all()
        assert (ends.low <= high + 1e-12).all()
        small = half.max(axis=1) < 1e-3 * posterior.lengthscales.min()
        assert (low.min(axis=0) - ends.low)[small].max(initial=0.0) < 0.02


def test_the_class_of_ten_is_proved_by_one_search() -> None:
    rng = np.random.default_rng(3)
    posterior = random_softmax_posterior(rng, "squared_exponential", 10, 30, 2, (0.0, 1.0))
    proved = 0
    for x in posterior.X[:10]:
        search = PointSearch(posterior, x, np.arange(2))
        region = box(x, 0.02 * posterior.lengthscales.min())
        verdict, found = search.decide(region, Budget(boxes=16))
        assert search.centre.proved
        if verdict.status == "safe" and search.proves_class(found.values()):
            proved += 1
            assert sorted(found) == [rival for rival in range(10) if rival != search.centre.own]
            assert sum(each.boxes for each in found.values()) <= 8
            p = posterior.probabilities(rng.uniform(region.lower, region.upper, (200, 2)))
            assert (p.argmax(axis=1) == search.centre.own).all()
    assert proved >= 3


@pytest.mark.parametrize("region_of", [box, l2_ball])
def test_attacks_stay_in_the_region_and_lead_down(region_of: Callable[..., Region]) -> None:
    rng = np.random.default_rng(11)
    posterior = random_softmax_posterior(rng, "squared_exponential", 5, 30, 4, (0.0, 1.0))
    lower = 0
    for x in posterior.X[:10]:
        margin = LatentMargin(latent_differences(posterior, x, np.arange(4)), 0)
        region = region_of(x, 0.05 * posterior.lengthscales.min())
        points = margin.attacks(region)
        assert points.shape == (4 + 4 * 3, 4)
        assert region.contains(points).all()
        lower += margin.evaluate(points)[1].min() < margin.evaluate(x[None])[0][0]
    assert lower == 10


def test_an_input_without_a_margin_ends_the_search_before_a_box(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the search without attacks proves none of these classes."""
    rng = np.random.default_rng(3)
    posterior = random_softmax_posterior(rng, "squared_exponential", 10, 30, 2, (0.0, 1.0))
    attacked = 0
    for x in posterior.X[:10]:
        search, region = PointSearch(posterior, x, np.arange(2)), box(x, 0.3 * posterior.lengthscales.min())
        budget = Budget(boxes=16)
        verdict, found = search.decide(region, budget, latent_only=True)
        if found or budget.spent_boxes:
            continue
        attacked += verdict.status == "unknown"
        with monkeypatch.context() as without:
            without.setattr(LatentMargin, "attacks", lambda self, region: region.start[None])
            assert search.decide(region, Budget(boxes=200), latent_only=True)[0].status == "unknown"
    assert attacked >= 5
