from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from gpsuite.engine.store import StoredRecord, pack
from gpsuite.reporting.catalogue import ExperimentNote, PaperNote, read_papers
from gpsuite.reporting.collect import collect_comparisons, find_runs
from gpsuite.reporting.comparison import ComparisonRow, Verdict, write_comparison
from gpsuite.reporting.errata import Erratum, errata_text, read_errata
from gpsuite.reporting.files import ARCHIVE
from gpsuite.reporting.gallery import NAME, completeness_rows, gallery_texts, write_gallery
from gpsuite.reporting.pages import write_report
from gpsuite.reporting.papers import find_row
from gpsuite.reporting.sections import read_section
from tests.reporting.test_pages import PNG, ROW, make_run

ROOT = Path(__file__).parents[2]
EXPERIMENT = "pac_bayes/rounding"
VERDICTS: tuple[Verdict, ...] = ("reproduced", "differs", "undecided", "not run")


def test_the_page_of_published_runs_shows_values_pictures_and_notes(tmp_path: Path) -> None:
    data = {"name": "toy", "licence": "free", "citation": "Somebody 2001"}
    folder = make_run(
        tmp_path, f"published/{EXPERIMENT}/paper", dataset=data, cpu_seconds=600.0, left_out=["3 of 10 repetitions"]
    )
    (folder / "figures/rounding.png").write_bytes(PNG)
    (folder / "figures/same.png").write_bytes(PNG)
    rows = [
        replace(ROW, id=f"X{number}", paper="reeb2018", experiment=EXPERIMENT, verdict=verdict, remark="why | not")
        for number, verdict in enumerate(VERDICTS)
    ]
    write_comparison(folder, [*rows[:2], replace(rows[2], cause="data lost"), rows[3]])
    (tmp_path / "published/pac_bayes/NOTES.md").write_text("measured", encoding="utf-8")
    path = write_gallery(tmp_path, ROOT / "conf")
    assert path is not None
    text = path.read_text(encoding="utf-8")
    assert (
        "1 reproduced, 1 differs" not in text and "printed numbers: 1 reproduced, 1 differ, 1 undecided" in text.lower()
    )
    assert "[Notes](pac_bayes/NOTES.md)" in text and "why \\| not" in text
    assert "Undecided, by cause. The paper's data or draws are not published: X2." in text
    [missing] = [line for line in text.splitlines() if line.startswith("Not run: ") and f"X3 ({ROW.dataset})" in line]
    assert missing.endswith("[figures.csv](figures.csv) has the costs.")
    assert text.count("![") == 1 and "Costs and gains of rounding the hyperparameters" in text
    for target in re.findall(r"\]\(([^)#]+)", text.replace("(NOTES.md)", "")):
        assert (path.parent / target).exists(), target
    told = {name: (path.parent / name).read_text(encoding="utf-8") for name in ("data.csv", "runs.csv", "figures.csv")}
    for name, expected in (
        ("data.csv", "toy,free,Somebody 2001\n"),
        ("runs.csv", "pac_bayes/rounding/paper,App. F,10.0 min,15 s,3 of 10 repetitions\n"),
        ("runs.csv", 'pac_bayes/epsilon_boston,"Fig. 2, Table 1",not run,1 min,'),
        ("figures.csv", "reeb2018,App. F,partial,0.17,none,pac_bayes/rounding: 3 of 10 repetitions,15 s\n"),
        ("figures.csv", "reeb2018,Fig. 2,not run,0.00,none,pac_bayes/epsilon_boston was not run,1 min\n"),
    ):
        assert expected in told[name], expected
    assert gallery_texts(path.parent, ROOT / "conf")[NAME] == text


