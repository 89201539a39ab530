"""Draw every published run again from its records; compare the numbers of its tables and figures, and check figures.

    python scripts/redraw.py [results_dir=results]

Nothing is computed: a run that lacks the record of a task is named with the command that computes it.
Exit code 1 if a number differs from the published one, a run lacks records, or a figure is hard to read: small text,
marks cut off, a legend over data, a panel more than half empty, or the same picture as another.
"""

from __future__ import annotations

import csv
import io
import math
import shlex
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gpsuite.commands.words import experiment_names, read_words
from gpsuite.config.request import read_request
from gpsuite.engine.progress import clock
from gpsuite.engine.recheck import PublishedRun, published_runs
from gpsuite.engine.runner import open_tasks, run_experiment
from gpsuite.engine.worker import limit_threads
from gpsuite.errors import DataError
from gpsuite.reporting import figures
from gpsuite.reporting.collect import PUBLISHED
from gpsuite.reporting.figure_faults import faults

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-9  # relative difference of a number that counts as rounding, as in `gpsuite recheck`


def main(words: list[str]) -> int:
    """Draw all of them; print a line each."""
    limit_threads(1)
    results_dir = read_words(words).results_dir
    begun, good, found = time.perf_counter(), [], Faults()
    figures.WATCHERS.append(found.look)
    runs = published_runs(results_dir, experiment_names([]))
    for run in runs:
        start, found.run = time.perf_counter(), run.name
        try:
            outcome, same = _redraw(run, results_dir)
        except DataError as error:  # its figures show rows of the dataset
            outcome, same = f"not drawn: {str(error).splitlines()[0]}", False
        good.append(same)
        print(f"{run.name}\t{time.perf_counter() - start:.1f} s\t{outcome}", flush=True)
    print(f"{sum(good)} of {len(runs)} runs as published, in {clock(time.perf_counter() - begun)}")
    found.find_equal(results_dir / PUBLISHED)
    for line in found.lines:
        print(line)
    return 0 if all(good) and not found.lines else 1


@dataclass
class Faults:
    """What is wrong with figures, a line each."""

    run: str = ""
    lines: list[str] = field(default_factory=list)

    def look(self, name: str, fig: Figure) -> None:
        self.lines += [f"{self.run}: {name}: {fault}" for fault in faults(fig)]

    def find_equal(self, folder: Path) -> None:
        """Find published pictures that are the same, byte by byte."""
        seen: dict[bytes, Path] = {}
        for path in sorted(folder.rglob("*.png")):
            first = seen.setdefault(path.read_bytes(), path)
            if first is not path:
                self.lines.append(f"{path.relative_to(folder)}: the same picture as {first.relative_to(folder)}")


def _redraw(run: PublishedRun, results_dir: Path) -> tuple[str, bool]:
    """Return the outcome in words, and whether it is as published."""
    command = run.command if isinstance(run.command, list) else []
    kept = [
        str(word) for word in command[2:] if not str(word).startswith(("parallel", "results_dir", "output", "format"))
    ]
    words = [*kept, "parallel=serial", "format=quiet", f"results_dir={results_dir}"]
    request, options = read_request(words, allow_absent=True)
    if missing := open_tasks(request, options):
        cost = clock(sum(task.cost for task in missing))
        return f"{len(missing)} tasks have no record, {cost}: gpsuite run {shlex.join(kept)}", False
    drawn = run_experiment(request, options).folder
    found = {"same": 0, "within rounding": 0}
    for path in _numbers(results_dir / PUBLISHED / run.name):
        name = path.relative_to(results_dir / PUBLISHED / run.name)
        how = _compared(path, drawn / name)
        if how not in found:
            return f"{name.as_posix()}: {how}", False
        found[how] += 1
    return ", ".join(f"{count} {how}" for how, count in found.items() if count), True


def _numbers(folder: Path) -> list[Path]:
    return [path for place in ("tables", "figures") for path in sorted((folder / place).glob("*.csv"))]


def _compared(published: Path, drawn: Path) -> str:
    """Return `same` (byte by byte), `within rounding` (another processor's last bits), or what differs first."""
    if not drawn.exists():
        return "not drawn"
    if drawn.read_bytes() == published.read_bytes():
        return "same"
    ours, theirs = (list(csv.reader(io.StringIO(path.read_text("utf-8")))) for path in (drawn, published))
    if [len(row) for row in ours] != [len(row) for row in theirs]:
        return "other rows"
    for line, (mine, other) in enumerate(zip(ours, theirs, strict=True), start=1):
        for own, published_cell in zip(mine, other, strict=True):
            if not _equal(own, published_cell):
                return f"line {line} has {own}, published {published_cell}"
    return "within rounding"


def _equal(own: str, published: str) -> bool:
    try:
        return own == published or math.isclose(float(own), float(published), rel_tol=ROUNDING)
    except ValueError:  # texts
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
