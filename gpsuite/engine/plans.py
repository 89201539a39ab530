"""Options of a run, which change no number, and its plan: limit of its tasks, and content of plan.json."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS, Request, Task, TooManyTasksError, at_most
from gpsuite.reporting.files import cannot, read_mapping

MOST_TASKS = 100_000  # a plan of this size takes about 250 MB


@dataclass(frozen=True)
class RunOptions:
    """Options for the way and place of a run. They change no number. `RunSettings` describes the others.

    Attributes:
        tag: part of the run folder's name if the settings differ from the shipped ones.
        named: whether the tag was chosen by the user (`run_name=`).
        science: hash of everything that decides the numbers.
        changed: the science keys that differ from the shipped experiment.
        parts: changed keys that are a part of the shipped setting, in words.
        workers: number of workers. None for one per core (dask: all).
        command: the words the user typed.
        meta: the experiment file's meta block.
        began: start of the command by `time.monotonic`. The first task's budget counts from there.
    """

    results_dir: Path
    conf_dir: Path
    tag: str | None = None
    named: bool = False
    science: str = ""
    changed: tuple[str, ...] = ()
    parts: Mapping[str, str] = field(default_factory=dict)
    mode: str = "auto"
    workers: int | None = None
    address: str | None = None
    threads: int = 1
    force: bool = False
    raise_errors: bool = False
    wait: bool = False
    format: str = "text"
    command: tuple[str, ...] = ()
    meta: Mapping[str, Any] | None = None
    began: float | None = None


@dataclass(frozen=True)
class PlannedTask:
    """Entry of one task in plan.json: the key of its record, and its wall-clock limit."""

    key: str
    budget_seconds: float | None


@dataclass(frozen=True)
class StoredPlan:
    """Content of plan.json: the hash of the science, and the tasks."""

    science: object
    tasks: tuple[PlannedTask, ...]


def plan_tasks(request: Request[object], changed: Sequence[str], most: int = MOST_TASKS) -> list[Task[object]]:
    """Return the tasks of a request.

    Raises:
        UserError: as soon as there are more than `most`, or the memory is full. It names the largest setting among
            those `changed` from the shipped experiment.
    """
    try:
        with at_most(min(most, MOST_TASKS)):
            return list(EXPERIMENTS.get(request.experiment).plan(request))
    except (TooManyTasksError, MemoryError) as error:
        many = f"more than {min(most, MOST_TASKS)} tasks, the most that one run may have"
        what = many if isinstance(error, TooManyTasksError) else "more than this machine's memory can hold"
        sizes = {key: _size(request.options.get(key)) for key in changed if key != "seed"}
        key = max(sizes, key=lambda name: sizes[name], default=request.experiment)
        raise UserError(
            f"{key}{_shown(request.options.get(key))}: {what}\n"
            "reduce it. Runs share their records, so a large study can be made of several",
            key=key,
        ) from error


def with_data_of(request: Request[object], tasks: Sequence[Task[object]]) -> Request[object]:
    """Return the request with the other datasets that its tasks use: run.json and figures then name them."""
    used = {task.dataset.content_hash: task.dataset for task in tasks if task.dataset is not None}
    known = {data.content_hash for data in request.prepared}
    return replace(request, further=tuple(data for key, data in used.items() if key not in known))


def read_plan(path: Path) -> StoredPlan | None:
    """Return the content of a plan.json, or None if there is none.

    Raises:
        ResultsError: if a run would not write such a file. It names the file.
    """
    plan = read_mapping(path)
    if plan is None:
        return None
    try:
        return StoredPlan(plan["science"], tuple(_task(each) for each in plan["tasks"]))
    except (KeyError, TypeError, ValueError) as error:
        raise cannot("read", path, ValueError("not a plan")) from error


def _task(entry: Any) -> PlannedTask:
    key, seconds = entry["key"], entry["budget_seconds"]
    if not re.fullmatch("[0-9a-f]+", key) or not (seconds is None or isinstance(seconds, int | float)):
        raise ValueError
    return PlannedTask(key, seconds)


def _size(value: Any) -> int:
    return value if isinstance(value, int) else len(value) if isinstance(value, list) else 0


def _shown(value: Any) -> str:
    return f"={value}" if isinstance(value, int) else f" with {len(value)} values" if value else ""
