from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from gpsuite.experiments.active_learning import curves as learning_curves
from gpsuite.experiments.active_learning.curves import (
    VALUE,
    Curves,
    draw_curves,
    draw_safety,
    errors,
    paired_curves,
    points_table,
    precision_table,
    report_curves,
    safe_table,
    safety_frame,
)
from gpsuite.experiments.active_learning.engine import slope_statistics
from gpsuite.experiments.active_learning.observation_ablation import ablation_statistics, common_areas
from gpsuite.reporting.comparison import Statistic
from gpsuite.statistics.estimates import mean
from gpsuite.statistics.resampling import FEWEST_RUNS
from tests.experiments.active_learning.made_up_repetition_records import record, toy_report
from tests.experiments.drawn import drawn

TITLES = {"al_mogp": "AL_MOGP", "rs_mogp": "RS_MOGP", "al_indgps": "AL_indGPs", "al_mogp_nosafe": "AL_MOGP_nosafe"}
RUNS = 12


def falling(rate: float, repetition: int, steps: int = 31) -> list[float]:
    """An error that falls from 1 by `rate` a step, a little different in each repetition."""
    return [1.0 - rate * k + 0.001 * repetition for k in range(steps)]


def three_methods(runs: int = RUNS) -> Curves:
    rates = {"al_mogp": 0.028, "rs_mogp": 0.02, "al_indgps": 0.024}
    records = [record(method, r, falling(rate, r)) for method, rate in rates.items() for r in range(runs)]
    return Curves.from_records(records, tuple(TITLES))


def by_name(found: list[Statistic]) -> dict[str, Statistic]:
    names = [statistic.name for statistic in found]
    assert len(set(names)) == len(names)
    return {statistic.name: statistic for statistic in found}


def test_curves_keep_pairs_together_and_leave_out_what_is_not_usable() -> None:
    records = [record("al_mogp", 2, [0.5, 0.4]), record("al_mogp", 0, [0.3, 0.2]), record("rs_mogp", 2, [1.0, 0.9]),
               record("rs_mogp", 1, [7.0, 7.0], status="infeasible")]  # fmt: skip
    curves = Curves.from_records(records, ("rs_mogp", "al_mogp", "al_indgps"))
    assert curves.methods == ("rs_mogp", "al_mogp")
    curve = curves.curve("al_mogp", "rmse")
    assert curve.repetitions == (0, 2)
    np.testing.assert_array_equal(curve.at(13), [0.2, 0.4])
    with pytest.raises(KeyError):
        curve.at(14)
    last = {method: curves.curve(method, "rmse").at(13) for method in curves.methods}
    active, random = curves.paired(last).pair(VALUE, "al_mogp", "rs_mogp")
    assert (active.tolist(), random.tolist()) == ([0.4], [0.9])  # of the one repetition that both have


def test_a_shorter_repetition_counts_where_it_has_values() -> None:
    curve = Curves.from_records([record("a", 0, [1.0, 2.0, 3.0]), record("a", 1, [3.0])], ("a",)).curve("a", "rmse")
    np.testing.assert_array_equal(curve.mean, [2.0, 2.0, 3.0])
    np.testing.assert_allclose(curve.standard_error, [1.0, np.nan, np.nan])  # one value has no error


def test_the_area_is_the_mean_height_over_the_range_requested() -> None:
    line = Curves.from_records([record("a", 0, [0.0, 1.0, 2.0, 9.0])], ("a",)).curve("a", "rmse")
    np.testing.assert_allclose(line.area(12, 14), [1.0])
    np.testing.assert_allclose(line.area(14, 14), [2.0])


def test_points_to_a_threshold_are_counted_and_infinite_if_never_reached() -> None:
    found = by_name(learning_curves.threshold_statistics(three_methods(FEWEST_RUNS), 0.4))
    # 1 - 0.028 k + 0.0095 <= 0.4 from k = 22, 1 - 0.024 k + 0.0095 <= 0.4 from k = 26
    assert found["points_to_rmse[method=al_mogp,threshold=0.4]"].value == 34
    assert found["points_to_rmse[method=al_indgps,threshold=0.4]"].value == 38
    never = found["points_to_rmse[method=rs_mogp,threshold=0.4]"]
    assert never.value == np.inf
    assert "not reached up to 42" in never.note
    low, high = found["points_to_rmse[method=al_mogp,threshold=0.4]"].interval_low, never.interval_high
    assert low is not None and 33 <= low <= 34
    assert high is None


