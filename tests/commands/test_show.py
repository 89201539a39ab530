"""What a run would be, and what it tells in other forms than text."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from tests.commands.conftest import Gpsuite

REGION = ("experiment=perturbation/region", "scale=smoke", "models=[lssvm_linear]", "points=3")


def test_show_runs_and_writes_nothing(gpsuite: Gpsuite, workplace: Path) -> None:
    ended = gpsuite("show", *REGION)
    assert (ended.code, list(workplace.iterdir())) == (0, [])
    lines = ended.out.splitlines()
    assert lines[0] == f"# gpsuite run {shlex.join(REGION)}"
    assert "scale: smoke" in lines and "- lssvm_linear" in lines
    assert lines[-4:-2] == ["task\tstored\tseconds", "LS-SVM, linear signs, m=20\t\t2"]
    assert re.fullmatch(
        r"# 1 task, 0 stored. About 0:02 of .*; results: results/perturbation/region/smoke~\w{8}", lines[-1]
    )
    gpsuite("run", *REGION)
    assert "# 1 task, 1 stored. About 0:00" in gpsuite("show", *REGION).out
    assert gpsuite("show", "-m", *REGION, "seed=0,1").out.count("# gpsuite run") == 2


def test_results_in_a_file_are_refused(gpsuite: Gpsuite, workplace: Path) -> None:
    (workplace / "t.csv").write_text("a\n1\n", encoding="utf-8")
    ended = gpsuite("show", *REGION, "results_dir=t.csv")
    assert ended.code == 2 and ended.err.endswith("gpsuite: results_dir=t.csv: must be a folder\n")


def test_wrong_words_are_reported_as_by_run(gpsuite: Gpsuite) -> None:
    ended = gpsuite("show", *REGION, "rayss=3")
    assert (ended.code, ended.out) == (2, "")
    assert "Did you mean 'rays'" in ended.err


def test_settings_of_an_experiment_are_explained(gpsuite: Gpsuite) -> None:
    for command in ("run", "show"):
        ended = gpsuite(command, *REGION, "--help")
        assert ended.code == 0
        assert "  m=20  " in ended.out and "number of compared values (a whole number, 2 or more)" in ended.out
        assert all(len(line) <= 120 for line in ended.out.splitlines()[:-1])
    tour = gpsuite("run", "experiment=tour", "--help").out
    assert "gpsuite run experiment=robustness/safety method=laplace" in tour and "stops=N runs the first N" in tour
    longest = gpsuite("run", "experiment=perturbation/krr_region", "--help").out.splitlines()
    assert max(map(len, longest)) <= 120
    assert longest[2].startswith("source: Csáji and Kis 2019")
    assert "Did you mean" in gpsuite("run", "experiment=perturbation/regio", "--help").err
    assert gpsuite("run", "seed=1", "--help").out == gpsuite("run", "--help").out


def test_a_run_answers_as_json_or_by_its_folder_alone(gpsuite: Gpsuite, workplace: Path) -> None:
    quiet = gpsuite("run", *REGION, "format=quiet")
    folder = quiet.out.strip()
    assert (quiet.code, quiet.err, (workplace / folder / "run.json").is_file()) == (0, "", True)
    lines = gpsuite("run", "-m", *REGION, "seed=0,1", "format=json").out.splitlines()
    first, second = map(json.loads, lines)
    assert first["folder"] == folder != second["folder"]
    assert (first["exit_code"], first["tasks"], first["failures"]) == (0, {"done": 1}, [])
    assert first["answer"][0].startswith("Band: ")
    assert all((workplace / path).is_file() for path in first["files"])


def test_every_folder_has_a_log_of_its_sessions(gpsuite: Gpsuite, workplace: Path) -> None:
    folder = workplace / gpsuite("run", *REGION, "format=quiet").out.strip()
    gpsuite("run", *REGION)  # nothing is computed: nothing is added
    gpsuite("run", *REGION, "force=true")
    lines = (folder / "run.log").read_text(encoding="utf-8").splitlines()
    told = [line.partition(" ")[2] for line in lines]
    assert [text.split("  ")[0] for text in told] == [
        f"gpsuite run {' '.join(REGION)} format=quiet", "1 of 1 tasks to compute", "done", "ended: 1 done",
        f"gpsuite run {' '.join(REGION)} force=true", "1 of 1 tasks to compute", "done", "ended: 1 done",
    ]  # fmt: skip
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00 ", line) for line in lines)
