from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpsuite.config.files import conf_dir
from gpsuite.engine.folder import limitations, locked, not_comparable
from gpsuite.engine.keys import task_key
from gpsuite.engine.plans import RunOptions
from gpsuite.engine.runner import RunReport, TaskFailedError, below_paper, run_experiment
from gpsuite.engine.store import RecordStore
from gpsuite.engine.worker import execute
from gpsuite.errors import ResultsError
from gpsuite.experiments.base import BUDGET, EXPERIMENTS, Report, SharedWork
from gpsuite.reporting.catalogue import ExperimentNote
from gpsuite.reporting.collect import RunFolder
from gpsuite.reporting.comparison import read_comparison
from gpsuite.reporting.sections import read_section
from tests.engine import tiny
from tests.reporting.test_comparison import published
from tests.reporting.test_pages import make_run


def options(tmp_path: Path, **changes: Any) -> RunOptions:
    base = RunOptions(results_dir=tmp_path, conf_dir=conf_dir(), science="s", mode="serial")
    return replace(base, **changes)


def test_a_run_writes_everything_the_contract_names(tmp_path: Path) -> None:
    report = run_experiment(tiny.request(), options(tmp_path, command=("gpsuite", "run")))
    assert (list(report.answer), list(report.warnings)) == (["6 squares"], ["squares grow"])
    folder = tmp_path / "tiny" / "squares" / "quick"
    assert (report.folder, report.exit_code, report.counts) == (folder, 0, {"done": 6})
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {"config.yaml", "plan.json", "run.json", "records.csv", "comparison.csv"} <= names
    assert {"tables/squares.csv", "tables/squares.md", "tables/squares.tex"} <= names
    assert len([name for name in names if name.startswith("artifacts/")]) == 6
    rows = list(csv.DictReader((folder / "records.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["number"] for row in rows] == list("012345")
    assert rows[2]["square"] == "4.1"
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert run["status"] == "done"
    assert {"versions", "git", "machine", "threads", "seed", "wall_seconds", "cpu_seconds", "peak_memory_mb"} <= set(
        run
    )


def test_stored_records_that_cannot_be_summarised_name_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record of others may be whole, and still not be what the experiment writes."""
    run_experiment(tiny.request(), options(tmp_path))

    def broken(*_: object) -> None:
        raise IndexError("an array of another rank")

    monkeypatch.setattr("gpsuite.engine.runner.write_results", broken)
    with pytest.raises(ResultsError, match=r"force=true.*another rank"):
        run_experiment(tiny.request(), options(tmp_path))
    with pytest.raises(IndexError):  # all computed here: this is our fault, and its traceback is wanted
        run_experiment(tiny.request(), options(tmp_path, force=True))


def test_a_second_run_computes_nothing_and_reports_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_experiment(tiny.request(), options(tmp_path))
    before = (tmp_path / "tiny/squares/quick/run.json").read_bytes()
    stored = {path: path.stat().st_mtime_ns for path in (tmp_path / ".records").rglob("*.json")}
    run_experiment(tiny.request(), options(tmp_path))
    assert "6 of 6 tasks are stored already" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / ".records").rglob("*.json")} == stored
    assert (tmp_path / "tiny/squares/quick/run.json").read_bytes() == before


def test_a_sentence_that_was_fixed_replaces_the_old_one_and_keeps_where_its_numbers_come_from(tmp_path: Path) -> None:
    run_experiment(tiny.request(), options(tmp_path))
    path = tmp_path / "tiny/squares/quick/run.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**told, "answer": ["7 squares"], "finished": "then"}), encoding="utf-8")
    run_experiment(tiny.request(), options(tmp_path))
    assert json.loads(path.read_text(encoding="utf-8")) == {**told, "finished": "then"}


def test_a_table_of_another_name_now_leaves_none_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = tmp_path / "tiny/squares/quick/tables"
    run_experiment(tiny.request(), options(tmp_path))
    (tables / "own.csv").write_text("mine", encoding="utf-8")
    (tables / "squares.md").write_text("noted by hand", encoding="utf-8")
    write = Report.table
    monkeypatch.setattr(Report, "table", lambda sheet, frame, name, text: write(sheet, frame, "powers", text))
    run_experiment(tiny.request(), options(tmp_path))
    left = {path.name for path in tables.iterdir()}
    assert left == {"powers.csv", "powers.md", "powers.tex", "statistics.csv", "own.csv", "squares.md"}


def test_force_computes_again(tmp_path: Path) -> None:
    run_experiment(tiny.request(), options(tmp_path))
    stored = {path: path.stat().st_ino for path in (tmp_path / ".records").rglob("*.json")}
    run_experiment(tiny.request(), options(tmp_path, force=True))
    assert all(path.stat().st_ino != inode for path, inode in stored.items())


def test_an_interrupted_run_resumes_to_identical_tables(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_experiment(tiny.request(n4="interrupt"), options(tmp_path / "a"))
    assert len(list((tmp_path / "a" / ".records").rglob("*.json"))) == 4
    assert not (tmp_path / "a/tiny/squares/quick/run.json").exists()  # written last
    run_experiment(tiny.request(), options(tmp_path / "a"))
    run_experiment(tiny.request(), options(tmp_path / "b"))
    for ending in ("csv", "md", "tex"):
        name = f"tiny/squares/quick/tables/squares.{ending}"
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_failure_stops_nothing_and_is_named(tmp_path: Path) -> None:
    report = run_experiment(tiny.request(n1="fail"), options(tmp_path))
    assert report.exit_code == 1
    assert report.counts == {"done": 5, "error": 1}
    [(label, reason, trace)] = report.failures
    assert (label, reason) == ("number 1", "ValueError: no square of 1")
    assert "Traceback" in trace.read_text(encoding="utf-8")
    table = (tmp_path / "tiny/squares/quick/tables/squares.csv").read_text(encoding="utf-8")
    assert len(table.splitlines()) == 6
    run = json.loads((tmp_path / "tiny/squares/quick/run.json").read_text(encoding="utf-8"))
    assert run["status"] == "failed"
    assert run["notes"] == ["1 of 6 tasks failed"]


def test_a_failed_task_is_tried_again_by_the_next_run(tmp_path: Path) -> None:
    run_experiment(tiny.request(n1="fail"), options(tmp_path))
    store = RecordStore(tmp_path, "tiny")
    failed = next(path for path in store.folder.glob("*.traceback.txt"))
    inode = failed.stat().st_ino
    run_experiment(tiny.request(n1="fail"), options(tmp_path))
    assert failed.stat().st_ino != inode


def test_a_failure_that_another_run_fixed_is_none_any_more(tmp_path: Path) -> None:
    run_experiment(tiny.request(n1="fail"), options(tmp_path))
    run_experiment(tiny.request(), options(tmp_path, tag="other", named=True))
    run_experiment(tiny.request(), options(tmp_path))
    run = json.loads((tmp_path / "tiny/squares/quick/run.json").read_text(encoding="utf-8"))
    assert (run["status"], run["failures"], run["computed"]) == ("done", [], 0)


def test_on_error_raise_stops_and_keeps_what_was_done(tmp_path: Path) -> None:
    with pytest.raises(TaskFailedError, match="no square of 2"):
        run_experiment(tiny.request(n2="fail"), options(tmp_path, raise_errors=True))
    assert len(list((tmp_path / ".records").rglob("*.json"))) == 3


def test_two_runs_of_one_folder_do_not_meet(tmp_path: Path) -> None:
    with locked(tmp_path / "tiny/squares/quick", wait=False):
        with pytest.raises(ResultsError, match="another run"):
            run_experiment(tiny.request(), options(tmp_path))
        run_experiment(tiny.request(), options(tmp_path, tag="b", named=True))  # another folder is free


def test_a_run_name_is_not_given_to_two_different_runs(tmp_path: Path) -> None:
    run_experiment(tiny.request(), options(tmp_path, tag="mine", named=True, science="one"))
    before = (tmp_path / "tiny/squares/quick~mine/run.json").read_bytes()
    with pytest.raises(ResultsError, match="other settings"):
        run_experiment(tiny.request(), options(tmp_path, tag="mine", named=True, science="two"))
    assert (tmp_path / "tiny/squares/quick~mine/run.json").read_bytes() == before


def test_a_named_run_may_grow_but_neither_shrink_nor_turn_into_another(tmp_path: Path) -> None:
    def run(science: str, **behaviours: str) -> None:
        run_experiment(tiny.request(**behaviours), options(tmp_path, tag="mine", named=True, science=science))

    def rows() -> int:
        return len((tmp_path / "tiny/squares/quick~mine/records.csv").read_text(encoding="utf-8").splitlines())

    run("one", n4="absent", n5="absent")
    assert rows() == 5
    run("two", n5="absent")
    assert rows() == 6
    for science, behaviours in (
        ("one", {"n4": "absent", "n5": "absent"}),
        ("three", {"n0": "absent"}),
        ("four", {"n5": "absent"}),
    ):
        with pytest.raises(ResultsError, match="other settings"):
            run(science, **behaviours)


def test_figures_know_whether_their_run_may_be_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, bool] = {}
    printed: dict[str, dict[str, float]] = {}
    entry_of_paper = published(experiment=tiny.NAME, statistic="mean_square")
    monkeypatch.setattr("gpsuite.engine.folder.read_paper_values", lambda folder, name: [entry_of_paper])
    entry = tiny.EXPERIMENTS.get(tiny.NAME)  # type: ignore[attr-defined]

    def look(report: Report[Any]) -> Any:
        known[report.request.scale] = report.comparable
        printed[report.request.scale] = dict(report.printed)
        return entry.summarise(report)

    monkeypatch.setitem(tiny.EXPERIMENTS._items, tiny.NAME, replace(entry, summarise=look))  # type: ignore[attr-defined]
    for scale in ("quick", "smoke"):
        run_experiment(tiny.request(scale=scale), options(tmp_path))
    assert known == {"quick": True, "smoke": False}
    assert printed == {"quick": {"mean_square": 5.0}, "smoke": {}}


def test_smoke_results_are_marked_and_never_compared(tmp_path: Path) -> None:
    run_experiment(tiny.request(scale="smoke"), options(tmp_path))
    folder = tmp_path / "tiny/squares/smoke"
    assert "smoke scale" in (folder / "tables/squares.md").read_text(encoding="utf-8")
    assert json.loads((folder / "run.json").read_text(encoding="utf-8"))["notes"] == [
        "smoke scale: not for conclusions"
    ]


def test_long_work_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tiny.EXPERIMENTS.get(tiny.NAME).plan  # type: ignore[attr-defined]
    slow = replace(
        tiny.EXPERIMENTS.get(tiny.NAME),  # type: ignore[attr-defined]
        plan=lambda request: [replace(t, cost=700.0) for t in plan(request)],
    )
    monkeypatch.setitem(tiny.EXPERIMENTS._items, tiny.NAME, slow)  # type: ignore[attr-defined]
    run_experiment(tiny.request(), options(tmp_path))
    assert "about 1:10:00 of one core's work" in capsys.readouterr().err


def test_budget_seed_and_scale_keep_a_run_from_being_compared(tmp_path: Path) -> None:
    request = tiny.request(n1="budget")
    run_experiment(request, options(tmp_path))
    store = RecordStore(tmp_path, "tiny")
    records = [record for task in tiny.plan(request) if (record := store.get(task_key(task))) is not None]
    assert not_comparable(request, records, ()) == ""  # ended by counts, which are part of the science
    assert "budget.seconds=3" in not_comparable(replace(request, budget_seconds=3.0), records, ())
    assert "seed" in not_comparable(request, records, ("seed",))
    assert not_comparable(replace(request, scale="smoke"), records, ()) == "smoke scale"


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        ({"done": 2}, 0),
        ({"done": 1, "skipped": 2}, 0),
        ({"skipped": 3}, 3),
        ({"skipped": 1, "infeasible": 1}, 3),
        ({"infeasible": 1, "budget": 1}, 0),
    ],
)
def test_nothing_that_was_possible_is_no_success(counts: dict[str, int], code: int) -> None:
    assert RunReport(Path(), counts, ()).exit_code == code


def test_what_ended_with_its_budget_is_computed_again_only_with_a_larger_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = EXPERIMENTS.get(tiny.NAME)
    for seconds, stored in ((5.0, ""), (5.0, "6 of 6 tasks are stored"), (9.0, "5 of 6 tasks are stored")):
        limited = replace(
            entry,
            plan=lambda request, seconds=seconds: [
                replace(each, budget_seconds=seconds if each.axes["number"] == 1 else None)
                for each in tiny.plan(request)
            ],
        )
        monkeypatch.setitem(EXPERIMENTS._items, tiny.NAME, limited)
        run_experiment(tiny.request(n1="budget"), options(tmp_path))
        assert stored in capsys.readouterr().err


def test_what_is_computed_again_has_a_new_provenance(tmp_path: Path) -> None:
    run_experiment(tiny.request(), options(tmp_path))
    path = tmp_path / "tiny/squares/quick/run.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**told, "finished": "then", "versions": {}}), encoding="utf-8")
    run_experiment(tiny.request(), options(tmp_path, force=True))
    run = json.loads(path.read_text(encoding="utf-8"))
    assert run["finished"] != "then"
    assert (run["versions"], run["computed"]) == (told["versions"], 6)


def test_records_that_another_run_computed_bring_a_new_provenance(tmp_path: Path) -> None:
    run_experiment(tiny.request(), options(tmp_path))
    path = tmp_path / "tiny/squares/quick/run.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**told, "versions": {}}), encoding="utf-8")
    run_experiment(tiny.request(n0="other"), options(tmp_path, tag="b", named=True))
    run_experiment(tiny.request(n0="other"), options(tmp_path))  # other keys, as after a method's new version
    assert json.loads(path.read_text(encoding="utf-8"))["versions"] == told["versions"]


def test_force_begins_again_what_an_ended_budget_left(tmp_path: Path) -> None:
    run_experiment(tiny.request(n1="leave, budget"), options(tmp_path))
    assert len(list(RecordStore(tmp_path, "tiny").states.iterdir())) == 1
    report = run_experiment(tiny.request(n1="leave, budget"), options(tmp_path, force=True))
    assert (report.exit_code, report.counts) == (0, {"done": 5, "budget": 1})


def test_a_shared_record_is_under_the_names_of_this_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_experiment(tiny.request(), options(tmp_path))
    renamed = replace(
        EXPERIMENTS.get(tiny.NAME),
        plan=lambda request: [replace(t, axes={"base": t.axes["number"] + 10}) for t in tiny.plan(request)],
    )
    monkeypatch.setitem(EXPERIMENTS._items, tiny.NAME, renamed)
    run_experiment(tiny.request(), options(tmp_path))  # the same keys: nothing is computed
    text = (tmp_path / "tiny/squares/quick/records.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    assert [row.get("base") for row in rows] == ["10", "11", "12", "13", "14", "15"]


def test_a_run_that_must_not_be_compared_has_no_rows_next_to_the_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = published(experiment=tiny.NAME, statistic="mean_square")
    monkeypatch.setattr("gpsuite.engine.folder.read_paper_values", lambda folder, name: [entry])
    verdicts = {}
    for scale in ("quick", "smoke"):
        report = run_experiment(tiny.request(scale=scale), options(tmp_path))
        verdicts[scale] = [row.verdict for row in read_comparison(report.folder)]
    assert verdicts == {"quick": ["differs"], "smoke": []}


def test_tasks_that_their_budget_ended_are_a_limitation() -> None:
    records = [execute(tiny.task(n), SharedWork()) for n in (1, 2)]
    records[1] = replace(records[1], status=BUDGET)
    assert "1 of 2 tasks ended with their budget" in limitations(tiny.request(), records)


META = {"below_paper": {"pool": "a pool of 10", "cap": "searches of 1 s at most"}}


@pytest.mark.parametrize(
    ("scale", "changed", "told"),
    [
        ("paper", (), "a pool of 10, searches of 1 s at most"),
        ("paper", ("pool", "seed"), "searches of 1 s at most"),
        ("paper", ("pool", "cap"), ""),
        ("quick", (), ""),
    ],
)
def test_what_is_below_the_paper_is_reported(scale: str, changed: tuple[str, ...], told: str, tmp_path: Path) -> None:
    options = RunOptions(tmp_path, conf_dir(), changed=changed, meta=META)
    assert below_paper(replace(tiny.request(), scale=scale), options) == told
    assert below_paper(tiny.request(), replace(options, meta=None)) == ""


@pytest.mark.parametrize("below", ["a pool of 10", None])
def test_the_badge_shows_it(below: str | None, tmp_path: Path) -> None:
    folder = make_run(tmp_path, "pac_bayes/rounding/paper", below_paper=below)
    section = read_section(RunFolder(folder, "pac_bayes/rounding", "paper", ""), tmp_path, ExperimentNote())
    assert ("below the paper's setting" in section.badges) == (below is not None)
