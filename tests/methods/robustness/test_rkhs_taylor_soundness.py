"""Soundness by the hundred thousand: every bound, kernel, link and dimension."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.methods.robustness.paper_bound import paper_bound
from gpsuite.methods.robustness.rkhs_taylor import rkhs_taylor
from tests.methods.robustness.made_up_posteriors import (
    LINK_NAMES,
    Exact,
    count_violations,
    random_boxes,
    random_setting,
)

BOUNDS = {
    "se_1": ("squared_exponential", lambda p, x, f: rkhs_taylor(p, x, f, 1)),
    "se_2": ("squared_exponential", lambda p, x, f: rkhs_taylor(p, x, f, 2)),
    "se_1_low_rank": ("squared_exponential", lambda p, x, f: rkhs_taylor(p, x, f, 1, True)),
    "se_2_low_rank": ("squared_exponential", lambda p, x, f: rkhs_taylor(p, x, f, 2, True)),
    "matern32": ("matern32", lambda p, x, f: rkhs_taylor(p, x, f)),
    "matern52": ("matern52", lambda p, x, f: rkhs_taylor(p, x, f)),
    "matern52_low_rank": ("matern52", lambda p, x, f: rkhs_taylor(p, x, f, 1, True)),
    "paper_quick": ("squared_exponential", lambda p, x, f: paper_bound(p, x, f)),
}


@pytest.mark.slow
@pytest.mark.guarantee
@pytest.mark.parametrize("link", LINK_NAMES)
@pytest.mark.parametrize("name", BOUNDS)
def test_no_point_of_a_hundred_thousand_lies_outside(name: str, link: str) -> None:
    kernel, build = BOUNDS[name]
    rng = np.random.default_rng([len(name), LINK_NAMES.index(link), 2020])
    checks = failures = model = 0
    while checks < 100_000:
        # Low rank needs enough data to find something to drop.
        n = int(rng.integers(70, 90)) if "low_rank" in name else int(rng.integers(1, 25))
        sparse = model % 3 == 2 and "low_rank" not in name
        posterior, x0, free = random_setting(rng, kernel, link, n, (1, 3, 20)[model % 3], sparse)
        low, high = random_boxes(rng, posterior, x0, free, 24)
        exact = Exact(posterior, x0, free)
        done, failed = count_violations(rng, build(posterior, x0, free), exact, low, high, 24)
        checks, failures, model = checks + done, failures + failed, model + 1
    assert failures == 0
