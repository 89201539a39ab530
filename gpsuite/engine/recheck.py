"""Recomputation of random published records: equal bitwise, up to rounding, within a tolerance, or not."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gpsuite.engine.backends import LokyPool, run_pool
from gpsuite.engine.keys import task_key
from gpsuite.engine.plans import RunOptions, plan_tasks
from gpsuite.engine.provenance import environment_of, same_arithmetic
from gpsuite.engine.store import Archive, check_record
from gpsuite.engine.worker import execute_group
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS, ROUNDING, Record, Request, Task
from gpsuite.reporting.files import ARCHIVE, read_mapping
from gpsuite.seeds import stream
from gpsuite.text import visible

NEGLIGIBLE = 1e-12  # absolute size of numbers that are zero except for rounding
# words in the names of metrics and arrays on effort, which are not compared
EFFORT = ("seconds", "evaluations")
# Ends of searches along flat directions: hyperparameters, by a word of their names, may differ by this much.
FLAT, FLAT_TOLERANCE = ("lengthscale", "variance"), 0.1
# Other results of such a search are compared relative to at least this: a probability of 2e-4 is not a scale for its
# difference, but a variance of 1e-6 is.
LEAST = 0.01
# Shares of test rows, and bounds on such a share from these rows, differ by whole rows: 3 of 4000 with the kernels of
# another processor.
SHARES, LEAST_SHARE = ("risk_test", "test_bound_bayes"), 0.1
LEVELS = ("bitwise", "rounding", "tolerance", "not")
# settings of a published command that decide no number. A recheck has its own
RUN_ONLY = (
    "parallel",
    "output",
    "threads",
    "run_name",
    "budget",
    "on_error",
    "wait",
    "debug",
    "force",
    "results_dir",
    "data_dir",
)
MOST_WORDS, LONGEST_WORD, LONGEST_REASON = 100, 1000, 200
MOST_TASKS_PER_RECORD, MOST_TASKS_MORE = 10, 1000
OUTDATED = "its method or its settings have changed since"

# function of a run's `key=value` words that returns the request
Reader = Callable[[Sequence[str]], tuple[Request[object], RunOptions]]
RecheckVerdict = Literal["yes", "no", "another path", "not checked"]


@dataclass(frozen=True)
class Agreement:
    """Agreement of a record computed here with the published one.

    Attributes:
        counts: number of metrics and array entries by the strictest level of `LEVELS` at which they agree.
        worst: name with the largest difference, with both values if it is a single number. Empty if all are equal.
        difference: relative difference of `worst`.
    """

    counts: Mapping[str, int]
    worst: str
    difference: float

    @property
    def agrees(self) -> bool:
        """Whether every number agrees at some level."""
        return self.counts["not"] == 0


def compare_records(published: Record, ours: Record, tolerance: float) -> Agreement:
    """Compare a record computed here with the published one. `EFFORT` is left out.

    Args:
        published: published record with its published arrays.
        ours: record computed here.
        tolerance: largest relative difference that counts as agreement. Above `ROUNDING` it is for searches along flat
            directions. Then `FLAT_TOLERANCE`, `LEAST` and `LEAST_SHARE` also apply.
    """
    counts = dict.fromkeys(LEVELS, 0)
    worst, largest = "", 0.0
    searched = tolerance > ROUNDING
    for name, size, difference, shown in _differences(published, ours, LEAST if searched else 0.0):
        flat = searched and _is_flat(name)
        counts[level(difference, max(tolerance, FLAT_TOLERANCE) if flat else tolerance)] += size
        if difference > largest:
            worst, largest = f"{name}{shown}", difference
    return Agreement(counts, worst, largest)


def _is_flat(name: str) -> bool:
    return any(word in name for word in FLAT)


def _least_of(name: str, least: float) -> float:
    if _is_flat(name):
        return 0.0
    return LEAST_SHARE if least and any(word in name for word in SHARES) else least


def level(difference: float, tolerance: float) -> str:
    """Return the strictest of `LEVELS` at which a relative difference is agreement."""
    if difference == 0.0:
        return "bitwise"
    if difference <= ROUNDING:
        return "rounding"
    return "tolerance" if difference <= tolerance else "not"


def _differences(published: Record, ours: Record, least: float) -> Iterator[tuple[str, int, float, str]]:
    """Yield name, number of values, their largest relative difference, and both values of a single one."""
    yield ("status", 1, 0.0 if published.status == ours.status else math.inf, f" {published.status} / {ours.status}")
    for name in {**published.metrics, **ours.metrics}:
        if not any(word in name for word in EFFORT):
            value, other = published.metrics.get(name), ours.metrics.get(name)
            yield name, 1, _of_values(value, other, _least_of(name, least)), f" {value} / {other}"
    for name, array in published.arrays.items():
        if not any(word in name for word in EFFORT):
            mine = ours.arrays.get(name)
            yield (
                name,
                max(array.size, 1),
                math.inf if mine is None else _of_arrays(array, np.asarray(mine), least),
                "",
            )


def _of_values(first: Any, second: Any, least: float) -> float:
    """Return the relative difference of two metrics. It is infinite for different words, or if a metric is missing."""
    # JSON has no NaN: values that are not finite are stored as None
    second = None if isinstance(second, float) and not math.isfinite(second) else second
    numbers = [isinstance(each, int | float) and not isinstance(each, bool) for each in (first, second)]
    if first == second:
        return 0.0
    return _of_arrays(np.array(float(first)), np.array(float(second)), least) if all(numbers) else math.inf


def _of_arrays(first: NDArray[Any], second: NDArray[Any], least: float) -> float:
    """Return the largest difference relative to the largest finite entry of both arrays, but at least `least`."""
    if first.shape != second.shape or first.dtype.kind != second.dtype.kind:
        return math.inf
    if first.dtype.kind not in "fiu":
        return 0.0 if np.array_equal(first, second) else math.inf
    a, b = first.astype(np.float64), second.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    if not (np.isfinite(a[~same]).all() and np.isfinite(b[~same]).all()):
        return math.inf
    largest = float(np.max(np.abs(a[~same] - b[~same])))
    finite = np.concatenate([np.abs(a[np.isfinite(a)]), np.abs(b[np.isfinite(b)])])
    relative = largest / max(float(finite.max()), least)
    return min(relative, ROUNDING) if largest <= NEGLIGIBLE else relative


@dataclass(frozen=True)
class PublishedRun:
    """A run with published records: `<experiment>/<scale>[~<tag>]`, and the command in its run.json.

    A stranger may have written the command. `settings_of` reads it.
    """

    name: str
    experiment: str
    command: object
    archive: Archive


@dataclass(frozen=True)
class Due:
    """A published record to recompute, and its task."""

    run: PublishedRun
    published: Record
    task: Task[object]


@dataclass(frozen=True)
class Rechecked:
    """A published record and its recheck.

    Attributes:
        task: label of the task, or its key if the record could not be read.
        record: record computed here. None, like the agreement, if it was not computed.
        reason: reason why it was not computed.
        damaged: whether the published record cannot be read.
        may_differ: whether the task is chaotic and the published record comes from other arithmetic.
    """

    run: str
    task: str
    record: Record | None = None
    agreement: Agreement | None = None
    reason: str = ""
    damaged: bool = False
    may_differ: bool = False

    @property
    def verdict(self) -> RecheckVerdict:
        """Verdict of the recheck. `another path` is not a disagreement."""
        if self.damaged:
            return "no"
        if self.agreement is None:
            return "not checked"
        if self.agreement.agrees:
            return "yes"
        return "another path" if self.may_differ else "no"


def published_runs(results_dir: Path, experiments: Sequence[str]) -> list[PublishedRun]:
    """Return the runs of the experiments that were published with their records, in the order of their names.

    Raises:
        ResultsError: if a run.json is damaged. It names the file.
    """
    found = []
    for experiment in experiments:
        for path in sorted((results_dir / "published" / experiment).glob(f"*/{ARCHIVE}")):
            run = read_mapping(path.parent / "run.json") or {}
            found.append(
                PublishedRun(f"{experiment}/{path.parent.name}", experiment, run.get("command"), Archive(path))
            )
    return found


def without_damaged(runs: Sequence[PublishedRun]) -> tuple[list[PublishedRun], list[Rechecked]]:
    """Return the runs with readable archives, and the others."""
    readable, damaged = [], []
    for run in runs:
        try:
            _ = run.archive.keys
        except Exception as error:  # a damaged archive raises many kinds of errors, from LZMAError to MemoryError
            damaged.append(_damaged(run, ARCHIVE, error))
        else:
            readable.append(run)
    return readable, damaged


def _damaged(run: PublishedRun, what: str, error: Exception) -> Rechecked:
    told = f"{run.archive.path}: damaged ({type(error).__name__}: {error})".splitlines()[0]
    return Rechecked(run.name, what, reason=told, damaged=True)


def draw(runs: Sequence[PublishedRun], sample: int, seed: int) -> list[tuple[PublishedRun, str]]:
    """Return up to `sample` different (run, key), at random. Each run is used once before any is used twice."""
    rng = stream(seed, "recheck")
    keys = {run.name: list(rng.permutation(run.archive.keys)) for run in runs}
    chosen: list[tuple[PublishedRun, str]] = []
    while len(chosen) < sample and any(keys.values()):
        for number in rng.permutation(len(runs)):
            run = runs[number]
            if keys[run.name] and len(chosen) < sample:
                chosen.append((run, str(keys[run.name].pop())))
    return chosen


def plan_recheck(chosen: Sequence[tuple[PublishedRun, str]], read: Reader) -> tuple[list[Due], list[Rechecked]]:
    """Return the chosen records that can be recomputed, and the others with the reason."""
    plans: dict[str, dict[str, Task[object]]] = {}
    due, unchecked = [], []
    for run, key in chosen:
        try:
            published = _published(run, key)
        except Exception as error:  # damaged as in `without_damaged`, or edited
            unchecked.append(_damaged(run, key, error))
            continue
        try:
            if run.name not in plans:
                plans[run.name] = _tasks(run, read)
        except (UserError, ValueError) as error:
            unchecked.append(Rechecked(run.name, key, reason=str(error).splitlines()[0][:LONGEST_REASON]))
            continue
        task = plans[run.name].get(key)
        if task is None:
            unchecked.append(Rechecked(run.name, published.label, reason=OUTDATED))
        else:
            due.append(Due(run, published, task))
    return due, unchecked


def recheck(due: Sequence[Due]) -> Iterator[Rechecked]:
    """Recompute the records in sequence, and compare them with the published ones.

    It uses one thread, as runs do by default. With more, sums differ in last bits. If possible, BLAS kernels and
    instructions are those of a record's own processor: see `environment_of`.
    """
    for environment, some in groupby(sorted(due, key=_environment), key=_environment):
        with _computing(dict(environment)) as compute:
            for each in some:
                [ours] = compute(each.task)
                entry = EXPERIMENTS.get(each.run.experiment)
                may_differ = entry.chaotic(each.task) and not same_arithmetic(each.published.origin)
                found = compare_records(each.published, ours, entry.agreement)
                yield Rechecked(each.run.name, ours.label, ours, found, may_differ=may_differ)


def _environment(each: Due) -> list[tuple[str, str]]:
    return sorted(environment_of(each.published.origin).items())


@contextmanager
def _computing(environment: Mapping[str, str]) -> Iterator[Callable[[Task[object]], Iterator[Record]]]:
    """Yield the function that computes a task: in this process, or in a worker with other environment variables."""
    if not environment:
        yield lambda task: execute_group([task], threads=1)
        return
    variables = {name: value for name, value in environment.items() if value}
    with _unset(environment.keys() - variables.keys()), closing(LokyPool(1, 1, variables)) as pool:
        yield lambda task: run_pool([[task]], pool, 1)


@contextmanager
def _unset(names: Collection[str]) -> Iterator[None]:
    # also for processes started in the meantime
    kept = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


def settings_of(run: PublishedRun) -> list[str]:
    """Return the `key=value` words of a published command that decide its numbers.

    Anybody may have written it. So it may only set keys of the experiment's own configuration. It may not name files,
    folders or other experiments, or have very long lists. Keys of the way of running (`RUN_ONLY`) are left out.

    Raises:
        UserError: if the command sets anything that is not allowed.
    """
    command = run.command
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise UserError("its run.json states no command")
    words = [word for word in command[2:] if word.partition("=")[0].partition(".")[0] not in RUN_ONLY]
    if command[:2] != ["gpsuite", "run"] or f"experiment={run.experiment}" not in words:
        raise UserError(f"its run.json states another command than one of {run.experiment}")
    settings = [word for word in words if word != f"experiment={run.experiment}"]
    if len(settings) > MOST_WORDS or any(len(word) > LONGEST_WORD for word in settings):
        raise UserError("its command is too long to be that of a published run")
    for word in settings:
        key, _, value = word.partition("=")
        if (
            key.startswith("dataset.")
            or value == "csv"
            or not re.fullmatch(r"[\w.\-+,:{}\[\] ]*", value)
            or ".." in value
        ):
            raise UserError(f"its command sets {visible(key)}: recheck opens no file that a published run names")
    return [f"experiment={run.experiment}", *settings]


def _tasks(run: PublishedRun, read: Reader) -> dict[str, Task[object]]:
    request, options = read(settings_of(run))
    # a published run has a record of every task, except those that failed
    most = MOST_TASKS_PER_RECORD * len(run.archive.keys) + MOST_TASKS_MORE
    return {task_key(task): task for task in plan_tasks(request, options.changed, most)}


def _published(run: PublishedRun, key: str) -> Record:
    found = run.archive.get(key)
    if found is None:
        raise ValueError(f"{run.archive.path}: no record {key}")
    return check_record(key, found, partly=True)
