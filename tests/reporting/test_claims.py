"""Claims in words as statistics."""

from __future__ import annotations

import math

from gpsuite.reporting.comparison import Statistic, claim
from gpsuite.statistics.estimates import AS_IF_INDEPENDENT, Estimate, mean


def test_a_claim_is_the_share_of_cells_with_its_interval() -> None:
    found = claim("share_lower", [True, False, True, True], "ratios 2 to 3")
    assert (found.value, found.n, found.note) == (0.75, 4, "3 of 4 cells; ratios 2 to 3")
    assert found.interval == AS_IF_INDEPENDENT
    assert found.interval_low is not None and 0.0 < found.interval_low < 0.75
    none = claim("share_lower", [])
    assert math.isnan(none.value) and (none.n, none.note, none.interval) == (0, "", "")


def test_a_statistic_leaves_empty_what_its_estimate_does_not_know() -> None:
    assert Statistic.of("m", mean([3.0])) == Statistic("m", 3.0, None, 1)
    open_above = Statistic.of("m", Estimate(5.0, n=9, low=4.0, high=math.inf, interval="i"), "points")
    assert (open_above.interval_low, open_above.interval_high, open_above.unit) == (4.0, None, "points")
    assert (open_above.judged("value"), open_above.judged("low")) == (5.0, 4.0)
    assert math.isnan(open_above.judged("high"))
