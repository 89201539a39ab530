"""From records to what people read: tables, figures, statistics, comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from gpsuite.engine.folder import CONFIG
from gpsuite.experiments.base import (
    BUDGET,
    DIVERGED,
    DONE,
    ERROR,
    EXPERIMENTS,
    INFEASIBLE,
    SKIPPED,
    Record,
    Report,
    Request,
)
from gpsuite.reporting.atomic import write_text
from gpsuite.reporting.comparison import compare, read_published, write_comparison, write_statistics
from gpsuite.reporting.manifest import note_written, remove_stale
from gpsuite.text import visible

# A science key whose values statistics carry in their names: a run without one of the datasets has fewer statistics,
# but those it has are the shipped experiment's.
NAMED = ("datasets",)


# folder -> what the names of one figure's or table's files end in
ENDINGS_OF = {"figures": (".png", ".pdf", ".csv"), "tables": (".csv", ".md", ".tex")}


# how a task ended that did not end well, in words
ENDINGS = {
    BUDGET: "ended with their budget",
    DIVERGED: "diverged",
    ERROR: "failed",
    INFEASIBLE: "were not possible",
    SKIPPED: "were skipped",
}


@dataclass(frozen=True)
class Summary:
    """What is said of a run besides its files.

    Attributes:
        notes: what limits its tables and figures.
        not_comparable: why it must not be held against the paper, or empty.
        answer: told to the user when the run ends.
        warnings: told beside it.
    """

    notes: Sequence[str]
    not_comparable: str = ""
    answer: Sequence[str] = ()
    warnings: Sequence[str] = ()


def write_config(folder: Path, request: Request[object], command: Sequence[str]) -> None:
    """Write the composed configuration as config.yaml, with the command that asked for it as a comment."""
    text = yaml.safe_dump(dict(request.options), sort_keys=False, allow_unicode=True)
    write_text(folder / CONFIG, f"# {visible(' '.join(command))}\n{text}")


def write_results(
    request: Request[object],
    records: Sequence[Record],
    folder: Path,
    conf_dir: Path,
    changed: Sequence[str],
    parts: Mapping[str, str],
    below_paper: str,
) -> Summary:
    """Write tables, figures, statistics and the comparison, which has no rows if the run must not be compared."""
    below = [below_paper] if below_paper else []
    notes = [*parts.values(), *below, *limitations(request, records)]
    why_not = not_comparable(request, records, [key for key in changed if key not in parts])
    published = read_published(conf_dir, request.experiment)
    printed = {} if why_not else {each.statistic: n for each in published if (n := each.number) is not None}
    report = Report(request, records, folder, "; ".join(notes) or None, printed, not why_not)
    statistics = []
    if report.records():
        statistics = EXPERIMENTS.get(request.experiment).summarise(report)
        write_statistics(folder / "tables", statistics)
    else:
        impossible = [each for each in records if each.status in (INFEASIBLE, SKIPPED)]
        report.answer.extend(dict.fromkeys(each.reason for each in impossible))
        report.warnings.extend(dict.fromkeys(text for each in impossible for text in each.warnings))
    _clear_earlier(report)
    write_comparison(folder, [] if why_not else compare(published, statistics))
    return Summary(notes, why_not if published else "", report.answer, report.warnings)


def _clear_earlier(report: Report[object]) -> None:
    """Remove the figures and tables that an earlier summary wrote and this one did not: those of another name now."""
    for folder, endings in ENDINGS_OF.items():
        names = [name.partition("/")[2] for name in report.written if name.startswith(f"{folder}/")]
        files = [f"{name}{ending}" for name in names for ending in endings]
        remove_stale(report.folder / folder, files)
        note_written(report.folder / folder, files)


def limitations(request: Request[object], records: Sequence[Record]) -> list[str]:
    """Return what a reader of the figures must know: stand-in data, smoke scale, tasks that did not end well."""
    notes = []
    made_up = [data.name for data in request.prepared if data.stand_in]
    if made_up:
        notes.append(f"stand-in data, not {', '.join(made_up)}")
    if request.scale == "smoke":
        notes.append("smoke scale: not for conclusions")
    other = Counter(record.status for record in records if record.status != DONE)
    notes += [f"{count} of {len(records)} tasks {ENDINGS[status]}" for status, count in sorted(other.items())]
    return notes


def not_comparable(request: Request[object], records: Sequence[Record], changed: Sequence[str]) -> str:
    """Return why the run must not be held against the paper, or an empty string."""
    if any(data.stand_in for data in request.prepared):
        return "stand-in data"
    if request.scale == "smoke":
        return "smoke scale"
    if request.budget_seconds is not None and any(record.status == BUDGET for record in records):
        return f"tasks ended by budget.seconds={request.budget_seconds:g}"
    differing = [key for key in changed if key not in NAMED]
    if differing:
        return f"settings differ from the shipped experiment: {', '.join(differing)}"
    return ""
