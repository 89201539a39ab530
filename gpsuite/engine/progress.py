"""Progress on stderr: a bar with time left on a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Protocol, Self

from gpsuite.experiments.base import DONE, Record

LINE_SECONDS = 10.0  # off a terminal, successes are reported at most this often


class Progress(Protocol):
    """Told of every record; knows how to show it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def advance(self, record: Record) -> None:
        """Show that a task ended."""
        ...


class LineProgress:
    """Plain lines: the first, then one every few seconds, every failure, and the last."""

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total, self._count = title, total, 0
        self._started = self._shown = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def advance(self, record: Record) -> None:
        """Print a line when it is time, when the task did not simply succeed, and at both ends."""
        self._count += 1
        now = time.monotonic()
        ends = self._count in (1, self._total)
        if not ends and record.status == DONE and now - self._shown < LINE_SECONDS:
            return
        self._shown = now
        left = (now - self._started) / self._count * (self._total - self._count)
        width = len(str(self._total))
        print(
            f"[{self._count:>{width}}/{self._total}] {describe(record)} | {clock(left)} left",
            file=sys.stderr,
            flush=True,
        )


class BarProgress:
    """A rich progress bar with elapsed and remaining time; failures scroll above it."""

    def __init__(self, title: str, total: int) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[last]}", style="dim"),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task(title, total=total, last="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def advance(self, record: Record) -> None:
        """Move the bar; a task that did not simply succeed keeps a line of its own."""
        if record.status != DONE:
            self._bar.console.print(describe(record), markup=False, highlight=False)
        self._bar.update(self._task, advance=1, last=f"{record.label} {record.headline}"[:60])


def progress(title: str, total: int) -> Progress:
    """Return the progress display that suits stderr."""
    return BarProgress(title, total) if sys.stderr.isatty() else LineProgress(title, total)


def describe(record: Record) -> str:
    """Return one line about a record: status, task, main number, seconds, reason."""
    seconds = record.timing.get("wall_seconds")
    parts = [record.status, record.label, record.headline, f"{seconds:.1f} s" if seconds is not None else ""]
    return "  ".join(part for part in [*parts, record.reason] if part)


def clock(seconds: float) -> str:
    """Return seconds as m:ss or h:mm:ss."""
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
