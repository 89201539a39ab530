"""Progress of running tasks: budgets report it, at most once a second, and a display on stderr shows it.

Each worker process writes a small file in a folder that the parent reads. It is not part of the results. With a full or
read-only disk progress is late or missing, and nothing else changes.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from gpsuite.budget import Budget
from gpsuite.experiments.base import DONE, Record
from gpsuite.text import fitted, visible
from gpsuite.waiting import done

if TYPE_CHECKING:
    from rich.console import Group

REPORT_SECONDS = 1.0  # shorter tasks report nothing
LINE_SECONDS = 10.0  # shortest time between reports of successes, if there is no terminal
RUNNING_SECONDS = 60.0  # shortest time between reports of a running task
LAST_SECONDS = 1.0  # remaining work below this is not counted down
FOLDER = ".running"
ENDED = ".ended"  # ending of the files that name stored records


@dataclass(frozen=True)
class TaskProgress:
    """Progress of a task: its label, the spent share of its budget, and both in words."""

    label: str
    share: float
    text: str


Send = Callable[[TaskProgress | None], None]  # None if the task ended


class Reporter:
    """Follows the budgets of tasks in sequence. An OSError of `send` is ignored."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._label, self._next, self._sent = "", 0.0, False

    def begin(self, label: str) -> None:
        """Follow a task that starts now."""
        self._label, self._next, self._sent = label, time.monotonic() + REPORT_SECONDS, False

    def observe(self, budget: Budget) -> None:
        """Report the spent budget, if the report is due."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next, self._sent = now + REPORT_SECONDS, True
        with contextlib.suppress(OSError):  # a task must not fail because its progress cannot be written
            self._send(TaskProgress(self._label, budget.share, spending(budget)))

    def end(self) -> None:
        """Withdraw the task's report."""
        if self._sent:
            with contextlib.suppress(OSError):
                self._send(None)


def spending(budget: Budget) -> str:
    """Return the spent budget in words, and the best objective value if known."""
    kinds = (("evaluations", budget.spent_evaluations, budget.evaluations), ("boxes", budget.spent_boxes, budget.boxes))
    parts = [
        f"{spent} {kind}" if allowed is None else f"{spent} of {allowed} {kind}"
        for kind, spent, allowed in kinds
        if spent
    ]
    if math.isfinite(budget.best):
        parts.append(f"objective {budget.best:.5g}")
    start = f"start {budget.run} of {budget.runs}, " if budget.runs > 1 else ""
    return start + ", ".join(parts)


def send_to_file(folder: Path) -> Send:
    """Return a `send` that keeps this process's latest report in a file of the folder."""
    path = folder / f"{os.getpid()}.json"

    def send(report: TaskProgress | None) -> None:
        if report is None:
            path.unlink(missing_ok=True)
            return
        folder.mkdir(exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(report)), encoding="utf-8")
        os.replace(fresh, path)  # the file is complete or missing. No need to wait for the disk

    return send


def tell_ended(folder: Path, key: str) -> None:
    """Report that the record of a task is stored."""
    with contextlib.suppress(OSError):  # the parent then finds it in the store
        folder.mkdir(exist_ok=True)
        (folder / f"{key}{ENDED}").touch()


