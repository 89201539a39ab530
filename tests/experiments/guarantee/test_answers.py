"""What a run of guarantee says, beside the numbers that it is said of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpsuite.data.spec import CsvSpec, to_plain
from gpsuite.experiments.base import Record
from gpsuite.experiments.guarantee import answer, summary
from gpsuite.experiments.guarantee.answer import (
    _band_sentences,
    _interval_sentences,
    _pac_bayes_sentences,
    range_sentences,
)
from gpsuite.experiments.guarantee.checks import CONTRADICTED, DOUBTFUL, NOTHING, Check
from gpsuite.experiments.guarantee.summary import _judged_sentences, _row_sentences
from gpsuite.methods.conformal import jackknife_plus


def made_up(metrics: dict[str, Any], **arrays: Any) -> Record:
    found: Any = SimpleNamespace(metrics=metrics, arrays=arrays, axes={}, number=lambda name: float(metrics[name]))
    return found


DATA: Any = SimpleNamespace(
    input_names=("a",), target_names=("y",), level_inputs=frozenset(), categories={}, clusters=None, order=""
)


def settings(**values: Any) -> Any:
    return SimpleNamespace(
        **{"preparation": 0.1, "most_rows": 1000, "coverage": 0.9, "delta": 0.01, "tolerances": [], **values}
    )


@pytest.mark.parametrize(("bound", "told"), [(0.4, False), (0.9, True), (1.0, True)])
def test_how_many_rows_a_bound_needs_is_not_forecast(bound: float, told: bool) -> None:
    """Measured: 60 rows of noise promised a useful bound at 600, and 700 such rows gave one of 100 %."""
    record = made_up({"goal": 0}, errors=np.array([1.0, 2.0]), bounds=np.array([bound, bound]))
    said = " ".join(_pac_bayes_sentences(record, settings(), "y"))
    assert said.endswith("how many, the data do not say.") is told and "with about" not in said


def test_few_test_rows_are_not_blamed_for_what_copies_cost() -> None:
    metrics = {"n_test": 20, "conformal_radius": None, "n_copies": 0}
    few = next(_interval_sentences(made_up(metrics), settings(), "y"))
    assert few == "Split conformal: 20 test rows are too few for an interval of 90 %."
    copies = next(_interval_sentences(made_up({**metrics, "n_copies": 10}), settings(), "y"))
    assert "20 test rows, with 10 more that repeat others and count as lost, are too few" in copies


@pytest.mark.parametrize(("rows", "lost", "bounded"), [(18, 0, False), (19, 0, True), (58, 2, False), (59, 2, True)])
def test_unbounded_jackknife_intervals_are_not_promised(rows: int, lost: int, bounded: bool) -> None:
    """Of many test rows only some have models of their own, and these must be enough."""
    metrics = {"n_test": 500, "conformal_radius": 2.0, "n_copies": 0}
    metrics |= {"jackknife_rows": rows, "jackknife_lost": lost}
    said = list(_interval_sentences(made_up(metrics), settings(), "y"))
    assert any(line.startswith("Jackknife+: its interval") for line in said) is bounded
    counted = f", {lost} of which repeat others and count as lost," if lost else ""
    few = f"Jackknife+: {rows} test rows left out in turn{counted} are too few for an interval of 90 %."
    assert (few in said) is not bounded
    errors = np.where(np.arange(rows) < lost, np.inf, 1.0)
    low, high = jackknife_plus(errors, np.zeros((rows, 1)), 0.9)
    assert bool(np.isfinite([low, high]).all()) is bounded


def test_classes_that_no_test_row_has_are_named() -> None:
    metrics = {"wrong": 1, "n_test": 20, "n_copies": 0, "n_train": 80, "majority": 0.0, "bound": 0.2, "points": 0}
    arrays: dict[str, Any] = {"tolerances": [], "certified_bounds": [], "certified": np.empty(0)}
    none = list(_judged_sentences(made_up({**metrics, "untested": ""}, **arrays), settings(), DATA))
    rare = list(_judged_sentences(made_up({**metrics, "untested": "bad\nworse"}, **arrays), settings(), DATA))
    assert not any("No test row" in line for line in none)
    assert "  No test row is bad or worse: of such rows nothing was seen." in rare
    assert any("the model learned from 80 other rows" in line for line in none)


def said_of_classes(**values: Any) -> list[str]:
    metrics = {"wrong": 1, "n_test": 20, "n_copies": 0, "n_train": 80, "majority": 0.0, "untested": ""}
    arrays = {name: np.array(values.pop(name)) for name in ("certified", "certified_bounds")}
    arrays["tolerances"] = np.array([0.1, 0.2])
    record = made_up({**metrics, "bound": 0.2, "points": 10, **values}, **arrays)
    return list(_judged_sentences(record, settings(), DATA))


def test_an_empty_guarantee_of_classes_is_said_to_prove_nothing() -> None:
    said = said_of_classes(certified=[0.9, 0.1], certified_bounds=[0.5, 0.0], bound=0.9996)
    assert said[0].startswith("Test rows: Nothing is proved of how often")
    some, none = (line for line in said if line.startswith("Certified: "))
    assert some.startswith("Certified: With probability 99 %, at least 50 % of the new rows")
    assert none.startswith("Certified: Nothing is proved of how many new rows")
    assert said[-1].startswith("  (1 of 10 test rows;")


@pytest.mark.parametrize(("repeated", "told"), [(0, False), (2, True)])
def test_copies_of_test_rows_are_said_to_be_left_out_too(repeated: int, told: bool) -> None:
    values: dict[str, Any] = {"certified": [0.9, 0.8], "certified_bounds": [0.5, 0.4]}
    said = said_of_classes(**{**values, "n_copies": repeated})
    named = [line for line in said if "without the test rows" in line]
    assert len(named) == 3
    assert all(("without the test rows and their copies" in line) is told for line in named)


def test_a_reason_that_holds_at_every_row_is_given_once() -> None:
    empty: dict[str, Any] = {"certified": [0.0, 0.0], "certified_bounds": [0.0, 0.0], "searched": 9}
    lines = [line for line in said_of_classes(**empty, stated=9) if line.startswith("Certified: ")]
    assert len(lines) == 1 and lines[0].endswith(f"at any of 10 test rows: {summary.STATED}.")
    lines = [line for line in said_of_classes(**empty, stated=8) if line.startswith("Certified: ")]
    assert len(lines) == 2 and not any(summary.STATED in line for line in lines)


@pytest.mark.parametrize(("share", "drawn"), [(0.0, []), (0.1, ["certified"])])
def test_a_figure_of_nothing_is_not_drawn(monkeypatch: pytest.MonkeyPatch, share: float, drawn: list[str]) -> None:
    record = made_up({}, certified=np.array([share, 0.0]))
    record.axes = {"part": "judged"}
    found: list[str] = []
    monkeypatch.setattr(summary, "_draw_certified", lambda *_: found.append("certified"))
    for name in ("row_checks", "with_verdicts", "_judged_sentences", "signs"):
        monkeypatch.setattr(summary, name, lambda *_: [])
    for name in ("heading", "load", "tell"):
        monkeypatch.setattr(summary, name, lambda *_: "")
    request = SimpleNamespace(require_dataset=lambda: None)
    report: Any = SimpleNamespace(records=lambda: [record], request=request, settings=settings(), titles={})
    summary._summarise_classes(report)
    assert found == drawn


def test_ranges_are_told_of_the_row_that_moves_most(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"outside": np.array([False, False]), "examples": np.array([0, 1])}
    moved = made_up({}, ranges=np.array([[[0.9, 1.2]], [[1.0, 5.0]]]), prediction=np.array([1.0, 2.0]), **rows)
    tolerant = settings(tolerances=[0.1])
    assert "move by at most 3 (y)" in " ".join(range_sentences(moved, tolerant, DATA))
    ranges, effects = np.array([[[0.9, 1.0]], [[0.4567, 1.0]]]), np.array([[0.1], [0.2]])
    report: Any = SimpleNamespace(
        request=SimpleNamespace(require_dataset=lambda: None), settings=SimpleNamespace(tolerances=[0.1])
    )
    monkeypatch.setattr(summary, "load", lambda _: DATA)
    said = " ".join(_row_sentences(report, made_up({}, ranges=ranges, effects=effects, **rows)))
    assert "stays above 0.456 for all" in said
    two: Any = SimpleNamespace(**{**vars(DATA), "input_names": ("a", "b")})
    monkeypatch.setattr(summary, "load", lambda _: two)
    effects = np.array([[0.5, 0.2], [-0.5, 0.2]])  # the first decides, this way here and that way there
    said = " ".join(_row_sentences(report, made_up({}, ranges=ranges, effects=effects, **rows)))
    assert "moves the probability on average: a (0.500), b (0.200)" in said


def test_rows_that_the_seconds_left_out_are_said_not_to_be_proved() -> None:
    ranges = np.array([[[0.9, 1.2]], [[np.nan, np.nan]], [[-np.inf, np.inf]]])
    arrays = {"ranges": ranges, "prediction": np.ones(3), "outside": np.zeros(3), "examples": np.arange(3)}
    tolerant = settings(tolerances=[0.1])
    (cut,) = range_sentences(made_up({"cut": 2}, **arrays), tolerant, DATA)
    assert "predictions of 1 rows of the table move by at most 0.2 (y); not proved for 2 more" in cut
    assert cut.endswith(f"{answer.SECONDS}.")
    assert not list(range_sentences(made_up({"cut": 0}, **arrays), tolerant, DATA))
    (fine,) = range_sentences(made_up({"cut": 2}, **arrays), settings(tolerances=[0.12345678]), DATA)
    assert "off by up to 0.123456 standard" in fine, "what is claimed of less is proved"


def test_the_bands_confidence_is_the_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "mean_width", lambda *_: 1.5)
    band: Any = SimpleNamespace(axes={"model": "lssvm_linear"}, metrics={}, arrays={}, status="done", reason="")
    held, missing = _band_sentences([band], settings(excluded=5, m=100), "y")
    assert "with probability 95 %" in held
    assert missing.startswith("Band: none for a function that is the preparation rows' mean target plus")
    (nothing,) = _band_sentences([], settings(excluded=5, m=100), "y")
    assert nothing == f"Band: does not apply ({answer.NO_BAND})."


def test_signs_name_the_command_to_run_next() -> None:
    spec = {**to_plain(CsvSpec(path="my file.csv", target="y")), "target": ["y"]}
    prepared = SimpleNamespace(spec=spec)
    report: Any = SimpleNamespace(request=SimpleNamespace(require_dataset=lambda: prepared))
    data: Any = SimpleNamespace(order="none")
    checks = [
        Check("no drift", "test rows", "a differs", 1e-9, True, "dataset.order=time", CONTRADICTED),
        Check("no pattern", "band", "seen", 1e-9, False, "", DOUBTFUL),
        Check("copies", "band", "none", verdict=NOTHING),
    ]
    run_again = "gpsuite run experiment=guarantee dataset=csv 'dataset.path=my file.csv' 'dataset.target=[y]'"
    assert answer.signs(report, data, checks) == [
        "The order of the file says nothing: dataset.order=none.",
        "Contradicted: no drift (a differs). Do not rely on: test rows. Next: " + run_again + " dataset.order=time",
        "Doubtful: no pattern (seen). Next: " + run_again,
    ]


@pytest.mark.parametrize(
    ("task", "about_later_rows"), [("regression", "bounds and intervals"), ("classification", "b")]
)
def test_intervals_from_the_last_rows_are_not_said_to_be_about_past_rows(task: str, about_later_rows: str) -> None:
    data: Any = SimpleNamespace(**{**vars(DATA), "order": "time", "time": "day", "task": task})
    (said,) = answer.which_test_rows(data)
    assert f"last rows in order of day: {about_later_rows}" in said
    assert ("PAC-Bayes bound and bands are about all past rows" in said) == (task == "regression")
