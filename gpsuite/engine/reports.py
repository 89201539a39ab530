"""How far running tasks are: budgets tell, at most once a second, and the progress display shows it.

Worker processes leave a small file each in a folder that the parent looks into. It is no part of the results: reports
come too late or not at all when the disk is full or read-only, and nothing else changes.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gpsuite.budget import Budget

REPORT_SECONDS = 1.0  # shorter tasks report nothing
FOLDER = ".running"
ENDED = ".ended"  # of the files that say which records are stored


@dataclass(frozen=True)
class Report:
    """How far a task is: its label, the share of its budget that is spent, and both in words."""

    label: str
    share: float
    text: str


Send = Callable[[Report | None], None]  # None: the task ended


class Reporter:
    """Follows the budgets of one task after the other.

    Args:
        send: takes a report, or None when a task that had reported ended; a refusal of the system is ignored.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._label, self._next, self._sent = "", 0.0, False

    def begin(self, label: str) -> None:
        """Follow a task that starts now."""
        self._label, self._next, self._sent = label, time.monotonic() + REPORT_SECONDS, False

    def observe(self, budget: Budget) -> None:
        """Report what the budget has spent, when it is time."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next, self._sent = now + REPORT_SECONDS, True
        with contextlib.suppress(OSError):  # a task must not fail because nobody can be told
            self._send(Report(self._label, budget.share, spending(budget)))

    def end(self) -> None:
        """Withdraw the task's report."""
        if self._sent:
            with contextlib.suppress(OSError):
                self._send(None)


def spending(budget: Budget) -> str:
    """Return what a budget has spent of what it allows, and the best objective value if one is known."""
    kinds = (
        ("evaluations", budget.spent_evaluations, budget.evaluations),
        ("boxes", budget.spent_boxes, budget.boxes),
    )
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

    def send(report: Report | None) -> None:
        if report is None:
            path.unlink(missing_ok=True)
            return
        folder.mkdir(exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(report)), encoding="utf-8")
        os.replace(fresh, path)  # complete or not there; not worth the disk's confirmation

    return send


def tell_ended(folder: Path, key: str) -> None:
    """Say that the record of a task is stored."""
    with contextlib.suppress(OSError):  # the parent then learns it from the store
        folder.mkdir(exist_ok=True)
        (folder / f"{key}{ENDED}").touch()


class ReportFolder:
    """The parent's side of the workers' files.

    Args:
        path: the folder; workers make it, `clear` removes it.
        show: takes the reports of all running tasks.
    """

    def __init__(self, path: Path, show: Callable[[Sequence[Report]], None]) -> None:
        self.path = path.absolute()
        self._show = show
        self._looked = time.monotonic()

    def look(self) -> None:
        """Show what the workers say, when it is time."""
        now = time.monotonic()
        if now - self._looked >= REPORT_SECONDS:
            self._looked = now
            self._show(self.read())

    def read(self) -> list[Report]:
        """Return the latest reports, ordered by label."""
        reports = []
        for path in self.path.glob("*.json"):
            with contextlib.suppress(OSError, ValueError, TypeError):  # just removed, or damaged
                reports.append(Report(**json.loads(path.read_text(encoding="utf-8"))))
        return sorted(reports, key=lambda report: report.label)

    def ended(self) -> list[str]:
        """Return the keys of records that were stored since the last look, in the order of the tasks' ends."""
        told = []
        for path in self.path.glob(f"*{ENDED}"):
            with contextlib.suppress(OSError):
                told.append((path.stat().st_mtime_ns, path.name.removesuffix(ENDED)))
                path.unlink()
        return [key for _, key in sorted(told)]

    def forget(self) -> None:
        """Forget all reports: the dead cannot withdraw theirs, and the living report again."""
        for path in self.path.glob("*.json"):
            path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove the folder: what a run left that was killed, and at the end."""
        shutil.rmtree(self.path, ignore_errors=True)
