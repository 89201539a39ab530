from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpsuite.reporting.catalogue import FigureNote, method_titles, read_experiments, read_papers
from gpsuite.reporting.comparison import read_paper_values
from gpsuite.reporting.sections import caption, places
from tests.reporting.test_pages import ROW

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Sec. 6.1, Fig. 2-3", {"Sec. 6.1", "Fig. 2", "Fig. 3"}),
        ("Fig. 1, 3-6, Table 1", {"Fig. 1", "Fig. 3", "Fig. 4", "Fig. 5", "Fig. 6", "Table 1"}),
        ("Sec. 5.1, Tables 1-3", {"Sec. 5.1", "Table 1", "Table 2", "Table 3"}),
        ("Sec. 4(a), Fig. 1 left", {"Sec. 4(a)", "Fig. 1"}),
        ("Theorem 2, 9", {"Theorem 2", "Theorem 9"}),
        ("Main Theorem", {"Main Theorem"}),
    ],
)
def test_places_of_a_paper_are_reported_one_by_one(text: str, named: set[str]) -> None:
    assert places(text) == named


def test_a_caption_says_what_how_many_and_what_was_found(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("method,mean,standard_error,n,interval\na,1,0.1,3,95 % t interval\nb,2,0.1,10,\n")
    rows = [
        *(replace(ROW, where="Fig. 1-2"), replace(ROW, where="Fig. 2", verdict="differs")),
        *(replace(ROW, where="Fig. 2", verdict="undecided"), replace(ROW, where="Fig. 3")),
    ]
    assert caption(FigureNote("Fig. 2", "Risk by method."), path, rows) == (
        "Risk by method. n = 3 to 10. Corresponds to Fig. 2 of the paper: 1 of 2 reproduced."
    )
    alone = caption(FigureNote("Fig. 2", "", values=("X3",)), path, [*rows, replace(ROW, id="X3", where="Sec. 1")])
    assert alone.endswith("Corresponds to Fig. 2 of the paper: its one value or claim is reproduced.")
    others = [replace(ROW, where="Fig. 2", basis=basis) for basis in ("measurement", "dataset")]
    assert caption(FigureNote("Fig. 2"), path, others).endswith("Corresponds to Fig. 2 of the paper.")
    assert caption(FigureNote("Fig. 2"), path, rows, study=True).endswith(
        ". A study in addition to Fig. 2 of the paper."
    )
    assert "study" not in caption(FigureNote(), path, rows, study=True)
    path.write_text("x,n\n1,5\n")  # n of a curve is no count of repetitions
    assert caption(FigureNote("", "Curve."), path, rows) == "Curve."
    assert caption(FigureNote("Fig. 9", ""), tmp_path / "none.csv", rows) == "Corresponds to Fig. 9 of the paper."


def test_a_caption_says_how_many_values_where_it_speaks_of_them(tmp_path: Path) -> None:
    path, note = tmp_path / "a.csv", FigureNote("", "Risk. Marks are means over {n} splits.")
    path.write_text("method,mean,standard_error,n\na,1,0.1,3\n")
    assert caption(note, path, []) == "Risk. Marks are means over n = 3 splits."
    assert caption(note, tmp_path / "none.csv", []) == "Risk. Marks are means over splits."


def test_every_published_figure_says_what_it_shows() -> None:
    known = read_experiments(ROOT / "conf")
    published = {
        ("/".join(path.parts[-5:-3]), path.stem) for path in (ROOT / "results/published").glob("*/*/*/figures/*.png")
    }
    assert len(published) > 50
    assert [each for each in published if not known[each[0]].figures[each[1]].shows.endswith(".")] == []


def test_papers_name_experiments_that_exist_and_figures_name_their_papers_places() -> None:
    known = read_experiments(ROOT / "conf")
    papers = {name: places for paper in read_papers(ROOT / "conf") for name, places in _own(paper.figures)}
    for name, of in papers.items():
        assert name in known
        stated = {note.of for note in known[name].figures.values() if note.of}
        assert stated & of or not stated, (name, stated, of)
    assert method_titles(ROOT / "conf")["kl_pac_gp"] == "kl-PAC-GP"


def test_values_that_a_figure_answers_are_its_experiments() -> None:
    own = {(entry.experiment, entry.id) for entry in read_paper_values(ROOT / "conf")}
    named = {
        (name, value)
        for name, about in read_experiments(ROOT / "conf").items()
        for note in about.figures.values()
        for value in note.values
    }
    assert named and named <= own


def _own(figures: object) -> list[tuple[str, set[str]]]:
    assert isinstance(figures, dict)
    found: dict[str, set[str]] = {}
    for of, names in figures.items():
        for name in names:
            found.setdefault(name, set()).add(of)
    return list(found.items())
