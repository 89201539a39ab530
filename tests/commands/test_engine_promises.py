"""What a run, its records and its checks promise, at the command line."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.config.request import read_request
from gpsuite.engine import provenance
from gpsuite.engine.keys import task_key
from gpsuite.engine.plans import plan_tasks
from gpsuite.engine.recheck import compare_records
from gpsuite.experiments.base import Record
from tests.commands.conftest import Gpsuite
from tests.commands.test_published_records import LINES, RUN, publish_and_move

ZIP = Path("results/published", LINES, "smoke/records.zip")


def record(**metrics: Any) -> Record:
    return Record("k", "a/b", "l", {}, "done", "", metrics, {})


@pytest.mark.parametrize("damage", [b"", b"no zip"])
def test_recheck_names_an_archive_that_cannot_be_read_and_checks_the_others(gpsuite: Gpsuite, damage: bytes) -> None:
    publish_and_move(gpsuite, LINES)
    good = ZIP.parents[1] / "smoke~good"
    shutil.copytree(ZIP.parent, good)
    ZIP.write_bytes(damage)
    ended = gpsuite("recheck", LINES, "sample=1")
    assert ended.code == 1
    assert f"{ZIP}: damaged (ValueError: " in ended.out and "\tyes\t" in ended.out


def test_recheck_says_no_to_a_record_from_which_numbers_were_taken() -> None:
    assert not compare_records(record(), record(bound=0.3), 1e-9).agrees


def test_recheck_says_no_to_a_number_900_times_too_large() -> None:
    assert not compare_records(record(noise_variance=9e-4), record(noise_variance=1e-6), 0.01).agrees


def test_published_records_without_the_arrays_of_a_figure_say_how_to_have_them(gpsuite: Gpsuite) -> None:
    publish_and_move(gpsuite, LINES)
    fields, arrays = zipfile.ZipFile(ZIP).read("records.jsonl"), io.BytesIO()
    np.savez(arrays)
    with zipfile.ZipFile(ZIP, "w", zipfile.ZIP_LZMA) as file:
        file.writestr("records.jsonl", fields)
        file.writestr("arrays.npz", arrays.getvalue())
    ended = gpsuite(*RUN, f"experiment={LINES}")
    assert ended.code == 2 and "no array q" in ended.err and "force=true" in ended.err
    assert gpsuite(*RUN, f"experiment={LINES}", "force=true").code == 0


def test_no_plan_has_a_task_twice(workplace: Path) -> None:
    request, options = read_request(["experiment=robustness/safety_spam", "scale=smoke"])
    keys = [task_key(task) for task in plan_tasks(request, options.changed)]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    "words",
    [
        (LINES, "c_values=[[0.1]]"),
        (LINES, "c_values={a:1}"),
        (LINES, "seed=${x}"),
        (LINES, "debug=${x}"),
        ("robustness/regression", "within=[[1]]"),
        ("robustness/regression", "uncertain=[[a]]"),
    ],
)
def test_a_value_of_a_wrong_shape_is_a_mistake_said_in_few_lines(gpsuite: Gpsuite, words: tuple[str, str]) -> None:
    ended = gpsuite(*RUN, f"experiment={words[0]}", words[1])
    assert ended.code == 2 and words[1].partition("=")[0] in ended.err


def test_runs_that_would_write_one_folder_are_refused_before_the_first(gpsuite: Gpsuite, workplace: Path) -> None:
    ended = gpsuite(*RUN, "-m", f"experiment={LINES}", "seed=0,1", "run_name=abc")
    assert ended.code == 2 and "run_name=abc: several runs with different settings would write" in ended.err
    assert not (workplace / "results").exists()
    assert gpsuite(*RUN, "-m", f"experiment={LINES}", "seed=0,0", "run_name=abc").code == 0


def test_a_run_name_that_is_too_long_is_named(gpsuite: Gpsuite) -> None:
    ended = gpsuite(*RUN, f"experiment={LINES}", f"run_name={'x' * 300}")
    assert ended.code == 2 and ended.err.startswith("gpsuite: run_name")


def test_a_run_works_without_stderr(gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)  # closed by the caller: 2>&-
    assert gpsuite(*RUN, f"experiment={LINES}").code == 0
    sys.stderr.close()


def test_a_run_whose_reader_left_does_not_say_that_it_is_done(
    gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("gpsuite.cli._silence", lambda *streams: None)
    monkeypatch.setattr("gpsuite.engine.progress.LineProgress._print", gone)
    code = gpsuite(*RUN, f"experiment={LINES}").code
    assert code != 0 or Path("results", LINES, "smoke/run.json").exists()


def test_a_run_says_which_commit_it_began_with(gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code that computes was loaded at the start; what is checked out meanwhile did not compute anything."""
    heads = iter(["begun" * 8])
    monkeypatch.setattr(
        provenance, "_git", lambda root, *words: next(heads, "later" * 8) if words[0] == "rev-parse" else ""
    )
    for cached in (provenance.git_state, provenance.origin):
        cached.cache_clear()
    try:
        assert gpsuite(*RUN, f"experiment={LINES}").code == 0
    finally:
        for cached in (provenance.git_state, provenance.origin):
            cached.cache_clear()
    texts = [path.read_text() for path in Path("results").rglob("*.json")]
    assert any("begun" in text for text in texts) and not any("later" in text for text in texts)


def test_a_new_file_of_the_package_is_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "checkout"
    (root / "gpsuite/engine").mkdir(parents=True)
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "one"]):
        named = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *named, *words], cwd=root, check=True, capture_output=True)
    monkeypatch.setattr(provenance, "__file__", str(root / "gpsuite/engine/provenance.py"))
    (root / "results.csv").touch()  # computes nothing
    assert provenance.git_state.__wrapped__()["dirty"] is False
    (root / "gpsuite/mine.py").touch()
    assert provenance.git_state.__wrapped__()["dirty"] is True


def test_a_full_disk_under_certificates_is_said_in_one_line(gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gpsuite.atomic.write_atomically", full)  # that of certificates; results use reporting.atomic's
    ended = gpsuite(*RUN, "experiment=pac_bayes/regression")
    assert ended.code == 2 and "No space left" in ended.err
