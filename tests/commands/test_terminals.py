"""Names from users' files on terminals of every kind, and requests too large to be planned."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpsuite import cli
from gpsuite.commands.tables import show_lines
from gpsuite.config.files import conf_dir, group_choices
from gpsuite.engine import plans
from gpsuite.reporting.catalogue import read_experiments
from gpsuite.reporting.comparison import Verdict, write_comparison
from tests.commands.conftest import Gpsuite
from tests.reporting.test_pages import ROW

ODD = ("cost $ and $ {\\frac", "_x^2_{", "\x1b[31mred\x1b[0m \u202eback\nnext", "[a|b]&%#~")
LABELS = ("$\\bad{ $ \x1b[32mA", "_B^{\u2066")
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def write(path: str | Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])


@pytest.fixture
def tables(workplace: Path) -> Path:
    """One table for each kind of experiment, with column names and labels that nobody should use."""
    rows = [[i, (i * 7) % 11, (i * 13) % 17, i * 0.5 + (i * 7) % 11 + (i * 3) % 5] for i in range(40)]
    write("reg.csv", ODD, rows)
    write("cls.csv", ODD, [[*row[:3], LABELS[int(row[0] + row[1]) % 7 > 3]] for row in rows])
    at = [[i / 10 - 1, (i * 7) % 5 / 5] for i in range(16)]
    write("meas.csv", ["_x$ $", ODD[2], "$y_{$ $", ODD[3]], [[*x, x[0] * x[1], 0.3 * x[0] ** 2] for x in at])
    write("cand.csv", ["_x$ $", ODD[2]], [[x[0] + 0.03, x[1]] for x in at])
    return workplace


REGION = ("experiment=perturbation/region", "dataset.path=reg.csv", f"dataset.target={ODD[3]}")
RUNS = {
    "region": REGION,
    "region of another target": (*REGION[:2], f"dataset.target={ODD[2]}"),
    "bound": ("experiment=pac_bayes/regression", "method=kl_pac_gp", *REGION[1:]),
    "safety": ("experiment=robustness/safety", "dataset.path=cls.csv", *REGION[2:], "dataset.task=classification"),
    "plan": (
        "experiment=active_learning/plan", "dataset.path=meas.csv", "dataset.target=$y_{$ $", "dataset.limit=<=1.0",
        f"dataset.safety={ODD[3]}", "dataset.candidates=cand.csv",
    ),
}  # fmt: skip


def shown_texts(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.suffix in (".md", ".tex", ".html"):
            yield path.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_odd_names_are_shown_as_they_are_and_act_nowhere(gpsuite: Gpsuite, tables: Path, name: str) -> None:
    ended = gpsuite("run", "scale=smoke", "dataset=csv", *RUNS[name])
    assert ended.code == 0, ended.err
    assert "Warning" not in ended.err
    assert gpsuite("report").code == 0
    assert gpsuite("status").code == 0
    for text in (ended.out, ended.err, *shown_texts(tables / "results")):
        assert not ACTING.search(text)
    [config] = (tables / "results").rglob("config.yaml")
    assert yaml.safe_load(config.read_text(encoding="utf-8"))["experiment"] in RUNS[name][0]


def test_messages_about_odd_names_do_not_act_either(gpsuite: Gpsuite, tables: Path) -> None:
    for words in (
        ("run", *REGION[:2], "dataset=csv", "dataset.target=\x1b[2J"),
        ("run", "dataset=csv", REGION[0], "dataset.path=\x1b[2J.csv", "dataset.target=y"),
        ("status", "\x1b[2J"),
        ("report", "results_dir=\x1b[2J"),
    ):
        ended = gpsuite(*words)
        assert ended.code == 2 and "\\x1b[2J" in ended.err
        assert not ACTING.search(ended.err)


def in_ascii(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Run a command on a terminal that knows ASCII only; return its exit code."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["gpsuite", *words])
        for name in ("stdout", "stderr"):
            patch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
        return cli.main()


@pytest.mark.parametrize("command", ["compare", "status"])
def test_a_terminal_of_ascii_is_enough(workplace: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    assert in_ascii(monkeypatch, command) == 0


def test_odd_columns_in_a_file_whose_name_is_no_utf8_work_in_ascii(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = os.fsdecode(b"caf\xe9.csv")
    try:
        os.rename("reg.csv", name)
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    words = ("run", "scale=smoke", "dataset=csv", REGION[0], f"dataset.path={name}", REGION[2])
    assert in_ascii(monkeypatch, *words) == 0
    assert in_ascii(monkeypatch, "report") == 0
    assert not any(ACTING.search(text) for text in shown_texts(tables / "results"))
    assert "caf\\udce9.csv" in (tables / "results/report.html").read_text(encoding="utf-8")
    [folder] = (tables / "results/perturbation/region").iterdir()
    assert f"dataset.path={name}" in json.loads((folder / "run.json").read_bytes())["command"]


def test_more_tasks_than_a_run_may_have(gpsuite: Gpsuite, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "MOST_TASKS", 100)
    ended = gpsuite("run", "experiment=pac_bayes/regression", "scale=smoke", "repetitions=1000000000")
    assert ended.code == 2 and "repetitions=1000000000: more than 100 tasks" in ended.err
    ended = gpsuite("run", "experiment=perturbation/coverage", "repetitions=1000000000")
    assert ended.code == 2 and "repetitions=1000000000: must be 1000000 or fewer" in ended.err
    assert list(workplace.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("experiment", ["distribution_synthetic2d", "posterior_quality"])
def test_draws_are_not_looked_at_before_the_tasks_are_counted(gpsuite: Gpsuite, experiment: str) -> None:
    ended = gpsuite("run", f"experiment=robustness/{experiment}", "scale=smoke", "protocol=own", "draws=1000000000")
    assert ended.code == 2 and "draws=1000000000: more than 100000 tasks" in ended.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("seed=range(0,1000000000)",), "seed=range(0,1000000000): more than 10000 runs"),
        (("seed=shuffle(range(0,1000000000))",), "more than 10000 runs"),
        (("seed=range(0,200)", "epsilon=range(0.1,1.0,0.01)"), "seed (200 values), epsilon (90 values)"),
        (("epsilon=range(0.0,1.0,0.0)",), "epsilon=range(0.0,1.0,0.0): not a range"),
        (("seed=range(0,1,0)",), "seed=range(0,1,0): not a range"),
    ],
)
def test_more_runs_than_a_sweep_may_start(gpsuite: Gpsuite, words: tuple[str, ...], named: str) -> None:
    ended = gpsuite("run", "-m", "experiment=pac_bayes/regression", *words)
    assert ended.code == 2 and named in ended.err


NAME = "perturbation/lssvm_parameter_space"
VERDICTS: tuple[Verdict, ...] = ("reproduced", "differs", "differs", "not run", "undecided")


@pytest.fixture
def lines(gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    def shown(*words: str, most: int = 100) -> list[str]:
        with monkeypatch.context() as patch:
            patch.setenv("COLUMNS", "100")
            patch.setenv("TERM", "dumb")  # no bold letters
            patch.setattr(sys.stdout, "isatty", lambda: True)
            ended = gpsuite(*words)
        assert ended.code == 0, ended.err
        found = ended.out.splitlines()
        assert [line for line in found if len(line) > most] == []
        return found

    return shown


@pytest.fixture
def published(workplace: Path) -> Path:
    """Publish a run of one experiment, with long texts."""
    folder = workplace / "results/published" / NAME / "paper"
    rows = [
        replace(
            ROW, id=f"X{number}", experiment=NAME, verdict=verdict, quantity="a long quantity " * 9, remark="because"
        )
        for number, verdict in enumerate(VERDICTS)
    ]
    write_comparison(folder, rows)
    (folder / "run.json").write_text(json.dumps({"tasks": {"done": 7, "budget": 2}}), encoding="utf-8")
    return folder


def by_family(found: list[str]) -> dict[str, str]:
    """Return experiment -> its line, of a list that has a heading for each family."""
    family, rows = "", dict[str, str]()
    for line in found:
        if line.endswith("/") and " " not in line:
            family = line
        elif line and not line.startswith((" ", "experiment ")):
            rows[f"{family}{line.split()[0]}"] = line
    return rows


def test_list_shows_experiments_by_family_with_a_question_and_the_cost_requested(
    lines: Callable[..., list[str]],
) -> None:
    quick, paper = (by_family(lines("list", "experiments", f"scale={scale}")) for scale in ("quick", "paper"))
    assert sorted(quick) == sorted(paper) == sorted(group_choices()["experiment"])
    assert all("?" in line or "?" in " ".join(lines("list", name)) for name, line in list(quick.items())[:3])
    before, after = quick["active_learning/engine"], paper["active_learning/engine"]
    assert "8 min" in before and "2.5 h" in after
    assert "(gengine1:" in quick["active_learning/engine"]


def test_every_experiment_says_which_question_it_answers() -> None:
    notes = read_experiments(conf_dir())
    assert [name for name, note in notes.items() if not note.question.endswith("?") or len(note.question) > 75] == []


def test_list_has_no_addresses_and_all_three_lists_have_a_head(lines: Callable[..., list[str]]) -> None:
    found = lines("list")
    assert [line for line in found if "://" in line] == []
    assert [line for line in found if line.isupper()] == ["EXPERIMENTS", "DATASETS", "METHODS"]


@pytest.mark.parametrize(("name", "told"), [(NAME, "Fig. 2"), ("boston", "506 x 13"), ("vfe", "Titsias")])
def test_list_name_tells_everything_of_it(lines: Callable[..., list[str]], name: str, told: str) -> None:
    found = "\n".join(lines("list", name, most=200))
    assert name in [line.split()[0] for line in found.splitlines() if line]
    assert told in found


def test_compare_counts_by_experiment_and_names_the_misses(lines: Callable[..., list[str]], published: Path) -> None:
    found = lines("compare")
    [counts] = [line.split() for line in found if line.startswith(NAME)]
    assert " ".join(" ".join(found).split()).count(("a long quantity " * 9).strip()) == 2, "the quantity is readable"
    assert counts[:5] == [NAME, "paper*", *"121"]
    assert [line.split()[0] for line in found if line.startswith("X")] == ["X1", "X2"]
    assert "p1: printed numbers: 1 reproduced, 2 differ, 1 undecided, 1 not run; claims: none" in found
    assert not any("because" in line for line in found)
    details = lines("compare", NAME)
    assert {f"X{number}" for number in range(5)} <= {line.split()[0] for line in details if line}
    assert sum("because" in line for line in details) == 2


def test_compare_of_one_experiment_heads_each_run(lines: Callable[..., list[str]], published: Path) -> None:
    shutil.copytree(published, published.with_name("paper~other"))
    found = lines("compare", NAME)
    assert [line for line in found if line in (f"{NAME} paper*", f"{NAME} paper~other*")] == [
        f"{NAME} paper*", f"{NAME} paper~other*",
    ]  # fmt: skip


def test_status_leaves_out_what_is_zero_everywhere_and_lists_published_runs(
    lines: Callable[..., list[str]], published: Path, gpsuite: Gpsuite
) -> None:
    head, row = lines("status", NAME)
    assert head.split() == ["experiment", "and", "run", "tasks", "done", "budget", "tables"]
    assert row.split() == [NAME, "paper", "9", "7", "2", "published"]
    piped = gpsuite("status", NAME).out.splitlines()
    assert "infeasible" in piped[0].split("\t") and piped[1].split("\t")[-1] == "published"


def test_a_pipe_gets_every_value_whole(gpsuite: Gpsuite, published: Path) -> None:
    head, *rows = (line.split("\t") for line in gpsuite("compare", NAME).out.splitlines())
    found = [dict(zip(head, row, strict=True)) for row in rows]
    assert {f"X{number}" for number in range(5)} <= {row["id"] for row in found}
    mine = [row for row in found if row["id"] == "X0"]
    assert mine[0]["quantity"] == ("a long quantity " * 9).strip() and mine[0]["remark"] == "because"
    assert "://" in gpsuite("list", "datasets").out


def test_a_wrong_scale_is_named(gpsuite: Gpsuite) -> None:
    ended = gpsuite("list", "scale=papr")
    assert ended.code == 2 and "paper" in ended.err


class Terminal(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [50, 80, 100])
def test_a_table_wraps_between_words_and_names_stay_whole(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sys.stdout", Terminal())
    show_lines([{"name": "n" * 20, "what": "some words " * 12, "n": 3}])
    lines = sys.stdout.getvalue().splitlines()
    assert max(map(len, lines)) <= width and lines[1].startswith("n" * 20)
    assert set(" ".join(lines).split()) == {"name", "what", "n", "n" * 20, "some", "words", "3"}


def test_a_row_without_room_for_its_longest_words_is_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stdout", Terminal())
    show_lines([{"name": "n" * 30, "what": "w" * 50, "n": 3}])
    assert sys.stdout.getvalue().splitlines() == ["n" * 30, "  what", f"        {'w' * 50}", "  n     3"]
