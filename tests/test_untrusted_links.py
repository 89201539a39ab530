"""Links that others made: below a results folder none that leaves it is read or written, and each is named once."""

# ruff: noqa: F811 - arguments are named after fixtures

from __future__ import annotations

import ast
import base64
import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from gpsuite import untrusted
from gpsuite.config.files import conf_dir
from gpsuite.engine.plans import RunOptions
from gpsuite.engine.runner import run_experiment
from gpsuite.errors import ResultsError
from gpsuite.reporting.comparison import compare, read_paper_values, write_comparison
from gpsuite.untrusted import LeavingLinkError, guard_links, inside, leaving_links
from tests.commands.conftest import Ended, Gpsuite, gpsuite, workplace  # noqa: F401 - fixtures
from tests.engine import tiny
from tests.test_untrusted_images import picture

SECRET = "planted-secret-4711"
NAME = "pac_bayes/regression"
OWN, COPY = f"{NAME}/quick", f"published/{NAME}/paper"


def fill(run: Path, text: str) -> None:
    """Write what a run leaves, with a text in every file of it."""
    for folder in ("tables", "figures", "artifacts"):
        (run / folder).mkdir(parents=True)
    about = {"title": text, "status": "done", "science": "s", "tasks": {"done": 1}, "command": ["gpsuite", text]}
    (run / "run.json").write_text(json.dumps(about))
    (run / "plan.json").write_text(json.dumps({"science": "s", "tasks": []}))
    (run / "config.yaml").write_text(f"text: {text}\n")
    (run / "run.log").write_text(f"{text}\n")
    (run / "tables" / "a.csv").write_text(f"a,b\n{text},2\n")
    (run / "tables" / "a.md").write_text(f"caption {text}\n\n| a | b |\n")
    (run / "figures" / "a.png").write_bytes(picture() + text.encode())
    (run / "figures" / "a.csv").write_text(f"n,interval,low\n1,{text},2\n")
    values = read_paper_values(conf_dir(), "pac_bayes/epsilon_boston")[:1]
    write_comparison(run, compare(values, []))


@pytest.fixture
def results(workplace: Path) -> Path:
    """A results folder in the workplace, and around it what must neither be read nor changed."""
    for name in ("README.md", "ERRATA.md", "secret.txt", "report.html"):
        (workplace / name).write_text(f"{name} {SECRET}")
    fill(workplace / "outside", SECRET)
    fill(workplace / NAME / "paper", SECRET)  # found from the parent, if that passes for a results folder
    fill(workplace / "results" / OWN, "own")
    fill(workplace / "results" / COPY, "copy")
    return workplace / "results"


def around(results: Path) -> str:
    """Return a hash of everything outside of the results folder."""
    digest = hashlib.sha256()
    for place, folders, names in os.walk(results.parent):
        folders[:] = sorted(name for name in folders if Path(place, name) != results)
        for name in sorted(names):
            digest.update(f"{place} {folders} {name}".encode() + Path(place, name).read_bytes())
    return digest.hexdigest()


def told(results: Path) -> bytes:
    """Return every file of the results folder that is not behind a link, with embedded pictures unpacked."""
    found = b""
    for place, _, names in os.walk(results):
        found += b"".join(Path(place, name).read_bytes() for name in names if not Path(place, name).is_symlink())
    for part in found.split(b"data:image/png;base64,")[1:]:
        found += base64.b64decode(part.split(b'"')[0])
    return found


def link(path: Path, target: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(target, path.parent))


