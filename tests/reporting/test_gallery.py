from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from gpsuite.reporting.collect import collect_comparisons
from gpsuite.reporting.comparison import Verdict, write_comparison
from gpsuite.reporting.gallery import gallery_text, write_gallery
from tests.reporting.test_contents import ROW
from tests.reporting.test_pages import PNG, make_run

ROOT = Path(__file__).parents[2]
EXPERIMENT = "pac_bayes/rounding"
VERDICTS: tuple[Verdict, ...] = ("reproduced", "not reproduced", "not comparable")


def test_the_page_of_published_runs(tmp_path: Path) -> None:
    data = {"name": "toy", "licence": "free", "citation": "Somebody 2001"}
    folder = make_run(
        tmp_path,
        f"published/{EXPERIMENT}/paper",
        dataset=data,
        cpu_seconds=600.0,
        left_out=["3 of 10 repetitions"],
    )
    (folder / "figures/rounding.png").write_bytes(PNG)
    (folder / "figures/same.png").write_bytes(PNG)
    rows = [
        replace(
            ROW, id=f"X{number}", paper="reeb2018", experiment=EXPERIMENT, verdict=verdict, remark="why | not"
        )
        for number, verdict in enumerate(VERDICTS)
    ]
    write_comparison(folder, [rows[0], rows[1], replace(rows[2], cause="data lost")])
    (tmp_path / "published/pac_bayes/NOTES.md").write_text("measured", encoding="utf-8")
    path = write_gallery(tmp_path, ROOT / "conf")
    assert path is not None
    text = path.read_text(encoding="utf-8")
    for expected in (
        *("| `toy` | free | Somebody 2001 |", "1 of 2", "[notes](pac_bayes/NOTES.md)", "* data lost: X2"),
        *("| `pac_bayes/rounding/paper` | App. F | 10.0 min | 15 s | 3 of 10 repetitions |", "why \\| not"),
        "| App. F | partial | 0.17 | none | `pac_bayes/rounding`: 3 of 10 repetitions | 15 s |",
        "| Fig. 2 | not run | 0.00 | none | `pac_bayes/epsilon_boston` was not run | 1 min |",
        "| `pac_bayes/epsilon_boston` | Fig. 2, Table 1 | not run | 1 min |",
    ):
        assert expected in text, expected
    assert text.count("![") == 1 and "What rounding the hyperparameters" in text
    for target in re.findall(r"\]\(([^)#]+)", text.replace("(NOTES.md)", "")):
        assert (path.parent / target).exists(), target
    assert gallery_text(path.parent, ROOT / "conf") == text


@pytest.mark.parametrize(("interval", "counted"), [("95 % interval [0.99, 1]", True), ("", False)])
def test_a_share_is_shown_in_cells_and_a_decision_is_not(
    tmp_path: Path, interval: str, counted: bool
) -> None:
    folder = make_run(tmp_path, f"published/{EXPERIMENT}/paper")
    row = replace(
        ROW, id="X1", paper="reeb2018", experiment=EXPERIMENT, verdict="not reproduced", remark="why"
    )
    write_comparison(folder, [replace(row, asked="in all cells", ours=1.0, n=617, interval=interval)])
    path = write_gallery(tmp_path, ROOT / "conf")
    assert path is not None
    assert ("617 of 617" in path.read_text(encoding="utf-8")) is counted


def test_no_published_runs_no_page(tmp_path: Path) -> None:
    make_run(tmp_path, f"{EXPERIMENT}/paper", title="Mine")
    assert write_gallery(tmp_path, ROOT / "conf") is None
    assert not (tmp_path / "published").exists()


def test_what_is_committed_is_what_the_published_runs_give() -> None:
    published = ROOT / "results/published"
    if any(item.problem for item in collect_comparisons(published, ROOT / "conf")):
        pytest.skip("published comparisons are of another version: publish them again")
    text = gallery_text(published, ROOT / "conf")
    assert json.dumps(text) == json.dumps((published / "README.md").read_text(encoding="utf-8")), (
        "gpsuite report"
    )
    table = text.split("## Verdicts\n\n")[1].split("\n\n")[0].replace("](#", "](results/published/README.md#")
    assert table in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_miss_says_why_and_what_would_settle_it() -> None:
    found = collect_comparisons(ROOT / "results/published", ROOT / "conf")
    rows = [row for item in found if not item.problem for row in item.rows]
    missed = [row for row in rows if row.verdict in ("not reproduced", "partly")]
    assert len(missed) > 50
    assert [row.id for row in missed if not row.remark] == []
