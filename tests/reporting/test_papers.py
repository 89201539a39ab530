from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gpsuite.reporting.catalogue import ExperimentNote, FigureNote, PaperNote, read_papers
from gpsuite.reporting.collect import RunComparison
from gpsuite.reporting.comparison import ComparisonRow, Criterion, PaperValue
from gpsuite.reporting.papers import MissingExperiment, PaperCard, paper_cards
from gpsuite.reporting.sections import Figure, Section, read_section
from tests.reporting.test_pages import ROW, RUN

ROOT = Path(__file__).parents[2]
PAPER = PaperNote("p1", "A title", figures={"Table 1": ("pac_bayes/one",), "Fig. 2": ("pac_bayes/two",)})
MISSING = replace(ROW, id="X9", experiment="pac_bayes/two", verdict="not run", difference=None)


def published(id: str, test: Criterion, error: float | None = None) -> PaperValue:
    texts = ("p1", "Table 1", "pac_bayes/one", "toy", "m", "risk", "0.5", "risk", "", "risk")
    return PaperValue(id, *texts, test=test, basis="result", standard_error=error)


def card(
    rows: Sequence[ComparisonRow],
    entries: Sequence[PaperValue] = (),
    sections: Sequence[Section] = (),
    joint: Sequence[Figure] = (),
) -> PaperCard:
    best = [RunComparison("pac_bayes/one", RUN, list(rows)), RunComparison("pac_bayes/two", None, [MISSING])]
    known = {"pac_bayes/two": ExperimentNote(cost={"paper": "3 min"})}
    [found] = paper_cards([PAPER, replace(PAPER, name="p2")], entries, best, sections, joint, known)
    return found


def test_a_card_counts_verdicts_and_names_what_has_no_run() -> None:
    found = card([ROW, replace(ROW, paper="p7")])
    assert found.verdicts == [("reproduced", 1), ("not run", 1)]
    assert found.kinds == [("result", [("reproduced", 1), ("not run", 1)])]
    assert found.share == [("reproduced", 50.0), ("not run", 50.0)]
    assert found.missing == [MissingExperiment("pac_bayes/two", 1, "3 min", True)]


def test_each_figure_of_the_paper_has_ours_and_the_verdicts_on_what_is_printed_there(tmp_path: Path) -> None:
    section = read_section(replace(RUN, path=tmp_path), tmp_path, ExperimentNote())
    other, ours = (
        Figure(name, "", tmp_path, f"at-{name}", FigureNote(of)) for name, of in (("a", ""), ("b", "Table 1"))
    )
    section.figures = [other, ours]
    found = card([ROW, replace(ROW, where="Table 2", verdict="differs")], sections=[section])
    first, second = found.figures
    assert (first.name, first.figures, first.verdicts) == ("Table 1", [ours], [("reproduced", 1)])
    assert (second.name, second.figures, second.verdicts) == ("Fig. 2", [], [])
    both = Figure("p1_table1", "", tmp_path, "joint", FigureNote("Table 1"))
    assert card([ROW], sections=[section], joint=[both]).figures[0].figures == [both]
    section.figures = [other]
    assert card([ROW], sections=[section]).figures[0].figures == [other]  # the first, where none says


def test_differences_are_in_combined_standard_errors_and_only_of_equalities() -> None:
    equal = Criterion("equality", value=0.5, tolerance=0.1)
    entries = [
        *(published("X1", equal, 0.03), published("X2", equal), published("X3", Criterion("at_least", value=0.5))),
        published("X4", equal, 0.01),
    ]
    rows = [
        replace(ROW, id="X1", difference=0.1, standard_error=0.04),
        *(replace(ROW, id="X2", difference=0.1), replace(ROW, id="X3", difference=0.1, standard_error=0.1)),
        replace(ROW, id="X4", difference=-0.5),
    ]
    [(group, marks)] = card(rows, entries).differences
    assert group == "one: risk"
    assert [(mark.row.id, round(mark.errors, 9), mark.far) for mark in marks] == [
        ("X1", 2.0, False),
        ("X4", -50.0, True),
    ]
    assert [round(mark.place, 9) for mark in marks] == [70.0, 0.0]


@pytest.mark.parametrize("paper", read_papers(ROOT / "conf"), ids=lambda paper: paper.name)
def test_the_entry_to_cite_is_of_the_paper_that_the_card_shows(paper: PaperNote) -> None:
    fields = {
        key: re.sub(r"\\'|[{}]", "", text) for key, text in re.findall(r"^\s*(\w+) = \{(.*)\},?$", paper.bibtex, re.M)
    }
    assert fields["title"].casefold() == paper.title.casefold()
    surnames = [name.split(",")[0] for name in fields["author"].split(" and ")]
    plain = unicodedata.normalize("NFKD", paper.authors).encode("ascii", "ignore").decode()
    assert re.split(r", | and ", plain) == surnames
    assert fields["year"] in paper.venue