class ProgressFolder:
    """The parent's side of the workers' files. `show` takes the progress of all running tasks."""

    def __init__(self, path: Path, show: Callable[[Sequence[TaskProgress]], None]) -> None:
        self.path = path.absolute()
        self._show = show
        self._looked = time.monotonic()

    def look(self) -> None:
        """Show the workers' reports, if this is due."""
        now = time.monotonic()
        if now - self._looked >= REPORT_SECONDS:
            self._looked = now
            self._show(self.read())

    def read(self) -> list[TaskProgress]:
        """Return the latest reports, ordered by label."""
        reports = []
        for path in self.path.glob("*.json"):
            with contextlib.suppress(OSError, ValueError, TypeError):  # just removed or damaged
                reports.append(TaskProgress(**json.loads(path.read_text(encoding="utf-8"))))
        return sorted(reports, key=lambda report: report.label)

    def ended(self) -> list[str]:
        """Return the keys of records stored since the last call, in the order of the tasks' ends."""
        told = []
        for path in self.path.glob(f"*{ENDED}"):
            with contextlib.suppress(OSError):
                told.append((path.stat().st_mtime_ns, path.name.removesuffix(ENDED)))
                path.unlink()
        return [key for _, key in sorted(told)]

    def forget(self) -> None:
        """Remove all reports: dead workers cannot remove theirs, and the others report again."""
        for path in self.path.glob("*.json"):
            path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove the folder, at the end of a run and after a killed run."""
        shutil.rmtree(self.path, ignore_errors=True)


class _Tally:
    """Ended tasks, running tasks by their shares, and the remaining time at this pace."""

    def __init__(self, total: int) -> None:
        self.total, self.ended = total, 0
        self._shares: dict[str, float] = {}
        self._started = time.monotonic()

    def end(self, label: str) -> None:
        self.ended += 1
        self._shares.pop(label, None)

    def follow(self, reports: Sequence[TaskProgress]) -> None:
        # a spent budget is not yet certified and stored
        self._shares = {report.label: min(report.share, 0.99) for report in reports}

    @property
    def completed(self) -> float:
        return min(self.ended + sum(self._shares.values()), self.total)

    @property
    def left(self) -> str:
        if self.completed == 0:
            return "time left unknown"
        if self.ended == self.total:
            return ""
        seconds = (time.monotonic() - self._started) / self.completed * (self.total - self.completed)
        return f"{clock(seconds)} left" if seconds >= LAST_SECONDS else "nearly done"


class Progress:
    """Shows nothing."""

    def __enter__(self) -> Self:
        done()
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def advance(self, record: Record) -> None:
        """Show that a task ended."""

    def running(self, reports: Sequence[TaskProgress]) -> None:
        """Show the progress of the running tasks. Tasks that are not named have not reported."""


class LineProgress(Progress):
    """Plain lines: the first, one every few seconds, every failure, the last, and one per minute of a long task."""

    def __init__(self, title: str, total: int) -> None:
        self._tally = _Tally(total)
        self._shown = time.monotonic()
        self._told: dict[str, float] = {}  # due time of the last line by running task

    def advance(self, record: Record) -> None:
        """Print a line if due, if the task did not simply succeed, and at both ends."""
        self._tally.end(record.label)
        now = time.monotonic()
        ends = self._tally.ended in (1, self._tally.total)
        if not ends and record.status == DONE and now - self._shown < LINE_SECONDS:
            return
        self._shown = now
        self._print(describe(record))

    def running(self, reports: Sequence[TaskProgress]) -> None:
        """Print a line about each task that has been running for another minute."""
        self._tally.follow(reports)
        now = time.monotonic()
        for report in reports:
            if now - self._told.setdefault(report.label, now) >= RUNNING_SECONDS:
                self._told[report.label] = now
                self._print(visible(f"running  {report.label}: {report.text}"))

    def _print(self, text: str) -> None:
        total = self._tally.total
        width = len(str(total))
        left = f" | {self._tally.left}" if self._tally.left else ""
        tell(f"[{self._tally.ended:>{width}}/{total}] {text}{left}")


class BarProgress(Progress):
    """A rich progress bar with elapsed and remaining time, and a line per running task. Failures scroll above it."""

    def __init__(self, title: str, total: int) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._tally = _Tally(total)
        self._running: Sequence[TaskProgress] = ()
        self._last = ""
        self._bar = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            # not the completed part, which has fractions
            TextColumn("{task.fields[ended]}/{task.total}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}", markup=False),
        )
        self._task = self._bar.add_task(title, total=total, ended=0, left="")
        self._live = Live(console=Console(stderr=True), get_renderable=self._shown)

    def __enter__(self) -> Self:
        done()
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._running, self._last = (), ""
        self._live.stop()

    def advance(self, record: Record) -> None:
        """Move the bar. A task that did not simply succeed keeps its line."""
        self._tally.end(record.label)
        self._running = [report for report in self._running if report.label != record.label]
        if record.status != DONE:
            self._live.console.print(describe(record), markup=False, highlight=False)
        self._last = visible(f"  {record.label}  {record.headline}")

    def running(self, reports: Sequence[TaskProgress]) -> None:
        """Move the bar by fractions and show a line per running task."""
        self._tally.follow(reports)
        self._running = reports

    def _shown(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        tally = self._tally  # at each update: the remaining time also falls if no task ends
        self._bar.update(self._task, completed=tally.completed, ended=tally.ended, left=tally.left)
        running = [Text(visible(f"  {report.label}: {report.text}")) for report in self._running]
        lines = running or ([Text(self._last, style="dim")] if self._last else [])
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return Group(self._bar, *lines)


def progress(title: str, total: int, *, quiet: bool = False) -> Progress:
    """Return the progress display that suits stderr."""
    if quiet:
        return Progress()
    return BarProgress(title, total) if sys.stderr.isatty() else LineProgress(title, total)


def tell(text: str) -> None:
    """Print a line on stderr. A closed stderr does not end the run."""
    done()
    with contextlib.suppress(OSError):
        print(fitted(text, sys.stderr), file=sys.stderr, flush=True)


def describe(record: Record) -> str:
    """Return one line about a record: status, task, main number, seconds, reason."""
    seconds = record.timing.get("wall_seconds")
    parts = [record.status, record.label, record.headline, f"{seconds:.1f} s" if seconds is not None else ""]
    return visible("  ".join(part for part in [*parts, record.reason] if part))


def clock(seconds: float) -> str:
    """Return seconds as m:ss or h:mm:ss."""
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
