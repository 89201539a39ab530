"""Metrics by setting over shared repetitions."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.statistics.paired import Paired


def rows(missing: tuple[tuple[str, int, int], ...] = ()) -> pd.DataFrame:
    """Return risk = 100 m + 10 (method b) + split, one row per method, m and split."""
    lines = [
        {"method": method, "m": m, "split": split, "risk": 100.0 * m + 10.0 * (method == "b") + split}
        for split, m, method in itertools.product(range(3), (2, 5), "ba")
        if (method, m, split) not in missing
    ]
    return pd.DataFrame(lines)


def test_a_setting_gives_an_array_over_the_repetitions() -> None:
    paired = Paired(rows(), ["split"], ["method", "m"])
    assert paired.levels("method") == ["a", "b"] and paired.levels("m") == [2, 5]
    assert paired("risk", "b", 5).tolist() == [510.0, 511.0, 512.0]
    assert paired("risk", "a").tolist() == [[200.0, 500.0], [201.0, 501.0], [202.0, 502.0]]
    assert paired("risk").shape == (3, 2, 2)
    assert paired.mean("risk", "b").tolist() == [211.0, 511.0]


def test_what_is_missing_is_nan_and_left_out_of_pairs() -> None:
    paired = Paired(rows((("a", 5, 1),)), ["split"], ["method", "m"])
    assert np.isnan(paired("risk", "a", 5)).tolist() == [False, True, False]
    a, b = paired.pair("risk", ("a", 5), ("b", 5))
    assert (a.tolist(), b.tolist()) == ([500.0, 502.0], [510.0, 512.0])
    assert paired.complete("risk", "a").tolist() == [[200.0, 500.0], [202.0, 502.0]]
    assert paired.mean("risk", "a").tolist() == [201.0, 501.0]
    assert np.isnan(paired("risk", "c")).all() and paired("risk", "c").shape == (3, 2)
    assert np.isnan(paired("risk", "a", 7)).all() and paired("risk", "a", 7).shape == (3,)
    assert np.isnan(paired.mean("risk", "c")).all()


def test_repetitions_may_be_numbered_by_several_columns() -> None:
    frame = rows().rename(columns={"m": "draw", "split": "point"})
    paired = Paired(frame, ["draw", "point"])
    assert paired("risk", "a").tolist() == [[200.0, 201.0, 202.0], [500.0, 501.0, 502.0]]
    assert len(paired.pair("risk", "a", "b")[0]) == 6
    assert paired.mean("risk", "a") == 351.0


def test_mappings_of_columns_will_do_and_doubles_and_unknown_metrics_are_refused() -> None:
    columns = {"method": ["x", "x", "y"], "run": [0, 1, 1], "area": [1.0, None, 3.0]}
    a, b = Paired(columns, ["run"]).pair("area", "x", "y")
    assert len(a) == len(b) == 0  # None is missing
    with pytest.raises(KeyError):
        Paired(columns, ["run"])("volume", "x")
    with pytest.raises(ValueError, match="two rows of the same run, method"):
        Paired({**columns, "run": [0, 0, 1]}, ["run"])


@given(st.permutations(range(12)))
def test_the_order_of_the_rows_does_not_matter(order: list[int]) -> None:
    shuffled = Paired(rows().iloc[order], ["split"], ["method", "m"])
    assert np.array_equal(shuffled("risk"), Paired(rows(), ["split"], ["method", "m"])("risk"))


def test_means_leave_infinite_repetitions_out() -> None:
    frame = pd.DataFrame({"split": [0, 1, 2], "method": ["a"] * 3, "risk": [1.0, 3.0, np.inf]})
    assert Paired(frame, ["split"]).mean("risk", "a") == 2.0
