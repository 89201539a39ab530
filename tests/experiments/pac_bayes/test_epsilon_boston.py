"""The claims' statistics on made-up records in which the answer is known."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.certificates.plain_risk import largest_risk, penalty
from gpsuite.config.files import conf_dir
from gpsuite.experiments.pac_bayes.epsilon_boston import boston_claims
from gpsuite.experiments.pac_bayes.fits import paired_p
from gpsuite.experiments.pac_bayes.tables import METRICS
from gpsuite.reporting.comparison import read_paper_values
from gpsuite.reporting.tables import metric_statistics, summarise_groups

EPSILONS = (0.2, 0.4, 0.6, 0.8, 1.0)
ORDER = {"full_gp": 0, "kl_pac_gp": 1, "sqrt_pac_gp": 2}


def frame(**changes: Any) -> pd.DataFrame:
    """Return records in which every claim of the paper holds: see `numbers`."""
    rng = np.random.default_rng(5)
    rows = []
    for method, epsilon, split in itertools.product(ORDER, EPSILONS, range(10)):
        row = {"method": method, "epsilon": epsilon, "split": split}
        row |= {name: value + 0.001 * rng.standard_normal() for name, value in numbers(method, epsilon).items()}
        rows.append(row)
    table = pd.DataFrame(rows)
    table["n_train"], table["n_hyperparameters"] = 404.0, 2.0
    table["kl"] = table["kl_over_n"] * 404
    return table.assign(**changes)


def numbers(method: str, epsilon: float) -> dict[str, float]:
    rank = ORDER[method]
    full = method == "full_gp"
    return {
        "bound_kl": 0.9 - 0.2 * epsilon if full else (0.8 - 0.6 * epsilon) + 0.02 * (rank - 1),
        "bound_sqrt": 0.95,
        "gibbs_risk_train": 0.1 + 0.05 * rank,
        "gibbs_risk_test": 0.2 + 0.02 * rank,
        "bayes_risk_test": 0.1,
        "mse_test": 0.1 if full else 0.12 + 0.1 * epsilon * rank,
        "nll_test": 0.5,
        "kl_over_n": 0.4 if full else 0.2 - 0.05 * rank,
        "noise_variance": 0.1 + rank,
    }


def claims(table: pd.DataFrame) -> dict[str, float]:
    return {statistic.name: statistic.value for statistic in boston_claims(table, 0.01)}


def test_all_claims_hold_where_they_were_put_in() -> None:
    found = claims(frame())
    assert {name: found[name] for name in found if name.startswith("share_")} == {
        "share_bound_below_full_gp": 1.0,
        "share_test_risk_slightly_above_full_gp": 1.0,
        "share_overfits_less_than_full_gp": 1.0,
        "share_underfits_in_all_five": 1.0,
        "share_kl_preferable_to_sqrt": 1.0,
    }
    assert found["bound_ratio_increases_with_epsilon"] == 1.0
    assert found["mse_increases_with_epsilon"] == 1.0
    assert (found["collapsed_share_kl"], found["collapsed_share_sqrt"]) == (0.0, 0.0)
    assert found["bound_factor_above_two_share"] == pytest.approx(2 / 5)  # .74/.32 and .7/.2; not .78/.44 = 1.8


@pytest.mark.parametrize(
    ("swap", "refuted"),
    [
        ("bound_kl", ["share_bound_below_full_gp"]),
        ("gibbs_risk_test", ["share_test_risk_slightly_above_full_gp", "share_underfits_in_all_five"]),
        ("kl_over_n", ["share_underfits_in_all_five"]),
        ("noise_variance", ["share_underfits_in_all_five"]),
    ],
)
def test_a_claim_is_refuted_when_the_order_is_reversed(swap: str, refuted: list[str]) -> None:
    table = frame()
    kl, full = table["method"] == "kl_pac_gp", table["method"] == "full_gp"
    values = table[swap].to_numpy(copy=True)
    values[kl], values[full] = table.loc[full, swap], table.loc[kl, swap]
    found = claims(table.assign(**{swap: values}))
    assert all(found[name] == 0.0 for name in refuted)


def test_collapsed_runs_are_counted() -> None:
    table = frame()
    fallen = (table["method"] == "sqrt_pac_gp") & (table["epsilon"] == 0.2) & (table["split"] < 3)
    table.loc[fallen, "kl_over_n"] = 0.001
    assert claims(table)["collapsed_share_sqrt"] == pytest.approx(3 / 50)


def test_a_difference_without_significance_decides_nothing() -> None:
    table = frame()
    table["bound_kl"] = 0.5 + 0.2 * np.random.default_rng(1).standard_normal(len(table))
    assert claims(table)["share_bound_below_full_gp"] <= 0.2


@pytest.mark.parametrize("seed", range(3))
def test_the_paired_test_is_scipys_for_splits_that_share_rows(seed: int) -> None:
    from scipy.stats import t, ttest_rel

    a, b = np.random.default_rng(seed).standard_normal((2, 10))
    # ten 80/20 splits: variance 1/10 + .2/.8 of the sample's in place of 1/10
    corrected = t.cdf(ttest_rel(a, b).statistic * (0.1 / 0.35) ** 0.5, 9)
    assert paired_p(a, b) == pytest.approx(corrected, rel=1e-12)
    assert (paired_p(a, a + 1), paired_p(a + 1, a)) == (0.5**10, 1.0)  # by the signs
    assert (paired_p(a, a), paired_p(a[:1], b[:1])) == (1.0, 1.0)


def test_the_change_with_delta_is_from_end_to_end_of_the_worst_model() -> None:
    table = frame().query("method == 'kl_pac_gp'")
    table.loc[table.index[7], ["gibbs_risk_train", "kl"]] = (0.2, 404.0)  # steepest in c at small risks and penalties
    table.loc[table.index[8], ["gibbs_risk_train", "kl"]] = 0.0, 0.0
    risks, kls = table["gibbs_risk_train"].tolist(), table["kl"].tolist()
    ends = [
        [largest_risk(risk, penalty(kl, 404, 2, delta)) for risk, kl in zip(risks, kls, strict=True)]
        for delta in (0.001, 0.1)
    ]
    largest = max(np.subtract(*ends))
    assert claims(table)["bound_change_with_delta"] == pytest.approx(largest, rel=1e-9)


def test_missing_methods_leave_their_claims_out() -> None:
    only = frame().query("method == 'kl_pac_gp'")
    assert set(claims(only)) == {"mse_increases_with_epsilon", "collapsed_share_kl", "bound_change_with_delta"}


def test_a_failed_run_drops_its_pair_not_the_cell() -> None:
    table = frame()
    lost = table.drop(table.index[(table["method"] == "full_gp") & (table["split"] == 3)])
    assert claims(lost)["share_bound_below_full_gp"] == 1.0


def test_the_published_entries_find_their_statistics() -> None:
    table = frame()
    tidy = summarise_groups(table, ["method", "epsilon"], METRICS)
    given = {each.name for each in metric_statistics(tidy, ["method", "epsilon"])}
    given |= {each.name for each in boston_claims(table, 0.01)} | {"dataset_rows", "dataset_inputs"}
    entries = read_paper_values(conf_dir(), "pac_bayes/epsilon_boston")
    assert {entry.statistic for entry in entries if entry.test.kind != "context"} <= given
