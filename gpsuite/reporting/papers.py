"""What the page shows of one paper: verdicts, what is missing, its figures and ours, all differences in one plot."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpsuite.reporting.catalogue import ExperimentNote, PaperNote
from gpsuite.reporting.collect import RunComparison, family_order
from gpsuite.reporting.comparison import VERDICTS, Basis, ComparisonRow, PaperValue, Verdict
from gpsuite.reporting.sections import Figure, Section, stated_at

FAR = 5.0  # combined standard errors at which the plot of differences ends
# names of the kinds of statements, those that say most about a reproduction first
KINDS: dict[Basis, str] = {
    "result": "printed results",
    "claim": "claims in words",
    "measurement": "measurements of the authors' method by other code",
    "identity": "mathematical identities",
    "dataset": "facts about datasets",
}


@dataclass(frozen=True)
class MissingExperiment:
    """An experiment without a run: how many values it would answer, its cost at the paper's scale, in words."""

    name: str
    count: int
    cost: str
    runnable: bool  # whether this installation has it


@dataclass(frozen=True)
class PaperFigure:
    """One of the paper's figures, tables or theorems, the counts of verdicts on what is printed there, and ours."""

    name: str
    experiments: Sequence[str]
    verdicts: list[tuple[Verdict, int]]
    figures: list[Figure]


@dataclass(frozen=True)
class Difference:
    """Ours minus the paper's value.

    Args:
        place: along the plot, in percent of its width.
        far: whether it is beyond the plot's end.
        errors: the difference in combined standard errors.
    """

    place: float
    far: bool
    row: ComparisonRow
    errors: float


@dataclass(frozen=True)
class PaperCard:
    """A paper on the page.

    Args:
        verdicts: each verdict that occurs, with its count.
        kinds: the same for each kind of statement.
        missing: experiments without a run.
        parts: runs that leave out something of the paper's setting, with what they leave out.
        figures: the paper's, with ours.
        joint: our figures of several runs.
        differences: by experiment and quantity; only of values with a known error.
    """

    note: PaperNote
    family: str
    verdicts: list[tuple[Verdict, int]]
    kinds: list[tuple[Basis, list[tuple[Verdict, int]]]]
    missing: list[MissingExperiment]
    parts: list[tuple[Section, list[str]]]
    figures: list[PaperFigure]
    joint: list[Figure]
    differences: list[tuple[str, list[Difference]]]

    @property
    def share(self) -> list[tuple[Verdict, float]]:
        """Each verdict's share in percent."""
        total = sum(count for _, count in self.verdicts)
        return [(verdict, 100.0 * count / total) for verdict, count in self.verdicts]


def paper_cards(
    papers: Sequence[PaperNote],
    values: Sequence[PaperValue],
    best: Sequence[RunComparison],
    sections: Sequence[Section],
    joint: Sequence[Figure],
    known: Mapping[str, ExperimentNote],
) -> list[PaperCard]:
    """Return a card for each paper with values.

    Args:
        papers: their notes.
        values: of all of them.
        best: each experiment's comparison.
        sections: of the runs on the page.
        joint: figures of several runs.
        known: notes on the experiments of this installation.
    """
    entries = {entry.id: entry for entry in values}
    cards = []
    for note in papers:
        items = [(item, [row for row in item.rows if row.paper == note.name]) for item in best]
        rows = [row for _, found in items for row in found]
        if not rows:
            continue
        names = {row.experiment for row in rows}
        runs = [section for section in sections if section.run.experiment in names]
        own = [figure for figure in joint if figure.name.startswith(f"{note.name}_")]
        absent = Counter(row.experiment for item, found in items if item.run is None for row in found)
        cards.append(
            PaperCard(
                note=note,
                family=rows[0].experiment.split("/")[0],
                verdicts=count_verdicts(rows),
                kinds=count_kinds(rows),
                missing=[_missing(name, count, known) for name, count in absent.items()],
                parts=[(section, section.left_out) for section in runs if section.left_out],
                figures=[_paper_figure(name, of, rows, sections, own) for name, of in note.figures.items()],
                joint=own,
                differences=_differences(rows, entries),
            )
        )
    return sorted(cards, key=lambda card: family_order(card.family))


def count_verdicts(rows: Iterable[ComparisonRow]) -> list[tuple[Verdict, int]]:
    """Return each verdict that occurs, with its count."""
    counts = Counter(row.verdict for row in rows)
    return [(verdict, counts[verdict]) for verdict in VERDICTS if counts[verdict]]


def count_kinds(rows: Sequence[ComparisonRow]) -> list[tuple[Basis, list[tuple[Verdict, int]]]]:
    """Return the verdicts of each kind of statement that occurs."""
    return [
        (basis, count_verdicts(row for row in rows if row.basis == basis))
        for basis in KINDS
        if any(row.basis == basis for row in rows)
    ]


def _missing(name: str, count: int, known: Mapping[str, ExperimentNote]) -> MissingExperiment:
    cost = known[name].cost.get("paper", "") if name in known else ""
    return MissingExperiment(name, count, cost, name in known)


def _paper_figure(
    name: str,
    experiments: Sequence[str],
    rows: Sequence[ComparisonRow],
    sections: Sequence[Section],
    joint: Sequence[Figure],
) -> PaperFigure:
    """Return our joint figure of it, or those that reproduce it, each once, or the experiments' first ones."""
    own = [section.figures for section in sections if section.run.experiment in experiments]
    stand = [figure for figure in joint if figure.note.of == name]
    stand = stand or [figure for figures in own for figure in figures if figure.note.of == name]
    shown = {figure.name: figure for figure in reversed(stand or [figures[0] for figures in own if figures])}
    held = [row for row in rows if row.experiment in experiments and stated_at(name, row)]
    return PaperFigure(name, experiments, count_verdicts(held), list(reversed(shown.values())))


def _differences(
    rows: Sequence[ComparisonRow], entries: Mapping[str, PaperValue]
) -> list[tuple[str, list[Difference]]]:
    groups: dict[str, list[Difference]] = {}
    for row in rows:
        entry = entries.get(row.id)
        if entry is None or entry.test.kind != "equality" or row.difference is None:
            continue
        combined = math.hypot(entry.standard_error or 0.0, row.standard_error or 0.0)
        if not (math.isfinite(combined) and combined > 0 and math.isfinite(row.difference)):
            continue
        errors = row.difference / combined
        place = 50.0 + 50.0 * max(-FAR, min(FAR, errors)) / FAR
        group = f"{row.experiment.split('/')[-1].replace('_', ' ')}: {row.quantity}"
        groups.setdefault(group, []).append(Difference(place, abs(errors) > FAR, row, errors))
    return list(groups.items())
