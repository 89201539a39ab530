from __future__ import annotations

import math

import pytest

from gpsuite.reporting.metrics import AMOUNT, SHARE, metric


@pytest.mark.parametrize(("name", "possible"), [("interval_coverage", SHARE), ("crps", AMOUNT)])
def test_a_score_before_tempering_can_be_what_the_score_can(name: str, possible: tuple[float, float]) -> None:
    """Intervals of a coverage reached from -1.97 to 3.04."""
    tempered, before = (metric(f"{name}{end}", "wasserstein") for end in ("", " untempered"))
    assert before.possible == tempered.possible == possible
    assert before.label == f"{tempered.label}, untempered"


def test_a_name_that_is_not_registered_is_its_own_label() -> None:
    assert metric("never untempered").label == "never, untempered"
    assert metric("never").possible == (-math.inf, math.inf)
