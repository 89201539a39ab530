"""HMC against sequential Monte Carlo in the same repetitions: what is paired, and with which interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, gamma, norm, t, ttest_rel

from gpsuite.config.files import conf_dir
from gpsuite.experiments.active_learning import toy_tables
from gpsuite.experiments.active_learning.curves import Curves, paired_curves
from gpsuite.experiments.active_learning.engine import engine_statistics
from gpsuite.experiments.active_learning.gp_samples import gp_statistics
from gpsuite.experiments.active_learning.observation_ablation import ablation_statistics
from gpsuite.experiments.active_learning.toy import report_unsafe, unsafe_by_seed, unsafe_table
from gpsuite.experiments.active_learning.toy_tasks import Parts, draw_priors, identity_error, likelihood_seconds
from gpsuite.experiments.base import Record
from gpsuite.reporting.comparison import Statistic, read_paper_values
from tests.arrays import Array
from tests.experiments.active_learning.made_up_repetition_records import record, toy_report
from tests.experiments.composed_settings import composed_settings

METHODS = ("al_mogp", "rs_mogp", "al_indgps", "al_mogp_nosafe")
TIMED = {"likelihood_cost_slope"}  # a measured time: in a timing table, not among the statistics


def runs(part: str, methods: Sequence[str], steps: int, level: float = 1.0, **own: Any) -> list[Record]:
    found = []
    for number, method in enumerate(methods):
        for r in range(8):
            error = [level * (1.0 + 0.1 * number) - 0.02 * k + 0.001 * r for k in range(steps)]
            words = {"part": part, "inference": "smc", **own}
            made = record(method, r, error, **words)
            found.append(made)
    return found


def with_axis(records: list[Record], **axes: str | float) -> list[Record]:
    return [replace(each, axes={**each.axes, **axes}) for each in records]


def toy_records() -> list[Record]:
    acceptance = {"outputs_acceptance": np.full(11, 0.7)}
    return [
        *with_axis(runs("pipelines", METHODS, 31, query_at_maximum=True), prior_factor=1.0),
        *with_axis(runs("inference", METHODS[:1], 11, 1.2), inference="map", prior_factor=1.0),
        *with_axis(runs("inference", METHODS[:1], 11, 0.8), inference="ml", prior_factor=1.0),
        *with_axis(runs("hmc", METHODS, 11, **acceptance), inference="hmc", prior_factor=1.0),  # type: ignore[arg-type]
        *with_axis(runs("prior", METHODS[:1], 31, 1.3), prior_factor=2.0),
        record("", 0, [1.0], part="identity_lmc", inference="", max_relative_error=1e-15),
    ]


def values(found: Sequence[Statistic]) -> dict[str, float]:
    assert len({statistic.name for statistic in found}) == len(found)
    return {statistic.name: statistic.value for statistic in found}


def published(experiment: str) -> set[str]:
    return {entry.statistic for entry in read_paper_values(conf_dir(), f"active_learning/{experiment}")}


def test_every_published_statistic_of_the_toy_is_computed() -> None:
    parts = Parts.from_records(toy_records(), METHODS, "smc")
    found = values(toy_tables.toy_statistics(parts, composed_settings("active_learning/toy")))
    assert published("toy") - TIMED <= set(found)
    assert found["true_safe_low"] == pytest.approx(-0.7446, abs=1e-4)
    assert found["max_relative_error_identity_lmc"] == 1e-15
    assert found["acceptance_rate"] == pytest.approx(0.7)
    assert found["share_next_query_at_entropy_maximum"] == 1.0
    assert found["max_marked_safe_outside_share"] == 0.0
    # MAP is worse in both cells of RMSE, ML better; precision is equal everywhere
    assert found["share_bayes_better_than_point_estimates"] == 2 / 8


def test_every_published_statistic_of_draws_engine_and_ablation_is_computed() -> None:
    made = [record(m, r, [1.5 - 0.01 * k - 0.1 * n + 0.001 * r for k in range(101)], start=40)
            for n, m in enumerate(METHODS) for r in range(4)]  # fmt: skip
    curves = Curves.from_records(made, METHODS)
    names = set(values(list(gp_statistics(curves, range(40, 141, 20), [0.6]))))
    assert published("gp_samples") - {"safe_row_percent"} <= names
    errors = {"standardised_z": 0.3, "standardised_output_1": 0.9, "standardised_output_2": 0.2}
    curve = 1.5 - 0.01 * np.arange(60)
    engine = [record(m, r, curve + 0.001 * r, start=48, **errors) for m in METHODS for r in range(4)]  # type: ignore[arg-type]
    facts = record("", 0, [1.0], part="data")
    sparse = [
        replace(made, axes={**made.axes, "rows": 100 * (1 + n)}, metrics={"rmse": 0.7 - 0.1 * n})
        for n in range(2)
        for made in (record("", r, [1.0], part="saturation") for r in range(2))
    ]
    found = values(
        engine_statistics(
            Curves.from_records(engine, METHODS), [facts, *sparse], composed_settings("active_learning/engine")
        )
    )
    assert published("engine") <= set(found)
    assert found["saturated_rmse"] == pytest.approx(0.6)
    assert found["share_temperature_easiest"] == 0.5
    sets = {"toy": Curves.from_records([record(m, 0, [1.0, 0.5]) for m in ("al_mogp", "full")], ("al_mogp", "full"))}
    kinds = {"al_mogp": True, "full": False}
    assert published("observation_ablation") <= set(values(ablation_statistics(sets, kinds, sets)))


def test_the_gain_in_safe_queries_is_the_difference_of_both_shares() -> None:
    safe = record("al_mogp", 0, [1.0, 0.3, 0.2])
    bold = record("al_mogp_nosafe", 0, [1.0, 1.0, 1.0], safe_noisy=[1, 0, 0])
    curves = Curves.from_records([safe, bold], METHODS)
    assert values(toy_tables.gain_statistics(curves))["safe_query_percent_gain"] == pytest.approx(200 / 3)


def test_priors_are_compared_in_pairs_of_repetitions() -> None:
    def curves(level: float) -> Curves:
        return Curves.from_records([record("al_mogp", r, [9.0, level + r]) for r in range(3)], METHODS)

    found = toy_tables.prior_statistics({1.0: curves(1.0), 0.5: curves(1.3), 2.0: curves(0.8)})
    assert values(found)["max_relative_rmse_change_with_prior"] == pytest.approx(0.5 / 2.05)


def test_what_was_not_run_gives_no_statistic() -> None:
    empty = Parts.from_records([], METHODS, "smc")
    assert set(values(toy_tables.toy_statistics(empty, composed_settings("active_learning/toy")))) == {
        "true_safe_low",
        "true_safe_high",
    }
    only = Curves.from_records([record("rs_mogp", 0, [1.0, 0.9])], METHODS)
    for found in (toy_tables.gain_statistics(only), toy_tables.prior_statistics({1.0: only})):
        assert found == []


def test_independent_gps_are_the_lmc_with_the_identity() -> None:
    errors = [identity_error(np.random.default_rng(seed), 3) for seed in range(5)]
    assert max(errors) < 1e-9
    assert likelihood_seconds(np.random.default_rng(0), 20, 2, "free") > 0.0


def test_the_drawn_priors_are_the_papers(tmp_path: Path) -> None:
    import pandas as pd

    draw_priors(toy_report(tmp_path))
    frame = pd.read_csv(tmp_path / "figures" / "toy_priors.csv")
    laws = {
        "variance": gamma(2.5, scale=1.0),
        "lengthscale": gamma(1.5, scale=1.0),
        "noise": gamma(1.5, scale=1 / 3),
        "mixing": norm(0.0, 2.0),
    }
    for kind, part in frame.groupby("hyperparameter"):
        np.testing.assert_allclose(part["density"], laws[str(kind)].pdf(part["value"]))


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
    assert (one["low_percent"], one["high_percent"]) == pytest.approx((100 * expected.low, 100 * expected.high))


def test_the_interval_of_the_mean_is_over_repetitions() -> None:
    by_seed = unsafe_by_seed(SETS)
    rows = unsafe_table(by_seed, 0.05).set_index(["counted", "inference", "method"])
    line, shares = rows.loc[(4, "smc", "al_mogp")], np.array([50.0, 0.0, 25.0])
    expected = t.interval(0.95, 2, shares.mean(), shares.std(ddof=1) / np.sqrt(3))
    assert expected[0] < 0.0 and line["low_percent"] == 0.0  # no share is less
    assert line["high_percent"] == pytest.approx(expected[1])
    assert (line["share_percent"], line["queries"], line["unsafe"], line["repetitions"]) == (25.0, 12, 3, 3)
    some = binomtest(2, 3).proportion_ci(method="exact")
    assert (line["any_low_percent"], line["any_high_percent"]) == pytest.approx((100 * some.low, 100 * some.high))
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


NAMES = {"al_mogp": "AL_MOGP", "rs_mogp": "RS_MOGP"}
SHIFT = np.array([0.03, -0.01, 0.02, 0.0, 0.015])  # HMC's errors over SMC's, by repetition


def smc() -> Curves:
    """Eight repetitions of 6 models."""
    made = [record(m, r, [1.0 - 0.1 * k + 0.05 * r for k in range(6)]) for m in NAMES for r in range(8)]
    return Curves.from_records(made, tuple(NAMES))


def hmc(shift: Array, steps: int = 4) -> Curves:
    """As many repetitions as shifts, of AL_MOGP alone and with fewer models."""
    made = [record("al_mogp", r, [1.0 - 0.1 * k + 0.05 * r + s for k in range(steps)]) for r, s in enumerate(shift)]
    return Curves.from_records(made, tuple(NAMES))


def test_pairs_are_the_shared_repetitions_and_sizes() -> None:
    first, second = paired_curves(smc().curve("al_mogp", "rmse"), hmc(SHIFT).curve("al_mogp", "rmse"))
    assert first.repetitions == second.repetitions == (0, 1, 2, 3, 4)
    assert first.n_sum.tolist() == [12, 13, 14, 15]
    np.testing.assert_allclose(second.lines - first.lines, np.tile(SHIFT[:, None], 4), atol=1e-12)


def test_a_value_missing_in_one_sampler_is_missing_in_the_pair() -> None:
    short = Curves.from_records([record("al_mogp", 0, [1.0, 0.5, 0.4]), record("al_mogp", 1, [1.0])], ("al_mogp",))
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
