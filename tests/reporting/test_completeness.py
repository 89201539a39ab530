from __future__ import annotations

from pathlib import Path

import pytest

from gpsuite.engine.store import StoredRecord, pack
from gpsuite.reporting.catalogue import ExperimentNote, PaperNote
from gpsuite.reporting.collect import find_runs
from gpsuite.reporting.files import ARCHIVE
from gpsuite.reporting.gallery import completeness_rows
from gpsuite.reporting.sections import read_section
from tests.reporting.test_pages import make_run

PAPER = PaperNote(name="p", title="P", figures={"Fig. 1": ("f/one", "f/two"), "Fig. 2": ("f/two",)})
KNOWN = {"f/one": ExperimentNote(cost={"paper": "1 h"}), "f/two": ExperimentNote(cost={"paper": "2 h"})}
PARTS = {"left_out": ["3 of 10 repetitions", "M = 200 missing"]}


def table(root: Path) -> list[list[str]]:
    return completeness_rows(
        PAPER, [read_section(run, root, ExperimentNote()) for run in find_runs(root)], KNOWN
    )


def test_what_was_run_whole_is_complete_and_what_was_not_says_what_is_missing(tmp_path: Path) -> None:
    make_run(tmp_path, "f/one/paper", status="done", cpu_seconds=3600.0)
    make_run(tmp_path, "f/one/paper~more", status="done", cpu_seconds=1800.0, left_out=["no M"])
    make_run(tmp_path, "f/two/paper~a", status="done", cpu_seconds=0.0, **PARTS)
    make_run(tmp_path, "f/two/paper~b", status="done", cpu_seconds=0.0, left_out=["3 of 10 repetitions"])
    make_run(tmp_path, "f/two/paper~fast", status="done", cpu_seconds=0.0, not_comparable="settings differ")
    (tmp_path / "f/one/paper/records.zip").write_bytes(bytes(2_000_000))
    partial = "`f/two`: 3 of 10 repetitions; partial runs `a`, `b`; with other settings `fast`"
    assert table(tmp_path) == [
        ["Fig. 1", "partial", "1.50", "2.00", partial, "1 h + 2 h"],
        ["Fig. 2", "partial", "0.00", "none", partial, "2 h"],
        ["all runs of the family", "", "1.50", "2.00", "", ""],
    ]
    make_run(tmp_path, "f/two/paper", status="done", cpu_seconds=0.0)
    assert [row[1] for row in table(tmp_path)[:2]] == ["complete", "complete"]


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ({"status": "failed"}, "`f/two`: not finished"),
        ({"status": "done", "below_paper": "a pool of 10"}, "`f/two`: a pool of 10"),
        ({"status": "done", **PARTS}, "`f/two`: 3 of 10 repetitions; M = 200 missing"),
    ],
)
def test_a_run_of_the_shipped_name_is_not_complete_by_its_name(
    tmp_path: Path, about: dict[str, object], told: str
) -> None:
    make_run(tmp_path, "f/two/paper", **about)
    assert table(tmp_path)[1][1:] == ["partial", "0.00", "none", told, "2 h"]


def test_a_quick_run_is_none_of_the_papers(tmp_path: Path) -> None:
    make_run(tmp_path, "f/two/quick", status="done")
    assert table(tmp_path)[1][1] == "not run"


def test_a_task_in_the_records_of_several_runs_is_counted_once(tmp_path: Path) -> None:
    def publish(run: str, **hours: float) -> None:
        make_run(tmp_path, run, status="done", cpu_seconds=3600.0 * sum(hours.values()))
        tasks = {key: {"key": key, "timing": {"cpu_seconds": 3600.0 * spent}} for key, spent in hours.items()}
        (tmp_path / run / ARCHIVE).write_bytes(pack(StoredRecord(fields, {}) for fields in tasks.values()))

    publish("f/one/paper", a=1.0, b=2.0)
    publish("f/one/paper~more", b=2.0, c=4.0)
    publish("f/two/paper", d=8.0, c=4.0)
    make_run(tmp_path, "f/two/paper~bare", status="done", cpu_seconds=1800.0)
    assert [row[2] for row in table(tmp_path)] == ["15.50", "12.50", "15.50"]
    # without readable records a run counts as it says: a + b in one, b + c in the damaged one
    (tmp_path / "f/one/paper~more" / ARCHIVE).write_bytes(b"PK damaged")
    assert table(tmp_path)[2][2] == f"{3.0 + 6.0 + 12.0 + 0.5:.2f}"
