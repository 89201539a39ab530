from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.errors import ResultsError
from gpsuite.reporting.comparison import (
    CAUSES,
    NO_POWER,
    OPEN_CELLS,
    ComparisonRow,
    Criterion,
    PaperValue,
    Statistic,
    claim,
    compare,
    judge,
    read_comparison,
    read_statistics,
    statistic_name,
    write_comparison,
    write_statistics,
)
from gpsuite.reporting.tables import ours_text
from gpsuite.statistics.estimates import AS_IF_INDEPENDENT, Estimate, mean

EQUALITY = Criterion("equality", value=5.0, tolerance=0.1)


def published(test: Criterion = EQUALITY, **changes: Any) -> PaperValue:
    values: dict[str, Any] = {
        **{"id": "X1", "paper": "p1", "where": "Table 1", "experiment": "family/name", "dataset": "toy"},
        **{"method": "m", "quantity": "risk", "published": "5.0", "unit": "risk", "condition": ""},
        **{"basis": "result", "statistic": "risk", "test": test, **changes},
    }
    return PaperValue(**values)


def only(entry: PaperValue, *statistics: Statistic) -> ComparisonRow:
    (row,) = compare([entry], statistics)
    return row


BETWEEN = Criterion("between", low=1.0, high=2.0)


def test_context_is_shown_next_to_ours_without_a_verdict() -> None:
    entry = published(Criterion("context", cause="data lost"))
    row = only(entry, Statistic("risk", 9.0, note="ours"))
    assert (row.verdict, row.ours, row.cause, row.difference) == ("undecided", 9.0, "data lost", None)
    assert (row.asked, row.note) == ("no test", "ours")
    assert only(entry).verdict == only(entry, Statistic("risk", math.nan)).verdict == "undecided"
    assert only(entry, Statistic("risk", math.nan)).ours is None


@pytest.mark.parametrize(
    ("test", "ours", "verdict", "difference"),
    [
        (EQUALITY, 5.1, "reproduced", 0.1),
        (EQUALITY, 4.9, "reproduced", -0.1),
        (EQUALITY, 5.11, "differs", 0.11),  # no zone outside the limit that stands in the row
        (Criterion("equality", value=506.0, tolerance=0.0), 506.0, "reproduced", 0.0),
        (Criterion("equality", value=506.0, tolerance=0.0), 505.0, "differs", -1.0),
        (Criterion("at_least", value=2.0), 2.0, "reproduced", 0.0),
        (Criterion("at_least", value=2.0), 9.0, "reproduced", 7.0),
        (Criterion("at_least", value=2.0), 1.99, "differs", -0.01),
        (Criterion("at_most", value=0.0), 0.0, "reproduced", 0.0),
        (Criterion("at_most", value=0.0), 0.02, "differs", 0.02),
        (BETWEEN, 1.5, "reproduced", 0.0),
        (BETWEEN, 1.0, "reproduced", 0.0),
        (BETWEEN, 0.99, "differs", -0.01),
        (BETWEEN, 2.6, "differs", 0.6),
        (Criterion("all_of"), 1.0, "reproduced", 0.0),
        (Criterion("all_of"), 0.9, "differs", -0.1),
    ],
)
def test_a_number_is_judged_by_its_criterion(test: Criterion, ours: float, verdict: str, difference: float) -> None:
    found, found_difference = judge(test, ours)
    assert found == verdict
    assert found_difference == pytest.approx(difference)


BETWEEN_ENDS = Estimate(1.0, 0.2, 7, 0.5, 1.5, "95 % t interval")


@pytest.mark.parametrize(
    ("test", "verdict", "difference"),
    [
        (Criterion("at_least", value=0.9), "reproduced", 0.1),
        (Criterion("at_least", value=0.9, of="low"), "undecided", -0.4),
        (Criterion("at_least", value=1.6, of="low"), "differs", -1.1),
        (Criterion("at_least", value=0.4, of="low"), "reproduced", 0.1),
        (Criterion("at_most", value=1.2, of="high"), "undecided", 0.3),
        (Criterion("at_most", value=0.4, of="high"), "differs", 1.1),
        (Criterion("at_most", value=1.2), "reproduced", -0.2),
    ],
)
def test_a_criterion_may_judge_an_end_of_the_interval(test: Criterion, verdict: str, difference: float) -> None:
    row = only(published(test), Statistic.of("risk", BETWEEN_ENDS, note="ours"))
    assert row.verdict == verdict
    assert row.difference == pytest.approx(difference)
    assert (row.ours, row.n) == (1.0, 7)  # the row shows the estimate; its note what was judged
    judged = {"value": "ours", "low": "judged: low end of the interval, 0.5; ours"}
    note = judged.get(test.of, "judged: high end of the interval, 1.5; ours")
    assert row.note == (f"{NO_POWER}; {note}" if row.verdict == "undecided" else note)


