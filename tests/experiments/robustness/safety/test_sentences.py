"""robustness/safety: what its certified test rows say of new rows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.data.splits import DifferentRows
from gpsuite.experiments.robustness import judging
from gpsuite.methods.pac_bayes.evaluation import cautious_upper_bound
from gpsuite.statistics.estimates import clopper_pearson
from tests.experiments.robustness.safety_runs import gpsuite, run

QUICK = ("method=laplace", "check_points=0", "certificates=false", "radius=0.01", "features=all")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def said_of_new_rows(text: str) -> tuple[float, str]:
    """Return the stated percentage, and the line below it."""
    lines = text.splitlines()
    [place] = [i for i, line in enumerate(lines) if "classified rightly" in line]
    found = re.search(r"at least ([\d.]+) %", lines[place])
    assert found is not None
    return float(found[1]), lines[place + 1].strip()


def test_a_row_stored_many_times_is_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    """100 different rows with labels that are half noise, and one of them 900 times more."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((100, 2))
    label = np.where(X[:, 0] + 1.5 * rng.standard_normal(100) > 0.0, "yes", "no")
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(label=label)
    easy = [int(np.argmax(X[:, 0] * np.where(label == "yes", 1.0, -1.0)))] * 900
    pd.concat([frame, frame.iloc[easy]]).to_csv("stuck.csv", index=False)
    capsys.readouterr()
    run("safety", *QUICK, "dataset=csv", "dataset.path=stuck.csv", "dataset.target=label", "test_rows=50", "count=50")
    percent, counted = said_of_new_rows(capsys.readouterr().out)
    numbers = re.fullmatch(r"\((\d+) of 50 test rows\. Of the (\d+) that repeat no other (\d+)\.\)", counted)
    assert numbers is not None
    every, different, held = map(int, numbers.groups())
    assert different < 15 < 40 < every
    assert percent <= 100.0 * clopper_pearson(held, different, 0.02)[0] < percent + 0.1


def test_where_all_rows_differ_each_counts(capsys: pytest.CaptureFixture[str]) -> None:
    run("safety", *QUICK, "dataset=breast_cancer", "test_rows=30", "count=30")
    percent, counted = said_of_new_rows(capsys.readouterr().out)
    numbers = re.fullmatch(r"\((\d+) of 30 test rows\.\)", counted)
    assert numbers is not None
    assert percent <= 100.0 * clopper_pearson(int(numbers[1]), 30, 0.02)[0] < percent + 0.1


def test_nothing_is_said_of_new_rows_where_some_failed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows that fail are no random ones, so neither are the others."""
    attacked = judging.attacked

    def fails(search: Any, region: Any, found: Any, number: int, starts: int) -> Any:
        if number == 1:
            raise RuntimeError("a hard point")
        return attacked(search, region, found, number, starts)

    monkeypatch.setattr(judging, "attacked", fails)
    words = ("experiment=robustness/safety", "scale=smoke", "parallel=serial", *QUICK, "count=10")
    assert gpsuite("run", *words) == 1
    said = capsys.readouterr().out
    assert "Laplace: nothing is said of new rows of class 3 or 8, as 1 of 10 test rows failed or are missing." in said
    assert "test rows.)" not in said and "classified rightly" not in said


def test_the_caption_names_certificates_where_there_are_some() -> None:
    words = (*QUICK[:2], "features=all", "count=1", "norm=l2", "radius=0.12345678")
    for certificates in ("false", "true"):
        folder = run("safety", *words, f"certificates={certificates}")
        text = (folder / "tables" / "safety_points.md").read_text()
        assert ("certificates/METHOD_point_I.npz" in text) == (certificates == "true")
        assert "L2 ball of radius 0.123456 standard deviations" in text  # not 0.123457, which is not proved
        shutil.rmtree(folder)


def test_no_row_that_repeats_no_other_proves_nothing() -> None:
    groups = np.array([0, 0, 0])
    none = DifferentRows.of(np.array([1, 2]), np.array([], dtype=np.int64), groups)
    assert none is not None
    assert not len(none.places)
    assert cautious_upper_bound(np.array([False, False]), none, 0.01) == 1.0


@pytest.mark.parametrize(
    ("words", "rows", "caption"),
    [
        (["dataset=digits"], "new rows of class 3 or 8 are", "digits, classes 3 and 8: class"),
        (["dataset=digits", "classes=[1,7]"], "new rows of class 1 or 7 are", "digits, classes 1 and 7: class"),
        (["dataset=breast_cancer"], "of the new rows are", "breast_cancer: class"),
    ],
)
def test_rows_of_other_classes_are_not_spoken_of(
    words: list[str], rows: str, caption: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run("safety", *QUICK, *words, "count=2")
    assert rows in capsys.readouterr().out
    assert caption in (folder / "tables" / "safety.md").read_text()


def test_a_model_that_learns_from_the_lesser_part_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(label=np.where(X[:, 0] > 0.0, "yes", "no"), y=X[:, 1])
    frame.to_csv("few.csv", index=False)
    words = ("dataset=csv", "dataset.path=few.csv", "test_rows=50", "count=1")
    target = ("dataset.target=label", "dataset.inputs=[a,b]")
    number = ("dataset.target=y", "dataset.inputs=[a]", "methods=[gpr]")
    for experiment, own in (("safety", (*QUICK, *target)), ("regression", number)):
        run(experiment, *words, *own)
        said = capsys.readouterr().err
        assert "learns from 10 of 60 rows at most: test_rows=50 are held out. A smaller test_rows, such as 15" in said
    shutil.rmtree("results")
    run("safety", *QUICK, *words[:2], *target, "test_rows=30", "count=1")
    assert "learns from" not in capsys.readouterr().err
