"""Rows in order of time, and rows that belong together by groups: what is read, and which rows are set aside."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.config.request import read_request
from gpsuite.data.spec import CsvSpec
from gpsuite.data.splits import LEAST_TEST_GROUPS, set_aside
from gpsuite.data.table.read import read_csv
from gpsuite.errors import DataError, UserError
from gpsuite.experiments.guarantee.plan import learning_of
from gpsuite.experiments.guarantee.regression import judged_rows, kept_copies, kept_rows

ROWS = 100


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """100 rows of 25 patients on 100 days, in random order."""
    rng = np.random.default_rng(1)
    days = pd.date_range("2022-01-01", periods=ROWS).strftime("%Y-%m-%d")
    frame = pd.DataFrame({"day": days, "who": [f"p{row // 4}" for row in range(ROWS)], "a": rng.normal(size=ROWS)})
    frame["y"] = np.arange(ROWS) + rng.normal(size=ROWS)
    frame.sample(frac=1.0, random_state=3).to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def test_rows_are_in_order_of_the_column_of_time_which_is_no_input(table: Path) -> None:
    data = read_csv(CsvSpec(path=str(table), target="y", ignore="who", time="day"))
    assert (data.order, data.time, data.input_names) == ("time", "day", ("a",))
    text, lines = table.read_text().splitlines(), data.lines
    assert lines is not None
    assert [text[line - 1].split(",")[0] for line in lines] == sorted(line.split(",")[0] for line in text[1:])
    assert np.corrcoef(data.y[:, 0], np.arange(ROWS))[0, 1] > 0.99
    plain = read_csv(CsvSpec(path=str(table), target="y", ignore="who"))
    assert plain.order == "" and plain.content_hash != data.content_hash


def test_nothing_said_of_the_order_is_the_content_that_it_was(table: Path) -> None:
    spec = CsvSpec(path=str(table), target="y", inputs="a")
    assert read_csv(spec).content_hash != read_csv(replace(spec, order="none")).content_hash
    assert read_csv(spec).sorted_by == ""
    pd.read_csv(table).sort_values("who").to_csv(table, index=False)
    assert read_csv(spec).sorted_by == "who"


def test_rows_without_a_time_or_a_group_are_left_out(table: Path) -> None:
    frame = pd.read_csv(table)
    frame.loc[:2, ["day", "who"]] = ""
    frame.to_csv(table, index=False)
    several: list[dict[str, Any]] = [{"time": "day"}, {"group": "who"}]
    for more in several:
        data = read_csv(replace(CsvSpec(path=str(table), target="y", inputs="a"), **more))
        assert len(data.X) == ROWS - 3 and any("have no time or group" in note for note in data.notes)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"time": "who"}, "holds no numbers or dates"),
        ({"time": "when"}, "dataset.time=when"),
        ({"group": "day", "time": "day"}, "new groups and the last rows are different test rows"),
        ({"order": "backwards"}, "dataset.order=backwards"),
        ({"group": "few"}, "4 groups. A guarantee for new groups"),
    ],
)
def test_what_is_no_order_or_group_is_refused(table: Path, more: dict[str, Any], told: str) -> None:
    pd.read_csv(table).assign(few=np.arange(ROWS) % 4).to_csv(table, index=False)
    with pytest.raises((DataError, UserError), match=told):
        read_csv(CsvSpec(path=str(table), target="y", **more))


def test_the_last_rows_or_one_row_of_each_new_group_are_set_aside(table: Path) -> None:
    data = read_csv(CsvSpec(path=str(table), target="y", ignore="who", time="day"))
    test, train = set_aside(data, np.arange(ROWS), 20, np.random.default_rng(0))
    assert sorted(test) == list(range(80, ROWS)) and sorted(train) == list(range(80))
    data = read_csv(CsvSpec(path=str(table), target="y", ignore="day", group="who"))
    assert data.clusters is not None and data.input_names == ("a",)
    test, train = set_aside(data, np.arange(ROWS), 20, np.random.default_rng(0))
    assert len(test) == LEAST_TEST_GROUPS == len(set(data.clusters[test])) and len(train) == 80
    assert not set(data.clusters[test]) & set(data.clusters[train])
    assert len(set_aside(data, np.arange(ROWS), 0, np.random.default_rng(0))[1]) == ROWS


@pytest.mark.parametrize("word", ["dataset.group=who", "dataset.time=day", ""])
def test_no_group_is_on_both_sides_of_a_split_of_guarantee(table: Path, word: str) -> None:
    words = ["experiment=guarantee", "dataset=csv", f"dataset.path={table}", "dataset.target=y", "dataset.inputs=a"]
    request, _ = read_request([*words, *filter(None, [word])])
    dataset, learning = request.require_dataset(), learning_of(request)  # type: ignore[arg-type]
    train, aside = judged_rows(dataset, learning)
    scaled_by, kept = kept_rows(dataset, learning)
    if word == "dataset.time=day":
        assert sorted(aside) == list(range(80, ROWS))
    if word == "dataset.group=who":
        clusters = read_csv(CsvSpec(path=str(table), target="y", inputs="a", group="who")).clusters
        assert clusters is not None
        assert not set(clusters[train]) & set(clusters[aside]) and not set(clusters[scaled_by]) & set(clusters[kept])
        different = kept_copies(dataset, learning).train
        assert different is not None
        assert sorted(clusters[kept[different.places]]) == sorted(set(clusters[kept]))
    assert len(set(aside)) == len(aside) and not set(train) & set(aside)


def test_other_experiments_refuse_what_they_would_not_follow(table: Path) -> None:
    words = ["experiment=pac_bayes/regression", "dataset=csv", f"dataset.path={table}", "dataset.target=y"]
    with pytest.raises(UserError, match="takes test rows at random"):
        read_request([*words, "dataset.time=day"])