def test_few_runs_have_no_bootstrap_interval() -> None:
    curves = three_methods(FEWEST_RUNS - 1)
    for found in learning_curves.threshold_statistics(curves, 0.4):
        assert (found.interval, found.interval_low, found.interval_high) == ("", None, None)
    points = points_table(curves, TITLES, [0.4])
    assert points["values"].tolist() == ["34", "above 42", "38"]
    assert {*points["from"], *points["to"]} == {""}


def test_full_queries_count_iterations_by_their_own_step() -> None:
    own = record("al_mogp_full", 0, [1.0, 0.5, 0.3], n_sum=[12, 16, 20])
    found = by_name(learning_curves.threshold_statistics(Curves.from_records([own], ("al_mogp_full",)), 0.4))
    assert found["points_to_rmse[method=al_mogp_full,threshold=0.4]"].value == 20


def test_claims_hold_for_the_better_method_and_not_for_the_worse() -> None:
    curves = three_methods()
    good = by_name([*learning_curves.best_statistics(curves), *learning_curves.area_statistics(curves, 0.01)])
    assert good["share_smallest_rmse_and_safe"].value == 1.0
    assert good["share_highest_log_density"].value == good["share_smallest_rmse_area"].value == 1.0
    swapped = Curves({"al_mogp": curves.runs["rs_mogp"], "rs_mogp": curves.runs["al_mogp"],
                      "al_indgps": curves.runs["al_indgps"]})  # fmt: skip
    bad = by_name([*learning_curves.best_statistics(swapped), *learning_curves.area_statistics(swapped, 0.01)])
    assert bad["share_smallest_rmse_and_safe"].value == pytest.approx(1 / 3)  # safe, but not better
    assert bad["share_highest_log_density"].value == bad["share_smallest_rmse_area"].value == 0.0


def test_a_method_that_is_safe_in_one_repetition_is_not_safe() -> None:
    curves = three_methods()
    unsafe = {
        number: replace(each, arrays={**each.arrays, "safe_noisy": each.arrays["safe_noisy"] * (number == 0)})
        for number, each in curves.runs["al_mogp"].items()
    }
    found = by_name(learning_curves.best_statistics(Curves({**curves.runs, "al_mogp": unsafe})))
    assert found["share_smallest_rmse_and_safe"].value == pytest.approx(2 / 3)  # better than both, not safe


def test_too_few_repetitions_for_a_test_are_no_failure() -> None:
    four = learning_curves.wilcoxon_claim("smaller", [(np.zeros(4), np.ones(4))], 0.05)
    assert np.isnan(four.value) and four.n == 0 and "4 repetitions" in four.note
    assert learning_curves.wilcoxon_claim("smaller", [(np.zeros(5), np.ones(5))], 0.05).value == 1.0


def test_pairs_that_show_neither_order_are_open_cells() -> None:
    mixed = np.array([1.0, -1.0, 2.0, -2.0, 3.0, -2.5])
    zero = np.zeros(6)
    found = learning_curves.wilcoxon_claim("smaller", [(zero, zero + 1), (zero, mixed), (zero + 1, zero)], 0.05)
    assert found.note == "1 of 3 cells, 1 open"


def test_pairs_of_curves_are_of_the_repetitions_that_both_have() -> None:
    records = [record("a", r, [1.0 + r, 2.0 + r]) for r in (0, 1, 2)]
    records += [record("b", r, [5.0 + r, 6.0 + r]) for r in (1, 2, 3)]
    curves = Curves.from_records(records, ("a", "b"))
    first, second = paired_curves(*(curves.curve(name, "rmse") for name in ("a", "b")))
    assert first.repetitions == second.repetitions == (1, 2)
    assert (first.lines[:, 0].tolist(), second.lines[:, 0].tolist()) == ([2.0, 3.0], [6.0, 7.0])


