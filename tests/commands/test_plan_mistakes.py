"""Mistakes in a measurement plan end with exit code 2, name key and fix, and leave results alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.conftest import Gpsuite
from tests.commands.test_user_mistakes import refused

PLAN = ("run", "experiment=active_learning/plan", "scale=smoke")
FILES = (*PLAN, "dataset=csv", "dataset.path=m.csv", "dataset.candidates=c.csv")
OUTPUTS = (*FILES, "dataset.target=[y, w]", "dataset.safety=z")
CSV = (*OUTPUTS, "dataset.limit=<=1")

GOOD = ["x,y,w,z", "0,1,,0.1", "0.5,,2,0.3", "1,2,,0.6", "1.5,,3,0.9"]
CANDIDATES = ["x", "0.2", "0.7", "3"]


@pytest.fixture(autouse=True)
def good_files(workplace: Path) -> None:
    write(workplace, "m.csv", GOOD)
    write(workplace, "c.csv", CANDIDATES)


def write(folder: Path, name: str, lines: list[str]) -> None:
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


WORDS = [
    ((*OUTPUTS,), ["dataset.limit=", "no limit named", "dataset.limit=<=1.0"]),
    ((*OUTPUTS, "dataset.limit=1.0"), ["dataset.limit=1.0: which side is safe?"]),
    ((*OUTPUTS, "dataset.limit=below"), ["dataset.limit=below", "is not a limit"]),
    ((*OUTPUTS, "dataset.limit=>=5"), ["dataset.limit=>=5: no measured row is safe", "z=0.9"]),
    ((*FILES, "dataset.target=y"), ["dataset.safety=: no safety column named"]),
    ((*FILES, "dataset.safety=z"), ["dataset.target"]),
    ((*CSV[:5], *CSV[6:]), ["dataset.candidates=: no file named"]),
    ((*CSV, "dataset.saftey=z"), ["did you mean 'safety'"]),
    ((*PLAN, "dataset=diabetes"), ["regression dataset cannot be used with active_learning/plan", "csv"]),
    (
        (*CSV, "dataset.task=regression"),
        ["regression dataset cannot be used with active_learning/plan", "csv with dataset.task=measurements"],
    ),
    ((*PLAN, "method=al_mogp"), ["this experiment has no methods"]),
    ((*PLAN, "measurements=0"), ["measurements=0", "from 1 to 100"]),
    ((*PLAN, "delta=1"), ["delta=1", "between 0 and 1"]),
    ((*PLAN, "step=-1"), ["step=-1", "between 0 and"]),
    ((*PLAN, "queries=both"), ["queries=both", "valid: partial, full"]),
    ((*PLAN, "when_nothing_is_safe=go"), ["when_nothing_is_safe=go", "valid: stop, safest"]),
    ((*PLAN, "mixing=some"), ["mixing=some", "valid: free, identity"]),
    ((*PLAN, "kernel=rbf"), ["kernel=rbf", "valid: matern52"]),
    ((*PLAN, "particles=1"), ["particles=1", "2 or more"]),
    (
        ("run", "experiment=pac_bayes/regression", *CSV[3:4], "dataset.path=m.csv", "dataset.target=y",
         "dataset.safety=z"),
        ["dataset.safety=z: a regression table has none", "active_learning/plan"],
    ),
    (
        ("run", "experiment=pac_bayes/regression", "dataset=sin_sigmoid_measured"),
        ["measurements dataset cannot be used"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("words", "parts"), WORDS, ids=[" ".join(words[3:]) for words, _ in WORDS])
def test_a_wrong_word(gpsuite: Gpsuite, workplace: Path, words: tuple[str, ...], parts: list[str]) -> None:
    refused(gpsuite, workplace, words, parts)


@pytest.mark.parametrize(
    ("name", "lines", "parts"),
    [
        (
            "m.csv",
            [line.replace(",2,0", ",,0").replace(",3,0", ",,0") for line in GOOD],
            ["'w' has no value"],
        ),
        ("m.csv", [*GOOD, "0.1,high,,0.2"], ["line 6, column 'y'", "'high' is not a number"]),
        ("m.csv", GOOD[:1], ["no rows"]),
        ("c.csv", ["speed", "1"], ["dataset.candidates=c.csv: no column 'x'", "columns: [speed]"]),
        ("c.csv", ["x", "1", "fast"], ["dataset.candidates=c.csv: line 3, column 'x'", "'fast'"]),
        ("c.csv", ["x"], ["dataset.candidates=c.csv", "no rows"]),
    ],
)
def test_a_table_that_cannot_be_used(
    gpsuite: Gpsuite, workplace: Path, name: str, lines: list[str], parts: list[str]
) -> None:
    write(workplace, name, lines)
    refused(gpsuite, workplace, CSV, parts)


def test_no_candidate_is_left(gpsuite: Gpsuite, workplace: Path) -> None:
    write(workplace, "m.csv", ["x,y,w,z", "0.2,1,1,0.1", "0.7,1,2,0.1"])
    write(workplace, "c.csv", ["x", "0.2", "0.7"])
    refused(gpsuite, workplace, CSV, ["dataset.candidates", "all of 2 candidates have been measured"])


def test_one_output_and_one_candidate_work(gpsuite: Gpsuite, workplace: Path) -> None:
    write(workplace, "c.csv", ["x", "0.55"])
    write(workplace, "m.csv", ["x,y,z", *(f"{0.1 * i},{i % 3},{0.01 * i}" for i in range(12))])
    ended = gpsuite(*FILES, "dataset.target=y", "dataset.safety=z", "dataset.limit=<=3")
    assert ended.code == 0, ended.err
    assert "only 1 of 3 measurements" in ended.out


def test_repeated_measurements_are_data(gpsuite: Gpsuite, workplace: Path) -> None:
    write(workplace, "m.csv", [*GOOD, "0,1.5,,0.2", "0,1.2,,0.15"])
    ended = gpsuite(*CSV)
    assert ended.code == 0, ended.err
    assert "12 values, first plan" in ended.out


def test_a_limit_that_no_candidate_meets_is_infeasible(gpsuite: Gpsuite, workplace: Path) -> None:
    write(workplace, "c.csv", ["x", "300", "400"])
    ended = gpsuite(*CSV)
    assert ended.code == 3, ended.err
    assert "infeasible" in ended.err
    assert ended.out.startswith(
        "none of 2 candidates is safe with probability above 95 %; the most probably safe"
    )
