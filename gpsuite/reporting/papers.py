"""Part of the pages on one paper: what holds, the counts, its main numbers, its figures and ours, what differs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpsuite.reporting.catalogue import ExperimentNote, PaperNote
from gpsuite.reporting.collect import RunComparison, family_order
from gpsuite.reporting.comparison import DECIDED, VERDICTS, Basis, ComparisonRow
from gpsuite.reporting.sections import Figure, Section, places
from gpsuite.reporting.tables import ours_text

# what is counted as a reproduction, and what is only checked, with the words for what holds of it
COUNTED: dict[Basis, str] = {"result": "printed numbers", "claim": "claims"}
CHECKED: dict[Basis, str] = {
    "dataset": "facts about the data hold",
    "identity": "identities hold",
    "measurement": "numbers of the authors' code agree within its standard error",
}
KINDS: dict[Basis, str] = {
    "result": "printed number",
    "claim": "claim",
    "dataset": "fact about the data",
    "identity": "identity",
    "measurement": "number of the authors' code",
}
_PLACEHOLDER = re.compile(r"\{([\w+]+)( paper)?\}")


@dataclass(frozen=True)
class MissingExperiment:
    """An experiment without a run: how many values it would answer, its cost at the paper's scale, in words."""

    name: str
    count: int
    cost: str
    runnable: bool  # whether this installation has it


@dataclass(frozen=True)
class PaperFigure:
    """One of the paper's figures, tables or theorems, and ours."""

    name: str
    experiments: Sequence[str]
    figures: list[Figure]


@dataclass(frozen=True)
class PaperCard:
    """A paper on the pages.

    Args:
        rows: all its values.
        main: those that represent it on the first screen, each after a few words on it.
        account: what holds, what does not and why, with our numbers filled in.
        missing: experiments without a run.
        parts: runs that leave out something of the paper's setting, with what they leave out.
        figures: the paper's, with ours.
    """

    note: PaperNote
    family: str
    rows: Sequence[ComparisonRow]
    main: list[tuple[str, ComparisonRow]]
    account: str
    missing: list[MissingExperiment]
    parts: list[tuple[Section, list[str]]]
    figures: list[PaperFigure]

    @property
    def name(self) -> str:
        """Its authors."""
        return self.note.authors or self.note.name

    @property
    def counts(self) -> dict[str, str]:
        """The verdicts on each kind that is counted, in words."""
        return counts(self.rows)

    @property
    def words(self) -> str:
        """All counts in words."""
        return in_words(self.rows)

    @property
    def open_rows(self) -> list[ComparisonRow]:
        """Rows that differ, then those that our run leaves undecided."""
        return [row for row in self.rows if row.verdict == "differs"] + [
            row for row in self.rows if row.verdict == "undecided" and row.cause == "too few data"
        ]

    @property
    def picture(self) -> Figure | None:
        """The first of its figures."""
        return next((figure for item in self.figures for figure in item.figures), None)


def tally(rows: Iterable[ComparisonRow]) -> str:
    """Return `58 reproduced, 13 differ, 3 undecided`. `none` without rows."""
    counts = Counter(row.verdict for row in rows)
    words = {"differs": "differ"}
    told = [f"{counts[name]} {words.get(name, name)}" for name in VERDICTS if counts[name]]
    return ", ".join(told) or "none"


def counts(rows: Sequence[ComparisonRow]) -> dict[str, str]:
    """Return `58 reproduced, 13 differ` of the printed numbers and of the claims."""
    return {kind: tally(row for row in rows if row.basis == basis) for basis, kind in COUNTED.items()}


def checks(rows: Sequence[ComparisonRow]) -> str:
    """Return `11 of 11 facts about the data hold, 14 of 14 identities hold`. Empty if nothing of the kind was run."""
    told = []
    for basis, words in CHECKED.items():
        decided = [row for row in rows if row.basis == basis and row.verdict in DECIDED]
        if decided:
            told.append(f"{sum(row.verdict == 'reproduced' for row in decided)} of {len(decided)} {words}")
    return ", ".join(told)