def test_safe_queries_are_counted_both_ways_with_intervals() -> None:
    runs = [
        record("al_mogp_nosafe", r, [1.0] * 4, safe_noisy=[1, 0, 0, r % 2], safe_true=[1, 1, 0, 0]) for r in range(6)
    ]
    curves = Curves.from_records(runs, tuple(TITLES))
    found = by_name(learning_curves.safety_statistics(curves))
    assert found["safe_query_percent[method=al_mogp_nosafe]"].value == 37.5
    assert found["truly_safe_query_percent[method=al_mogp_nosafe]"].value == 50.0
    shares = 100 * np.array([1.0, 2.0] * 3) / 4
    interval = ttest_1samp(shares, 0.0).confidence_interval(0.95)
    whole = found["safe_query_percent[method=al_mogp_nosafe]"]
    assert (whole.judged("low"), whole.judged("high")) == pytest.approx((interval.low, interval.high))


def test_intervals_of_shares_end_at_all() -> None:
    flags = [[1, 1, 1, 1]] * 5 + [[1, 1, 1, 0]]
    runs = [record("rs_mogp", r, [1.0] * 4, safe_noisy=each) for r, each in enumerate(flags)]
    curves = Curves.from_records(runs, tuple(TITLES))
    assert safe_table(curves, TITLES)["to"][0] == 100.0
    frame = safety_frame(curves).set_index("metric")
    assert frame["interval_high"]["safe_noisy"] == 100.0 > frame["mean"]["safe_noisy"]
    assert frame["interval_low"]["safe_noisy"] == pytest.approx(85.1226, abs=1e-4)


def test_precision_is_judged_in_every_cell() -> None:
    good = [record("al_mogp", r, [1.0] * 11, precision_noisy=[0.96 + 0.001 * r] * 11) for r in range(5)]
    bad = [record("rs_mogp", r, [1.0] * 11, precision_noisy=[0.94 + 0.02 * r] * 10 + [0.90]) for r in range(2)]
    found = by_name(
        learning_curves.precision_statistics(Curves.from_records([*good, *bad], tuple(TITLES)), [12, 22, 32])
    )
    assert found["safety_precision[method=rs_mogp,n_sum=12]"].value == pytest.approx(0.95)
    assert found["share_safety_precision_surely_above_0_95"].value == 0.5  # 4 cells
    least = found["min_safety_precision"]  # of rs_mogp at 22, in both repetitions
    assert (least.value, least.n) == (pytest.approx(0.90), 2)
    assert (least.judged("low"), least.judged("high")) == pytest.approx((0.90, 0.90))


def test_an_extreme_mean_keeps_its_own_interval() -> None:
    cells = [mean([0.1, 0.3]), mean([]), mean([0.4, 0.5, 0.9])]
    largest = learning_curves.extreme("largest", cells, max, "by hand")
    assert (largest.value, largest.n) == (pytest.approx(0.6), 3)
    assert (largest.interval_low, largest.interval_high) == pytest.approx((cells[2].low, cells[2].high))
    assert largest.note == "of 2 means, with the interval of that one; by hand"
    assert learning_curves.extreme("smallest", cells, min).value == pytest.approx(0.2)
    assert np.isnan(learning_curves.extreme("unknown", cells[1:2], min).value)


def test_slopes_of_precision_are_those_of_the_curves() -> None:
    n = np.arange(12, 22)
    rising = [record("rs_mogp", r, [1.0] * 10, precision_noisy=0.9 + (0.002 + 0.0001 * r) * (n - 12)) for r in range(5)]
    flat = [record("al_mogp", r, [1.0] * 10, precision_noisy=0.9 + 0.001 * (r - 2) * (n - 12)) for r in range(5)]
    curves = Curves.from_records([*rising, *flat], tuple(TITLES))
    found = by_name(slope_statistics(curves))
    slope = found["precision_slope[method=rs_mogp]"]
    assert slope.value == pytest.approx(0.0022)
    assert 0.0 < slope.judged("low") < 0.0022
    assert found["precision_slope[method=al_mogp]"].value == pytest.approx(0.0, abs=1e-12)


