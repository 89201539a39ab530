"""Sentences of answers: what a drift takes away, probabilities in [0, 1], ranges that agree with each other."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpsuite.experiments.guarantee.checks import nested
from gpsuite.experiments.sentences import errors_bounded
from tests.experiments.robustness.safety_runs import gpsuite

LABELS = ("dataset=csv", "dataset.path=t.csv", "dataset.target=label")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def answered(*words: str) -> tuple[str, pd.DataFrame]:
    """Run the experiment; return its answer and predictions."""
    assert gpsuite("run", "experiment=guarantee", "parallel=serial", *LABELS, *words) == 0
    [folder] = Path("results/guarantee").iterdir()
    return (folder / "answer.md").read_text(), pd.read_csv(folder / "predictions.csv")


def test_a_drift_takes_away_what_rests_on_test_rows_and_nothing_that_is_not_there() -> None:
    rng = np.random.default_rng(3)
    n = 150
    time, a = np.arange(n) + rng.normal(0, 1, n), rng.normal(0, 1, n)
    label = np.where(np.sin(time / 20) + a > 0, "good", "bad")
    pd.DataFrame({"time": time.round(3), "a": a.round(4), "label": label}).to_csv("t.csv", index=False)
    said, _ = answered("count=2")
    [line] = [line for line in said.splitlines() if "rows come from one distribution: no drift (" in line]
    assert line.startswith("- Doubtful: ") and "for the past mixture, not for the next row" in line
    assert "**Amber:** the data make doubtful that" in said
    assert "(certified, for noise)" in said and "Do not rely on" not in said
    assert not any(word in said for word in ("ackknife+", "onformal", "band"))
    assert "| rows come from one distribution: no drift | test rows, PAC-Bayes, certified |" in said


def test_proved_probabilities_lie_between_0_and_1_and_a_bound_of_0_proves_nothing() -> None:
    rng = np.random.default_rng(1)
    n = 120
    a, b = rng.normal(50, 10, n), rng.uniform(0, 1, n)
    label = np.where(a - 50 + 20 * (b - 0.5) + rng.normal(0, 3, n) > 0, "yes", "no")
    pd.DataFrame({"a": a, "b": b, "label": label}).to_csv("t.csv", index=False)
    said, rows = answered("boxes=1", "tolerances=[0.5,8]", "max_evaluations=100")
    proved = rows.filter(like="proved_")
    assert proved.min().min() >= 0.0 and proved.max().max() <= 1.0
    assert "probability above" in said and not re.search(r"probability above (-|0\.?\s)", said)
    lows = rows["proved_low_8"].dropna()
    vain = int((lows < 0.001).sum())
    assert vain > 0 and f"the bound of {vain} is 0" in said


def test_what_is_proved_of_a_larger_box_holds_in_the_smaller_one() -> None:
    rng = np.random.default_rng(5)
    x = rng.uniform(-3, 3, 400)
    x = x[abs(x) > 0.3]
    pd.DataFrame({"x": x.round(3), "label": np.where(x > 0, "up", "down")}).to_csv("t.csv", index=False)
    _, rows = answered("tolerances=[0.25,1,2]", "max_evaluations=200")
    for small, large in (("0.25", "1"), ("1", "2")):
        low, high = rows.filter(like="low_").dropna(), rows.filter(like="high_").dropna()
        assert (low[f"proved_low_{small}"] >= low[f"proved_low_{large}"]).all()
        assert (high[f"proved_high_{small}"] <= high[f"proved_high_{large}"]).all()


def test_ranges_take_over_what_is_proved_of_larger_tolerances_in_any_order() -> None:
    nan = np.nan
    ranges = np.array([[[0.1, 0.9], [nan, nan], [0.2, 0.95]], [[nan, 0.9], [0.3, 0.8], [0.4, 0.7]]])
    found = nested(ranges, [4.0, 1.0, 2.0])
    expected = [[[0.1, 0.9], [0.2, 0.9], [0.2, 0.9]], [[nan, 0.9], [0.4, 0.7], [0.4, 0.7]]]
    assert np.array_equal(found, expected, equal_nan=True)


@pytest.mark.parametrize(("bound", "proved"), [(0.9991, False), (0.9989, True)])
def test_a_share_that_reads_100_percent_is_no_guarantee(bound: float, proved: bool) -> None:
    said = errors_bounded(0.01, bound, "1 (y)", "the model")
    assert said.startswith("Nothing is proved") != proved and ("at most 99.9 %" in said) == proved


def test_doubts_about_columns_are_in_the_answer_and_on_the_page() -> None:
    rng = np.random.default_rng(7)
    race, a = rng.integers(1, 4, 90), rng.normal(0, 1, 90)
    label = np.where(a + rng.normal(0, 0.3, 90) > 0, "good", "bad")
    pd.DataFrame({"race": race, "a": a.round(4), "label": label}).to_csv("t.csv", index=False)
    said, _ = answered("scale=smoke")
    [page] = [path.read_text() for path in Path("results/guarantee").glob("*/page.html")]
    doubt = "column 'race' seems to hold codes, but is read as numbers"
    assert "**Amber:** no check found a fault, but the table may be misread: see 'Check the table' below." in said
    assert f"- Check the table: {doubt}" in said and f"<li>Check the table: {doubt.replace(chr(39), '&#x27;')}" in page
