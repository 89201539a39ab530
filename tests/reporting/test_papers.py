from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gpsuite.reporting.catalogue import ExperimentNote, FigureNote, PaperNote, read_papers
from gpsuite.reporting.collect import RunComparison
from gpsuite.reporting.comparison import ComparisonRow
from gpsuite.reporting.papers import MissingExperiment, PaperCard, paper_cards
from gpsuite.reporting.sections import Figure, Section, read_section
from tests.reporting.test_pages import ROW, RUN

ROOT = Path(__file__).parents[2]
PAPER = PaperNote("p1", "A title", figures={"Table 1": ("pac_bayes/one",), "Fig. 2": ("pac_bayes/two",)})
MISSING = replace(ROW, id="X9", experiment="pac_bayes/two", verdict="not run", difference=None)


def card(rows: Sequence[ComparisonRow], sections: Sequence[Section] = (), joint: Sequence[Figure] = ()) -> PaperCard:
    best = [RunComparison("pac_bayes/one", RUN, list(rows)), RunComparison("pac_bayes/two", None, [MISSING])]
    known = {"pac_bayes/two": ExperimentNote(cost={"paper": "3 min"})}
    [found] = paper_cards([PAPER, replace(PAPER, name="p2")], best, sections, joint, known)
    return found


def test_a_card_counts_verdicts_and_names_what_has_no_run() -> None:
    found = card([ROW, replace(ROW, paper="p7")])
    assert found.words == "printed numbers: 1 reproduced, 1 not run; claims: none"
    assert found.counts == {"printed numbers": "1 reproduced, 1 not run", "claims": "none"}
    assert found.missing == [MissingExperiment("pac_bayes/two", 1, "3 min", True)]


def test_each_figure_of_the_paper_has_ours_once(tmp_path: Path) -> None:
    section = read_section(replace(RUN, path=tmp_path), tmp_path, ExperimentNote())
    other, ours = (
        Figure(name, "", tmp_path, f"at-{name}", FigureNote(of)) for name, of in (("a", ""), ("b", "Table 1"))
    )
    section.figures = [other, ours]
    found = card([ROW, replace(ROW, where="Table 2", verdict="differs")], sections=[section])
    first, second = found.figures
    assert (first.name, first.figures) == ("Table 1", [ours])
    assert (second.name, second.figures, found.picture) == ("Fig. 2", [], ours)
    both = Figure("p1_table1", "", tmp_path, "joint", FigureNote("Table 1"))
    assert card([ROW], sections=[section], joint=[both]).figures[0].figures == [both]
    section.figures = [other]
    assert card([ROW], sections=[section]).figures[0].figures == [other]  # the first, where none says


def test_an_account_is_filled_in_and_the_main_values_are_found() -> None:
    rows = [replace(ROW, id="X1+X2", ours=0.5, standard_error=0.1), replace(ROW, id="X3", verdict="not run", ours=None)]
    note = replace(PAPER, account="Ours is {X2}, theirs {X1 paper}; {X3} and {X9}.", main={"X2": "a risk", "X9": "-"})
    [found] = paper_cards([note], [RunComparison("pac_bayes/one", RUN, rows)], [], [], {})
    assert found.account == "Ours is 0.50 ± 0.10, theirs 0.5; – and –."
    assert found.main == [("a risk", rows[0])]


def test_facts_and_identities_are_checked_and_not_counted() -> None:
    """What differs comes first, then what more draws would decide; what the paper leaves open is no difference."""
    rows = [
        *(replace(ROW, id="I1", basis="identity"), replace(ROW, id="I2", basis="identity", verdict="differs")),
        *(replace(ROW, id="D1", basis="dataset"), replace(ROW, id="C1", basis="claim", verdict="differs")),
        replace(ROW, id="C2", basis="claim", verdict="undecided", cause="too few data"),
        replace(ROW, id="C3", basis="claim", verdict="undecided", cause="data lost"),
    ]
    [found] = paper_cards([PAPER], [RunComparison("pac_bayes/one", RUN, rows)], [], [], {})
    counted = "printed numbers: none; claims: 1 differ, 2 undecided"
    assert found.words == f"{counted}; checked: 1 of 1 facts about the data hold, 1 of 2 identities hold"
    assert [row.id for row in found.open_rows] == ["I2", "C1", "C2"]


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