def test_without_an_interval_its_end_is_not_judged() -> None:
    row = only(published(Criterion("at_least", value=0.0, of="low")), Statistic.of("risk", Estimate(1.0, n=1)))
    assert (row.verdict, row.ours) == ("undecided", None)
    assert row.note == "ours has no low end of an interval"


@given(st.floats(-10, 10), st.floats(0, 3), st.floats(-20, 20))
def test_wider_tolerance_never_worsens_the_verdict(value: float, tolerance: float, ours: float) -> None:
    order = ["differs", "reproduced"]
    narrow, wide = (
        judge(Criterion("equality", value=value, tolerance=width), ours)[0] for width in (tolerance, 2 * tolerance)
    )
    assert order.index(wide) >= order.index(narrow)


@pytest.mark.parametrize("test", [EQUALITY, BETWEEN, Criterion("at_least", value=0.0), Criterion("all_of")])
def test_value_that_could_not_be_computed_is_never_compared(test: Criterion) -> None:
    row = only(published(test), Statistic("risk", math.nan, note="no pairs"))
    assert (row.verdict, row.ours, row.difference) == ("undecided", None, None)
    assert row.note == "ours could not be computed; no pairs"


@pytest.mark.parametrize(
    ("test", "value", "verdict"),
    [
        (EQUALITY, math.inf, "differs"),
        (BETWEEN, math.inf, "differs"),
        (BETWEEN, -math.inf, "differs"),
        (Criterion("at_least", value=0.0), math.inf, "reproduced"),
        (Criterion("at_least", value=0.0), -math.inf, "differs"),
        (Criterion("at_most", value=0.0), math.inf, "differs"),
        (Criterion("all_of"), math.inf, "undecided"),
    ],
)
def test_what_is_beyond_every_number_is_judged(test: Criterion, value: float, verdict: str) -> None:
    row = only(published(test, standard_error=0.1), Statistic("risk", value, note="never reached"))
    assert (row.verdict, row.difference) == (verdict, None)
    assert row.note.endswith("never reached")
    assert row.ours == (None if verdict == "undecided" else value)


@pytest.mark.parametrize(("value", "n"), [(1.5, 5), (-0.1, 5), (1.0, 0)])
def test_share_that_is_none_is_undecided(value: float, n: int) -> None:
    row = only(published(Criterion("all_of")), Statistic("risk", value, n=n))
    assert row.verdict == "undecided"


def test_missing_statistic_is_not_run() -> None:
    row = only(published(), Statistic("other", 5.0))
    assert (row.verdict, row.ours) == ("not run", None)
    assert "risk" in row.note


def test_row_carries_error_interval_cells_rule_and_remark() -> None:
    statistic = Statistic("risk", 5.05, 0.03, 10, 4.98, 5.12, "95 % t interval", note="10 splits")
    row = only(published(standard_error=0.04, basis="claim", remark="A pool.", rules="abc"), statistic)
    assert (row.ours, row.standard_error, row.n, row.asked) == (5.05, 0.03, 10, "4.9 to 5.1")
    assert row.interval == "95 % t interval [4.98, 5.12]"
    assert row.note == "difference = 1.00 combined standard errors; 10 splits"
    assert (row.basis, row.remark, row.rules, row.cause) == ("claim", "A pool.", "abc", None)
    cells = Statistic("risk", 0.8, n=5, interval_low=0.28, interval_high=0.99, interval="95 % interval")
    assert only(published(Criterion("all_of")), cells).note == "holds in 4 of 5"
    decision = Statistic("risk", 1.0, n=600, note="1 mass outside")  # of 600 masses, not true of 600
    assert only(published(Criterion("all_of")), decision).note == "1 mass outside"


def test_difference_is_to_the_printed_value_not_to_the_limit() -> None:
    """A limit that leaves room, three standard errors below the print, say, is no value to be compared with."""
    entry = published(Criterion("at_least", 4.4), standard_error=0.2, published="5.0 ± 0.2")
    row = only(entry, Statistic("risk", 4.8, 0.0))
    assert row.verdict == "reproduced"
    assert row.difference == pytest.approx(-0.2)
    assert row.note == "difference = -1.00 combined standard errors"


@pytest.mark.parametrize("own", [None, math.nan])
def test_difference_without_our_error_counts_published_errors(own: float | None) -> None:
    row = only(published(standard_error=0.05), Statistic("risk", 5.1, own))
    assert row.note == "difference = 2.00 published standard errors"


def test_a_statistics_name_holds_metric_and_axes() -> None:
    assert statistic_name("bound_kl", method="kl_pac_gp", epsilon=1.0) == "bound_kl[method=kl_pac_gp,epsilon=1.0]"
    assert statistic_name("rows") == "rows"


