"""The checker's scores: what is stated of them is rounded outward for its sign."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from gpsuite.certificates.plain_scores import OUTWARD, LinkScore, QuantileScore


@pytest.mark.parametrize("score", [LinkScore("probit", 0.0), LinkScore("logistic", 0.0), QuantileScore(1.0, 0.1)])
@pytest.mark.parametrize("sign", [1, -1])
def test_what_is_stated_of_a_score_is_rounded_outward_for_its_sign(score: LinkScore | QuantileScore, sign: int) -> None:
    logistic = isinstance(score, LinkScore) and score.link == "logistic"
    for best in (0.25, 3.0):
        other_side = 1.0 - best if logistic else -best
        exact = best if sign > 0 else other_side
        stated = float(score.own(np.array([best]), sign)[0])
        assert sign * (stated - exact) >= 0.9 * OUTWARD


def test_a_probability_s_lower_bound_is_rounded_down_again_where_it_is_turned() -> None:
    best = np.random.default_rng(8).random(200)
    found = LinkScore("logistic", 0.0).own(best, -1)
    for stated, x in zip(found.tolist(), best.tolist(), strict=True):
        assert Decimal(1) - Decimal(x) - Decimal(stated) >= Decimal("1.99e-12") + Decimal(OUTWARD * x)


@pytest.mark.parametrize("sign", [-1, 1])
def test_quantiles_allow_for_both_terms_where_they_cancel(sign: int) -> None:
    variance = np.random.default_rng(9).random(50)
    top = -sign * 2.0 * np.sqrt(variance + 0.1)
    found = QuantileScore(2.0, 0.1).corner(top, variance, variance, sign)
    assert np.all(found >= 1.9 * OUTWARD * np.abs(top))
