"""`gpsuite status`: for every run folder, how many tasks are done, failed, missing."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from gpsuite.commands.tables import show_json, show_table
from gpsuite.commands.words import experiment_names, read_words
from gpsuite.engine.folder import PLAN, RUN
from gpsuite.engine.plans import PlannedTask, read_plan
from gpsuite.engine.store import RecordStore, satisfies
from gpsuite.errors import ResultsError
from gpsuite.experiments.base import BUDGET, ERROR, STATUSES
from gpsuite.reporting.collect import PUBLISHED, folders_with
from gpsuite.reporting.files import read_mapping
from gpsuite.text import visible

T = TypeVar("T")

HELP = """
gpsuite status [experiment ...] [results_dir=DIR] [format=json]

One row per run: tasks by status, missing ones, and whether its tables are complete. Every record is read and compared
with its checksum. A damaged record is named and counts as missing, as does a record in an earlier version's format. A
published run is listed as it was published if you have no run of its name.
"""


def main(words: list[str]) -> int:
    """Print one row per run folder of the experiments named."""
    given = read_words(words, reads=True)
    stores: dict[str, RecordStore] = {}
    rows: list[dict[str, Any]] = []
    for name in experiment_names(given.names):
        family = name.split("/")[0]
        store = stores.setdefault(family, RecordStore(given.results_dir, family))
        own = folders_with(given.results_dir, name, PLAN)
        for folder in own:
            rows.append({"experiment": name, "run": folder.name, **_counts(folder, store)})
        for folder in folders_with(given.results_dir / PUBLISHED, name, RUN):
            if folder.name not in {each.name for each in own}:
                rows.append({"experiment": name, "run": folder.name, **_published_counts(folder)})
    if given.json:
        show_json({"runs": rows})
        return 0
    if not rows:
        print(f"no runs under {visible(str(given.results_dir))}. Start with: gpsuite run tour")
        return 0
    counted = ("tasks", *STATUSES, "missing")
    empty = [column for column in counted[1:] if not any(row[column] for row in rows)]
    show_table("status", rows, [_brief(row, empty) for row in rows])
    return 0


def _brief(row: dict[str, Any], without: Sequence[str]) -> dict[str, Any]:
    name = {"experiment and run": f"{row['experiment']} {row['run']}"}
    return name | {key: row[key] or "" for key in row if key not in (*without, "experiment", "run")}


def _published_counts(folder: Path) -> dict[str, Any]:
    """Return the counts of a published run's tasks by status, as its run.json says."""
    run = _read(read_mapping, folder / RUN) or {}
    tasks = run.get("tasks")
    tasks = tasks if isinstance(tasks, dict) else {}
    known = {status: tasks[status] if isinstance(tasks.get(status), int) else 0 for status in STATUSES}
    return {"tasks": sum(known.values()), **known, "missing": 0, "tables": "published"}


def _counts(folder: Path, store: RecordStore) -> dict[str, Any]:
    plan = _read(read_plan, folder / PLAN)
    if plan is None:
        unknown = dict.fromkeys(("tasks", *STATUSES, "missing"), "")
        return {**unknown, "tables": f"no usable {PLAN}: run again"}
    counts = Counter(_state(store, task) for task in plan.tasks)
    run = _read(read_mapping, folder / RUN) or {}
    if counts[ERROR]:
        tables = "failed: run again"
    elif counts["missing"] == 0 and run.get("science") == plan.science:
        tables = "complete"
    else:
        tables = "run again to complete"
    return {"tasks": len(plan.tasks), **{each: counts[each] for each in (*STATUSES, "missing")}, "tables": tables}


def _read(read: Callable[[Path], T | None], path: Path) -> T | None:
    """Return what `read` finds. A damaged file is named and counts as absent."""
    try:
        return read(path)
    except ResultsError as error:
        print(f"gpsuite: {visible(str(error))}", file=sys.stderr)
        return None


def _state(store: RecordStore, task: PlannedTask) -> str:
    record = store.get(task.key)
    if record is None or (record.status == BUDGET and not satisfies(record, task.budget_seconds)):
        return "missing"
    return record.status
