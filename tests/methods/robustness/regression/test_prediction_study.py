"""100,000 random (model, box, point) triples of predictive quantiles at the edges of floating point, in 50 digits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Context, Decimal, localcontext

import numpy as np
import pytest
from scipy.special import ndtri

from gpsuite.budget import Budget
from gpsuite.methods.robustness import regression as ranges
from gpsuite.methods.robustness.regression import MEAN, QuantileRange, QuantileScore, prediction_range
from gpsuite.methods.robustness.search.branch_and_bound import UnsoundBoundError
from gpsuite.methods.robustness.search.regions import Region, interval_box
from gpsuite.models.latent import LatentPosterior
from tests.arrays import Array
from tests.methods.robustness.exact_posterior import DIGITS, ExactPosterior
from tests.methods.robustness.extreme_problems import extreme_posterior, extreme_region
from tests.methods.robustness.made_up_posteriors import KERNELS

TRIPLES = 4_168  # of each of 24 parts
LEVELS = (MEAN, 0.05, 0.95)
POINTS, BOXES = 8, 36


def exact_quantile(exact: ExactPosterior, point: Array, level: float, noise: float) -> Decimal:
    """Return mean + z sqrt(variance + noise) at a full input, z the float that the normal quantile is."""
    mean, variance = exact.moments(point)
    with localcontext(Context(prec=DIGITS)):
        z = Decimal(0.0 if level == MEAN else float(ndtri(level)))
        return mean + z * (variance + Decimal(noise)).sqrt()


def judge(exact: ExactPosterior, region: Region, points: Array, noise: float, found: QuantileRange) -> Counter[str]:
    """Count values beyond the proved ends, and witnesses that attain less than is claimed."""
    counts: Counter[str] = Counter({"closed" if found.status == "closed" else "open": 1})
    for point in points:
        value = exact_quantile(exact, region.embed(point), found.level, noise)
        inside = Decimal(found.lowest_proved) <= value <= Decimal(found.highest_proved)
        counts["outside"] += not inside
        counts["values"] += 1
    for sign, witness, claimed in ((-1, found.lowest_point, found.lowest), (1, found.highest_point, found.highest)):
        if witness is not None:
            value = exact_quantile(exact, region.embed(witness), found.level, noise)
            counts["witnesses"] += 1
            counts["overclaimed"] += sign * (Decimal(claimed) - value) > 0
    return counts


def study(seed: list[int], inference: str, kernel: str, triples: int) -> Counter[str]:
    """Return the counts over so many triples, each of three quantiles."""
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    while counts["triples"] < triples:
        posterior = extreme_posterior(rng, inference, kernel, "probit")
        exact, noise = ExactPosterior(posterior), float(posterior.variance * 10.0 ** rng.uniform(-6.0, 0.0))
        parts = {name: value for name, value in vars(posterior).items() if name != "link"}
        latent = LatentPosterior(
            **{
                name: parts[name]
                for name in [f.name for f in __import__("dataclasses").fields(LatentPosterior) if f.init]
            }
        )
        for _ in range(4):
            drawn = extreme_region(rng, posterior)
            lower, upper = drawn.centre.copy(), drawn.centre.copy()
            lower[drawn.free], upper[drawn.free] = drawn.lower, drawn.upper
            region = interval_box(drawn.centre, lower, upper)
            tolerance = 1e-2 * float(np.sqrt(posterior.variance))
            found = prediction_range(latent, noise, region, LEVELS, tolerance, Budget(boxes=BOXES))
            points = points_of(rng, region, posterior.X[:, region.free])
            counts["triples"] += len(points)
            for each in found:
                counts.update(judge(exact, region, points, noise, each))
    return counts


def points_of(rng: np.random.Generator, region: Region, data: Array) -> Array:
    """Return points [POINTS, d]: the centre, data, corners, uniform ones."""
    share = rng.random((POINTS, len(region.lower)))
    share[::2] = np.round(share[::2])
    points = region.lower + share * (region.upper - region.lower)
    points[0], points[1] = region.start, data[rng.integers(len(data))]
    return np.clip(points, region.lower, region.upper)


def faults(counts: Counter[str]) -> int:
    """Return how many claims were wrong."""
    return counts["outside"] + counts["overclaimed"]


@pytest.mark.slow
@pytest.mark.guarantee
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("inference", ["laplace", "svgp"])
def test_no_value_is_outside_and_no_witness_overclaims(inference: str, kernel: str, part: int) -> None:
    """The forms of exact and of sparse regressions: a root with weights -1, and one of signed weights."""
    counts = study([2027, part, *map(ord, inference + kernel)], inference, kernel, TRIPLES)
    print({name: count for name, count in counts.items() if count})  # shown by pytest -rP
    assert counts["triples"] >= TRIPLES and counts["values"] == 3 * counts["triples"]
    assert min(counts["closed"], counts["open"]) >= 10
    assert faults(counts) == 0


def test_a_small_part_of_the_study_has_no_fault() -> None:
    counts = study([7], "svgp", "matern52", 32)
    assert counts["values"] == 96 and counts["witnesses"] > 0
    assert faults(counts) == 0


def no_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums over the data as if they were computed exactly."""
    whole = ranges.posterior_slice  # type: ignore[attr-defined]
    monkeypatch.setattr(ranges, "posterior_slice", lambda *of: replace(whole(*of), mean_error=0.0, gram_error=0.0))


def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quantile of the latent function in place of the observation's."""
    monkeypatch.setattr(QuantileScore, "value", lambda self, mean, variance: mean + self.z * np.sqrt(variance))


@pytest.mark.slow
@pytest.mark.parametrize("fault", [no_slack, no_noise])
def test_the_study_notices(fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    found = 0
    for inference in ("laplace", "svgp"):
        try:
            found += faults(study([1], inference, "matern52", 500))
        except UnsoundBoundError:  # the search itself finds the contradiction
            found += 1
    assert found > 0