PLACES = {  # below results -> what of the surroundings it is linked to
    **{f"{run}/{name}": f"outside/{name}" for run in (OWN, COPY) for name in (
        "run.json", "plan.json", "comparison.csv", "config.yaml", "run.log", "tables", "tables/a.csv", "tables/a.md",
        "figures", "figures/a.png", "figures/a.csv", "artifacts",
    )},
    OWN: "outside", COPY: "outside", "published": ".", "published/pac_bayes": "pac_bayes", "pac_bayes": "pac_bayes",
    "report.html": "report.html", "published/README.md": "README.md", "published/ERRATA.md": "ERRATA.md",
    "bench": "outside/tables", "bench/bench.csv": "outside/tables/a.csv", "figures": "outside/figures",
    f"{OWN}/figures/secret.png": "secret.txt", f"{OWN}/tables/secret.csv": "secret.txt",
    f"{COPY}/records.zip": "secret.txt", ".records": "outside", ".records/pac_bayes": "outside",
}  # fmt: skip
COMMANDS = (("report",), ("compare",), ("status",), ("publish", NAME), ("recheck", NAME))


@pytest.mark.parametrize("place", PLACES)
def test_no_command_follows_a_link_out_of_the_results(place: str, results: Path, gpsuite: Gpsuite) -> None:
    link(results / place, results.parent / PLACES[place])
    before = around(results)
    for words in COMMANDS:
        ended = gpsuite(*words)
        unread = words[0] == "recheck" and place.endswith("records.zip")  # a published archive cannot be read
        assert ended.code in ((1,) if unread else (0, 2)) and "Traceback" not in ended.err, (words, ended.err)
        assert SECRET not in ended.out + ended.err, words
        assert around(results) == before, words
        assert SECRET.encode() not in told(results), words
        if words == ("report",):
            check_named(ended, place)
    assert (results / place).is_symlink() or place.startswith(COPY)  # publishing makes the copy again


def check_named(ended: Ended, place: str) -> None:
    lines = [line for line in ended.err.splitlines() if "a link that leads out of" in line]
    assert lines == [f"gpsuite: results/{place}: a link that leads out of results. It is not followed"]


@pytest.mark.parametrize(
    "place", [place for place in PLACES if place not in ("report.html", "published/README.md", "published/ERRATA.md")]
)
def test_the_page_is_written_nevertheless(place: str, results: Path, gpsuite: Gpsuite) -> None:
    link(results / place, results.parent / PLACES[place])
    assert gpsuite("report").code == 0
    assert (results / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    "place",
    [
        "",
        "tables",
        "figures",
        "artifacts",
        "run.log",
        "config.yaml",
        "plan.json",
        "run.json",
        ".lock",
        "records.csv",
        "comparison.csv",
        ".progress",
        "tables/squares.csv",
    ],
)
@pytest.mark.parametrize("target", ["outside", "secret.txt"])
def test_a_run_writes_through_no_link(place: str, target: str, results: Path) -> None:
    folder = results / "tiny" / "squares" / "quick"
    link(folder / place if place else folder, results.parent / target)
    before = around(results)
    with pytest.raises(ResultsError, match="a link that leads out of"):
        run_experiment(tiny.request(), RunOptions(results_dir=results, conf_dir=conf_dir(), mode="serial"))
    assert around(results) == before


@pytest.mark.parametrize("place", ["", "tiny", "tiny/.states"])
@pytest.mark.parametrize("mode", ["serial", "processes"])
def test_no_record_is_kept_behind_a_link(place: str, mode: str, results: Path) -> None:
    link(results / ".records" / place, results.parent / "outside")
    before = around(results)
    with pytest.raises(ResultsError, match="a link that leads out of"):
        run_experiment(tiny.request(), RunOptions(results_dir=results, conf_dir=conf_dir(), mode=mode, workers=2))
    assert around(results) == before and not (results / "tiny").exists()  # before any work


def test_a_task_keeps_no_state_behind_a_link(results: Path) -> None:
    options = RunOptions(results_dir=results, conf_dir=conf_dir(), mode="serial")
    run_experiment(tiny.request(), options)
    key = json.loads((results / "tiny/squares/quick/plan.json").read_text())["tasks"][0]["key"]
    shutil.rmtree(results / ".records")
    link(results / ".records/tiny/.states" / key, results.parent / "outside")
    before = around(results)
    with pytest.raises(ResultsError, match="a link that leads out of"):
        run_experiment(tiny.request(), options)
    assert around(results) == before


