"""`gpsuite show`: a run's settings and tasks without running it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import yaml

from gpsuite.commands.run import expanded_runs, explain, say_hints
from gpsuite.commands.tables import show_json, show_table
from gpsuite.config.spelling import public_options
from gpsuite.errors import UserError
from gpsuite.text import counted, visible, visible_lines
from gpsuite.waiting import doing, done

if TYPE_CHECKING:  # at run time they would load BLAS before its threads are limited
    from gpsuite.engine.plans import RunOptions
    from gpsuite.experiments.tasks import Request

__all__ = ["HELP", "explain", "main"]

HELP = """
gpsuite show <family>/<name> [key=value ...]     as gpsuite run, with -m for several

Prints the composed settings as YAML, then the tasks. Each says whether it is stored already, and roughly how many
seconds of one core it will take. Nothing is run and no result is written. Missing data are downloaded, unless
GPSUITE_OFFLINE=1. If they cannot be had, the last line says it.

gpsuite show NAME --help     what can be set
"""


def main(words: list[str]) -> int:
    """Print settings and tasks of each run that the words request."""
    runs, _ = expanded_runs(words)
    doing("loading")

    from gpsuite.config.request import read_request
    from gpsuite.engine.runner import require_data

    done()
    say_hints(runs, words)
    for run in runs:
        doing("reading settings and data")
        request, options = read_request(run, allow_absent=True)
        done()
        if options.results_dir.exists() and not options.results_dir.is_dir():
            raise UserError(f"results_dir={options.results_dir}: must be a folder", key="results_dir")
        if options.format == "json":
            show_json(_plain(request, options))
        else:
            _show(run, request, options)
        require_data(request, options)
    return 0


def _tasks(request: Request[object], options: RunOptions) -> list[dict[str, Any]]:
    from gpsuite.engine.keys import task_key
    from gpsuite.engine.plans import plan_tasks
    from gpsuite.engine.store import RecordStore, satisfies

    store = RecordStore(options.results_dir, request.family)
    return [
        {"task": task.label, "stored": satisfies(store.get(task_key(task)), task.budget_seconds), "seconds": task.cost}
        for task in plan_tasks(request, options.changed)
    ]


def _plain(request: Request[object], options: RunOptions) -> dict[str, Any]:
    from gpsuite.engine.folder import run_folder

    return {
        "settings": public_options(request.experiment, request.options),
        "tasks": _tasks(request, options),
        "folder": run_folder(options.results_dir, request.experiment, request.scale, options.tag),
    }


def _show(run: Sequence[str], request: Request[object], options: RunOptions) -> None:
    from gpsuite.engine.folder import run_folder
    from gpsuite.engine.progress import clock

    print(f"# gpsuite run {visible(shlex.join(run))}")
    print(
        visible_lines(
            yaml.safe_dump(public_options(request.experiment, request.options), sort_keys=False, allow_unicode=True)
        )
    )
    tasks = _tasks(request, options)
    missing = sum(task["seconds"] for task in tasks if not task["stored"])
    show_table(
        "tasks",
        [
            {"task": task["task"], "stored": "yes" if task["stored"] else "", "seconds": f"{task['seconds']:.3g}"}
            for task in tasks
        ],
    )
    stored_count = sum(task["stored"] for task in tasks)
    place = run_folder(options.results_dir, request.experiment, request.scale, options.tag)
    print(
        f"\n# {counted(len(tasks), 'task')}, {stored_count} stored. About {clock(missing)} of one core's work, "
        f"roughly; results: {visible(str(place))}"
    )
