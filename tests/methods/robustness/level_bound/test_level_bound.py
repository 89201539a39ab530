"""The level bound over boxes: sound, exact in the limit, tighter than the baseline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpsuite.methods.robustness.class_probability import BoxBounds
from gpsuite.methods.robustness.level_bound.cubic import Cubic, LatentModel, MomentModel
from gpsuite.methods.robustness.level_bound.level_bound import level_bound
from gpsuite.methods.robustness.paper_bound import paper_bound
from gpsuite.models.classification.approximation import BinaryProblem, GPCPosterior
from gpsuite.models.classification.laplace import laplace
from gpsuite.models.classification.links import PROBIT
from gpsuite.models.config import Hyperparameters, ModelSpec
from tests.methods.robustness.made_up_posteriors import (
    KERNELS,
    LINK_NAMES,
    Exact,
    count_violations,
    random_boxes,
    random_posterior,
    random_setting,
)


@pytest.mark.guarantee
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("sparse", [False, True])
def test_every_point_lies_within_the_bounds(kernel: str, sparse: bool) -> None:
    rng = np.random.default_rng(17)
    checks = failures = 0
    for model in range(4):
        link = LINK_NAMES[model % 3]
        posterior, x0, free = random_setting(rng, kernel, link, int(rng.integers(3, 16)), 20, sparse)
        bound = level_bound(posterior, x0, free)
        low, high = random_boxes(rng, posterior, x0, free, 12)
        done, failed = count_violations(rng, bound, Exact(posterior, x0, free), low, high, 8)
        checks, failures = checks + done, failures + failed
    assert checks > 2000
    assert failures == 0


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("link", LINK_NAMES)
def test_a_shrinking_box_gives_the_value_at_the_point(kernel: str, link: str) -> None:
    posterior = random_posterior(np.random.default_rng(2), kernel, link, 20, 3)
    x0, free = posterior.X[0] + 0.1, np.array([0, 2])
    bound = level_bound(posterior, x0, free)
    mean, variance = posterior.latent(x0[None])
    probability = posterior.probability(x0[None])[0]
    scale = posterior.variance * np.abs(posterior.alpha).sum() + posterior.variance
    for half, near in ((1e-3, 2e-2), (1e-6, 1e-5), (0.0, 1e-9)):
        b = bound.bounds((x0[free] - half)[None], (x0[free] + half)[None])
        for low, high, value in ((b.mean_low, b.mean_high, mean[0]), (b.variance_low, b.variance_high, variance[0])):
            assert low[0] <= value + 1e-12 * scale
            assert high[0] >= value - 1e-12 * scale
            assert high[0] - low[0] <= near * scale
        p_low, p_high = bound.outward_probability(b.low, b.high)
        assert p_low[0] - 1e-12 <= probability <= p_high[0] + 1e-12
        assert bound.to_probability(b.centre)[0] == pytest.approx(probability, abs=1e-7)
    assert p_high[0] - p_low[0] < 1e-5


@pytest.mark.parametrize("kernel", KERNELS)
def test_boxes_a_few_at_a_time_have_the_bounds_of_all_at_once(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = random_posterior(np.random.default_rng(5), kernel, "probit", 20, 4)
    bound, half = level_bound(posterior, posterior.X[0], np.arange(4)), 0.4 * posterior.lengthscales
    low, high, score = posterior.X[:7] - half, posterior.X[:7] + half, np.array(0.0)
    whole, radius = bound.bound_boxes(low, high, 1, score)
    assert np.any(whole.outer > score)  # these are bounded by parts of their variances
    monkeypatch.setattr("gpsuite.methods.robustness.level_bound.level_bound._CACHED", 2 * 4**3)
    parts, their_radius = bound.bound_boxes(low, high, 1, score)
    np.testing.assert_array_equal(their_radius, radius)
    for name in ("outer", "point", "share", "remainder"):  # sums of other lengths may round otherwise
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-9, atol=1e-12)


def test_a_constant_input_adds_next_to_nothing() -> None:
    posterior = random_posterior(np.random.default_rng(8), "squared_exponential", "probit", 15, 3)
    x0 = posterior.X[2]
    low, high = x0 - np.array([0.3, 0.0, 0.2]), x0 + np.array([0.3, 0.0, 0.2])
    free = np.array([0, 2])
    every = level_bound(posterior, x0, np.arange(3)).with_slice_norm().bounds(low[None], high[None])
    two = level_bound(posterior, x0, free).with_slice_norm().bounds(low[None, free], high[None, free])
    # Not equal: the norm of what is folded away no longer counts.
    for name in ("mean", "variance"):
        wide, narrow = (getattr(b, f"{name}_high")[0] - getattr(b, f"{name}_low")[0] for b in (every, two))
        assert narrow <= wide < 1.5 * narrow
    assert every.split_score[0, 1] < 1e-12
    assert np.all(every.split_score[0, [0, 2]] > 0.0)


def synthetic_2d(lengthscale: float = 1.2) -> GPCPosterior:
    """Return Laplace's posterior of two normal clouds of 80 points each."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((160, 2))
    X[:80, 0] += 3.0
    X[80:, 1] += 3.0
    y = np.repeat([-1.0, 1.0], 80)
    hyperparameters = Hyperparameters(50.0, (lengthscale, lengthscale))
    return laplace(BinaryProblem(X, y, ModelSpec(ard=True), PROBIT), hyperparameters).require_converged()


