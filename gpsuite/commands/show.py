"""`gpsuite show`: a run's settings and tasks without running it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import yaml

from gpsuite.commands.run import expanded_runs, explain, say_hints
from gpsuite.commands.tables import show_table
from gpsuite.config.spelling import public_options
from gpsuite.errors import UserError
from gpsuite.text import counted, visible, visible_lines

if TYPE_CHECKING:  # at run time they would load BLAS before its threads are limited
    from gpsuite.engine.plans import RunOptions
    from gpsuite.experiments.tasks import Request

__all__ = ["HELP", "explain", "main"]

HELP = """
gpsuite show <family>/<name> [key=value ...]     as gpsuite run, with -m for several

Prints the composed settings as YAML, then the tasks: which are stored already, and roughly how many seconds of one core
each will take. Nothing is run and no result is written. Missing data are downloaded (GPSUITE_OFFLINE=1 forbids it); if
they cannot be had, that is said last.

gpsuite show NAME --help     what can be set
"""


def main(words: list[str]) -> int:
    """Print settings and tasks of each run that the words ask for."""
    runs, _ = expanded_runs(words)

    from gpsuite.config.request import read_request

    say_hints(runs)
    for run in runs:
        request, options = read_request(run, allow_absent=True)
        if options.output == "json":
            raise UserError("output=json: gpsuite show prints only text; leave it out", key="output")
        _show(run, request, options)
    return 0


def _show(run: Sequence[str], request: Request[object], options: RunOptions) -> None:
    from gpsuite.engine.folder import run_folder
    from gpsuite.engine.keys import task_key
    from gpsuite.engine.plans import plan_tasks
    from gpsuite.engine.progress import clock
    from gpsuite.engine.runner import require_data
    from gpsuite.engine.store import RecordStore, satisfies

    print(f"# gpsuite run {visible(shlex.join(run))}")
    print(
        visible_lines(
            yaml.safe_dump(public_options(request.experiment, request.options), sort_keys=False, allow_unicode=True)
        )
    )
    store, rows = RecordStore(options.results_dir, request.family), []
    missing = 0.0
    for task in plan_tasks(request, options.changed):
        stored = satisfies(store.get(task_key(task)), task.budget_seconds)
        row: dict[str, Any] = {"task": task.label, "stored": "yes" if stored else "", "seconds": f"{task.cost:.3g}"}
        rows.append(row)
        missing += 0.0 if stored else task.cost
    show_table("tasks", rows)
    stored_count = sum(bool(row["stored"]) for row in rows)
    place = run_folder(options.results_dir, request.experiment, request.scale, options.tag)
    print(
        f"\n# {counted(len(rows), 'task')}, {stored_count} stored; about {clock(missing)} of one core's work, "
        f"roughly; results: {visible(str(place))}"
    )
    require_data(request, options)