def test_a_record_behind_a_link_counts_as_missing(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = RunOptions(results_dir=results, conf_dir=conf_dir(), mode="serial")
    run_experiment(tiny.request(), options)
    record = next((results / ".records/tiny").glob("*.json"))
    shutil.copy(record, results.parent / "record.json")
    link(record, results.parent / "record.json")
    before = around(results)
    with pytest.raises(ResultsError, match="a link that leads out of"):  # it cannot be written there either
        run_experiment(tiny.request(), options)
    assert "a link that leads out of" in capsys.readouterr().err
    assert around(results) == before


def test_the_results_folder_may_be_a_link_and_links_inside_it_are_followed(results: Path, gpsuite: Gpsuite) -> None:
    results.rename(results.parent / "elsewhere")
    results.symlink_to("elsewhere")
    link(results / OWN / "tables" / "b.csv", results / OWN / "tables" / "a.csv")
    link(results / NAME / "smoke", results / OWN)
    ended = gpsuite("report")
    assert (ended.code, ended.err) == (0, "")
    page = (results / "report.html").read_text()
    assert f"{NAME}/smoke" in page and "b.csv" in page


def test_no_model_is_read_behind_a_link(results: Path, gpsuite: Gpsuite) -> None:
    link(results / OWN / "model", results.parent / "outside")
    ended = gpsuite("predict", f"results/{OWN}", "new.csv")
    assert ended.code == 2 and f"results/{OWN}/model: a link that leads out of" in ended.err


# modules that open files themselves: our own conf/ and templates, /proc, and a run's progress after its folder was
# looked through; everything else asks `inside` first
OPENING = {
    "commands/completion.py", "commands/guide.py", "config/files.py", "engine/progress.py", "engine/provenance.py",
    "engine/worker.py", "reporting/catalogue.py", "reporting/comparison.py", "reporting/equations.py",
    "reporting/errata.py",
    "reporting/pages.py",
}  # fmt: skip


def opens(node: ast.AST) -> bool:
    """Whether a call opens a path itself: not through a function of `reporting.files` or of `untrusted`."""
    if not isinstance(node, ast.Call):
        return False
    owner, _, name = ast.unparse(node.func).rpartition(".")
    if f"{owner}.{name}" in ("pd.read_csv", "np.load"):
        return "io.BytesIO(" not in ast.unparse(node)
    return name == "open" or (bool(owner) and name in ("read_bytes", "read_text", "write_bytes", "write_text"))


def test_no_module_opens_results_without_the_question() -> None:
    package = Path(untrusted.__file__).parent
    found = {
        str(path.relative_to(package))
        for room in ("bench", "commands", "config", "engine", "experiments", "reporting")
        for path in (package / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if opens(node) and "inside(" not in ast.unparse(node)
    }
    assert found - {"experiments/guarantee/saved.py", "reporting/files.py"} == OPENING


@pytest.mark.parametrize(
    ("steps", "leaves"),
    [
        ({"a": "../outside"}, True),
        ({"a": "b", "b": "/etc"}, True),
        ({"b/c": "../../outside", "a": "b/c"}, True),
        ({"b/c": "..", "a": "b/c"}, False),
        ({"a": "."}, False),
        ({"a": "b"}, False),
        ({"a": "a"}, False),  # a loop leads nowhere
        ({"a": "../results"}, False),
        ({"a": "../results2"}, True),
    ],
)
def test_a_link_leaves_if_its_end_is_outside(steps: dict[str, str], leaves: bool, tmp_path: Path) -> None:
    root = guard_links(tmp_path / "results")
    for place, target in steps.items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).symlink_to(target)
    assert bool(leaving_links(root / "a")) == leaves
    for path in (root / "a", root / "a" / "file", root / "x" / ".." / "a"):
        if leaves:
            with pytest.raises(LeavingLinkError, match=r"results/a: a link that leads out"):
                inside(path)
        else:
            assert inside(path) == path


def test_links_of_others_places_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to("/etc")
    assert inside(tmp_path / "data" / "file") == tmp_path / "data" / "file"
    assert not untrusted.leaving_links(tmp_path)
