from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from gpsuite.experiments.robustness import probability_change
from gpsuite.experiments.robustness.probability_change import (
    about_five,
    by_classifier,
    claims_over_draws,
    definitions_agree,
    delta_claims,
    draw_medians,
    ep_more_robust,
    falls_with_evaluations,
    ratio_of_medians,
    signs_of_one_draw,
)
from gpsuite.reporting.comparison import Statistic
from gpsuite.statistics.estimates import Estimate
from tests.experiments.robustness.made_up_deltas import delta_frame

RATIO = 0.05  # test rows over training rows
FIVE = {(m, e): (5.0 if m == "laplace" else 1.0) * 10 / e for m in ("laplace", "ep") for e in (10, 40, 100)}


def values(statistics: list[Statistic]) -> dict[str, tuple[float, int | None]]:
    return {each.name: (each.value, each.n) for each in statistics}


def test_the_papers_findings_are_found_where_they_are() -> None:
    assert values(delta_claims([delta_frame(FIVE)], RATIO)) == {
        "violations_delta_definitions": (0, 720),
        "delta_ratio_laplace_over_ep": (pytest.approx(5.0), 2),
        "share_ep_more_robust": (1.0, 3),
        "share_ratio_about_five": (1.0, 3),
        "share_delta_falls_with_epochs": (1.0, 2),
    }


def test_and_are_not_found_where_they_are_not() -> None:
    opposite = {(m, e): (1.0 if m == "laplace" else 1.2) * e for m, e in FIVE}
    found = values(delta_claims([delta_frame(opposite)], RATIO))
    assert found["delta_ratio_laplace_over_ep"][0] == pytest.approx(1 / 1.2)
    for name in ("share_ep_more_robust", "share_ratio_about_five", "share_delta_falls_with_epochs"):
        assert found[name][0] == 0.0


def test_more_robust_at_one_radius_is_not_so_at_each() -> None:
    opposite = {(m, e): value if m == "ep" else value / 25.0 for (m, e), value in FIVE.items()}
    found = values(delta_claims([delta_frame(FIVE), delta_frame(opposite)], RATIO))
    assert found["share_ep_more_robust"] == (0.5, 6)
    assert found["delta_ratio_laplace_over_ep"] == (pytest.approx(5.0), 2)  # the first radius'


def test_one_method_alone_makes_no_comparison() -> None:
    found = values(delta_claims([delta_frame({k: v for k, v in FIVE.items() if k[0] == "ep"})], RATIO))
    assert found["share_delta_falls_with_epochs"] == (1.0, 1)
    assert "delta_ratio_laplace_over_ep" not in found


def test_missing_records_leave_their_pairs_out() -> None:
    frame = delta_frame(FIVE)
    gone = (frame["method"] == "ep") & (frame["evaluations"] == 40) & (frame["point"] < 5)
    deltas = by_classifier(frame[~gone])
    assert deltas("delta", "ep", 40).shape == (2, 30)
    assert np.isnan(deltas("delta", "ep", 40)).sum() == 10
    pair = deltas.pair("delta", ("laplace", 40), ("ep", 40))
    assert len(pair[0]) == len(pair[1]) == 50
    found = ratio_of_medians(deltas, 40, RATIO)
    assert found.n == 2
    assert found.value == pytest.approx(5.0)
    assert falls_with_evaluations(deltas, ["ep", "laplace"], RATIO).n == 2
    nothing = by_classifier(frame[frame["method"] == "laplace"])
    assert math.isnan(ratio_of_medians(nothing, 40, RATIO).value)


def _noisy(spread: float, draws: int, factor: float = 5.0, seed: int = 0) -> pd.DataFrame:
    """Return records whose ratio Laplace / EP differs from draw to draw, every point of a draw agreeing."""
    frame = delta_frame({k: v if k[0] == "ep" else v * factor / 5.0 for k, v in FIVE.items()}, draws, 30)
    rng = np.random.default_rng(seed)
    factors = np.exp(rng.normal(0.0, spread, draws))
    return frame.assign(delta=frame["delta"] * np.where(frame["method"] == "ep", factors[frame["draw"]], 1.0))


def test_many_points_of_one_draw_prove_nothing() -> None:
    # 200 points that all agree share one classifier: no test, no interval
    found = {each.name: each for each in delta_claims([delta_frame(FIVE, draws=1, points=200)], RATIO)}
    for name in ("share_ep_more_robust", "share_ratio_about_five", "share_delta_falls_with_epochs"):
        assert (math.isnan(found[name].value), found[name].n) == (True, 0), name
    ratio = found["delta_ratio_laplace_over_ep"]
    assert ratio.value == pytest.approx(5.0)
    assert (ratio.n, ratio.interval_low, ratio.interval) == (1, None, "")
    assert ratio.note == "200 test points"


