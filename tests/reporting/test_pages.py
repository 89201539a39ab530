from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from gpsuite.reporting import sections
from gpsuite.reporting.collect import RunComparison, RunFolder
from gpsuite.reporting.comparison import ComparisonRow, Criterion, PaperValue, Statistic, compare, write_comparison
from gpsuite.reporting.pages import row_targets, write_report
from gpsuite.reporting.sections import MAX_ROWS
from gpsuite.reporting.tables import write_table

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
EVIL = "<script>alert(1)</script>"
VOID = {"meta", "img", "br", "link", "input"}


class Page(HTMLParser):
    """Collects tags, texts and what is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def make_run(results: Path, name: str = "pac_bayes/one/quick", **about: Any) -> Path:
    folder = results / name
    (folder / "tables").mkdir(parents=True)
    (folder / "figures").mkdir()
    (folder / "run.json").write_text(json.dumps(about))
    return folder


def report(results: Path, conf: Path) -> str:
    results.mkdir(exist_ok=True)
    return write_report(results, conf)[0].read_text(encoding="utf-8")


def test_empty_results_say_what_to_type(tmp_path: Path) -> None:
    text = report(tmp_path / "results", tmp_path)
    assert "gpsuite list experiments" in text and "gpsuite run experiment=" in text
    assert Page(text).open == []


@pytest.fixture
def full(tmp_path: Path) -> tuple[Path, Path]:
    folder = make_run(
        tmp_path / "results",
        title=f"Bounds {EVIL}",
        paper="reeb2018",
        status="done",
        command=["gpsuite", "run", "experiment=pac_bayes/one", "dataset.path=my file.csv"],
        seed=3,
        dataset={"name": "boston", "stand_in": True, "content_hash": "abc123"},
        tasks={"done": 9, "error": 1},
        failures=[{"task": "t1", "reason": EVIL, "traceback": "k1.traceback.txt"}],
        versions={"numpy": "1.26.4"},
        git={"commit": "deadbeef", "dirty": True},
        machine={"cpu": "x"},
        wall_seconds=600.0,
        cpu_seconds=1200.0,
        peak_memory_mb=512.4,
        notes=["a note"],
    )
    records = tmp_path / "results/.records/pac_bayes"
    records.mkdir(parents=True)
    (records / "k1.traceback.txt").write_text("first line\n" + "line\n" * 40 + "last line")
    (folder / "figures/bound_kl.png").write_bytes(PNG)
    rows = "".join(f"m{number},{1 / 3 + number}\n" for number in range(60))
    (folder / "tables/summary.csv").write_text(f"method_name,risk\n{EVIL},0.123456789\n{rows}")
    entry = PaperValue(
        *("X1", "p1", "Table 1", "pac_bayes/one", "toy", "m", EVIL, "5.0", "risk", "", "risk"),
        test=Criterion("equality", value=5.0, tolerance=0.1),
        basis="result",
    )
    write_comparison(folder, compare([entry], [Statistic("risk", 5.5, 0.2, 10)]))
    return tmp_path / "results", tmp_path


def test_page_shows_the_run(full: tuple[Path, Path]) -> None:
    text = report(*full)
    for expected in (
        *("reeb2018", "done 9, error 1", "stand-in data", "failed tasks", "changed code", "deadbeef with uncommitted"),
        *("numpy 1.26.4", "20.0 min", "10.0 min", "512 MB", "abc123", "a note", "last line", "PAC-Bayes bounds"),
        *("differs", "5.50 ± 0.20", f"first {MAX_ROWS} of 61 rows", "0.12346", "&#x27;dataset.path=my file.csv&#x27;"),
    ):
        assert expected in text, expected
    assert "m59" not in text and "first line" not in text


def test_page_says_where_the_equations_are(full: tuple[Path, Path]) -> None:
    place = "<td><code>gpsuite.methods.pac_bayes.losses.ExponentialLoss</code></td>"
    assert f"<td>Reeb et al. 2018</td><td>Eq. (20)</td>{place}" in report(*full)


def test_page_is_well_formed_self_contained_and_escaped(full: tuple[Path, Path]) -> None:
    text = report(*full)
    page = Page(text)
    assert page.open == []
    assert text.count("<script") == 1 and text.count("&lt;script&gt;") >= 4  # the page's own
    (image,) = page.attributes("img")
    assert image["src"] and image["src"].startswith("data:image/png;base64,") and "bound kl" in (image["alt"] or "")
    assert not page.attributes("link")
    assert not re.search(r"(https?:)?//[a-z]|@import|url\(", text)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for link in page.attributes("a"):
        target = link["href"] or ""
        assert target[1:] in ids if target.startswith("#") else (full[0] / target).is_file()


def test_page_is_the_same_for_the_same_results(full: tuple[Path, Path]) -> None:
    assert report(*full) == report(*full)


def test_smoke_scale_is_marked_and_unreadable_or_missing_run_json_is_said(tmp_path: Path) -> None:
    results = tmp_path / "results"
    make_run(results, "pac_bayes/one/smoke")
    (make_run(results, "pac_bayes/two/quick") / "run.json").write_text("{")
    unfinished = make_run(results, "pac_bayes/three/quick")
    (unfinished / "run.json").unlink()
    (unfinished / "plan.json").write_text("[]")
    text = report(results, tmp_path)
    assert "smoke scale" in text and "not finished" in text
    assert re.search(r"cannot read .*two/quick/run\.json", text)


def test_run_json_of_wrong_types_does_not_break_the_page(tmp_path: Path) -> None:
    wrong = dict.fromkeys(("command", "dataset", "tasks", "failures", "versions", "git", "machine", "notes"), "text")
    make_run(tmp_path / "results", wall_seconds="long", **wrong)
    assert "pac_bayes/one" in report(tmp_path / "results", tmp_path)


def test_spoilt_comparison_and_table_are_said_on_the_page(full: tuple[Path, Path]) -> None:
    run = full[0] / "pac_bayes/one/quick"
    (run / "comparison.csv").write_text("a,b\n")
    (run / "tables/summary.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    text = report(*full)
    assert re.search(r"cannot read .*comparison\.csv", text)
    assert re.search(r"cannot read .*summary\.csv", text)


def test_a_table_keeps_the_caption_it_was_written_with(tmp_path: Path) -> None:
    run = make_run(tmp_path / "results")
    caption = r"share with |x| < 1 and a \ backslash"
    write_table(pd.DataFrame({"a": [1]}), run / "tables", "summary", caption)
    assert f'<p class="quiet">{escape(caption)}</p>' in report(tmp_path / "results", tmp_path)


def noise(seed: int) -> bytes:
    """Return a picture that no palette makes small."""
    stream = io.BytesIO()
    levels = np.random.default_rng(seed).integers(0, 256, (1400, 1000), dtype=np.uint8)
    Image.fromarray(levels).convert("P").save(stream, "PNG")
    return stream.getvalue()


def test_page_stays_small_and_links_what_it_leaves_out(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for number in range(4):
        folder = make_run(results, f"pac_bayes/e{number}/quick")
        for place, figure in enumerate("ab"):
            (folder / f"figures/{figure}.png").write_bytes(noise(2 * number + place))
        (folder / "tables/wide.csv").write_text("a\n" + ("x" * 9000 + "\n") * 40)
    path = results / "report.html"
    text = report(results, tmp_path)
    assert path.stat().st_size < 9_000_000
    sources = re.findall(r'<img src="data:[^"]{99}', text)
    assert len(sources) == 4  # each run's first figure comes before any second one
    assert "pac_bayes/e3/quick/figures/b.png" in text and "not shown, to keep the page small" in text


def test_a_figure_of_several_runs_is_with_its_paper(tmp_path: Path) -> None:
    folder = tmp_path / "results/published/figures"
    folder.mkdir(parents=True)
    for name in ("reeb2018_fig3", "nobody2018_fig3"):
        (folder / f"{name}.png").write_bytes(PNG + name.encode())
    text = report(tmp_path / "results", Path(__file__).parents[2] / "conf")
    card = text[text.index('id="paper-reeb2018"') :].split("</section>")[0]
    assert '<figure id="joint-reeb2018_fig3">' in card and "nobody2018" not in text


def test_no_two_things_of_the_page_have_one_name(tmp_path: Path) -> None:
    """A figure `noise` of a run, that run's part `noise`, and tags that differ in a mark alone."""
    for name in ("quick", "quick~noise", "quick~a.b", "quick~a-b", "quick~a_b"):
        folder = make_run(tmp_path / "results", f"pac_bayes/one/{name}")
        (folder / "figures/noise.png").write_bytes(PNG + name.encode())
        (folder / "figures/b.png").write_bytes(PNG + b"b" + name.encode())
    text = report(tmp_path / "results", Path(__file__).parents[2] / "conf")
    names = re.findall(r'\bid="([^"]*)"', text)
    assert len(names) == len(set(names)) and len(names) > 15
    assert set(re.findall(r'href="#([^"]*)"', text)) <= set(names)