@pytest.mark.parametrize(("interval", "counted"), [("95 % interval [0.99, 1]", True), ("", False)])
def test_a_share_is_shown_in_cells_and_a_decision_is_not(tmp_path: Path, interval: str, counted: bool) -> None:
    folder = make_run(tmp_path, f"published/{EXPERIMENT}/paper")
    row = replace(ROW, id="X1", paper="reeb2018", experiment=EXPERIMENT, verdict="differs", remark="why")
    write_comparison(folder, [replace(row, asked="in all cells", ours=1.0, n=617, interval=interval)])
    path = write_gallery(tmp_path, ROOT / "conf")
    assert path is not None
    assert ("617 of 617" in path.read_text(encoding="utf-8")) is counted


def test_without_published_runs_there_is_no_page(tmp_path: Path) -> None:
    make_run(tmp_path, f"{EXPERIMENT}/paper", title="Mine")
    assert write_gallery(tmp_path, ROOT / "conf") is None
    assert not (tmp_path / "published").exists()


def published_rows() -> list[ComparisonRow]:
    found = collect_comparisons(ROOT / "results/published", ROOT / "conf")
    assert not any(item.problem for item in found)
    return [row for item in found for row in item.rows]


def test_what_is_committed_is_what_the_published_runs_give() -> None:
    published = ROOT / "results/published"
    texts = gallery_texts(published, ROOT / "conf")
    for name, text in texts.items():
        assert json.dumps(text) == json.dumps((published / name).read_text(encoding="utf-8")), "gpsuite report"
    table = texts[NAME][texts[NAME].index("| paper |") :].split("\n\n")[0]
    assert table.replace("](#", "](results/published/README.md#") in (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(texts[NAME].splitlines()) <= 300
    cells = [cell.strip() for line in texts[NAME].splitlines() if line[:1] == "|" for cell in line.split(" | ")]
    assert len(cells) > 300 and max(map(len, cells)) <= 200


def test_every_difference_says_why() -> None:
    missed = [row for row in published_rows() if row.verdict == "differs"]
    assert len(missed) > 15
    assert [row.id for row in missed if not (row.reason and row.needed)] == []


@pytest.mark.parametrize("paper", read_papers(ROOT / "conf"), ids=lambda paper: paper.name)
def test_what_an_account_says_is_what_the_rows_say(paper: PaperNote) -> None:
    rows = [row for row in published_rows() if row.paper == paper.name]
    for name in paper.holds:
        assert getattr(find_row(rows, name), "verdict", None) == "reproduced", name
    for name in paper.misses:
        assert getattr(find_row(rows, name), "verdict", None) == "differs", name
    named = re.findall(r"\{([\w+]+)(?: paper)?\}", paper.account)
    assert [name for name in [*named, *paper.main] if find_row(rows, name) is None] == []
    assert set(named) <= {*paper.holds, *paper.misses}
    assert not re.search(r"\b\d", re.sub(r"\{[^}]*\}", "", paper.account)), "a number that no row fills in"
    assert paper.finding and len(paper.main) == 3


PAPER = PaperNote(name="p", title="P", figures={"Fig. 1": ("f/one", "f/two"), "Fig. 2": ("f/two",)})
KNOWN = {"f/one": ExperimentNote(cost={"paper": "1 h"}), "f/two": ExperimentNote(cost={"paper": "2 h"})}
PARTS = {"left_out": ["3 of 10 repetitions", "M = 200 missing"]}


def table(root: Path) -> list[list[str]]:
    return completeness_rows(PAPER, [read_section(run, root, ExperimentNote()) for run in find_runs(root)], KNOWN)


def test_what_was_run_whole_is_complete_and_what_was_not_says_what_is_missing(tmp_path: Path) -> None:
    make_run(tmp_path, "f/one/paper", status="done", cpu_seconds=3600.0)
    make_run(tmp_path, "f/one/paper~more", status="done", cpu_seconds=1800.0, left_out=["no M"])
    make_run(tmp_path, "f/two/paper~a", status="done", cpu_seconds=0.0, **PARTS)
    make_run(tmp_path, "f/two/paper~b", status="done", cpu_seconds=0.0, left_out=["3 of 10 repetitions"])
    make_run(tmp_path, "f/two/paper~fast", status="done", cpu_seconds=0.0, not_comparable="settings differ")
    (tmp_path / "f/one/paper/records.zip").write_bytes(bytes(2_000_000))
    partial = "f/two: 3 of 10 repetitions; partial runs a, b; with other settings fast"
    assert table(tmp_path) == [
        ["Fig. 1", "partial", "1.50", "2.00", partial, "1 h + 2 h"],
        ["Fig. 2", "partial", "0.00", "none", partial, "2 h"],
        ["all runs of the family", "", "1.50", "2.00", "", ""],
    ]
    make_run(tmp_path, "f/two/paper", status="done", cpu_seconds=0.0)
    assert [row[1] for row in table(tmp_path)[:2]] == ["complete", "complete"]


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ({"status": "failed"}, "f/two: not finished"),
        ({"status": "done", "below_paper": "a pool of 10"}, "f/two: a pool of 10"),
        ({"status": "done", **PARTS}, "f/two: 3 of 10 repetitions; M = 200 missing"),
    ],
)
def test_a_run_of_the_shipped_name_is_not_complete_by_its_name(
    tmp_path: Path, about: dict[str, object], told: str
) -> None:
    make_run(tmp_path, "f/two/paper", **about)
    assert table(tmp_path)[1][1:] == ["partial", "0.00", "none", told, "2 h"]


