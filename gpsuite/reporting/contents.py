"""What the report's contents list: runs by family, values by verdict, and values that no run answers yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpsuite.reporting.comparison import RunComparison
from gpsuite.reporting.rows import VERDICTS, ComparisonRow, Verdict


@dataclass(frozen=True)
class VerdictEntry:
    """One published value in the contents by verdict.

    Args:
        id: of the published value.
        text: what it is about.
        target: anchor of its row on the page.
    """

    id: str
    text: str
    target: str


@dataclass(frozen=True)
class VerdictGroup:
    """All values of one verdict, by experiment.

    Args:
        verdict: the verdict.
        count: of its values.
        experiments: each experiment's name with its values.
    """

    verdict: Verdict
    count: int
    experiments: list[tuple[str, list[VerdictEntry]]]


@dataclass(frozen=True)
class MissingExperiment:
    """An experiment with published values and no shipped run.

    Args:
        name: `<family>/<name>`.
        count: of its published values.
        runnable: whether this installation has it.
    """

    name: str
    count: int
    runnable: bool


@dataclass(frozen=True)
class MissingPaper:
    """A paper's values that no run answers.

    Args:
        paper: its short name.
        count: of the values.
        experiments: that would answer them.
    """

    paper: str
    count: int
    experiments: list[MissingExperiment]


def row_anchor(section: str, entry: str) -> str:
    """Return the page's anchor of a published value's row in a run's section."""
    return f"{section}-{entry}"


def group_by_verdict(best: Iterable[RunComparison], anchors: Mapping[Path, str]) -> list[VerdictGroup]:
    """Group the values of each experiment's best shipped run by verdict, in the order of VERDICTS.

    Args:
        best: the comparisons; those without a run are left to `group_missing`.
        anchors: of the runs' sections, by folder.
    """
    answered = [(item, anchors[item.run.path]) for item in best if item.run is not None]
    groups = []
    for verdict in VERDICTS:
        experiments = []
        for item, anchor in answered:
            rows = [row for row in item.rows if row.verdict == verdict]
            if rows:
                experiments.append((item.experiment, [_verdict_entry(row, anchor) for row in rows]))
        if experiments:
            count = sum(len(entries) for _, entries in experiments)
            groups.append(VerdictGroup(verdict, count, experiments))
    return groups


def _verdict_entry(row: ComparisonRow, anchor: str) -> VerdictEntry:
    # a mean is told apart from its sisters by method and condition, a claim's condition is a long definition
    about = [part for part in (row.method, row.condition) if part and len(part) <= 40]
    return VerdictEntry(row.id, ", ".join([row.quantity, *about]), row_anchor(anchor, row.id))


def group_missing(best: Iterable[RunComparison], conf_dir: Path) -> list[MissingPaper]:
    """Fold the values of experiments without a shipped run by paper."""
    papers: dict[str, dict[str, int]] = {}
    for item in best:
        if item.run is not None:
            continue
        for row in item.rows:
            counts = papers.setdefault(row.paper, {})
            counts[item.experiment] = counts.get(item.experiment, 0) + 1
    return [
        MissingPaper(paper, sum(counts.values()), [_missing(*pair, conf_dir) for pair in counts.items()])
        for paper, counts in papers.items()
    ]


def _missing(name: str, count: int, conf_dir: Path) -> MissingExperiment:
    return MissingExperiment(name, count, (conf_dir / "experiment" / f"{name}.yaml").is_file())
