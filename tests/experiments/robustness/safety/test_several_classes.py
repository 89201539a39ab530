"""robustness/safety with three to ten classes: tables, verdicts checked by the model, refusals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from gpsuite.config.request import read_request
from gpsuite.experiments.base import Record
from gpsuite.experiments.robustness.judging import named
from gpsuite.experiments.robustness.safety import (
    certified_sentences,
    margin_statistics,
    point_statistics,
    summary_table,
)
from gpsuite.rounding import rounded
from tests.experiments.robustness.safety_runs import gpsuite, run

CSV = ("dataset=csv", "dataset.path=my.csv", "dataset.target=label", "features=all")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def write_table(classes: int, changed: Mapping[int, str]) -> pd.DataFrame:
    rows = 60
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 3))
    score = X[:, 0] + 0.3 * X[:, 1]
    label = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=[f"kind {k}" for k in label])
    for row, name in changed.items():
        frame.loc[row, "label"] = name
    frame.to_csv("my.csv", index=False)
    return frame


def test_a_table_of_three_classes_is_judged(capsys: pytest.CaptureFixture[str]) -> None:
    frame = write_table(3, {})
    folder = run("safety", *CSV, "radius=0.1", "count=2")
    table = pd.read_csv(folder / "tables" / "safety_points.csv")
    assert set(table["method"]) == {"Laplace"} and len(table) == 2
    assert table["label"].tolist() == frame["label"][table["row"]].tolist()
    assert set(table["predicted"]) <= {"kind 0", "kind 1", "kind 2"}
    assert set(table["verdict"]) <= {"safe", "unsafe", "unknown"} and table["probabilities_proved"].all()
    assert (table["min_proved"] <= table["min_attained"]).all()
    assert (table["min_attained"] <= table["probability"] + 1e-9).all()
    assert (table["probability"] <= table["max_attained"] + 1e-9).all()
    assert (table["max_attained"] <= table["max_proved"]).all()
    # an attack that succeeds where the verdict is safe would disprove it
    assert not (table["attack_succeeds"] & (table["verdict"] == "safe")).any()
    assert (folder / "figures" / "safety.png").exists()
    assert (table["certified_min"] <= table["min_attained"]).all()
    assert (table["max_attained"] <= table["certified_max"]).all()
    capsys.readouterr()
    for path in sorted((folder / "certificates").glob("*.npz")):
        assert gpsuite("verify", str(path), "dataset.path=my.csv", "dataset.target=label") == 0
        said = capsys.readouterr().out.splitlines()
        assert [line.split("\t")[1].split(":")[0] for line in said[1:4]] == ["confirmed"] * 3
        row = table.set_index("point").to_dict("index")[int(path.stem[-1])]
        lowest = rounded(row["certified_min"], 10, -1)
        assert f"no probability of {row['predicted']} in the region is below {lowest}" in "".join(said)
        leads = [line for line in said if f"no margin of {row['predicted']} over" in line]
        if row["verdict"] == "safe":
            assert len(leads) == 2 and row["certificate_decides"] == all("below 0." in line for line in leads)
    assert len(list((folder / "certificates").glob("*.npz"))) == 2


def test_a_search_without_boxes_has_its_certificates_bounds() -> None:
    write_table(3, {})
    folder = run("safety", *CSV, "radius=0.02", "count=3", "boxes=0")
    table = pd.read_csv(folder / "tables" / "safety_points.csv")
    assert table["status"].tolist() == ["budget"] * 3 and (table["verdict"] == "safe").any()
    assert (table["certificate_decides"] == (table["verdict"] == "safe")).all()
    proved = table[["min_proved", "max_proved"]].to_numpy()
    assert np.array_equal(proved, table[["certified_min", "certified_max"]].to_numpy())
    assert (proved[:, 0] <= table["min_attained"]).all() and (table["max_attained"] <= proved[:, 1]).all()


def test_three_digits_are_judged_by_the_one_method_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    """With both methods asked for, the one there is is used, and the user told."""
    folder = run("safety", "classes=[3,5,8]", "radius=0.05", "count=1", "boxes=40")
    assert "EP is for two classes" in capsys.readouterr().err
    table = pd.read_csv(folder / "tables" / "safety_points.csv")
    assert set(table["label"].astype(str)) <= {"3", "5", "8"}


def test_all_ten_digits_are_judged(capsys: pytest.CaptureFixture[str]) -> None:
    labels = "classes=[0,1,2,3,4,5,6,7,8,9]"
    folder = run(
        "safety", labels, "method=laplace", "radius=0.02", "count=1", "boxes=30", "train_rows=50", "certificate_boxes=1"
    )
    table = pd.read_csv(folder / "tables" / "safety_points.csv")
    assert set(table["verdict"]) <= {"safe", "unsafe", "unknown"} and len(table) == 1
    assert table["probabilities_proved"].all()
    assert (table["max_attained"] <= table["max_proved"]).all()


@pytest.mark.parametrize(
    ("proved", "decides", "told"),
    [
        (True, False, "(1 of 1 test rows.)"),
        (False, True, "(1 of 1 test rows.)"),
        ("class", False, "(1 of 1 test rows.)"),  # by the latent margins
        (False, False, "(0 of 1 test rows, 1 more by a cubature whose error is stated, not proved.)"),
        (None, None, "(1 of 1 test rows.)"),  # two classes have closed probabilities
    ],
)
def test_what_is_called_proved_is_proved(proved: bool | str | None, decides: bool | None, told: str) -> None:
    stated = {"probabilities_proved": proved, "certificate_decides": decides}
    if proved == "class":
        stated |= {"probabilities_proved": False, "class_proved": True}
    known = {name: value for name, value in stated.items() if value is not None}
    metrics: dict[str, Any] = {"correct": True, "verdict": "safe", "row": 0, **known}
    record = Record("k", "e", "", {"method": "laplace", "part": "point"}, "done", "", metrics, {})
    request, _ = read_request(["experiment=robustness/safety", "scale=smoke"])
    report = cast(Any, SimpleNamespace(settings=request.settings, request=request, planned=[record]))
    said = list(certified_sentences(report, [record], {"ep": "EP, which failed", "laplace": "Laplace"}, "inputs"))
    assert said[1].strip() == told
    assert ("Nothing is proved of how many new rows of class 3 or 8" in said[0]) == told.startswith("(0")


def test_a_missing_label_is_no_class(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(3, {5: "NA", 9: ""})
    folder = run("safety", *CSV, "radius=0.01", "count=1", "boxes=2", "certificates=false", "method=laplace")
    table = pd.read_csv(folder / "tables" / "safety_points.csv")
    assert set(table["label"]) | set(table["predicted"]) <= {"kind 0", "kind 1", "kind 2"}
    assert "2 of 60 rows left out, a value is missing: 'label' 2" in capsys.readouterr().err


def test_the_paper_s_bound_judges_three_classes() -> None:
    write_table(3, {})
    folder = run("safety", *CSV, "radius=0.01", "count=1", "boxes=6", "bound=paper", "method=laplace")
    table = pd.read_csv(folder / "tables" / "safety_points.csv")
    assert (table["min_proved"] <= table["probability"]).all()
    assert (table["probability"] <= table["max_proved"]).all()


def margin_record(proved: float | None, attacked: float) -> Any:
    return SimpleNamespace(metrics={"margin_proved": proved}, number=lambda name: {"attacked": attacked}[name])


@pytest.mark.parametrize(
    ("margins", "against", "n"),
    [
        ([(0.2, 0.3), (0.1, 0.5), (-0.1, -0.05)], 0.0, 2),
        ([(0.2, 0.1), (0.1, 0.5)], 1.0, 2),
        ([(0.2, -0.1), (-0.3, -0.4)], 2.0, 1),
        ([(-0.2, 0.1), (None, -0.5)], float("nan"), 0),
    ],
)
def test_an_attack_below_a_proved_margin_is_a_contradiction(
    margins: list[tuple[float | None, float]], against: float, n: int
) -> None:
    (found,) = margin_statistics([margin_record(*each) for each in margins])
    assert found.value == pytest.approx(against, nan_ok=True) and found.n == n
    assert margin_statistics([]) == []


@pytest.mark.parametrize(
    ("classes", "changed", "words", "message"),
    [
        (3, {}, ["method=ep"], "EP is for two classes. Use method=laplace"),
        (4, {}, ["bound=paper"], "bound=paper: more than two classes have the bound rkhs_taylor, three also paper"),
        (3, {5: "odd"}, [], "one row of class odd, a class needs 2. Leave it out: 'classes=[kind 0,kind 1,"),
        (50, {}, [], "has 50 classes (kind 0, kind 1, kind 10, "),
        (51, {}, [], "at most 10 are compared. Name some: 'classes=[kind 0,kind 1,kind 10]'"),
        (3, {5: "NA"}, ["dataset.missing=error"], "line 7, column 'label': 'NA' marks a missing value"),
        (12, {}, ["classes=[kind 0,kind 1,kind x]"], "has no label kind x"),
        (12, {}, ["classes=[kind 0]"], "name two to ten different labels"),
        (3, {}, ["train_rows=2"], "no training row of csv is of class"),
    ],
)
def test_mistakes_exit_2(
    classes: int, changed: dict[int, str], words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_table(classes, changed)
    assert gpsuite("run", "experiment=robustness/safety", "scale=smoke", *CSV, *words) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) <= 4


def test_many_numbers_may_be_amounts(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(12, {row: str(row % 12 - 6) for row in range(60)})
    assert gpsuite("run", "experiment=robustness/safety", "scale=smoke", *CSV) == 2
    *_, before, command = capsys.readouterr().err.splitlines()
    assert before == "if these are amounts:"
    assert command.startswith("gpsuite run experiment=robustness/regression ")
    assert gpsuite(*command.split()[1:], "points=1") == 0


@pytest.mark.parametrize("names", [("-1", "0", "1"), ("8", "1", "0"), ("a and 1", "class 0", "b")])
def test_a_class_is_named_once(names: tuple[str, ...]) -> None:
    """A name may be the number of another class."""
    for number, name in enumerate(names):
        assert named(f"class {number} is ahead by 1.5", names) == f"class {name} is ahead by 1.5"
    tie = "tie within 1e-09 between classes {} and {} at the point itself"
    assert named(tie.format(2, 0), names) == tie.format(names[2], names[0])
    assert named("a class probability at the point is not finite", names).startswith("a class probability at")


@pytest.mark.parametrize(("decides", "share"), [(False, 0.0), (True, 1.0)])
def test_what_is_stated_only_is_not_certified(decides: bool, share: float) -> None:
    metrics: dict[str, Any] = {
        "verdict": "safe", "correct": True, "attack_succeeds": False, "probabilities_proved": False, "gap": 0.01,
        "boxes": 3, "certificate_decides": decides,
    }  # fmt: skip
    records = [Record("k", "e", "", {"method": "laplace", "point": 0}, "done", "", metrics, {})]
    titles = {"laplace": "Laplace"}
    assert summary_table(records, titles)["certified accuracy"].tolist() == [share]
    found = {each.name: each.value for each in point_statistics(records, titles)}
    assert found["certified_accuracy[method=laplace]"] == share
    assert found["share_safe[method=laplace]"] == 1.0