@pytest.fixture(scope="module")
def clouds() -> GPCPosterior:
    return synthetic_2d()


def test_the_level_bound_is_tighter_than_the_baseline_on_moderate_boxes(clouds: GPCPosterior) -> None:
    rng = np.random.default_rng(1)
    centre, free = clouds.X[rng.integers(160, size=40)], np.arange(2)
    ours = level_bound(clouds, clouds.X[0], free).bounds(centre - 0.2, centre + 0.2)
    theirs = paper_bound(clouds, clouds.X[0], free).bounds(centre - 0.2, centre + 0.2)
    for wide, narrow in (
        (theirs.variance_high - theirs.variance_low, ours.variance_high - ours.variance_low),
        (theirs.high - theirs.low, ours.high - ours.low),
    ):
        assert np.median(wide / narrow) > 4.5


def test_the_widths_shrink_with_the_box_at_first_order(clouds: GPCPosterior) -> None:
    bound, centre = level_bound(clouds, clouds.X[0], np.arange(2)), np.array([[1.5, 1.5]])
    widths = []
    for half in (0.1, 0.05, 0.025):
        b = bound.bounds(centre - half, centre + half)
        widths.append((b.high - b.low)[0])
    assert widths[0] > 1.9 * widths[1]
    assert widths[1] > 1.9 * widths[2]


def same(left: BoxBounds, right: BoxBounds, rel: float) -> None:
    for name in ("mean_low", "mean_high", "variance_low", "variance_high", "low", "high", "centre", "split_score"):
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=rel, atol=rel, err_msg=name)


def test_boxes_of_a_batch_do_not_depend_on_each_other(clouds: GPCPosterior) -> None:
    bound = level_bound(clouds, clouds.X[0], np.arange(2))
    low, high = clouds.X[:11] - 0.2, clouds.X[:11] + 0.3
    whole, alone = bound.bounds(low, high), bound.bounds(low[4:5], high[4:5])
    for name in ("mean_low", "variance_high", "low", "high"):
        np.testing.assert_allclose(getattr(whole, name)[4:5], getattr(alone, name), rtol=1e-9, atol=1e-9)


def test_with_every_input_free_the_fixed_point_does_not_matter(clouds: GPCPosterior) -> None:
    low, high = clouds.X[:5] - 0.2, clouds.X[:5] + 0.3
    first, second = (level_bound(clouds, clouds.X[i], np.arange(2)).bounds(low, high) for i in (0, 60))
    same(first, second, 1e-7)


def test_values_that_are_not_numbers_give_trivial_bounds(clouds: GPCPosterior) -> None:
    bound = level_bound(clouds, clouds.X[0], np.arange(2))
    low = np.array([[np.nan, 0.0], [-np.inf, 0.0], [-1e200, -1e200], [0.0, 0.0]])
    high = np.array([[1.0, 1.0], [np.inf, 1.0], [1e200, 1e200], [0.1, 0.1]])
    b = bound.bounds(low, high)
    p_low, p_high = bound.outward_probability(b.low, b.high)
    assert not np.isnan(np.concatenate([b.low, b.high, b.mean_low, b.variance_high, p_low, p_high])).any()
    assert np.all(p_low[:2] == 0.0)
    assert np.all(p_high[:2] == 1.0)
    assert p_low[2] < posterior_range(clouds)[0]
    assert p_high[2] > posterior_range(clouds)[1]
    assert 0.0 < p_low[3] <= p_high[3] < 1.0


