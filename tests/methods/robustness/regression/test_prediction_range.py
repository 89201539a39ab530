"""Ranges of predictive quantiles: soundness against evaluation and exact arithmetic, agreement with GPflow's models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.robustness.class_probability import LatentRanges
from gpsuite.methods.robustness.regression import MEAN, QuantileLevel, QuantileRange, QuantileScore, prediction_range
from gpsuite.methods.robustness.search.regions import Region, box, l2_ball
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.links import PROBIT
from gpsuite.models.latent import LatentPosterior
from tests.methods.robustness.exact_posterior import ExactPosterior
from tests.methods.robustness.made_up_posteriors import KERNELS, random_posterior

LEVELS = (MEAN, 0.05, 0.95)
NOISE = 0.04


def latent_of(posterior: GPCPosterior) -> LatentPosterior:
    fields = {
        name: value
        for name, value in vars(posterior).items()
        if name in [f.name for f in __import__("dataclasses").fields(LatentPosterior) if f.init]
    }
    return LatentPosterior(**fields)


def made_up(kernel: str, seed: int = 0, sparse: bool = False) -> tuple[LatentPosterior, Region]:
    rng = np.random.default_rng(seed)
    posterior = latent_of(random_posterior(rng, kernel, "probit", 20, 3, sparse))
    return posterior, box(rng.standard_normal(3), [0.4, 0.0, 0.7])


def ranges(
    latent: LatentPosterior, region: Region, tolerance: float = 1e-2, boxes: int | None = None
) -> list[QuantileRange]:
    return prediction_range(latent, NOISE, region, LEVELS, tolerance, Budget(boxes=boxes))


def quantiles(latent: LatentPosterior, points: FloatArray) -> dict[float, FloatArray]:
    mean, variance = latent.latent(points)
    return {level: mean + (0.0 if level == MEAN else ndtri(level)) * np.sqrt(variance + NOISE) for level in LEVELS}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_point_lies_in_the_range_which_is_sharp(kernel: str, sparse: bool, seed: int) -> None:
    latent, region = made_up(kernel, seed, sparse)
    rng = np.random.default_rng(seed)
    points = region.embed(rng.uniform(region.lower, region.upper, (3000, len(region.free))))
    corners = region.embed(np.array(np.meshgrid(*zip(region.lower, region.upper, strict=True))).reshape(2, -1).T)
    truth = quantiles(latent, np.vstack([points, corners]))
    scale = float(np.sqrt(latent.variance))
    for found in ranges(latent, region, tolerance=1e-2 * scale):
        values, room = truth[found.level], 1e-9 * (1.0 + np.abs(truth[found.level]).max())
        assert found.status == "closed"
        assert found.lowest_proved - room <= values.min() and values.max() <= found.highest_proved + room
        assert found.lowest <= values.min() + 1e-2 * scale and values.max() - 1e-2 * scale <= found.highest
        assert found.highest_proved - found.highest <= 1e-2 * scale
        assert found.lowest - found.lowest_proved <= 1e-2 * scale
        assert found.lowest_point is not None and found.highest_point is not None
        attained = quantiles(latent, region.embed(np.array([found.lowest_point, found.highest_point])))
        low, high = attained[found.level]
        # what is surely attained pays for rounding: near-duplicate inducing inputs make it visible
        assert low - room <= found.lowest <= low + 1e-4 * scale
        assert high - 1e-4 * scale <= found.highest <= high + room
        centre = quantiles(latent, region.centre[None])[found.level][0]
        assert found.centre == pytest.approx(centre, abs=1e-4 * scale)
        assert found.largest_change >= np.abs(values - centre).max() - room


@pytest.mark.parametrize("kernel", KERNELS)
def test_proved_ends_hold_in_exact_arithmetic(kernel: str) -> None:
    """Boxes of almost no width, where a forgotten rounding would show."""
    for seed in range(4):
        latent, region = made_up(kernel, seed)
        tiny = box(region.centre, 1e-12)
        exact = ExactPosterior(GPCPosterior(**vars(replace(latent)), link=PROBIT))
        for found in ranges(latent, tiny, tolerance=0.0, boxes=60):
            z = 0.0 if found.level == MEAN else float(ndtri(found.level))
            for share in (0.0, 1.0):
                point = tiny.embed(tiny.lower + share * (tiny.upper - tiny.lower))
                mean, variance = (float(each) for each in exact.moments(point))
                truth = mean + z * np.sqrt(variance + NOISE)
                # the oracle's last float
                ulp = 4e-16 * (abs(mean) + abs(z) * np.sqrt(variance + NOISE))
                assert found.lowest_proved - ulp <= truth <= found.highest_proved + ulp


@pytest.mark.parametrize("z", [-1.6, 0.0, 1.6])
def test_no_point_of_the_line_exceeds_its_bound(z: float) -> None:
    rng = np.random.default_rng(0)
    level = QuantileLevel(QuantileScore(z, NOISE))
    low = 10.0 ** rng.uniform(-4, 1, 500)
    high = low * (1.0 + 10.0 ** rng.uniform(-3, 2, 500))
    G, slope = rng.standard_normal(500), rng.standard_normal(500) * 3.0
    bound = level.bound(G, slope, low, high)
    grid = low + np.linspace(0.0, 1.0, 2001)[:, None] * (high - low)
    values = level.score.value(G + slope * grid, grid)
    assert (values <= bound).all()
    assert (bound - values.max(axis=0) <= 1e-3 * (1.0 + np.abs(bound))).all()


def test_the_slope_touches_the_level_set() -> None:
    low, high, centre = (np.array([each]) for each in (0.5, 2.0, 1.0))
    rising = QuantileLevel(QuantileScore(-2.0, NOISE)).slope(np.zeros(1), low, high, centre)
    chord = 2.0 * (np.sqrt(high + NOISE) - np.sqrt(low + NOISE)) / (high - low)
    np.testing.assert_allclose(rising, chord)
    tangent = QuantileLevel(QuantileScore(2.0, NOISE)).slope(np.zeros(1), low, high, centre)
    np.testing.assert_allclose(tangent, -1.0 / np.sqrt(centre + NOISE))


def test_corners_of_a_rectangle_bound_the_quantile() -> None:
    for z in (-1.0, 1.0):
        score = QuantileScore(z, NOISE)
        rectangle = LatentRanges(*(np.array([each]) for each in (-1.0, 2.0, 0.1, 3.0, 0.0, 1.0)))
        low, high = score.separate(rectangle)
        corners = [score.value(np.array(m), np.array(v)) for m in (-1.0, 2.0) for v in (0.1, 3.0)]
        assert low <= min(corners) and max(corners) <= high
        assert min(corners) - low < 1e-11 > high - max(corners)


def test_a_spent_budget_says_nothing_and_few_boxes_say_less() -> None:
    latent, region = made_up("squared_exponential", seed=1)
    wide = box(region.centre, 2.0)
    for found in ranges(latent, wide, boxes=0):
        assert (found.lowest_proved, found.highest_proved) == (-np.inf, np.inf)
        assert found.status != "closed" and found.highest_point is None
    few, many = (ranges(latent, wide, 1e-6, boxes) for boxes in (60, 3000))
    for little, much in zip(few, many, strict=True):
        assert little.lowest_proved <= much.lowest_proved <= much.lowest
        assert much.highest <= much.highest_proved <= little.highest_proved
    assert sum(each.boxes for each in few) < sum(each.boxes for each in many)


def test_what_does_not_fit_is_refused() -> None:
    latent, region = made_up("squared_exponential")
    for noise, levels, where in (
        (0.0, LEVELS, region),
        (NOISE, (1.0,), region),
        (NOISE, LEVELS, l2_ball(region.centre, 1.0)),
    ):
        with pytest.raises(ValueError, match="noise above 0"):
            prediction_range(latent, noise, where, levels, 0.01, Budget())
    with pytest.raises(ValueError, match="minimum"):
        QuantileLevel(QuantileScore(0.0, NOISE)).signed(np.zeros(1), -1)
