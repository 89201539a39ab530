"""A fresh clone has what was published: it redraws without computing, goes on from there, and can check it."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from gpsuite.config.files import group_choices
from gpsuite.engine.backends import LokyPool
from gpsuite.engine.provenance import origin
from gpsuite.engine.recheck import LEVELS, Agreement, Rechecked, draw
from gpsuite.engine.store import Archive, StoredRecord, add_checksum, check_record, pack
from gpsuite.engine.worker import execute
from gpsuite.experiments.base import EXPERIMENTS, Record, SharedWork, Task, every_task, import_family, only_arrays
from gpsuite.reporting.files import ARCHIVE, RECHECKED
from tests.commands.conftest import Gpsuite

LINES = "pac_bayes/kl_inverse"
RUN = ("run", "scale=smoke", "parallel=serial")
NAMES = [name for name in group_choices()["experiment"] if "/" in name]


def publish_only(monkeypatch: pytest.MonkeyPatch, array: str) -> None:
    """Let the experiment of lines publish arrays of this name alone."""
    import_family(LINES)
    entry = replace(EXPERIMENTS.get(LINES), published=only_arrays(array))
    monkeypatch.setitem(EXPERIMENTS._items, LINES, entry)


def publish_and_move(gpsuite: Gpsuite, experiment: str, *words: str) -> None:
    """Run and publish an experiment, then leave only what was published, as in a fresh clone."""
    assert gpsuite(*RUN, f"experiment={experiment}", "results_dir=there", *words).code == 0
    assert gpsuite("publish", experiment, "results_dir=there").code == 0
    shutil.copytree("there/published", "results/published")


def written(folder: Path) -> dict[str, bytes]:
    """Return tables, plotted numbers and comparison of a run, but for those that hold seconds."""
    paths = [*folder.glob("tables/*"), *folder.glob("figures/*.csv"), folder / "comparison.csv"]
    return {path.name: path.read_bytes() for path in paths if "timing" not in path.name}


@pytest.fixture(autouse=True)
def origin_of_each_test() -> Iterator[None]:
    """Where records are computed is found out once a process; a test that changes it leaves nothing."""
    yield
    origin.cache_clear()


def test_a_fresh_clone_redraws_without_computing(gpsuite: Gpsuite) -> None:
    publish_and_move(gpsuite, LINES)
    ended = gpsuite(*RUN, f"experiment={LINES}")
    assert ended.code == 0
    assert "published already" in ended.err
    assert not list(Path("results/.records").rglob("*.json"))
    assert written(Path("results", LINES, "smoke")) == written(Path("there", LINES, "smoke"))


def test_publishing_twice_or_from_a_fresh_clone_gives_the_same_bytes(gpsuite: Gpsuite) -> None:
    publish_and_move(gpsuite, LINES)
    path = Path("results/published", LINES, "smoke", ARCHIVE)
    first = path.read_bytes()
    gpsuite(*RUN, f"experiment={LINES}")
    assert gpsuite("publish", LINES).code == 0
    assert path.read_bytes() == first


def test_a_larger_run_computes_only_what_is_not_published(gpsuite: Gpsuite) -> None:
    publish_and_move(gpsuite, LINES, "c_values=[0.1,0.5]")
    ended = gpsuite(*RUN, f"experiment={LINES}", "c_values=[0.1,0.5,1.0]")
    assert ended.code == 0
    assert len(list(Path("results/.records").rglob("*.json"))) == 1


def test_recheck_agrees_with_what_this_machine_published(gpsuite: Gpsuite) -> None:
    publish_and_move(gpsuite, LINES)
    ended = gpsuite("recheck", LINES, "sample=3", "seed=1")
    assert ended.code == 0
    rows = [line.split("\t") for line in ended.out.splitlines()]
    assert [row[rows[0].index("agrees")] for row in rows[1:]] == ["yes"] * 3
    [(ended_how, day)] = json.loads(Path("results/published", LINES, "smoke", RECHECKED).read_text("utf-8")).items()
    assert gpsuite("report").code == 0
    assert ended_how == "passed" and f"recheck passed on {day[:10]}" in Path("results/report.html").read_text("utf-8")


def test_recheck_computes_on_one_thread_as_runs_do(gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_and_move(gpsuite, LINES)
    seen: list[int] = []

    def watched(task: Task[object], shared: SharedWork) -> Record:
        seen.extend(pool["num_threads"] for pool in threadpool_info())
        return execute(task, shared)

    monkeypatch.setattr("gpsuite.engine.worker.execute", watched)
    with threadpool_limits(2):
        assert 2 in {pool["num_threads"] for pool in threadpool_info()}
        assert gpsuite("recheck", LINES, "sample=1").code == 0
    assert seen and set(seen) == {1}


def test_recheck_computes_with_the_kernels_of_the_record(gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    origin.cache_clear()
    publish_wrong(gpsuite, openblas_coretype="Nehalem")
    asked: list[object] = []

    class Watched(LokyPool):
        def __init__(self, workers: int, threads: int, environment: Mapping[str, str] | None = None) -> None:
            asked.append((threads, environment))
            super().__init__(workers, threads, environment)

    monkeypatch.setattr("gpsuite.engine.recheck.LokyPool", Watched)
    ended = gpsuite("recheck", LINES, "sample=2")
    assert asked == [(1, {"OPENBLAS_CORETYPE": "Nehalem"})]  # one worker for both records
    assert (ended.code, ended.out.count("\tno\t")) == (1, 2)


def test_recheck_lets_openblas_choose_where_the_record_names_no_kernels(
    gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setattr("gpsuite.engine.provenance.has_avx512", lambda: True)
    origin.cache_clear()
    publish_wrong(gpsuite, openblas_coretype="", avx512="yes")
    seen: list[object] = []

    class Watched(LokyPool):
        def submit(self, run: Callable[..., list[Record]], *arguments: Any) -> Future[list[Record]]:
            seen.append((self._environment.get("OPENBLAS_CORETYPE"), os.environ.get("OPENBLAS_CORETYPE")))
            return super().submit(run, *arguments)

    monkeypatch.setattr("gpsuite.engine.recheck.LokyPool", Watched)
    gpsuite("recheck", LINES, "sample=1")
    assert seen == [(None, None)]
    assert os.environ["OPENBLAS_CORETYPE"] == "Haswell"


def publish_wrong(gpsuite: Gpsuite, **origin: str) -> None:
    """Publish records of which one number is wrong, as computed at another origin."""
    publish_and_move(gpsuite, LINES)
    path = Path("results/published", LINES, "smoke", ARCHIVE)
    archive = Archive(path)
    records = [check_record(key, found) for key in archive.keys if (found := archive.get(key)) is not None]
    for record in records:
        record.arrays["p"][3] *= 1.001
    records = [replace(record, origin={**record.origin, **origin}) for record in records]
    path.write_bytes(pack(StoredRecord(add_checksum(record), record.arrays) for record in records))


def test_recheck_finds_a_number_that_was_published_wrong(gpsuite: Gpsuite) -> None:
    publish_wrong(gpsuite, avx512="unknown")
    ended = gpsuite("recheck", LINES, "sample=1")
    assert ended.code == 1
    assert "\tno\t" in ended.out
    assert "\tp (" in ended.out
    assert "failed" in Path("results/published", LINES, "smoke", RECHECKED).read_text("utf-8")


@pytest.mark.parametrize(
    ("origin", "code", "verdict"),
    [({}, 1, "no"), ({"avx512": "unknown"}, 0, "another path"), ({"numpy": "1.0"}, 0, "another path")],
)
def test_only_other_arithmetic_excuses_a_chaotic_experiment(
    gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch, origin: dict[str, str], code: int, verdict: str
) -> None:
    monkeypatch.setitem(EXPERIMENTS._items, LINES, replace(EXPERIMENTS.get(LINES), chaotic=every_task))
    publish_wrong(gpsuite, **origin)
    ended = gpsuite("recheck", LINES, "sample=1")
    assert (ended.code, f"\t{verdict}\t" in ended.out) == (code, True)


def test_recheck_names_what_it_cannot_check(gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_and_move(gpsuite, LINES)
    monkeypatch.setattr("gpsuite.engine.recheck.task_key", lambda task: "of a newer version")
    ended = gpsuite("recheck", LINES, "sample=1")
    assert ended.code == 2
    assert "not checked" in ended.out
    assert "changed since" in ended.out


def test_an_interrupted_recheck_shows_what_was_checked(gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_and_move(gpsuite, LINES)
    left = iter([None])

    def interrupted(task: Task[object], shared: SharedWork) -> Record:
        if next(left, KeyboardInterrupt) is KeyboardInterrupt:
            raise KeyboardInterrupt
        return execute(task, shared)

    monkeypatch.setattr("gpsuite.engine.worker.execute", interrupted)
    ended = gpsuite("recheck", LINES, "sample=3")
    assert ended.code == 130
    assert len(ended.out.splitlines()) == 2  # names of columns, and the one that was checked
    assert ended.err.endswith("gpsuite: recheck: interrupted after 1 of 3 tasks\n")


def test_an_interrupted_run_says_that_it_goes_on(gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(words: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpsuite.commands.run.main", interrupted)
    ended = gpsuite(*RUN, f"experiment={LINES}")
    assert (ended.code, ended.err) == (130, "gpsuite: interrupted. Run the same command again to resume\n")


def test_nothing_published_is_a_mistake_said_in_one_line(gpsuite: Gpsuite) -> None:
    ended = gpsuite("recheck", LINES)
    assert ended.code == 2
    assert f"no published records of {LINES} under" in ended.err
    assert gpsuite("recheck", "sample=many").code == 2


def test_a_run_with_a_missing_record_is_not_published(gpsuite: Gpsuite) -> None:
    assert gpsuite(*RUN, f"experiment={LINES}").code == 0
    next(Path("results/.records").rglob("*.json")).unlink()
    ended = gpsuite("publish", LINES)
    assert ended.code == 2
    assert "missing or damaged" in ended.err
    assert not Path("results/published").exists()


def test_more_than_a_repository_should_hold_is_refused(gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpsuite(*RUN, f"experiment={LINES}").code == 0
    monkeypatch.setattr("gpsuite.commands.publish.MOST_BYTES", 100)
    ended = gpsuite("publish", LINES)
    assert ended.code == 2
    assert "at most" in ended.err


CERTIFICATES = re.compile(rb"; certificates: certificates/METHOD\\?_point\\?_I\.npz")
"""Said where they are written; they hold rows of the data, so that none are published and none are redrawn."""


@pytest.mark.slow
@pytest.mark.parametrize("experiment", NAMES)
def test_every_experiment_is_redrawn_from_what_it_publishes(gpsuite: Gpsuite, experiment: str) -> None:
    publish_and_move(gpsuite, experiment)
    assert gpsuite(*RUN, f"experiment={experiment}").code == 0
    computed = [json.loads(path.read_bytes()) for path in Path("results/.records").rglob("*.json")]
    assert all(record["status"] == "skipped" for record in computed)  # what was missing may be there now
    redrawn, first = (written(Path(place, experiment, "smoke")) for place in ("results", "there"))
    assert redrawn == {name: CERTIFICATES.sub(b"", content) for name, content in first.items()}
    assert gpsuite("recheck", experiment, "sample=1").code == 0


def test_only_chaotic_tasks_of_an_experiment_are_excused(gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = replace(EXPERIMENTS.get(LINES), chaotic=lambda task: "nowhere" in task.label)
    monkeypatch.setitem(EXPERIMENTS._items, LINES, entry)
    publish_wrong(gpsuite, avx512="unknown")
    ended = gpsuite("recheck", LINES, "sample=1")
    assert (ended.code, "\tno\t" in ended.out) == (1, True)


def test_arrays_that_an_experiment_keeps_back_are_not_in_the_archive(
    gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_only(monkeypatch, "p")
    publish_and_move(gpsuite, LINES)
    archive = Archive(Path("results/published", LINES, "smoke", ARCHIVE))
    kept = {name for key in archive.keys if (found := archive.get(key)) for name in found.arrays}
    assert kept == {"p"}


def test_a_damaged_record_is_not_published(gpsuite: Gpsuite) -> None:
    assert gpsuite(*RUN, f"experiment={LINES}").code == 0
    path = next(Path("results/.records").rglob("*.json"))
    path.write_text(path.read_text().replace('"status": "done"', '"status": "budget"'))
    ended = gpsuite("publish", LINES)
    assert ended.code == 2
    assert "missing or damaged" in ended.err


def test_the_size_is_of_all_that_is_published(gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Path("results/published/pac_bayes/other/paper", ARCHIVE)
    other.parent.mkdir(parents=True)
    other.write_bytes(bytes(1_000_000))
    assert gpsuite(*RUN, f"experiment={LINES}").code == 0
    monkeypatch.setattr("gpsuite.commands.publish.MOST_BYTES", 1_000_000)
    assert gpsuite("publish", LINES).code == 2


def test_a_run_to_try_something_out_is_not_published_next_to_the_real_one(gpsuite: Gpsuite) -> None:
    words = ("run", "parallel=serial", f"experiment={LINES}")
    for more in (("scale=smoke",), ("scale=quick",), ("scale=smoke", "run_name=mine")):
        assert gpsuite(*words, *more).code == 0
    ended = gpsuite("publish", LINES)
    assert ended.code == 0
    assert f"gpsuite: results/{LINES}/smoke: left out, there is quick" in ended.err
    assert {path.name for path in Path("results/published", LINES).iterdir()} == {"quick", "smoke~mine"}


@pytest.mark.parametrize("dirty", [True, False])
def test_what_no_commit_has_computed_is_reported(gpsuite: Gpsuite, dirty: bool) -> None:
    assert gpsuite(*RUN, f"experiment={LINES}").code == 0
    path = Path("results", LINES, "smoke/run.json")
    run = json.loads(path.read_text())
    path.write_text(json.dumps({**run, "git": {"commit": "c0ffee", "dirty": dirty}}))
    ended = gpsuite("publish", LINES)
    assert ended.code == 0 and ("changes that no commit has" in ended.err) is dirty


def test_one_disagreement_is_reported_wherever_it_comes(gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_and_move(gpsuite, LINES)
    level = {name: Agreement({**dict.fromkeys(LEVELS, 0), name: 1}, "", 0.0) for name in LEVELS}
    found = [Rechecked("a", "1", agreement=level["not"]), Rechecked("a", "2", agreement=level["bitwise"])]
    monkeypatch.setattr("gpsuite.engine.recheck.recheck", lambda due: iter(found))
    assert gpsuite("recheck", LINES, "sample=2").code == 1


def test_a_published_record_that_was_changed_does_not_agree(gpsuite: Gpsuite) -> None:
    publish_and_move(gpsuite, LINES)
    path = Path("results/published", LINES, "smoke", ARCHIVE)
    archive = Archive(path)
    records = [archive.get(key) for key in archive.keys]
    path.write_bytes(pack(StoredRecord({**each.fields, "reason": "changed"}, each.arrays) for each in records))
    ended = gpsuite("recheck", LINES, "sample=1")
    assert ended.code == 1 and "\tno\t" in ended.out
    assert "do not match its checksum" in ended.out


def test_arrays_that_were_not_published_are_not_compared(gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_only(monkeypatch, "none")
    publish_and_move(gpsuite, LINES)
    assert gpsuite("recheck", LINES, "sample=1").code == 0


def test_records_are_drawn_at_random_from_every_run() -> None:
    runs: list[Any] = [
        SimpleNamespace(name=name, archive=SimpleNamespace(keys=[f"{name}{number}" for number in range(50)]))
        for name in "ab"
    ]
    drawn = [draw(runs, 4, seed) for seed in range(5)]
    assert drawn[0] == draw(runs, 4, 0)
    assert len({frozenset(key for _, key in each) for each in drawn}) == 5
    assert all(sorted(run.name for run, _ in each) == list("aabb") for each in drawn)


@pytest.mark.parametrize("word", ["sample=-1", "seed=x", "sample=2.5", "seed="])
def test_a_number_that_is_none_is_named(gpsuite: Gpsuite, word: str) -> None:
    ended = gpsuite("recheck", word)
    assert (ended.code, ended.err) == (2, f"gpsuite: {word}: must be a whole number, not negative\n")


ROOT = Path(__file__).resolve().parents[2]
BOSTON = "pac_bayes/epsilon_boston"
Redraw = Callable[[], tuple[int, list[str]]]
SCALED = f"{BOSTON}/paper~scaling_train"


@pytest.fixture
def redraw(workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Redraw]:
    """Return a function that runs the script in this process: its exit code and the lines it printed."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import redraw as script  # type: ignore[import-not-found]

    def run() -> tuple[int, list[str]]:
        capsys.readouterr()
        code = script.main([])
        return code, capsys.readouterr().out.splitlines()

    yield run
    sys.modules.pop("redraw")


