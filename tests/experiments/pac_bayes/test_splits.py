"""Intervals and tests over random splits of the same rows, which are not independent draws."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from gpsuite.experiments.pac_bayes.fits import (
    TEST_OVER_TRAINING,
    paired_p,
    positive_p,
    shown_over,
    split_mean,
)
from gpsuite.experiments.pac_bayes.tables import summarise_splits
from gpsuite.statistics.estimates import CORRECTED, corrected_mean
from gpsuite.statistics.significance import corrected_t_p


def test_the_paired_test_is_that_of_the_differences() -> None:
    assert paired_p(np.array([1.0, 2.0]), np.array([1.1, 2.1])) == 0.25
    assert paired_p(np.array([1.1, 2.1]), np.array([1.0, 2.0])) == 1.0
    assert positive_p(np.array([3.0])) == 1.0


@pytest.mark.guarantee
def test_splits_of_the_same_rows_do_not_find_what_is_not_there() -> None:
    """500 data sets without an effect, ten 80/20 splits each, seed fixed: of the tests at 5 % at most 5 % say yes."""
    rng = np.random.default_rng(7)
    corrected = naive = 0
    for _ in range(500):
        rows = rng.normal(size=100)
        values = np.array([rng.permutation(rows)[:20].mean() for _ in range(10)])
        corrected += positive_p(values) < 0.05
        naive += corrected_t_p(values, 0.0) < 0.05
    assert corrected <= 500 * 0.05 + 3 * math.sqrt(500 * 0.05 * 0.95)
    assert naive > 90  # the fault that the correction is there for: about one in four


def test_a_real_effect_is_still_found() -> None:
    rng = np.random.default_rng(8)
    rows = 1.0 + rng.normal(size=100)
    values = np.array([rng.permutation(rows)[:20].mean() for _ in range(10)])
    assert positive_p(values) < 0.01
    assert split_mean(values).above(0.0)


def test_tables_of_splits_carry_the_corrected_interval() -> None:
    values = [1.0, 2.0, 4.0, 5.0]
    frame = pd.DataFrame({"method": "a", "m": values, "n_test": 20, "n_train": 80})
    (line,) = summarise_splits(frame, ["method"], ["m"]).to_dict("records")
    expected = corrected_mean(values, 0.25)
    assert line["interval_low"] == pytest.approx(expected.low)
    assert line["interval_high"] == pytest.approx(expected.high)
    assert line["interval"] == CORRECTED
    assert line["standard_error"] == pytest.approx(np.std(values, ddof=1) / 2.0)  # the paper's convention
    (published,) = summarise_splits(frame[["method", "m"]], ["method"], ["m"]).to_dict("records")
    assert published["interval_low"] == pytest.approx(line["interval_low"])
    assert TEST_OVER_TRAINING == 0.2 / 0.8
    (single,) = summarise_splits(frame[:1], ["method"], ["m"]).to_dict("records")
    assert single["interval"] == ""


def test_captions_say_over_how_many_splits() -> None:
    assert shown_over([1, 1]) == "one random split"
    assert shown_over([10, 10]) == "mean ± standard error over 10 random splits"
    assert shown_over([1, 3]) == "mean ± standard error over 1 to 3 random splits"