def test_one_draw_gives_signs() -> None:
    opposite = {(m, e): value if m == "ep" else value / 25.0 for (m, e), value in FIVE.items()}
    tables = [by_classifier(delta_frame(each, draws=1)) for each in (FIVE, opposite)]
    assert values(signs_of_one_draw(tables)) == {
        "share_ep_smaller_by_sign": (0.5, 6),
        "share_ratio_about_five_by_value": (1.0, 3),
        "share_delta_falls_by_sign": (1.0, 2),
    }
    rising = by_classifier(delta_frame({(m, e): float(e) for m, e in FIVE}, draws=1))
    assert values(signs_of_one_draw([rising]))["share_delta_falls_by_sign"] == (0.0, 2)
    assert values(signs_of_one_draw([rising]))["share_ratio_about_five_by_value"] == (0.0, 3)
    alone = by_classifier(delta_frame({k: v for k, v in FIVE.items() if k[0] == "ep" and k[1] < 100}, draws=1))
    assert signs_of_one_draw([alone]) == []
    assert {each.name for each in claims_over_draws(tables, RATIO)}.isdisjoint(values(signs_of_one_draw(tables)))


def test_draws_that_disagree_say_no_although_all_points_of_each_agree() -> None:
    claims = values(delta_claims([_noisy(spread=3.0, draws=4, factor=1.2)], RATIO))
    assert claims["share_ep_more_robust"][0] == 0.0
    agreeing = values(delta_claims([_noisy(spread=0.1, draws=8)], RATIO))
    assert agreeing["share_ep_more_robust"] == (1.0, 3)
    assert agreeing["share_ratio_about_five"] == (1.0, 3)


def test_the_ratios_interval_is_over_draws_and_corrected() -> None:
    frame = _noisy(spread=0.3, draws=6)
    found = ratio_of_medians(by_classifier(frame), 10, RATIO)
    logs = np.log(np.divide(*draw_medians(by_classifier(frame), 10)))
    reach = 2.570581835636314 * logs.std(ddof=1) * (1 / 6 + RATIO) ** 0.5
    assert found.low == pytest.approx(found.value * np.exp(-reach))
    assert found.high == pytest.approx(found.value * np.exp(reach))


def test_the_ratio_lies_in_its_interval_also_where_its_draws_agree_on_another() -> None:
    frame = _noisy(spread=0.3, draws=3)
    deltas = by_classifier(frame)
    found = ratio_of_medians(deltas, 10, 0.0)
    means = np.exp(np.log(np.divide(*draw_medians(deltas, 10))).mean())
    assert found.value != pytest.approx(means, rel=1e-3)  # medians of all points are not those of the draws
    assert found.low < found.value < found.high


def test_about_five_needs_the_whole_interval_in_the_range() -> None:
    given = [
        (1.0, 0.5, 2.4), (5.0, 3.0, 8.0), (12.0, 9.0, 16.0), (20.0, 10.1, 30.0), (5.0, 0.1, 300.0),
        (5.0, 2.3, 9.3), (2.0, 1.5, 2.6), (5.0, math.nan, math.nan),
    ]  # fmt: skip
    found = about_five([Estimate(v, low=low, high=high) for v, low, high in given])
    assert found == [False, True, None, False, None, None, None]  # to overlap the range is not enough
    assert about_five([Estimate(5.0)]) == []


def test_fewer_than_three_evaluations_have_no_trend() -> None:
    two = delta_frame({key: value for key, value in FIVE.items() if key[1] != 40})
    found = falls_with_evaluations(by_classifier(two), ["ep", "laplace"], RATIO)
    assert (math.isnan(found.value), found.n) == (True, 0)


def test_records_that_break_the_definitions_are_counted() -> None:
    frame = delta_frame(FIVE, draws=1, points=4)
    assert definitions_agree(frame).value == 0
    frame.loc[0, "deviation"] = 1.1 * frame.loc[0, "delta"]  # type: ignore[assignment]
    frame.loc[1, "deviation_proved"] = 0.4 * frame.loc[1, "delta_proved"]  # type: ignore[assignment]
    frame.loc[2, "delta"] = np.nan
    found = definitions_agree(frame)
    assert (found.value, found.n) == (2, 2 * len(frame) - 1)


def test_many_comparisons_allow_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([0.04, 0.96, 0.03, 0.97])
    monkeypatch.setattr(probability_change, "corrected_t_p", lambda *_: next(found))
    frame = delta_frame({key: factor for key, factor in FIVE.items() if key[1] != 100})
    one = ep_more_robust([by_classifier(frame)], RATIO)
    assert (one.value, one.n) == (0.0, 2)  # each below 5 %, the smaller above half of it
