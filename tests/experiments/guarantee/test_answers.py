"""What a run of guarantee says, beside the numbers that it is said of."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.data.spec import CsvSpec, to_plain
from gpsuite.experiments.base import Record
from gpsuite.experiments.guarantee import guarantees, summary, told
from gpsuite.experiments.guarantee.answer import Answer, Guarantee, Light, Rows, promised
from gpsuite.experiments.guarantee.checks import CONTRADICTED, DOUBTFUL, NOTHING, Check
from gpsuite.experiments.guarantee.guarantees import SECONDS, STATED, Found
from gpsuite.experiments.guarantee.predictions import shown_rows
from gpsuite.methods.conformal import jackknife_plus


def made_up(metrics: dict[str, Any], **arrays: Any) -> Record:
    found: Any = SimpleNamespace(metrics=metrics, arrays=arrays, axes={}, number=lambda name: float(metrics[name]))
    return found


DATA: Any = SimpleNamespace(
    input_names=("a",),
    target_names=("y",),
    level_inputs=frozenset(),
    categories={},
    clusters=None,
    order="none",
    task="regression",
    weights=None,
)
CLASSES: Any = SimpleNamespace(**{**vars(DATA), "task": "classification"})


def found(data: Any = DATA, bands: Any = (), checks: Any = (), values: Any = None, **parts: Record) -> Found:
    own = {"preparation": 0.1, "most_rows": 1000, "coverage": 0.9, "delta": 0.01, "tolerances": [], "accuracy": 1.0}
    own |= {"excluded": 5, "m": 100}
    spec = {**to_plain(CsvSpec(path="my file.csv", target="y")), "target": ["y"]}
    prepared = SimpleNamespace(spec=spec, shown_name="my file.csv", notes=())
    request = SimpleNamespace(require_dataset=lambda: prepared, doubts=[])
    settings = SimpleNamespace(**{**own, **(values or {})})
    report: Any = SimpleNamespace(settings=settings, titles={}, request=request, folder=Path("r"))
    return Found(report, data, parts, bands, checks=checks)


def judged(**metrics: Any) -> Record:
    """Return the record of a regression on test rows: one error of ten is above 1."""
    own = {"goal": 0, "n_train": 80, "n_test": 10, "n_copies": 0, "conformal_radius": 2.0, "jackknife_rows": 19}
    own |= {"jackknife_lost": 0, "rmse": 1.0, "rmse_constant": 3.0}
    arrays = {"errors": np.array([1.0, 2.0]), "shares": np.array([0.1, 0.0]), "bounds": np.array([0.4, 0.3])}
    return made_up({**own, **metrics}, **arrays)


@pytest.mark.parametrize(("bound", "told_so"), [(0.4, False), (0.9, True), (1.0, True)])
def test_how_many_rows_a_bound_needs_is_not_forecast(bound: float, told_so: bool) -> None:
    """Measured: 60 rows of noise promised a useful bound at 600, and 700 such rows gave one of 100 %."""
    record = made_up({"goal": 0}, errors=np.array([1.0, 2.0]), bounds=np.array([bound, bound]))
    said = " ".join(told._of_numbers(found(bounded=record)))
    assert ("How many, the data do not say." in said) is told_so and "with about" not in said
    line = guarantees.pac_bayes(found(bounded=record))
    assert line is not None and bool(line.needs) is (bound == 1.0)


def test_all_lines_tell_of_one_error_and_each_bound_is_of_one_up_to_it() -> None:
    """The models are scaled by other rows, so that one standard deviation is another error for each."""
    bounded = made_up({"goal": 1}, errors=np.array([0.4, 0.8, 1.6]), bounds=np.array([0.9, 0.7, 0.2]))
    both = found(bounded=bounded, judged=judged())
    assert both.threshold == 1.0
    lines = [str(line(both)) for line in (guarantees.pac_bayes, guarantees.tested_numbers)]
    assert "at most 70 % of errors exceed 1'" in lines[0] and "at most 40 % of errors exceed 1'" in lines[1]


def test_few_test_rows_are_not_blamed_for_what_copies_cost() -> None:
    few = next(told._of_intervals(judged(n_test=20, conformal_radius=None), "90 %"))
    assert few == "Conformal: too few test rows for an interval of 90 %: 20."
    copies = next(told._of_intervals(judged(n_test=20, conformal_radius=None, n_copies=10), "90 %"))
    assert copies == few[:-1] + ", and 10 more that repeat others and count as lost."
    line = guarantees.conformal(found(judged=judged(conformal_radius=None)))
    assert line is not None and line.needs == "more test rows"


@pytest.mark.parametrize(("rows", "lost", "bounded"), [(18, 0, False), (19, 0, True), (58, 2, False), (59, 2, True)])
def test_unbounded_jackknife_intervals_are_not_promised(rows: int, lost: int, bounded: bool) -> None:
    """Of many test rows only some have models of their own, and these must be enough."""
    record = judged(n_test=500, jackknife_rows=rows, jackknife_lost=lost)
    line = guarantees.jackknife(found(judged=record))
    assert line is not None and bool(line.needs) is not bounded
    (said,) = told._of_intervals(record, "90 %")
    counted = f" Those that repeat others, {lost}, count as lost." if lost else ""
    assert said == f"Jackknife+ leaves {rows} test rows out in turn.{counted}"
    errors = np.where(np.arange(rows) < lost, np.inf, 1.0)
    low, high = jackknife_plus(errors, np.zeros((rows, 1)), 0.9)
    assert bool(np.isfinite([low, high]).all()) is bounded


def of_classes(**values: Any) -> Record:
    metrics = {"wrong": 1, "n_test": 20, "n_copies": 0, "n_train": 80, "majority": 0.5, "untested": "", "bound": 0.2}
    arrays = {name: np.array(values.pop(name, [])) for name in ("certified", "certified_bounds")}
    tolerances = np.array([0.1, 0.2])[: len(arrays["certified"])]
    return made_up({**metrics, "points": 10, **values}, **arrays, tolerances=tolerances)


def said_of_classes(**values: Any) -> list[str]:
    return told.details(found(CLASSES, judged=of_classes(**values)))


@pytest.fixture(autouse=True)
def plain_details(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "_heading", lambda _: "")
    monkeypatch.setattr(told, "SETTINGS", ())


def test_classes_that_no_test_row_has_are_named() -> None:
    assert not any("No test row" in line for line in said_of_classes())
    rare = said_of_classes(untested="bad\nworse")
    assert "No test row is bad or worse: of such rows nothing was seen." in rare
    assert any("The test model learned from 80 rows and was tested on 20 others." in line for line in rare)
    assert "The test model got 1 of 20 test rows wrong." in rare


def test_an_empty_guarantee_of_classes_is_said_to_prove_nothing() -> None:
    record = of_classes(certified=[0.9, 0.1], certified_bounds=[0.5, 0.0], bound=0.9996)
    lines = [line(found(CLASSES, judged=record)) for line in (guarantees.tested_classes, guarantees.certified)]
    assert all(line is not None and line.needs for line in lines)
    some, none, _ = told._of_certified(record, found(CLASSES))
    assert some.endswith("That proves 50 % of new rows.") and none.endswith("That proves 0 % of new rows.")
    assert "standard deviations, on 9 of 10 test rows." in some and ", on 1 of 10 test rows." in none
    (line,) = [guarantees.certified(found(CLASSES, judged=of_classes(certified=[0.9], certified_bounds=[0.5])))]
    assert line is not None and line.line.startswith("99 % if new rows are like these: at least 50 % of predictions")


@pytest.mark.parametrize(("repeated", "told_so"), [(0, False), (2, True)])
def test_copies_of_test_rows_are_said_to_be_left_out_too(repeated: int, told_so: bool) -> None:
    said = said_of_classes(certified=[0.9, 0.8], certified_bounds=[0.5, 0.4], n_copies=repeated)
    assert ("The test model learned from no copy of a test row." in said) is told_so
    counted = f"Test rows that repeat others: {repeated} more. Each bound is the worse with or without them."
    assert (counted in said) is told_so


def test_a_reason_that_holds_at_every_row_is_given_once() -> None:
    empty: dict[str, Any] = {"certified": [0.0, 0.0], "certified_bounds": [0.0, 0.0], "searched": 9}
    lines = [line for line in said_of_classes(**empty, stated=9) if line.startswith("Certified: ")]
    assert len(lines) == 1 and lines[0].endswith(f"at any of 10 test rows, {STATED}.")
    lines = [line for line in said_of_classes(**empty, stated=8) if line.startswith("Certified: ")]
    assert len(lines) == 2 and not any(STATED in line for line in lines)


@pytest.mark.parametrize(("share", "drawn"), [(0.0, []), (0.1, ["certified"])])
def test_a_figure_of_nothing_is_not_drawn(monkeypatch: pytest.MonkeyPatch, share: float, drawn: list[str]) -> None:
    record = made_up({}, certified=np.array([share, 0.0]))
    names: list[str] = []
    monkeypatch.setattr(summary, "draw_certified", lambda *_: names.append("certified"))
    for name in ("row_checks", "with_verdicts"):
        monkeypatch.setattr(summary, name, lambda *_: [])
    monkeypatch.setattr(summary, "load", lambda _: DATA)
    report: Any = SimpleNamespace(request=SimpleNamespace(require_dataset=lambda: None))
    summary._of_classes(report, {"judged": record})
    assert names == drawn


def rows_record(ranges: Any, cut: int = 0, **arrays: Any) -> Record:
    count = len(ranges)
    own = {"ranges": np.array(ranges), "outside": np.zeros(count, dtype=bool), "examples": np.arange(count)}
    return made_up({"cut": cut}, **{**own, **arrays})


def test_ranges_are_reported_of_the_row_that_moves_most() -> None:
    moved = rows_record([[[0.9, 1.2]], [[1.0, 5.0]]], prediction=np.array([1.0, 2.0]))
    tolerant = {"tolerances": [0.1]}
    assert "move 2 predictions by at most 3." in " ".join(told._of_numbers(found(values=tolerant, rows=moved)))
    line = guarantees.proved_numbers(found(values=tolerant, rows=moved))
    assert line is not None and line.says.endswith("move 2 predictions by at most 3") and line.own_rows
    ranges = [[[0.9, 1.0]], [[0.4567, 1.0]]]
    kept = rows_record(ranges, effects=np.array([[0.1], [0.2]]))
    said = " ".join(told._of_classes(found(CLASSES, values=tolerant, rows=kept)))
    assert "the class of 2 of 2 rows of the table keeps a probability above 0.456." in said
    line = guarantees.proved_classes(found(CLASSES, values=tolerant, rows=kept))
    assert line is not None and line.says.endswith("keep the class of 1 of 2 rows of the table")
    two: Any = SimpleNamespace(**{**vars(CLASSES), "input_names": ("a", "b")})
    effects = np.array([[0.5, 0.2], [-0.5, 0.2]])  # the first decides, this way here and that way there
    said = " ".join(told._of_classes(found(two, values=tolerant, rows=rows_record(ranges, effects=effects))))
    assert "moves the probability on average: a (0.500), b (0.200)" in said


def test_rows_that_the_seconds_left_out_are_said_not_to_be_proved() -> None:
    ranges = [[[0.9, 1.2]], [[np.nan, np.nan]], [[-np.inf, np.inf]]]
    tolerant = {"tolerances": [0.1]}
    (cut,) = told._of_numbers(found(values=tolerant, rows=rows_record(ranges, 2, prediction=np.ones(3))))
    assert cut.endswith(f"move 1 prediction by at most 0.2. Not proved: 2 more, {SECONDS}.")
    (other,) = told._of_numbers(found(values=tolerant, rows=rows_record(ranges, 0, prediction=np.ones(3))))
    assert other.endswith("Not proved: 2 more.")
    fine = found(values={"tolerances": [0.12345678]}, rows=rows_record(ranges, prediction=np.ones(3)))
    assert "off by 0.123456 standard" in " ".join(told._of_numbers(fine)), "what is claimed of less is proved"


def test_the_bands_confidence_is_the_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (guarantees, told):
        monkeypatch.setattr(module, "mean_width", lambda *_: 1.5)
    one: Any = SimpleNamespace(axes={"model": "lssvm_linear"}, metrics={}, arrays={}, status="done", reason="")
    of_one = found(bands=[one])
    line = guarantees.band(of_one)
    assert line.line == (
        "95 % if the curve is linear and noise symmetric: it lies in a band 1.5 wide (band, for its shape)."
    )
    held, missing, noise = told._of_bands(of_one)
    assert held == "Band for a function that is linear in the inputs: 1.5 wide."
    assert missing.startswith("There is no band for a function that is the preparation rows' mean target plus")
    assert "symmetric and independent" in noise
    assert guarantees.band(found()).needs == guarantees.NO_BAND


CHECKS = [
    Check("no drift", "test rows", "a differs", 1e-9, True, "dataset.order=x  # or y", CONTRADICTED),
    Check("no pattern", "band", "seen", 1e-9, False, "", DOUBTFUL),
    Check("copies", "band", "none", verdict=NOTHING),
]


def test_signs_name_the_command_to_run_next() -> None:
    run_again = "gpsuite run experiment=guarantee dataset=csv 'dataset.path=my file.csv' 'dataset.target=[y]'"
    assert told.signs(found(checks=CHECKS)) == [
        "The order of the file says nothing: dataset.order=none.",
        f"Contradicted: no drift (a differs). Do not rely on: test rows. Next: {run_again} dataset.order=x  # or y",
        "Doubtful: no pattern (seen). Next: " + run_again,
    ]


def test_the_light_tells_of_the_worst_and_what_to_do() -> None:
    record = judged()
    red = told.light(found(checks=CHECKS, judged=record))
    assert red.line == (
        "Red: the data contradict that no drift. Do not rely on: test rows. Run again with dataset.order=x (or y)."
    )
    assert told.light(found(checks=CHECKS[1:], judged=record)).colour == "amber"
    assert told.light(found(checks=CHECKS[2:], judged=record)).colour == "green"
    assert told.light(found(checks=CHECKS[2:], judged=judged(rmse=3.0))).colour == "red"
    assert told.light(found(checks=CHECKS[2:], judged=judged(rmse=2.9))).colour == "amber"


@pytest.mark.parametrize(
    ("rmse", "words"), [(3.0, "no better than 3 by"), (2.9, "hardly better than 3 by"), (1.0, "against 3 by")]
)
def test_the_headline_says_whether_the_model_is_better_than_the_mean(rmse: float, words: str) -> None:
    said = told.headline(found(judged=judged(rmse=rmse)), [])
    assert said == f"The model misses y by {rmse:g} on 10 test rows, {words} always saying the mean."


def test_what_a_contradicted_assumption_carries_is_no_line_and_not_in_the_headline() -> None:
    of_run = found(checks=CHECKS, judged=judged())
    answer = told.answer_of(of_run, None)
    assert "test rows" not in {each.name for each in answer.guarantees} and "99 %" not in answer.headline
    answer = told.answer_of(found(checks=CHECKS[1:], judged=judged()), None)
    assert answer.headline.endswith(
        "y is within 2 of prediction_judged, and with 99 % at most 40 % of errors exceed 1."
    )


@pytest.mark.parametrize(("task", "about_later_rows"), [("regression", True), ("classification", False)])
def test_guarantees_from_the_last_rows_are_not_said_to_be_about_past_rows(task: str, about_later_rows: bool) -> None:
    data: Any = SimpleNamespace(**{**vars(DATA), "order": "time", "time": "day", "task": task})
    said = " ".join(told._of_test_rows(found(data, judged=judged())))
    assert "last rows in order of day. Guarantees from them are about rows that follow as these did." in said
    assert ("PAC-Bayes bound and bands are about all past rows" in said) == about_later_rows


def test_shown_numbers_have_the_places_of_the_interval_and_ends_that_reach_as_far() -> None:
    frame = pd.DataFrame({"row": [1, 2], "prediction": [123456.789, np.nan], "jackknife_low": [123451.2345, np.nan]})
    frame["prediction_judged"] = [123455.123, np.nan]
    frame["jackknife_high"], frame["outside_training_range"] = [123461.0001, np.nan], [True, np.nan]
    frame["not_predicted"] = ["", "empty"]
    heading, first, second = shown_rows(frame, ("jackknife+",))
    assert heading == ["row", "prediction_judged", "jackknife_low", "jackknife_high", "note"]
    assert first == ["1", "123455.12", "123451.23", "123461.01", "outside training range"]
    assert second == ["2", "", "", "", "not predicted"]
    heading, first, _ = shown_rows(frame, ())
    assert heading == ["row", "prediction", "note"] and first == ["1", "123457", "outside training range"]


def test_the_lines_of_spread_and_sets_say_what_is_promised_and_which_classes_are_left_out() -> None:
    metrics = {"interval": "spread", "spread_narrow": 1.0, "spread_wide": 8.0}
    of_spread = found(judged=judged(), conformal=made_up(metrics))
    line = guarantees.spread(of_spread)
    assert line is not None and guarantees.conformal(of_spread) is None
    assert line.line == (
        "90 % if new rows are like these: y is in the row's spread interval, on test rows 1 to 8 wide "
        "(spread, for one row)."
    )
    endless = guarantees.spread(found(conformal=made_up(metrics | {"spread_wide": None})))
    assert endless is not None and endless.needs == "more test rows"
    one_width = found(judged=judged(), conformal=made_up(metrics | {"interval": "conformal"}))
    assert guarantees.spread(one_width) is None and guarantees.conformal(one_width) is not None
    of_sets = made_up({"threshold": 0.9, "set_size": 2.1, "labels": "a\nb"}, class_thresholds=np.array([0.7, np.inf]))
    lines = [line(found(CLASSES, conformal=of_sets)) for line in (guarantees.class_sets, guarantees.per_class)]
    assert [each.says for each in lines if each is not None] == [
        "the true y is in the row's class_set, of 2.1 classes on average",
        "class_set_each holds the row's true y, if it is a",
    ]


def test_what_is_promised_is_read_again_from_the_sentences_kept_with_a_model() -> None:
    lines = [Guarantee(name, "90 %", "", "y (m) is near", "one row") for name in ("spread", "jackknife+", "PAC-Bayes")]
    assert promised(["It errs (by 2).", *(each.line for each in lines)]) == {"spread", "jackknife+", "PAC-Bayes"}
    assert promised(["Says nothing here: conformal (needs more test rows)."]) == set()


def test_an_answer_has_one_shape_with_ten_lines_before_the_rows() -> None:
    lines = [Guarantee("test rows", "99 %", "new rows are like these", "at most 1 % are wrong", "many rows")]
    lines += [Guarantee("band", needs="more rows"), Guarantee("conformal", needs="more test rows")]
    rows = Rows("New rows", [["row", "predicted"], ["1", "yes"]], ["All 1 row: p.csv."], ["gpsuite predict r NEW.csv"])
    answer = Answer("t", "It is right.", Light("green", "all is well."), lines, rows)
    assert answer.lines(Path("r")) == [
        "It is right.",
        "Green: all is well.",
        "99 % if new rows are like these: at most 1 % are wrong (test rows, for many rows).",
        "Says nothing here: band (needs more rows), conformal (needs more test rows).",
        "",
        "New rows",
        "  row  predicted",
        "    1        yes",
        "All 1 row: p.csv.",
        "  gpsuite predict r NEW.csv",
        "Details and pictures: r/page.html",
    ]