def test_statistics_survive_writing_byte_for_byte(tmp_path: Path) -> None:
    statistics = [
        Statistic("a", 0.1 + 0.2, 1e-17, 10, -1 / 3, 1 / 3, "95 % t interval", "risk", 'says "x", y\nz', (0.1, 1 / 3)),
        Statistic("b[x=1]", 1.0),
    ]
    write_statistics(tmp_path, statistics)
    first = (tmp_path / "statistics.csv").read_bytes()
    assert read_statistics(tmp_path) == statistics
    write_statistics(tmp_path, read_statistics(tmp_path))
    assert (tmp_path / "statistics.csv").read_bytes() == first
    write_statistics(tmp_path, [Statistic("a", math.nan)])
    assert math.isnan(read_statistics(tmp_path)[0].value)


def test_statistics_of_the_same_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="same name: a"):
        write_statistics(tmp_path, [Statistic("a", 1.0), Statistic("a", 2.0)])


def test_a_comparison_has_its_columns_and_is_read_back_the_same(tmp_path: Path) -> None:
    rows = [only(published(), Statistic("risk", 5.0 + 1e-9, 0.1, 3)), only(published(id="X2"))]
    write_comparison(tmp_path, rows)
    with (tmp_path / "comparison.csv").open(newline="") as stream:
        header = next(csv.reader(stream))
    assert header == [
        *("id", "paper", "where", "experiment", "dataset", "method", "basis", "quantity", "unit", "condition"),
        *("published", "asked", "ours", "standard_error", "n", "interval", "difference", "verdict", "cause", "note"),
        *("remark", "rules"),
    ]
    assert read_comparison(tmp_path) == rows


@pytest.mark.parametrize("spoil", [("verdict", "vrdct"), ("reproduced", "maybe"), ("5.0", "abc")])
def test_spoilt_comparison_is_named(spoil: tuple[str, str], tmp_path: Path) -> None:
    write_comparison(tmp_path, [only(published(), Statistic("risk", 5.0, note="a note"))])
    path = tmp_path / "comparison.csv"
    path.write_text(path.read_text().replace(*spoil))
    with pytest.raises(ResultsError, match=r"cannot read .*comparison\.csv"):
        read_comparison(tmp_path)


def test_truncated_line_is_named(tmp_path: Path) -> None:
    write_comparison(tmp_path, [only(published(), Statistic("risk", 5.0))])
    path = tmp_path / "comparison.csv"
    path.write_text(path.read_text()[:-30])
    with pytest.raises(ResultsError, match="cannot read"):
        read_comparison(tmp_path)


def test_no_line_of_a_comparison_is_read_that_was_cut_short(tmp_path: Path) -> None:
    write_comparison(tmp_path, [only(published(), Statistic("risk", 5.0))])
    path = tmp_path / "comparison.csv"
    whole = path.read_text(encoding="utf-8").rstrip("\n")
    for spoilt in (whole[:-1], whole.rpartition(",")[0] + "\n", f"{whole},more\n"):
        path.write_text(spoilt, encoding="utf-8")
        with pytest.raises(ResultsError, match=r"comparison\.csv"):
            read_comparison(tmp_path)


@pytest.mark.parametrize(
    ("test", "ours"),
    [
        (Criterion("equality", value=5.0, tolerance=0.1), 5.1001),
        (Criterion("at_least", value=2.0), 1.9999),
        (Criterion("at_most", value=0.5), 0.50001),
        (Criterion("at_most", value=0.0), 5e-13),  # rounding is relative: beside 0 there is none
        (Criterion("between", low=1.0, high=2.0), 2.00001),
    ],
)
def test_limits_are_exact_but_for_rounding(test: Criterion, ours: float) -> None:
    assert judge(test, ours)[0] == "differs"


def test_statistics_cut_short_in_their_last_cell_are_refused(tmp_path: Path) -> None:
    write_statistics(tmp_path, [Statistic("risk", 2.0, repetitions=(1.25, 2.75))])
    path = tmp_path / "statistics.csv"
    path.write_bytes(path.read_bytes()[:-2])  # 2.7 in place of 2.75
    with pytest.raises(ResultsError, match="cut short"):
        read_statistics(tmp_path)


def test_what_is_infinite_of_an_interval_stays_empty() -> None:
    found = Statistic.of("risk", Estimate(1.0, math.inf, 3, -math.inf, math.inf, "95 % t interval"))
    assert (found.standard_error, found.interval_low, found.interval_high) == (None, None, None)
    assert math.isnan(found.judged("low"))


def test_a_claim_is_the_share_of_cells_with_its_interval() -> None:
    found = claim("share_lower", [True, False, True, True], "ratios 2 to 3")
    assert (found.value, found.n, found.note) == (0.75, 4, "3 of 4 cells; ratios 2 to 3")
    assert found.interval == AS_IF_INDEPENDENT
    assert found.interval_low is not None and 0.0 < found.interval_low < 0.75
    none = claim("share_lower", [])
    assert math.isnan(none.value) and (none.n, none.note, none.interval) == (0, "", "")


