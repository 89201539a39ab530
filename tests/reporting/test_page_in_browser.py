"""The page in a browser: filter, sort, unfolding, no complaint, nothing asked of the network, no overflow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from gpsuite.reporting.comparison import Verdict, write_comparison
from gpsuite.reporting.pages import write_report
from tests.browser import Browser, browser, installed
from tests.reporting.test_pages import ROW, make_run, noise

pytestmark = [pytest.mark.browser, pytest.mark.skipif(installed() is None, reason="no Chromium is installed")]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = installed()
    assert program is not None
    with browser(program, tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("results")
    for name, title in (("one", "Bounds"), ("two", "Curves")):
        folder = make_run(results, f"pac_bayes/{name}/quick~{'long_' * 20}", title=title, notes=["a note"])
        (folder / "figures/same.png").write_bytes(noise(1))
    verdicts: tuple[Verdict, ...] = ("reproduced", "differs", "reproduced")
    rows = [
        replace(ROW, id=f"X{number}", experiment="pac_bayes/one", ours=value, verdict=verdict)
        for number, (value, verdict) in enumerate(zip((2.0, 10.0, 9.0), verdicts, strict=True))
    ]
    write_comparison(next((results / "pac_bayes/one").iterdir()), rows * 8)  # too many to be open at first
    return write_report(results, Path(__file__).parents[2] / "conf")[0]


def shown(chromium: Browser, selector: str) -> int:
    return int(chromium.value(f"all({selector!r}).filter((each) => each.checkVisibility()).length"))


def give(chromium: Browser, field: str, text: str) -> None:
    chromium.value(f"{field}.value = {text!r}; {field}.dispatchEvent(new Event('input'))")


def test_the_page_can_be_filtered_and_sorted(chromium: Browser, page: Path) -> None:
    chromium.open(page)
    assert shown(chromium, "section.run") == 2
    give(chromium, "words", "curves NOTE")
    assert shown(chromium, "section.run") == 1
    give(chromium, "words", "")
    assert shown(chromium, "tr[data-verdict]") == 0
    give(chromium, "verdict", "differs")
    assert (shown(chromium, "section.run"), shown(chromium, "tr[data-verdict]")) == (1, 8)
    assert chromium.value("document.getElementById('shown').textContent") == "1 of 2 runs"
    give(chromium, "verdict", "")
    cells = "all('tr[data-verdict]').map((row) => parseFloat(row.cells[4].textContent))"
    for expected in ([2, 9, 10], [10, 9, 2]):
        chromium.value("document.querySelector('section.run thead').rows[0].cells[4].click()")
        assert chromium.value(f"[...new Set({cells})]") == expected
    assert chromium.complaints == []


def test_pictures_are_shown_everywhere_and_nothing_leaves_the_file(chromium: Browser, page: Path) -> None:
    chromium.open(page)
    broken = "all('img').filter((image) => image.src && !image.naturalWidth).length"
    assert chromium.value(broken) == 0 and chromium.value("document.images.length") > 0
    assert {address.split(":")[0] for address in chromium.requests} <= {"file", "data", "about"}
    assert chromium.complaints == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1400, 400])
def test_the_page_is_as_wide_as_the_window(chromium: Browser, page: Path, width: int, dark: bool) -> None:
    chromium.open(page, width, dark=dark)
    chromium.value("all('details').forEach((part) => { part.open = true; })")
    assert chromium.value("document.documentElement.scrollWidth") == width
    colours = chromium.value("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)")
    assert (max(colours) < 80) == dark
    inverted = chromium.value("getComputedStyle(document.querySelector('figure img')).filter").startswith("invert")
    assert inverted == dark


def test_a_link_unfolds_what_it_leads_to(chromium: Browser, page: Path) -> None:
    chromium.open(page)
    chromium.value("location.hash = document.querySelector('tr[data-verdict]').id")
    chromium.value("new Promise((done) => setTimeout(done, 50))")
    assert shown(chromium, "tr[data-verdict]") == 24


def test_the_best_guarantees_of_league_are_sorted_by_a_click(chromium: Browser, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    shutil.copytree(root / "results/published/league", tmp_path / "published/league")
    chromium.open(write_report(tmp_path, root / "conf")[0])
    stored = pd.read_csv(root / "results/published/league/paper~ten_draws/tables/league_best.csv")
    table = "document.querySelector('[role=region][aria-label=\"league best\"] table')"
    for column, name in enumerate(stored):
        if name in ("dataset", "question", "stated"):
            chromium.value(f"{table}.tHead.rows[0].cells[{column}].click()")
            cells = chromium.value(f"[...{table}.tBodies[0].rows].map((row) => row.cells[{column}].textContent)")
            shown = [float(cell) for cell in cells] if name == "stated" else cells
            assert len(shown) == len(stored) and shown == sorted(shown)
    assert chromium.complaints == []


@pytest.mark.slow
def test_the_page_of_what_is_published_fits_and_links_nothing_dead(chromium: Browser, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    shutil.copytree(root / "results/published", tmp_path / "published")
    page, problems = write_report(tmp_path, root / "conf")
    assert problems == []
    for width, dark in ((1400, False), (400, True)):
        chromium.open(page, width, dark=dark)
        chromium.value("all('details').forEach((part) => { part.open = true; })")
        assert chromium.value("document.documentElement.scrollWidth") == width
        assert chromium.value("all('img').filter((image) => image.src && !image.naturalWidth).length") == 0
    dead = "all('nav a').filter((link) => !document.getElementById(link.hash.slice(1))).map((link) => link.hash)"
    assert chromium.value(dead) == []
    assert {address.split(":")[0] for address in chromium.requests} <= {"file", "data", "about"}
    assert chromium.complaints == []
