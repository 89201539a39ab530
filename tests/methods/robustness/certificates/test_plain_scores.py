"""The checker's scores: what is stated of them is rounded outward for its sign."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.methods.robustness.certificates.plain_scores import OUTWARD, LinkScore, QuantileScore


@pytest.mark.parametrize(
    "score", [LinkScore("probit", 0.0), LinkScore("logistic", 0.0), QuantileScore(1.0, 0.1)]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_what_is_stated_of_a_score_is_rounded_outward_for_its_sign(
    score: LinkScore | QuantileScore, sign: int
) -> None:
    logistic = isinstance(score, LinkScore) and score.link == "logistic"
    for best in (0.25, 3.0):
        other_side = 1.0 - best if logistic else -best
        exact = best if sign > 0 else other_side
        stated = float(score.own(np.array([best]), sign)[0])
        assert sign * (stated - exact) >= 0.9 * OUTWARD
