"""What the report's contents list: published values by verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpsuite.reporting.collect import RunComparison
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


def row_anchor(section: str, entry: str) -> str:
    """Return the page's anchor of a published value's row in a run's section."""
    return f"{section}-{entry}"


def group_by_verdict(best: Sequence[RunComparison], anchors: Mapping[Path, str]) -> list[VerdictGroup]:
    """Group the values of each experiment's best shipped run by verdict, in the order of VERDICTS.

    Args:
        best: the comparisons; values without a run lead to their paper.
        anchors: of the runs' sections, by folder.
    """
    groups = []
    for verdict in VERDICTS:
        experiments = []
        for item in best:
            anchor = None if item.run is None else anchors[item.run.path]
            rows = [row for row in item.rows if row.verdict == verdict]
            if rows:
                experiments.append((item.experiment, [_verdict_entry(row, anchor) for row in rows]))
        if experiments:
            count = sum(len(entries) for _, entries in experiments)
            groups.append(VerdictGroup(verdict, count, experiments))
    return groups


def _verdict_entry(row: ComparisonRow, anchor: str | None) -> VerdictEntry:
    # a mean is told apart from its sisters by method and condition, a claim's condition is a long definition
    about = [part for part in (row.method, row.condition) if part and len(part) <= 40]
    target = f"paper-{row.paper}" if anchor is None else row_anchor(anchor, row.id)
    return VerdictEntry(row.id, ", ".join([row.quantity.rstrip("."), *about]), target)
