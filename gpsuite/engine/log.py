"""run.log in every run's folder: what was asked for, how each task ended, how the run did; a session below another."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from gpsuite import __version__
from gpsuite.engine.progress import describe
from gpsuite.engine.provenance import git_state
from gpsuite.errors import ResultsError
from gpsuite.experiments.base import Record
from gpsuite.text import visible

NAME = "run.log"


class RunLog:
    """Lines with their time, each on disk before the next is written; nothing is written before something is computed.

    Args:
        path: the file; a run that goes on where another stopped adds to it.
        command: the words the user typed.
    """

    def __init__(self, path: Path, command: str) -> None:
        self.path, self.command = path, command
        self._begun = False

    def begin(self, stored: int, total: int) -> None:
        """Say what was asked for, by which version, and how much of it is left to do."""
        self._begun = True
        commit = git_state()
        state = f", commit {str(commit['commit'])[:12]}{' (dirty)' if commit['dirty'] else ''}"
        self._write(f"{self.command}  (gpsuite {__version__}{state if commit['commit'] else ''})")
        self._write(f"{total - stored} of {total} tasks to compute")

    def record(self, record: Record) -> None:
        """Say how a task ended."""
        self._write(describe(record))

    def end(self, counts: Mapping[str, int]) -> None:
        """Say how all tasks of the plan ended."""
        if self._begun:
            self._write(
                f"ended: {', '.join(f'{count} {status}' for status, count in sorted(counts.items()))}"
            )

    def _write(self, text: str) -> None:
        line = f"{datetime.now(tz=UTC).isoformat(timespec='seconds')} {visible(text)}\n"
        try:
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(line)
        except OSError as error:
            raise ResultsError(
                f"{self.path}: cannot be written ({error.strerror or error})", key=str(self.path)
            ) from error