def test_without_its_dataset_a_published_run_is_redrawn_and_another_refused(gpsuite: Gpsuite, redraw: Redraw) -> None:
    shutil.copytree(ROOT / "results/published" / SCALED, Path("results/published", SCALED))
    code, (line, total) = redraw()
    if "no record" in line:
        pytest.skip("its records are of another version: publish them again")
    assert (code, total.startswith("1 of 1 runs as published")) == (0, True)
    assert line.startswith(SCALED)
    assert not list(Path("results/.records").rglob("*.json"))
    wanted = ("run", f"experiment={BOSTON}", "scale=paper", "scaling=train", "repetitions=2", "run_name=few")
    assert gpsuite(*wanted).code == 0  # a part of what is published
    ended = gpsuite(*wanted[:-1], "run_name=more", "delta=0.02")
    assert ended.code == 2
    assert "'housing.data' is missing" in ended.err
    assert not Path("results", BOSTON, "paper~more").exists()


def test_every_run_is_refused_before_the_first_is_computed(gpsuite: Gpsuite, redraw: Redraw) -> None:
    ended = gpsuite("run", "-m", f"experiment={LINES},{BOSTON}", "scale=quick", "parallel=serial")
    assert ended.code == 2
    assert "'housing.data' is missing" in ended.err
    assert not Path("results", LINES).exists()


def test_a_number_that_was_published_otherwise_is_named(gpsuite: Gpsuite, redraw: Redraw) -> None:
    publish_and_move(gpsuite, LINES)
    assert redraw()[0] == 0
    table = next(Path("results/published", LINES, "smoke/tables").glob("kl_inverse*.csv"))
    rows = [line.split(",") for line in table.read_text().splitlines()]
    line, column = next(
        (number, place)
        for number, row in enumerate(rows)
        for place, cell in enumerate(row)
        if cell.startswith("0.") and float(cell) > 0
    )
    for factor, code in ((1 + 1e-12, 0), (1 + 1e-6, 1)):
        changed = [list(row) for row in rows]
        changed[line][column] = repr(float(rows[line][column]) * factor)
        table.write_text("\n".join(",".join(row) for row in changed) + "\n")
        found, lines = redraw()
        assert (found, f"line {line + 1} has" in lines[0]) == (code, bool(code)), lines
