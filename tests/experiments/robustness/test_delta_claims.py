from __future__ import annotations

import math

import numpy as np
import pytest

from gpsuite.experiments.robustness.delta_claims import (
    Deltas,
    bootstrap_medians,
    definitions_agree,
    delta_claims,
    falls_with_evaluations,
    overlaps,
    page_p,
    ratio_statistic,
    wilcoxon_p,
)
from gpsuite.reporting.comparison import Statistic
from tests.experiments.robustness.made_up_deltas import delta_frame

FIVE = {(m, e): (5.0 if m == "laplace" else 1.0) * 10 / e for m in ("laplace", "ep") for e in (10, 40, 100)}


def values(statistics: list[Statistic]) -> dict[str, tuple[float, int | None]]:
    return {each.name: (each.value, each.n) for each in statistics}


def test_the_papers_findings_are_found_where_they_are() -> None:
    assert values(delta_claims(delta_frame(FIVE))) == {
        "violations_delta_definitions": (0, 720),
        "delta_ratio_laplace_over_ep": (pytest.approx(5.0), 60),
        "share_ep_more_robust": (1.0, 3),
        "share_ratio_interval_overlaps": (1.0, 3),
        "share_delta_falls_with_epochs": (1.0, 2),
    }


def test_and_are_not_found_where_they_are_not() -> None:
    opposite = {(m, e): (1.0 if m == "laplace" else 1.2) * e for m, e in FIVE}
    found = values(delta_claims(delta_frame(opposite)))
    assert found["delta_ratio_laplace_over_ep"][0] == pytest.approx(1 / 1.2)
    for name in ("share_ep_more_robust", "share_ratio_interval_overlaps", "share_delta_falls_with_epochs"):
        assert found[name][0] == 0.0


def test_one_method_alone_makes_no_comparison() -> None:
    found = values(delta_claims(delta_frame({key: value for key, value in FIVE.items() if key[0] == "ep"})))
    assert found["share_delta_falls_with_epochs"] == (1.0, 1)
    assert "delta_ratio_laplace_over_ep" not in found


def test_missing_records_leave_their_pairs_out() -> None:
    frame = delta_frame(FIVE)
    gone = (frame["method"] == "ep") & (frame["evaluations"] == 40) & (frame["point"] < 5)
    deltas = Deltas(frame[~gone])
    assert deltas("ep", 40).shape == (2, 30)
    assert np.isnan(deltas("ep", 40)).sum() == 10
    assert len(deltas.pair(40)[0]) == len(deltas.pair(40)[1]) == 50
    assert ratio_statistic("r", deltas, 40).n == 50
    assert ratio_statistic("r", deltas, 40).value == pytest.approx(5.0)
    assert falls_with_evaluations(deltas, ["ep", "laplace"]).n == 2
    nothing = Deltas(frame[frame["method"] == "laplace"])
    assert math.isnan(ratio_statistic("r", nothing, 40).value)


def test_the_bootstrap_holds_the_ratio_and_widens_with_draws() -> None:
    rng = np.random.default_rng(3)
    same_draws = rng.normal(10.0, 1.0, (4, 40))
    other_draws = same_draws + np.array([[-3.0], [-1.0], [1.0], [3.0]])
    widths = [
        np.ptp(np.quantile(bootstrap_medians([cell], np.random.default_rng(0)), [0.025, 0.975]))
        for cell in (same_draws, other_draws)
    ]
    assert widths[1] > 3 * widths[0]
    ratio = ratio_statistic("r", Deltas(delta_frame(FIVE)), 10)
    assert ratio.interval_low is not None
    assert ratio.interval_high is not None
    assert ratio.interval_low <= 5.0 + 1e-12
    assert ratio.interval_high >= 5.0 - 1e-12


def test_intervals_overlap_about_five_or_not() -> None:
    ends = [(0.5, 2.4), (0.5, 2.6), (3.0, 4.0), (9.0, 20.0), (10.1, 20.0), (math.nan, math.nan)]
    given = [Statistic("", 1.0, interval_low=low, interval_high=high) for low, high in ends]
    assert overlaps(given) == [False, True, True, True, False]


def test_p_values_of_ties_and_orders() -> None:
    equal, rising = np.ones(20), np.linspace(1.0, 2.0, 20)
    assert wilcoxon_p(equal, equal) == 1.0
    assert wilcoxon_p(rising - 0.5, rising) < 1e-3
    assert wilcoxon_p(rising + 0.5, rising) > 0.99
    assert page_p([equal, equal, equal]) == 1.0
    assert page_p([rising, rising + 1, rising + 2]) < 1e-3
    assert page_p([rising + 2, rising + 1, rising]) > 0.99


def test_fewer_than_three_evaluations_have_no_trend() -> None:
    two = delta_frame({key: value for key, value in FIVE.items() if key[1] != 40})
    found = falls_with_evaluations(Deltas(two), ["ep", "laplace"])
    assert (math.isnan(found.value), found.n) == (True, 0)


def test_records_that_break_the_definitions_are_counted() -> None:
    frame = delta_frame(FIVE, draws=1, points=4)
    assert definitions_agree(frame).value == 0
    frame.loc[0, "deviation"] = 1.1 * frame.loc[0, "delta"]
    frame.loc[1, "deviation_proved"] = 0.4 * frame.loc[1, "delta_proved"]
    frame.loc[2, "delta"] = np.nan
    found = definitions_agree(frame)
    assert (found.value, found.n) == (2, 2 * len(frame) - 1)
