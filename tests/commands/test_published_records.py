"""A fresh clone has what was published: it redraws without computing, goes on from there, and can check it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from gpsuite.config.files import group_choices
from gpsuite.engine.backends import LokyPool
from gpsuite.engine.provenance import origin
from gpsuite.engine.store import Archive, StoredRecord, add_checksum, check_record, pack
from gpsuite.engine.worker import execute, import_family
from gpsuite.experiments.base import EXPERIMENTS, Record, SharedWork, Task, every_task, only_arrays
from gpsuite.reporting.files import ARCHIVE
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


def test_recheck_computes_with_the_kernels_of_the_record(
    gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_an_interrupted_recheck_shows_what_was_checked(
    gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert (ended.code, ended.err) == (
        130,
        "gpsuite: interrupted; run the same command again to resume\n",
    )


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


def test_more_than_a_repository_should_hold_is_refused(
    gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_only_chaotic_tasks_of_an_experiment_are_excused(
    gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = replace(EXPERIMENTS.get(LINES), chaotic=lambda task: "nowhere" in task.label)
    monkeypatch.setitem(EXPERIMENTS._items, LINES, entry)
    publish_wrong(gpsuite, avx512="unknown")
    ended = gpsuite("recheck", LINES, "sample=1")
    assert (ended.code, "\tno\t" in ended.out) == (1, True)
