"""HMC against sequential Monte Carlo in the same repetitions: what is paired, and with which interval."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from gpsuite.experiments.active_learning import toy_tables
from gpsuite.experiments.active_learning.curves import Curves, paired_curves
from tests.arrays import Array
from tests.experiments.active_learning.made_up_repetition_records import record, toy_report

NAMES = {"al_mogp": "AL_MOGP", "rs_mogp": "RS_MOGP"}
SHIFT = np.array([0.03, -0.01, 0.02, 0.0, 0.015])  # HMC's errors over SMC's, by repetition


def smc() -> Curves:
    """Eight repetitions of 6 models."""
    made = [record(m, r, [1.0 - 0.1 * k + 0.05 * r for k in range(6)]) for m in NAMES for r in range(8)]
    return Curves.from_records(made, tuple(NAMES))


def hmc(shift: Array, steps: int = 4) -> Curves:
    """As many repetitions as shifts, of AL_MOGP alone and with fewer models."""
    made = [
        record("al_mogp", r, [1.0 - 0.1 * k + 0.05 * r + s for k in range(steps)])
        for r, s in enumerate(shift)
    ]
    return Curves.from_records(made, tuple(NAMES))


def test_pairs_are_the_shared_repetitions_and_sizes() -> None:
    first, second = paired_curves(smc().curve("al_mogp", "rmse"), hmc(SHIFT).curve("al_mogp", "rmse"))
    assert first.repetitions == second.repetitions == (0, 1, 2, 3, 4)
    assert first.n_sum.tolist() == [12, 13, 14, 15]
    np.testing.assert_allclose(second.lines - first.lines, np.tile(SHIFT[:, None], 4), atol=1e-12)


def test_a_value_missing_in_one_sampler_is_missing_in_the_pair() -> None:
    short = Curves.from_records(
        [record("al_mogp", 0, [1.0, 0.5, 0.4]), record("al_mogp", 1, [1.0])], ("al_mogp",)
    )
    first, second = paired_curves(smc().curve("al_mogp", "rmse"), short.curve("al_mogp", "rmse"))
    np.testing.assert_array_equal(np.isfinite(first.lines), [[True] * 3, [True, False, False]])
    np.testing.assert_array_equal(np.isfinite(first.lines), np.isfinite(second.lines))


def test_the_interval_is_that_of_the_paired_t_test() -> None:
    line = toy_tables.sampler_table(smc(), hmc(SHIFT), NAMES).iloc[0]
    assert (line["method"], line["metric"], line["repetitions"]) == ("AL_MOGP", "RMSE (output units)", 5)
    expected = ttest_rel(*(curve.heights for curve in reversed(
        paired_curves(smc().curve("al_mogp", "rmse"), hmc(SHIFT).curve("al_mogp", "rmse"))
    ))).confidence_interval(0.95)  # fmt: skip
    assert line["HMC - SMC"] == pytest.approx(SHIFT.mean())
    assert (line["from"], line["to"]) == pytest.approx((expected.low, expected.high))
    assert line["models whose own interval contains 0"] == "4 of 4"


def test_differences_of_positive_metrics_may_be_negative() -> None:
    frame = toy_tables.sampler_differences(smc(), hmc(SHIFT - SHIFT.mean() + 0.01))
    rmse = frame[frame["metric"] == "rmse"]
    assert rmse["mean"].to_numpy() == pytest.approx(0.01)
    assert (rmse["interval_low"] < 0.0).all()
    reach = rmse["interval_high"] - rmse["mean"]
    assert reach.to_numpy() == pytest.approx((rmse["mean"] - rmse["interval_low"]).to_numpy())


def test_samplers_that_differ_are_said_to_differ() -> None:
    def equal(shift: Array) -> float:
        return toy_tables.sampler_statistics(smc(), hmc(shift))[0].value

    assert equal(SHIFT) == 1.0
    assert equal(SHIFT + 0.2) == 0.0


def test_without_hmc_or_with_one_repetition_nothing_is_claimed(tmp_path: Path) -> None:
    assert toy_tables.sampler_statistics(smc(), Curves()) == []
    assert toy_tables.sampler_statistics(smc(), hmc(SHIFT[:1])) == []
    toy_tables.report_samplers(toy_report(tmp_path), smc(), Curves())
    assert not list(tmp_path.iterdir())


def test_table_and_figure_hold_every_model(tmp_path: Path) -> None:
    toy_tables.report_samplers(toy_report(tmp_path, "a note"), smc(), hmc(SHIFT))
    drawn = pd.read_csv(tmp_path / "figures" / "toy_samplers.csv")
    assert len(drawn) == 2 * 4
    assert set(drawn["n"]) == {5}
    assert "a note" in (tmp_path / "tables" / "toy_samplers.md").read_text(encoding="utf-8")