def test_ablation_compares_areas_over_the_common_range() -> None:
    partial = [record("al_mogp", r, falling(0.03, r, 9)) for r in range(RUNS)]
    full = [record("al_mogp_full", r, falling(0.04, r, 3), n_sum=[14, 16, 18]) for r in range(RUNS)]
    curves = Curves.from_records([*partial, *full], ("al_mogp", "al_mogp_full"))
    areas = common_areas(curves)
    np.testing.assert_allclose(areas["al_mogp"], 1.0 - 0.03 * 4 + 0.001 * np.arange(RUNS))
    np.testing.assert_allclose(areas["al_mogp_full"], 1.0 - 0.04 + 0.001 * np.arange(RUNS))
    kinds = {"al_mogp": True, "al_mogp_full": False}
    one_sided = Curves.from_records([record("al_mogp", 0, [1.0] * 4, p=[0, 0, 0, 1])], ("al_mogp",))
    found = by_name(ablation_statistics({"toy": curves}, kinds, {"noise": one_sided}))
    assert found["share_partial_most_efficient"].value == 1.0
    assert found["max_query_share_of_one_output"].value == 0.75
    swapped = Curves({"al_mogp": curves.runs["al_mogp_full"], "al_mogp_full": curves.runs["al_mogp"]})
    assert by_name(ablation_statistics({"toy": swapped}, kinds, {}))["share_partial_most_efficient"].value == 0.0


def test_tables_and_figures_come_from_records_only(tmp_path: Path) -> None:
    curves = three_methods()
    report = toy_report(tmp_path, "note", initial=12, precision_step=10, thresholds=[0.4, 0.01])
    report_curves(report, curves, "made", "Made up")
    assert {path.stem for path in tmp_path.glob("tables/*.csv")} == {
        "made", "made_points", "made_precision", "made_safe_queries", "made_inference", "made_timing",
    }  # fmt: skip
    points = points_table(curves, TITLES, [0.4, 0.01])
    assert points["values"].tolist() == ["34", "above 42", "38", "above 42", "above 42", "above 42"]
    precision = precision_table(curves, TITLES, [12, 22, 99])
    assert sorted(set(precision["N_sum"])) == [12, 22]
    draw_curves(report, curves, "curves", "made up", errors("units"), thresholds=(0.4,))
    draw_safety(report, curves, "safety", "made up")
    assert (tmp_path / "figures" / "curves.png").is_file()
    assert (tmp_path / "figures" / "safety.pdf").is_file()


def test_printed_numbers_are_among_those_drawn(tmp_path: Path) -> None:
    printed = {
        "points_to_rmse[method=al_mogp,threshold=0.4]": 24.0,
        "rmse[method=rs_mogp,n_sum=20]": 0.85,
        "rmse[method=al_mogp_nosafe,n_sum=20]": 0.7,  # not drawn: no such curve
        "safety_precision[method=al_mogp,n_sum=12]": 0.99,
        "safe_query_percent[method=al_mogp]": 96.24,
    }
    report = replace(toy_report(tmp_path), printed=printed)
    draw_curves(report, three_methods(), "curves", "made up", errors("units"), thresholds=[0.4])
    draw_safety(report, three_methods(), "safety", "made up")
    shown = {}
    for name in ("curves", "safety"):
        marks = drawn(tmp_path, name).dropna(subset=["printed"])
        rows = zip(marks["method"], marks["n_sum"], marks["printed"], strict=True)
        shown[name] = [(marks["metric"].iloc[0], *row) for row in rows]
    assert shown["curves"] == [("rmse", "rs_mogp", 20.0, 0.85), ("rmse", "al_mogp", 24.0, 0.4)]
    assert shown["safety"] == [("precision_noisy", "al_mogp", 12.0, 0.99)]
    draw_curves(toy_report(tmp_path), three_methods(), "plain", "made up", errors("units"))
    assert "printed" not in drawn(tmp_path, "plain")