def test_the_same_figure_is_on_the_page_once(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for name in ("pac_bayes/one/quick", "pac_bayes/two/quick"):
        (make_run(results, name) / "figures/same.png").write_bytes(PNG)
    text = report(results, tmp_path)
    assert text.count('src="data:') == 1
    assert text.count('href="#figure-pac_bayes-one-quick-same"') == 1


def test_values_without_a_run_and_bench_are_listed(tmp_path: Path) -> None:
    conf, results = Path(__file__).parents[2] / "conf", tmp_path / "results"
    (results / "bench").mkdir(parents=True)
    (results / "bench/bench.csv").write_text("family,case,ratio\npac_bayes,objective,1.5\n")
    text = report(results, conf)
    assert "gpsuite run experiment=pac_bayes/epsilon_boston" in text
    assert 'id="bench"' in text and "objective" in text


def test_a_paper_says_what_is_missing_folded_away(tmp_path: Path) -> None:
    text = report(tmp_path / "results", Path(__file__).parents[2] / "conf")
    for paper in ("blaas2020", "csaji_kis", "gwi_notes", "li2022", "reeb2018"):
        card = text[text.index(f'id="paper-{paper}"') :].split("</section>")[0]
        assert re.search(r"<details><summary>What is missing .*not run", card, flags=re.DOTALL), paper
        assert "@" in card.split(f'id="bibtex-{paper}">')[1]


def test_the_page_opens_with_what_the_runs_answer(full: tuple[Path, Path]) -> None:
    sentence = "At most 3 % of predictions are off by more than 5 <units>."
    make_run(full[0], "pac_bayes/two/quick", title="Two", answer=[sentence])
    make_run(full[0] / "published", "pac_bayes/two/paper", title="Not mine", answer=["another"])
    text = report(*full)
    own = text[text.index('id="own"') :].split("</section>")[0]
    assert escape(sentence) in own and "Not mine" not in own
    assert text.index(escape(sentence)) < text.index('id="family-pac_bayes"')
    assert "Not mine" in text


def test_values_added_since_the_run_are_shown_with_what_is_asked(full: tuple[Path, Path]) -> None:
    results, conf = full
    entry = {
        **dict.fromkeys(("where", "dataset", "method", "quantity", "published", "unit"), "text"),
        **{"id": "X9", "experiment": "pac_bayes/one", "basis": "result", "statistic": "other"},
        "test": {"kind": "between", "low": 2.5, "high": 10.0},
    }
    (conf / "paper").mkdir()
    (conf / "paper/p1.yaml").write_text(json.dumps({"paper": "p1", "entries": [entry]}))
    text = report(results, conf)
    assert "added after this run" in text and "2.5 to 10" in text


def test_own_settings_and_budgets_are_marked(tmp_path: Path) -> None:
    make_run(
        tmp_path / "results",
        "pac_bayes/one/quick~mine",
        paper="Some et al. 2018",
        figure="Fig. 2",
        changed=["dataset.path", "methods"],
        tasks={"done": 1, "budget": 2, "infeasible": 1},
        dataset={"name": "csv", "licence": "CC BY 4.0"},
        left_out=["3 of 10 repetitions"],
    )
    text = report(tmp_path / "results", tmp_path)
    for expected in (
        "part of the paper&#x27;s setting",
        *("changed settings", "ended by its budget", "infeasible tasks", "dataset.path, methods"),
        *("Some et al. 2018, Fig. 2", "csv (CC BY 4.0)"),
    ):
        assert expected in text, expected


def test_seconds_are_given_in_a_fitting_unit() -> None:
    assert [sections._seconds(value) for value in (3.0, 600, 36000.0, None, "x")] == [
        "3.0 s",
        "10.0 min",
        "10.0 h",
        "",
        "",
    ]


def test_what_would_act_on_the_page_is_written_out(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "results", title="\x1b[31mred \u202eback", command=["gpsuite", "caf\udce9"])
    (folder / "tables" / "t.csv").write_text("a\u2066,b\n\x07,1\n", encoding="utf-8")
    text = report(tmp_path / "results", tmp_path)
    assert not set(text) & set("\x1b\x07\u202e\u2066")
    for shown in ("\\x1b[31mred \\u202eback", "caf\\udce9", "a\\u2066", "\\x07"):
        assert shown in text


@pytest.mark.parametrize(("tasks", "marked"), [({"done": 2}, False), ({"done": 1, "diverged": 1}, True)])
def test_trainings_that_diverged_count_as_failed(tmp_path: Path, tasks: dict[str, int], marked: bool) -> None:
    make_run(tmp_path / "results", status="done", tasks=tasks)
    assert ("failed tasks" in report(tmp_path / "results", tmp_path)) == marked


ROW = ComparisonRow(
    *("X1", "p1", "Table 1", "pac_bayes/one", "toy", "m", "result", "risk", "risk", "eps = 0.2", "0.5", "0.4 to 0.6"),
    *(0.5, None, 3, "", 0.0, "reproduced", None, "", "", ""),
)
RUN = RunFolder(Path("results/pac_bayes/one/quick"), "pac_bayes/one", "quick", "")


def test_a_value_leads_to_its_row_and_without_a_run_to_its_paper() -> None:
    missing = replace(ROW, id="X4", verdict="not run")
    best = [RunComparison("pac_bayes/one", RUN, [ROW]), RunComparison("pac_bayes/three", None, [missing])]
    assert row_targets(best, {RUN.path: "run-one"}) == {"X1": "run-one-X1", "X4": f"paper-{ROW.paper}"}


def test_a_run_is_named_in_words() -> None:
    assert RUN.words == "one, quick scale"
    assert replace(RUN, scale="paper", tag="splits_0_to_2").words == "one, splits 0 to 2"