def in_words(rows: Sequence[ComparisonRow]) -> str:
    """Return `printed numbers: 7 reproduced, 2 differ; claims: none; checked: 8 of 8 facts about the data hold`."""
    told = [f"{kind}: {words}" for kind, words in counts(rows).items()]
    checked = checks(rows)
    return "; ".join([*told, *([f"checked: {checked}"] if checked else [])])


def find_row(rows: Iterable[ComparisonRow], name: str) -> ComparisonRow | None:
    """Return the row of this id, also of one that joins it with others by `+`."""
    return next((row for row in rows if name == row.id or name in row.id.split("+")), None)


def fill(text: str, rows: Sequence[ComparisonRow]) -> str:
    """Return a text with `{ID}` replaced by our value and `{ID paper}` by the paper's. A dash if there is none."""

    def value(match: re.Match[str]) -> str:
        row = find_row(rows, match[1])
        return ((row.published if match[2] else ours_text(row)) if row is not None else "") or "–"

    return _PLACEHOLDER.sub(value, text)


def paper_cards(
    papers: Sequence[PaperNote],
    best: Sequence[RunComparison],
    sections: Sequence[Section],
    joint: Sequence[Figure],
    known: Mapping[str, ExperimentNote],
) -> list[PaperCard]:
    """Return a card for each paper with values.

    Args:
        papers: their notes.
        best: each experiment's comparison.
        sections: of the runs on the page.
        joint: figures of several runs.
        known: notes on the experiments of this installation.
    """
    cards = []
    for note in papers:
        rows = [row for item in best for row in item.rows if row.paper == note.name]
        if not rows:
            continue
        names = {row.experiment for row in rows}
        runs = [section for section in sections if section.run.experiment in names]
        own = [figure for figure in joint if figure.name.startswith(f"{note.name}_")]
        absent = Counter(
            row.experiment for item in best if item.run is None for row in item.rows if row.paper == note.name
        )
        cards.append(
            PaperCard(
                note=note,
                family=rows[0].experiment.split("/")[0],
                rows=rows,
                main=[(words, row) for name, words in note.main.items() if (row := find_row(rows, name)) is not None],
                account=fill(note.account, rows),
                missing=[_missing(name, count, known) for name, count in absent.items()],
                parts=[(section, section.left_out) for section in runs if section.left_out],
                figures=_paper_figures(note, sections, own),
            )
        )
    return sorted(cards, key=lambda card: family_order(card.family))


def _missing(name: str, count: int, known: Mapping[str, ExperimentNote]) -> MissingExperiment:
    cost = known[name].cost.get("paper", "") if name in known else ""
    return MissingExperiment(name, count, cost, name in known)


def _paper_figures(note: PaperNote, sections: Sequence[Section], joint: Sequence[Figure]) -> list[PaperFigure]:
    """Return the paper's figures with ours: each picture once, at the first place that it represents."""
    shown: set[str] = set()
    answered: set[str] = set()  # experiments with a picture
    found = []
    for name, experiments in note.figures.items():
        own = _best_figures(experiments, sections)
        together = [figure for figure in joint if figure.note.of == name]
        stand = [figure for figures in own.values() for figure in figures if name in places(figure.note.of)]
        rest = [figures[0] for experiment, figures in own.items() if experiment not in answered]
        ours = [figure for figure in together or stand or rest if figure.anchor not in shown]
        shown.update(figure.anchor for figure in ours)
        answered.update(experiments)
        found.append(PaperFigure(name, experiments, ours))
    return found


def _best_figures(experiments: Sequence[str], sections: Sequence[Section]) -> dict[str, list[Figure]]:
    """Return the figures of each experiment's first run. Shipped runs of the largest scale come first."""
    found: dict[str, list[Figure]] = {}
    for section in sections:
        if section.run.experiment in experiments and section.figures and not section.study:
            found.setdefault(section.run.experiment, section.figures)
    return found
