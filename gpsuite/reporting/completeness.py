"""How much of each paper was run out: its figures and tables as complete, partial or not run, with what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpsuite.reporting.archives import ARCHIVE, task_seconds
from gpsuite.reporting.catalogue import ExperimentNote, PaperNote
from gpsuite.reporting.reading import present
from gpsuite.reporting.sections import Section

HEAD = [
    "figure or table",
    "state",
    "CPU hours",
    "records, MB",
    "missing",
    "a full run, two cores",
]


@dataclass(frozen=True)
class _Experiment:
    """An experiment that stands for a figure, with its runs at the paper's scale."""

    name: str
    runs: Sequence[Section]
    cost: str

    @property
    def whole(self) -> bool:
        """Whether the shipped run has ended without a failure and leaves nothing out."""
        return any(not run.run.tag and run.finished and not run.left_out for run in self.runs)

    @property
    def missing(self) -> str:
        """What the shipped run leaves out, or else every partial run; the names of partial runs and of studies."""
        if not self.runs:
            return f"`{self.name}` was not run"
        parts = [run for run in self.runs if run.run.tag and run.left_out and not run.study]
        held = [run for run in self.runs if not run.run.tag] or parts
        left = (
            [text for text in held[0].left_out if all(text in run.left_out for run in held)] if held else []
        )
        studies = [run for run in self.runs if run.study]
        named = {"partial runs": parts, "with other settings": studies}
        tags = [
            f"{what} {', '.join(f'`{run.run.tag}`' for run in runs)}" for what, runs in named.items() if runs
        ]
        told = [*left, *tags]
        return f"`{self.name}`: {'; '.join(told) or 'not finished'}"


def completeness_rows(
    note: PaperNote, sections: Sequence[Section], known: Mapping[str, ExperimentNote]
) -> list[list[str]]:
    """Return a line for each of a paper's figures, tables and theorems, and a last one for all its family's runs.

    Args:
        note: of the paper.
        sections: runs of its family.
        known: of the experiments.
    """
    full = [section for section in sections if section.run.scale == "paper"]
    rows = []
    for figure, names in note.figures.items():
        parts = [
            _Experiment(
                name,
                [section for section in full if section.run.experiment == name],
                known.get(name, ExperimentNote()).cost.get("paper", ""),
            )
            for name in names
        ]
        runs = [run for part in parts for run in part.runs]
        missing = "; ".join(part.missing for part in parts if not part.whole)
        state = "complete" if not missing else "partial" if runs else "not run"
        costs = " + ".join(part.cost for part in parts if part.cost)
        rows.append([figure, state, *_spent(runs), missing, costs])
    return [*rows, ["all runs of the family", "", *_spent(full), "", ""]]


def _spent(runs: Sequence[Section]) -> list[str]:
    """Return CPU hours and megabytes of records of some runs; a run without records has none.

    A task whose record is in several of the runs counts once; a run without readable records, as long as it says.
    """
    seconds: dict[str, float] = {}
    for run in runs:
        seconds.update(task_seconds(run.run.path / ARCHIVE) or {str(run.run.path): run.cpu_seconds})
    files = [path for run in runs if present(path := run.run.path / ARCHIVE)]
    size = sum(path.stat().st_size for path in files) / 1e6
    return [f"{sum(seconds.values()) / 3600:.2f}", f"{size:.2f}" if files else "none"]
