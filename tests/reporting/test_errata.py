"""The errors found in the papers: complete, shown by tests that exist, and as committed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gpsuite.reporting.catalogue import read_papers
from gpsuite.reporting.errata import Erratum, errata_text, read_errata
from gpsuite.reporting.pages import write_report
from tests.reporting.test_pages import make_run

ROOT = Path(__file__).parents[2]
ERRATA = read_errata(ROOT / "conf")


@pytest.mark.parametrize("entry", ERRATA, ids=[f"{each.paper} {each.where}: {each.kind}" for each in ERRATA])
def test_an_error_names_a_paper_and_a_test_that_exist(entry: Erratum) -> None:
    assert entry.paper in {paper.name for paper in read_papers(ROOT / "conf")}
    path, name = entry.test.split("::")
    module = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in {part.name for part in module.body if isinstance(part, ast.FunctionDef)}
    assert entry.found and entry.holds and entry.found != entry.holds


def test_no_error_is_told_twice_and_every_paper_was_read() -> None:
    assert len({(each.paper, each.where, each.found) for each in ERRATA}) == len(ERRATA)
    assert {each.paper for each in ERRATA} <= {paper.name for paper in read_papers(ROOT / "conf")}
    assert {"blaas2020", "csaji_kis", "gwi_notes", "li2022", "reeb2018"} <= {each.paper for each in ERRATA}


def test_the_committed_page_is_that_of_the_data_file_and_linked() -> None:
    published = ROOT / "results/published"
    text = errata_text(read_papers(ROOT / "conf"), ERRATA)
    assert text == (published / "ERRATA.md").read_text(encoding="utf-8"), "gpsuite report"
    assert text.count("::test_") == len(ERRATA)
    assert "(ERRATA.md)" in (published / "README.md").read_text(encoding="utf-8")


def test_the_html_page_shows_them(tmp_path: Path) -> None:
    make_run(tmp_path, "pac_bayes/rounding/quick")
    page = write_report(tmp_path, ROOT / "conf")[0].read_text(encoding="utf-8")
    assert 'href="#errata"' in page and 'id="errata"' in page
    assert all(each.test in page for each in ERRATA)


def test_a_misspelt_entry_is_refused(tmp_path: Path) -> None:
    for text in (
        "- {paper: a, kind: typo, where: b, found: c, holds: d, test: e}",
        "- {paper: a, kind: text}",
    ):
        (tmp_path / "errata.yaml").write_text(f"errata:\n{text}\n", encoding="utf-8")
        with pytest.raises(ValueError, match="kind one of"):
            read_errata(tmp_path)
