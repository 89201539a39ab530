"""Random models and boxes: model and remainders, ranges and scores of the level bound against direct evaluation."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.level_bound.level_bound import LevelBound, level_bound
from tests.methods.robustness.level_bound.level_models import value
from tests.methods.robustness.made_up_posteriors import (
    KERNELS,
    LINK_NAMES,
    Exact,
    count_violations,
    points_inside,
    random_boxes,
    random_setting,
)
from tests.methods.robustness.made_up_posteriors import scores as scores_of

ROUNDING = 1e-11  # of the direct evaluation, relative to the terms' sizes


def model_violations(
    rng: np.random.Generator, bound: LevelBound, exact: Exact, low: FloatArray, high: FloatArray, points: int
) -> tuple[int, int]:
    """Return checks and failures of model - below <= moment <= model + above, and of scores at other thresholds."""
    centre, latent = bound.latent_model(low, high)
    scores = [
        (sign, bound.bound(centre, latent, sign, np.array(bound.level.threshold(p))))
        for sign in (-1, 1)
        for p in (0.05, 0.5, 0.97)
    ]
    checks = failures = 0
    for b in range(len(low)):
        x = points_inside(rng, exact, low[b], high[b], points)
        mean, variance = exact(x)
        offset = (x - centre[b]) / bound.form.lengthscales
        for moment, found in ((mean, latent.mean), (variance, latent.variance)):
            model = value(found.model, offset, b)
            slack = ROUNDING * (1.0 + np.abs(moment) + np.abs(model)) * bound.form.variance
            checks += 2 * len(x)
            failures += int(np.sum(~(moment <= model + found.above[b] + slack)))
            failures += int(np.sum(~(moment >= model - found.below[b] - slack)))
        score = scores_of(exact.posterior, mean, variance)
        for sign, found in scores:  # type: ignore[assignment]
            checks += len(x)
            failures += int(np.sum(~(sign * score <= found.outer[b])))  # type: ignore[attr-defined]
    return checks, failures


def counted(kernel: str, link: str, seed: int, least: int) -> tuple[int, int]:
    """Return checks and failures over random models, every third one sparse."""
    rng = np.random.default_rng([seed, KERNELS.index(kernel), LINK_NAMES.index(link)])
    checks = failures = model = 0
    while checks < least:
        most_inputs = (1, 3, 12)[model % 3]
        posterior, x0, free = random_setting(rng, kernel, link, int(rng.integers(1, 30)), most_inputs, model % 3 == 2)
        low, high = random_boxes(rng, posterior, x0, free, 16)
        bound, exact = level_bound(posterior, x0, free), Exact(posterior, x0, free)
        for count in (count_violations, model_violations):
            done, failed = count(rng, bound, exact, low, high, 16)
            checks, failures = checks + done, failures + failed
        model += 1
    return checks, failures


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_point_of_ten_thousand_checks_lies_outside(kernel: str) -> None:
    checks, failures = counted(kernel, "probit", 5, 10_000)
    assert failures == 0, checks


@pytest.mark.slow
@pytest.mark.guarantee
@pytest.mark.parametrize("link", LINK_NAMES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_no_point_of_five_hundred_thousand_checks_lies_outside(kernel: str, link: str) -> None:
    checks, failures = counted(kernel, link, 2026, 500_000)
    assert failures == 0, checks
