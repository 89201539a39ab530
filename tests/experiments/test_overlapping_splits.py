"""Intervals and tests over random splits of the same rows, which are not independent draws."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from gpsuite.experiments.pac_bayes.shared.paired import (
    TEST_OVER_TRAINING,
    paired_p,
    positive_p,
    split_statistic,
)
from gpsuite.experiments.pac_bayes.shared.tables import summarise_splits
from gpsuite.experiments.statistics import (
    CORRECTED,
    mean_statistic,
    overlapping_p,
    overlapping_statistic,
    without_intervals,
)


def test_the_interval_is_nadeau_and_bengios() -> None:
    values = np.array([1.0, 2.0, 4.0, 5.0])
    found, plain = overlapping_statistic("s", values, 0.25), mean_statistic("s", values)
    assert (found.value, found.n, found.interval) == (3.0, 4, CORRECTED)
    assert found.interval_high is not None and plain.interval_high is not None
    # (1/4 + .25) in place of 1/4
    assert found.interval_high - 3.0 == pytest.approx(math.sqrt(2.0) * (plain.interval_high - 3.0))
    independent = overlapping_statistic("s", values, 0.0)
    assert independent.interval_low == plain.interval_low
    assert overlapping_p(values, 0.0) == pytest.approx(ttest_1samp(values, 0.0, alternative="greater").pvalue)


def test_one_split_has_no_interval_and_proves_nothing() -> None:
    found = overlapping_statistic("s", np.array([3.0]), 0.25, "a note")
    assert (found.value, found.n, found.interval_low, found.interval) == (3.0, 1, None, "")
    assert found.note == "a note; one split: no interval"
    assert overlapping_p(np.array([3.0]), 0.25) == positive_p(np.array([3.0])) == 1.0
    assert math.isnan(overlapping_statistic("s", np.empty(0), 0.25).value)


def test_equal_values_are_certain() -> None:
    for p in (lambda v: overlapping_p(v, 0.25), positive_p):
        assert p(np.full(3, 2.0)) == 0.0
        assert p(np.full(3, -2.0)) == p(np.zeros(3)) == 1.0
    assert paired_p(np.array([1.0, 2.0]), np.array([1.1, 2.1])) == 0.0


@pytest.mark.guarantee
def test_splits_of_the_same_rows_do_not_find_what_is_not_there() -> None:
    """500 data sets without an effect, ten 80/20 splits each, seed fixed: of the tests at 5 % at most 5 % say yes."""
    rng = np.random.default_rng(7)
    corrected = naive = 0
    for _ in range(500):
        rows = rng.normal(size=100)
        values = np.array([rng.permutation(rows)[:20].mean() for _ in range(10)])
        corrected += positive_p(values) < 0.05
        naive += overlapping_p(values, 0.0) < 0.05
    assert corrected <= 500 * 0.05 + 3 * math.sqrt(500 * 0.05 * 0.95)
    assert naive > 90  # the fault that the correction is there for: about one in four


def test_a_real_effect_is_still_found() -> None:
    rng = np.random.default_rng(8)
    rows = 1.0 + rng.normal(size=100)
    values = np.array([rng.permutation(rows)[:20].mean() for _ in range(10)])
    assert positive_p(values) < 0.01
    low = split_statistic("s", values).interval_low
    assert low is not None and low > 0.0


def test_tables_of_splits_carry_the_corrected_interval() -> None:
    values = [1.0, 2.0, 4.0, 5.0]
    frame = pd.DataFrame({"method": "a", "m": values, "n_test": 20, "n_train": 80})
    (line,) = summarise_splits(frame, ["method"], ["m"]).to_dict("records")
    expected = overlapping_statistic("m", np.array(values), 0.25)
    assert line["interval_low"] == pytest.approx(expected.interval_low)
    assert line["interval_high"] == pytest.approx(expected.interval_high)
    assert line["interval"] == CORRECTED
    assert line["standard_error"] == pytest.approx(np.std(values, ddof=1) / 2.0)  # the paper's convention
    (published,) = summarise_splits(frame[["method", "m"]], ["method"], ["m"]).to_dict("records")
    assert published["interval_low"] == pytest.approx(line["interval_low"])
    assert TEST_OVER_TRAINING == 0.2 / 0.8
    (bare,) = without_intervals(pd.DataFrame([line])).to_dict("records")
    assert math.isnan(bare["interval_low"]) and bare["interval"] == ""
    (single,) = summarise_splits(frame[:1], ["method"], ["m"]).to_dict("records")
    assert single["interval"] == ""