def test_a_claim_that_fails_in_open_cells_only_is_undecided() -> None:
    for cells, verdict, ends in (
        ([True, None, True], "undecided", (2 / 3, 1.0)),
        ([True, None, False], "differs", (1 / 3, 2 / 3)),
        ([True, True, False], "differs", None),
        ([None, None], "undecided", (0.0, 1.0)),
    ):
        found = claim("risk", cells)
        row = only(published(Criterion("all_of"), basis="claim"), found)
        assert (row.verdict, row.cause) == (verdict, "too few data" if verdict == "undecided" else None)
        if ends:
            assert (found.interval_low, found.interval_high, found.interval) == (*ends, OPEN_CELLS)
            assert f"{sum(cell is None for cell in cells)} open" in found.note


def test_a_statistic_leaves_empty_what_its_estimate_does_not_know() -> None:
    assert Statistic.of("m", mean([3.0])) == Statistic("m", 3.0, None, 1)
    open_above = Statistic.of("m", Estimate(5.0, n=9, low=4.0, high=math.inf, interval="i"), "points")
    assert (open_above.interval_low, open_above.interval_high, open_above.unit) == (4.0, None, "points")
    assert (open_above.judged("value"), open_above.judged("low")) == (5.0, 4.0)
    assert math.isnan(open_above.judged("high"))


T_INTERVAL = Statistic("risk", 5.0, 0.2, 7, 4.6, 5.4, "95 % t interval")
CELLS = Statistic("risk", 0.75, None, 4, 0.19, 0.99, AS_IF_INDEPENDENT)


@pytest.mark.parametrize(
    ("test", "right", "wrong", "weak"),
    [
        (EQUALITY, T_INTERVAL, {"value": 6.0, "interval_low": 5.6, "interval_high": 6.4}, {"value": 5.2}),
        (BETWEEN, {"value": 1.5}, {"value": 2.6, "interval_low": 2.2, "interval_high": 3.0}, {"interval_low": 1.9}),
        (Criterion("at_most", 5.0), {}, {"value": 6.0, "interval_low": 5.1, "interval_high": 6.9}, {"value": 5.1}),
        (Criterion("at_least", 4.5, of="low"), {}, {"interval_low": 4.0, "interval_high": 4.4}, {"interval_low": 4.4}),
    ],
    ids=["equality", "between", "at most", "low end"],
)
def test_a_planted_fault_differs_and_too_few_draws_leave_it_open(
    test: Criterion, right: Any, wrong: Any, weak: Any
) -> None:
    """Each verdict can say no: the right number, a wrong one, one whose interval reaches what is asked, and none."""
    given = [T_INTERVAL if right is T_INTERVAL else replace(T_INTERVAL, **right)]
    given += [replace(T_INTERVAL, **change) for change in (wrong, weak)]
    rows = [only(published(test), ours) for ours in given] + [only(published(test))]
    assert [row.verdict for row in rows] == ["reproduced", "differs", "undecided", "not run"]
    assert [row.cause for row in rows] == [None, None, "too few data", None]
    assert rows[2].note.startswith(NO_POWER) and rows[2].reason == CAUSES["too few data"]


def test_the_interval_of_a_share_of_cells_leaves_nothing_open() -> None:
    """The cells are those of the claim, no sample of more."""
    row = only(published(Criterion("all_of"), basis="claim"), CELLS)
    assert (row.verdict, ours_text(row)) == ("differs", "3 of 4")


@pytest.mark.parametrize(
    ("ours", "error", "verdict", "note"),
    [
        (5.04, 0.01, "reproduced", "within the printed digits"),
        (5.06, 0.0, "reproduced", "difference = 1.20 combined standard errors"),
        (5.3, 0.2, "undecided", f"{NO_POWER}; difference = 1.46 combined standard errors"),  # 133 ± 132 agrees with all
        (5.3, 0.05, "differs", "difference = 4.24 combined standard errors"),
    ],
)
def test_a_number_agrees_within_its_digits_or_its_error_and_says_which(
    ours: float, error: float, verdict: str, note: str
) -> None:
    row = only(published(standard_error=0.05), Statistic("risk", ours, error))
    assert (row.verdict, row.note) == (verdict, note)


def test_a_remark_says_why_and_what_is_needed() -> None:
    row = only(published(remark="Another kernel, ours. Needed: the paper's."), T_INTERVAL)
    assert (row.reason, row.needed) == ("Another kernel, ours.", "the paper's.")
    assert only(published(), T_INTERVAL).reason == only(published(), T_INTERVAL).needed == ""
