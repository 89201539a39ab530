from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, t

from gpsuite.experiments.active_learning.curves import Curves
from gpsuite.experiments.active_learning.toy import report_unsafe, unsafe_by_seed, unsafe_table
from tests.experiments.active_learning.made_up_repetition_records import record, toy_report

TITLES = {"al_mogp": "AL_MOGP", "rs_mogp": "RS_MOGP"}


def curves(**unsafe: list[list[int]]) -> Curves:
    """Return repetitions with 1 for each unsafe query."""
    made = [
        record(method, r, [1.0] * len(flags), safe_true=1.0 - np.array(flags, dtype=np.float64))
        for method, repetitions in unsafe.items()
        for r, flags in enumerate(repetitions)
    ]
    return Curves.from_records(made, tuple(TITLES))


LONG = curves(al_mogp=[[0, 0, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]], rs_mogp=[[0, 0, 0, 0]] * 3)
SHORT = curves(al_mogp=[[1, 1]])
SETS = {"smc": LONG, "hmc": SHORT}


def test_samplers_are_compared_on_the_same_number_of_queries() -> None:
    rows = unsafe_by_seed(SETS).set_index(["counted", "inference", "method", "repetition"]).sort_index()
    assert set(rows.index.droplevel("repetition")) == {  # type: ignore[arg-type]
        (2, "smc", "al_mogp"), (2, "smc", "rs_mogp"), (2, "hmc", "al_mogp"),
        (4, "smc", "al_mogp"), (4, "smc", "rs_mogp"),
    }  # fmt: skip
    assert rows.loc[(2, "smc", "al_mogp")]["unsafe"].tolist() == [0, 0, 1]
    assert rows.loc[(4, "smc", "al_mogp")]["unsafe"].tolist() == [2, 0, 1]
    one = rows.loc[(4, "smc", "al_mogp", 0)]
    expected = binomtest(2, 4).proportion_ci(method="exact")
    assert one["share_percent"] == 50.0
    assert (one["low_percent"], one["high_percent"]) == pytest.approx(
        (100 * expected.low, 100 * expected.high)
    )


def test_the_interval_of_the_mean_is_over_repetitions() -> None:
    by_seed = unsafe_by_seed(SETS)
    rows = unsafe_table(by_seed, 0.05).set_index(["counted", "inference", "method"])
    line, shares = rows.loc[(4, "smc", "al_mogp")], np.array([50.0, 0.0, 25.0])
    expected = t.interval(0.95, 2, shares.mean(), shares.std(ddof=1) / np.sqrt(3))
    assert expected[0] < 0.0 and line["low_percent"] == 0.0  # no share is less
    assert line["high_percent"] == pytest.approx(expected[1])
    assert (line["share_percent"], line["queries"], line["unsafe"], line["repetitions"]) == (25.0, 12, 3, 3)
    some = binomtest(2, 3).proportion_ci(method="exact")
    assert (line["any_low_percent"], line["any_high_percent"]) == pytest.approx(
        (100 * some.low, 100 * some.high)
    )
    # no unsafe query in three repetitions: that few say little, which only the binomial interval shows
    never = rows.loc[(4, "smc", "rs_mogp")]
    assert (never["high_percent"], round(never["any_high_percent"], 2)) == (0.0, 70.76)
    assert rows.loc[(2, "hmc", "al_mogp")]["surely_above"] == 1  # 2 of 2: from 15.8 %
    assert line["surely_above"] == 1  # 2 of 4: from 6.8 %; 1 of 4: from 0.6 %


def test_tables_are_written_where_the_true_safety_value_is_known(tmp_path: Path) -> None:
    report_unsafe(toy_report(tmp_path, delta=0.05), SETS, "unsafe")
    assert len(pd.read_csv(tmp_path / "tables" / "unsafe.csv")) == 5
    assert len(pd.read_csv(tmp_path / "tables" / "unsafe_by_seed.csv")) == 3 + 3 + 1 + 3 + 3
    assert "AL_MOGP" in (tmp_path / "tables" / "unsafe.md").read_text()
    report_unsafe(toy_report(tmp_path), {"smc": Curves()}, "none")
    assert not list(tmp_path.glob("*/none*"))
