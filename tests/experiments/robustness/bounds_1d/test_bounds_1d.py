from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.config.request import read_request
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS, Record, Report, Request, SharedWork, Task
from gpsuite.experiments.robustness.bounds_1d import made_up_rows, run, statements
from tests.experiments.drawn import drawn

NAME = "experiment=robustness/bounds_1d"


def request_of(*words: str) -> Request[Any]:
    return read_request([NAME, "scale=smoke", *words])[0]


def tasks_of(*words: str) -> Sequence[Task[Any]]:
    request = request_of(*words)
    return EXPERIMENTS.get(request.experiment).plan(request)


def records_of(tasks: list[Task[Any]]) -> list[Record]:
    outcomes = [run(task, SharedWork()) for task in tasks]
    return [
        Record("", "", "", task.axes, outcome.status, "", outcome.metrics, {}, arrays=outcome.arrays)
        for task, outcome in zip(tasks, outcomes, strict=True)
    ]


def test_both_statements_hold_for_both_methods_and_bounds_are_never_crossed() -> None:
    records = records_of(tasks_of("methods=[laplace,ep]", "levels=5"))  # type: ignore[arg-type]
    assert len(records) == 4
    found = statements(records)
    assert (found.value, found.n) == (1.0, 2)
    for record in records:
        levels = record.arrays["levels"]
        assert (np.diff(levels[:, 1]) <= 0.0).all()
        assert (np.diff(levels[:, 2]) >= 0.0).all()
        assert (levels[:, 2] <= record.number("true_minimum")).all()
        assert levels[-1, 1] - levels[-1, 2] < 0.5 * (levels[0, 1] - levels[0, 2])
        assert record.metrics["upper_function_holds"]


def test_a_crossing_or_a_gap_that_does_not_shrink_is_seen() -> None:
    good = {"lower_function_holds": True, "gap_before": 0.5, "gap_after": 0.2}
    bad = [{**good, "lower_function_holds": False}, {**good, "gap_after": 0.5}]
    for metrics, value in ((good, 1.0), (bad[0], 0.5), (bad[1], 0.5)):
        record = Record("", "", "", {}, "done", "", metrics, {})
        assert statements([Record("", "", "", {}, "done", "", good, {}), record]).value == value
    assert statements([]).n == 0


def test_the_made_up_rows_have_both_classes_and_are_the_seeds() -> None:
    for seed in range(20):
        X, y = made_up_rows(seed, 4)
        assert set(y) == {-1.0, 1.0}
        np.testing.assert_array_equal(X, made_up_rows(seed, 4)[0])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["low=1", "high=1"], "high=1"),
        (["low=-4"], "low=-4"),
        (["bounds=[lipschitz]"], "bounds=lipschitz"),
        (["levels=0"], "levels=0"),
        (["model=matern32"], "model.kernel=matern32: the paper's bound"),
    ],
)
def test_impossible_settings_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        tasks_of(*words)


def test_tables_and_figure_hold_the_bounds(tmp_path: Path) -> None:
    request = request_of("model=matern52", "bounds=[rkhs_taylor]")
    entry = EXPERIMENTS.get(request.experiment)
    found = entry.summarise(Report(request, records_of(entry.plan(request)), tmp_path, None))  # type: ignore[arg-type]
    assert [each.name for each in found] == ["share_bounds_hold_and_shrink"]
    shown = drawn(tmp_path, "bounds_1d")
    for low, high in (("whole_low", "whole_high"), ("halves_low", "halves_high")):
        assert (shown[low] <= shown["probability"]).all() and (shown["probability"] <= shown[high]).all()
    assert "Taylor" in (tmp_path / "tables" / "bounds_1d.md").read_text(encoding="utf-8")
