"""Soundness of the paper's bound by the hundred thousand, for every link and dimension."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.methods.robustness.paper_bound import paper_bound
from tests.methods.robustness.made_up_posteriors import (
    LINK_NAMES,
    Exact,
    count_violations,
    random_boxes,
    random_setting,
)


@pytest.mark.slow
@pytest.mark.guarantee
@pytest.mark.parametrize("link", LINK_NAMES)
def test_no_point_of_a_hundred_thousand_lies_outside(link: str) -> None:
    rng = np.random.default_rng([LINK_NAMES.index(link), 2020])
    checks = failures = model = 0
    while checks < 100_000:
        n, most_inputs = int(rng.integers(1, 25)), (1, 3, 20)[model % 3]
        posterior, x0, free = random_setting(rng, "squared_exponential", link, n, most_inputs, sparse=model % 3 == 2)
        low, high = random_boxes(rng, posterior, x0, free, 24)
        exact = Exact(posterior, x0, free)
        done, failed = count_violations(rng, paper_bound(posterior, x0, free), exact, low, high, 24)
        checks, failures, model = checks + done, failures + failed, model + 1
    assert failures == 0
