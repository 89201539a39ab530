"""Published records drawn at random and computed anew."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

from gpsuite.engine.agreement import Agreement, compare_records
from gpsuite.engine.archive import Archive
from gpsuite.engine.backends import LokyPool, run_pool
from gpsuite.engine.keys import task_key
from gpsuite.engine.options import RunOptions
from gpsuite.engine.plans import plan_tasks
from gpsuite.engine.provenance import environment_of, same_arithmetic
from gpsuite.engine.sealed import unseal
from gpsuite.engine.worker import execute_group
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS, Record, Request, Task
from gpsuite.reporting.archives import ARCHIVE
from gpsuite.reporting.reading import read_mapping
from gpsuite.seeds import stream

Reader = Callable[[Sequence[str]], tuple[Request[object], RunOptions]]
"""From a run's `key=value` words to what was asked for."""

Verdict = Literal["yes", "no", "another path", "not checked"]

OUTDATED = "its method or its settings have changed since"


@dataclass(frozen=True)
class PublishedRun:
    """A run whose records are published.

    Attributes:
        name: `<experiment>/<scale>[~<tag>]`.
        experiment: `<family>/<name>`.
        command: the `key=value` words that asked for it.
        archive: its records.
    """

    name: str
    experiment: str
    command: tuple[str, ...]
    archive: Archive


@dataclass(frozen=True)
class Due:
    """A published record to compute anew, and its task."""

    run: PublishedRun
    published: Record
    task: Task[object]


@dataclass(frozen=True)
class Rechecked:
    """A published record and what became of it here.

    Attributes:
        run: name of the run.
        task: its label, or its key where it could not be read.
        record: computed here; None if it was not computed.
        agreement: None if it was not computed.
        reason: why not.
        damaged: it is not a record any more.
        may_differ: the task is chaotic, and the published record comes from other arithmetic.
    """

    run: str
    task: str
    record: Record | None = None
    agreement: Agreement | None = None
    reason: str = ""
    damaged: bool = False
    may_differ: bool = False

    @property
    def verdict(self) -> Verdict:
        """What was found; `another path` is no disagreement."""
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
        ResultsError: naming the file, when a run.json is damaged.
    """
    found = []
    for experiment in experiments:
        for path in sorted((results_dir / "published" / experiment).glob(f"*/{ARCHIVE}")):
            run = read_mapping(path.parent / "run.json") or {}
            words = tuple(str(word) for word in run.get("command", ())[2:])  # after `gpsuite run`
            found.append(PublishedRun(f"{experiment}/{path.parent.name}", experiment, words, Archive(path)))
    return found


def without_damaged(runs: Sequence[PublishedRun]) -> tuple[list[PublishedRun], list[Rechecked]]:
    """Return the runs whose archives can be read, and the others."""
    readable, damaged = [], []
    for run in runs:
        try:
            _ = run.archive.keys
        except Exception as error:  # a damaged archive raises a dozen kinds, from LZMAError to MemoryError
            damaged.append(_damaged(run, ARCHIVE, error))
        else:
            readable.append(run)
    return readable, damaged


def _damaged(run: PublishedRun, what: str, error: Exception) -> Rechecked:
    told = f"{run.archive.path}: damaged ({type(error).__name__}: {error})".splitlines()[0]
    return Rechecked(run.name, what, reason=told, damaged=True)


def draw(runs: Sequence[PublishedRun], sample: int, seed: int) -> list[tuple[PublishedRun, str]]:
    """Return up to `sample` different (run, key), at random; no run is drawn from twice before every other was once."""
    rng = stream(seed, "recheck")
    keys = {run.name: list(rng.permutation(run.archive.keys)) for run in runs}
    chosen: list[tuple[PublishedRun, str]] = []
    while len(chosen) < sample and any(keys.values()):
        for number in rng.permutation(len(runs)):
            run = runs[number]
            if keys[run.name] and len(chosen) < sample:
                chosen.append((run, str(keys[run.name].pop())))
    return chosen


def plan_recheck(
    chosen: Sequence[tuple[PublishedRun, str]], read: Reader
) -> tuple[list[Due], list[Rechecked]]:
    """Return the chosen records that can be computed anew, and the others with the reason why not: damage is one."""
    plans: dict[str, dict[str, Task[object]]] = {}
    due, unchecked = [], []
    for run, key in chosen:
        try:
            published = _published(run, key)
        except Exception as error:  # as `without_damaged`, or edited
            unchecked.append(_damaged(run, key, error))
            continue
        try:
            if run.name not in plans:
                plans[run.name] = _tasks(run, read)
        except (UserError, ValueError) as error:
            unchecked.append(Rechecked(run.name, key, reason=str(error).splitlines()[0]))
            continue
        task = plans[run.name].get(key)
        if task is None:
            unchecked.append(Rechecked(run.name, published.label, reason=OUTDATED))
        else:
            due.append(Due(run, published, task))
    return due, unchecked


def recheck(due: Sequence[Due]) -> Iterator[Rechecked]:
    """Compute the records anew, one after another on one thread, and hold them against the published ones.

    Runs compute on one thread unless told otherwise; with more, sums of the same numbers end in other last bits. Those
    of a record's own processor are taken where this one has them: see `environment_of`.
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
    """Yield what computes a task: this process, or a worker started with an environment if there is one."""
    if not environment:
        yield lambda task: execute_group([task], threads=1)
        return
    variables = {name: value for name, value in environment.items() if value}
    with _unset(environment.keys() - variables.keys()), closing(LokyPool(1, 1, variables)) as pool:
        yield lambda task: run_pool([[task]], pool, 1)


@contextmanager
def _unset(names: Collection[str]) -> Iterator[None]:
    """Leave variables out of this process's environment, and of the processes that it starts."""
    kept = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


def _tasks(run: PublishedRun, read: Reader) -> dict[str, Task[object]]:
    request, options = read(run.command)
    return {task_key(task): task for task in plan_tasks(request, options.changed)}


def _published(run: PublishedRun, key: str) -> Record:
    found = run.archive.get(key)
    if found is None:
        raise ValueError(f"{run.archive.path}: no record {key}")
    return unseal(key, found, partly=True)
