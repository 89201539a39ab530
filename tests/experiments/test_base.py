"""The pieces every experiment is made of: requests that make tasks, typed params, the report sheet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass, replace
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.data.loading import PreparedDataset
from gpsuite.engine.worker import execute
from gpsuite.experiments.base import (
    ERROR,
    EXPERIMENTS,
    STATUSES,
    Experiment,
    MethodOptions,
    Outcome,
    Record,
    Report,
    SharedWork,
    Task,
)
from gpsuite.untrusted import png_size
from tests.engine import tiny


@dataclass(frozen=True)
class Square:
    number: int


@dataclass(frozen=True)
class Word:
    text: str


DATA = PreparedDataset("d", "regression", 3, "hash", False, {}, {})


def record(status: str = "done", **axes: str | int) -> Record:
    return Record("", tiny.NAME, "", axes, status, "", {}, {})


def report(*records: Record, folder: Path = Path(), note: str | None = None) -> Report[Any]:
    methods = {"a": MethodOptions("builder", "Method A", "")}
    return Report(replace(tiny.request(), methods=methods), records, folder, note)


def test_a_requests_task_carries_its_experiment_dataset_and_budget() -> None:
    request = replace(tiny.request(), dataset=DATA, budget_seconds=3.0)
    task = request.task(Square(2), label="two", axes={"number": 2}, version=4, cost=0.5, group="g")
    assert task == Task(tiny.NAME, "two", {"number": 2}, Square(2), DATA, 4, "g", 0.5, 3.0)
    other = replace(DATA, name="other")
    assert request.task(Square(2), label="", axes={}, dataset=other).require_dataset() is other


def test_a_dataset_is_demanded_by_name() -> None:
    task = tiny.request().task(Square(2), label="two", axes={})
    with pytest.raises(ValueError, match="two needs a dataset"):
        task.require_dataset()
    with pytest.raises(ValueError, match="tiny/squares needs a dataset"):
        tiny.request().require_dataset()
    assert replace(tiny.request(), dataset=DATA).require_dataset() is DATA


def test_a_task_is_run_by_the_function_for_its_kind_of_params() -> None:
    def square(task: Task[Square], shared: SharedWork) -> Outcome:
        return Outcome({"value": task.params.number**2})

    def word(task: Task[Word], shared: SharedWork) -> Outcome:
        return Outcome({"value": task.params.text})

    kinds = Experiment(tiny.TinySettings, tiny.plan, {Square: square, Word: word}, tiny.summarise)
    request = tiny.request()
    for params, value in ((Square(3), 9), (Word("w"), "w")):
        task = request.task(params, label="", axes={})
        assert kinds.run(task, SharedWork()).metrics == {"value": value}
    single = Experiment(tiny.TinySettings, tiny.plan, square, tiny.summarise)
    assert single.run(request.task(Square(4), label="", axes={}), SharedWork()).metrics == {"value": 16}


def test_a_report_gives_the_usable_records_with_the_axes_requested() -> None:
    first, second, failed = record(part="x", q=1), record(part="y", q=1), record(ERROR, part="x", q=1)
    sheet = report(first, second, failed, record(other="z"))
    assert sheet.records(part="x") == [first]
    assert sheet.records(q=1) == [first, second]
    assert len(sheet.records()) == 3
    assert sheet.titles == {"a": "Method A"}


@pytest.mark.parametrize(("note", "ending"), [("a note", "Numbers (a note)"), (None, "Numbers")])
def test_the_note_is_once_behind_a_caption(note: str | None, ending: str, tmp_path: Path) -> None:
    report(folder=tmp_path, note=note).table(pd.DataFrame({"x": [1]}), "numbers", "Numbers", {"x": "ex"})
    text = (tmp_path / "tables" / "numbers.md").read_text(encoding="utf-8")
    assert text.splitlines()[0] == ending
    assert "| ex |" in text


def test_a_figure_is_saved_with_its_numbers(tmp_path: Path) -> None:
    with report(folder=tmp_path, note="a note").figure("empty", remark="remark") as drawing:
        drawing.ax.plot([1.0], [1.0])
        drawing.data = pd.DataFrame({"x": [1]})
    assert (tmp_path / "figures" / "empty.csv").read_text(encoding="utf-8") == "x\n1\n"
    assert (tmp_path / "figures" / "empty.pdf").exists()
    assert png_size((tmp_path / "figures" / "empty.png").read_bytes())[0] > 500


@pytest.mark.parametrize("name", ["empty", "../empty", "a/b", ".hidden", ""])
def test_a_figure_is_not_written_twice_nor_elsewhere(name: str, tmp_path: Path) -> None:
    sheet = report(folder=tmp_path)
    if name == "empty":
        sheet.figure(name)
    with pytest.raises(ValueError, match="written twice, or no plain file name"):
        sheet.figure(name)
    sheet.table(pd.DataFrame({"x": [1]}), "empty", "a table may have a figure's name")
    with pytest.raises(ValueError, match="tables/empty: written twice"):
        sheet.table(pd.DataFrame({"x": [1]}), "empty", "again")


def test_no_array_is_published_unless_the_experiment_says_which() -> None:
    entry = Experiment(tiny.TinySettings, tiny.plan, tiny.run, tiny.summarise)
    assert entry.published([replace(record(), arrays={"x": np.ones(2)})]) == [frozenset()]


for family in ("active_learning", "pac_bayes", "perturbation", "robustness", "wasserstein"):
    import_module(f"gpsuite.experiments.{family}")
ENTRIES = {name: EXPERIMENTS.get(name) for name in EXPERIMENTS}
KINDS = [
    (name, kind, run)
    for name, entry in ENTRIES.items()
    if isinstance(entry.runs, Mapping)
    for kind, run in entry.runs.items()
]


@pytest.mark.parametrize(("name", "kind", "run"), KINDS, ids=[f"{n}-{k.__name__}" for n, k, _ in KINDS])
def test_a_kind_of_task_is_frozen_and_run_by_a_function_for_it(name: str, kind: type, run: Any) -> None:
    assert is_dataclass(kind)
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert signature(run).parameters["task"].annotation == f"Task[{kind.__name__}]"


def test_only_what_ended_with_an_answer_is_usable() -> None:
    record = execute(tiny.task(1), SharedWork())
    assert [each for each in STATUSES if replace(record, status=each).usable] == ["done", "budget"]