def test_a_quick_run_is_none_of_the_papers(tmp_path: Path) -> None:
    make_run(tmp_path, "f/two/quick", status="done")
    assert table(tmp_path)[1][1] == "not run"


def test_a_task_in_the_records_of_several_runs_is_counted_once(tmp_path: Path) -> None:
    def publish(run: str, **hours: float) -> None:
        make_run(tmp_path, run, status="done", cpu_seconds=3600.0 * sum(hours.values()))
        tasks = {key: {"key": key, "timing": {"cpu_seconds": 3600.0 * spent}} for key, spent in hours.items()}
        (tmp_path / run / ARCHIVE).write_bytes(pack(StoredRecord(fields, {}) for fields in tasks.values()))

    publish("f/one/paper", a=1.0, b=2.0)
    publish("f/one/paper~more", b=2.0, c=4.0)
    publish("f/two/paper", d=8.0, c=4.0)
    make_run(tmp_path, "f/two/paper~bare", status="done", cpu_seconds=1800.0)
    assert [row[2] for row in table(tmp_path)] == ["15.50", "12.50", "15.50"]
    # without readable records a run counts as it says: a + b in one, b + c in the damaged one
    (tmp_path / "f/one/paper~more" / ARCHIVE).write_bytes(b"PK damaged")
    assert table(tmp_path)[2][2] == f"{3.0 + 6.0 + 12.0 + 0.5:.2f}"


ERRATA = read_errata(ROOT / "conf")


@pytest.mark.parametrize("entry", ERRATA, ids=[f"{each.paper} {each.where}: {each.kind}" for each in ERRATA])
def test_an_error_names_a_paper_and_a_test_that_exist(entry: Erratum) -> None:
    assert entry.paper in {paper.name for paper in read_papers(ROOT / "conf")}
    path, name = entry.test.split("::")
    module = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in {part.name for part in module.body if isinstance(part, ast.FunctionDef)}
    assert entry.found and entry.holds and entry.found != entry.holds


def test_no_error_is_reported_twice_and_every_paper_was_read() -> None:
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
    for text in ("- {paper: a, kind: typo, where: b, found: c, holds: d, test: e}", "- {paper: a, kind: text}"):
        (tmp_path / "errata.yaml").write_text(f"errata:\n{text}\n", encoding="utf-8")
        with pytest.raises(ValueError, match="kind one of"):
            read_errata(tmp_path)
