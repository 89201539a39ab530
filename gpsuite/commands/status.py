"""`gpsuite status`: for every run folder, how many tasks are done, failed, missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpsuite.commands.show import show_table
from gpsuite.commands.words import experiment_names, read_words
from gpsuite.engine.folder import PLAN, RUN, read_json
from gpsuite.engine.store import RecordStore, satisfies
from gpsuite.experiments.base import STATUSES

HELP = """
gpsuite status [experiment ...] [results_dir=DIR]

One row per run: tasks by status, missing ones, and whether its tables are complete.
"""


def main(words: list[str]) -> int:
    """Print one row per run folder of the experiments named."""
    given = read_words(words)
    rows = [row for name in experiment_names(given.names) for row in _rows(name, given.results_dir)]
    if not rows:
        print(f"no runs under {given.results_dir}; start with: gpsuite run experiment=tour")
        return 0
    show_table("status", rows)
    return 0


def _rows(experiment: str, results_dir: Path) -> Iterator[dict[str, Any]]:
    store = RecordStore(results_dir, experiment.split("/")[0])
    for path in sorted((results_dir / experiment).glob(f"*/{PLAN}")):
        plan = read_json(path)
        if plan is None:
            continue
        counts = Counter(_state(store, task) for task in plan["tasks"])
        run = read_json(path.parent / RUN) or {}
        complete = counts["missing"] == 0 and run.get("science") == plan.get("science")
        yield {
            "experiment": experiment,
            "run": path.parent.name,
            "tasks": len(plan["tasks"]),
            **{status: counts[status] for status in STATUSES},
            "missing": counts["missing"],
            "tables": "complete" if complete else "run again to complete",
        }


def _state(store: RecordStore, task: dict[str, Any]) -> str:
    record = store.get(task["key"])
    if record is None or (record.status == "budget" and not satisfies(record, task.get("budget_seconds"))):
        return "missing"
    return record.status