def posterior_range(posterior: GPCPosterior) -> tuple[float, float]:
    values = posterior.probability(posterior.X)
    return float(values.min()), float(values.max())


def test_nan_scores_give_probabilities_zero_and_one(clouds: GPCPosterior) -> None:
    bound, nan = level_bound(clouds, clouds.X[0], np.arange(2)), np.array([np.nan])
    assert [end[0] for end in bound.outward_probability(nan, nan)] == [0.0, 1.0]


def test_mistakes_are_refused(clouds: GPCPosterior) -> None:
    free = np.arange(2)
    with pytest.raises(ValueError, match="x0"):
        level_bound(clouds, np.zeros(3), free)
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="finite numbers"):
            level_bound(clouds, np.array([0.0, bad]), free)
    for dims in (np.array([0, 0]), np.array([2]), np.array([-1]), np.array([], dtype=int)):
        with pytest.raises(ValueError, match="distinct indices"):
            level_bound(clouds, clouds.X[0], dims)
    bound = level_bound(clouds, clouds.X[0], free)
    with pytest.raises(ValueError, match="lower end above"):
        bound.bounds(np.ones((1, 2)), np.zeros((1, 2)))
    with pytest.raises(ValueError, match="shapes"):
        bound.bounds(np.zeros((1, 3)), np.ones((1, 3)))


@pytest.mark.parametrize(("mean", "below", "above", "best"), [(1.0, 0.5, 0.0, 0.5), (-1.0, 0.0, 0.5, 1.5)])
def test_the_remainder_of_the_variance_counts_on_the_side_that_raises_the_score(
    clouds: GPCPosterior, mean: float, below: float, above: float, best: float
) -> None:
    """A point box whose variance may be 1 - below to 1 + above: the largest score lies at one of these ends."""
    bound = level_bound(clouds, clouds.X[0], np.arange(2))
    one, flat = np.ones(1), np.zeros((1, 2))
    constant = Cubic(mean * one, flat, flat[:, :, None] * flat[:, None], None)
    zero = 0.0 * one
    latent = LatentModel(
        flat,
        MomentModel(constant, zero, zero, mean * one, mean * one),
        MomentModel(
            replace(constant, constant=one), below * one, above * one, (1.0 - below) * one, (1.0 + above) * one
        ),
    )
    exact = mean / np.sqrt(1.0 + best)
    for threshold in (exact, 0.9 * exact, 1.1 * exact):
        found = bound.bound(flat, latent, 1, np.array(threshold)).outer[0]
        assert exact <= found <= exact + 0.2


def test_the_norm_of_a_slice_is_that_of_its_folded_weights() -> None:
    posterior = random_posterior(np.random.default_rng(3), "squared_exponential", "probit", 12, 3)
    form = level_bound(posterior, posterior.X[0] + 0.2, np.array([0, 1])).form
    U = (form.X / form.lengthscales[:, None]).T
    weights = form.alpha * form.weight
    exact = weights @ np.exp(-0.5 * ((U[:, None] - U[None]) ** 2).sum(axis=2)) @ weights
    assert exact <= form.with_slice_norm().norm2 <= exact * (1.0 + 1e-9) + 1e-12
    assert form.norm2 >= form.with_slice_norm().norm2


def test_the_norm_of_a_slice_has_room_for_what_its_folded_weights_are_off_by() -> None:
    """A weight exp(-f / 2) is off by (D + 8) u f / 2 of itself, an entry of kappa by as much."""
    rng = np.random.default_rng(3)
    posterior = random_posterior(rng, "squared_exponential", "probit", 12, 3)
    x0 = posterior.X[0] + np.array([0.0, 0.0, 6.0]) * posterior.lengthscales
    form = level_bound(posterior, x0, np.array([0, 1])).form
    U = ((form.X / form.lengthscales[:, None]).T).astype(np.longdouble)
    weights = form.alpha.astype(np.longdouble) * form.weight
    exact = float(weights @ np.exp(-0.5 * ((U[:, None] - U[None]) ** 2).sum(axis=2)) @ weights)
    folded = -2.0 * np.log(form.weight)
    assert folded.max() > 20.0
    off = 0.5 * np.finfo(float).eps * (3.0 + 8.0) * 0.5 * folded
    size = np.abs(form.alpha * form.weight)
    assert form.with_slice_norm().norm2 - exact >= 2.0 * float(off @ size) * float(size.sum())
