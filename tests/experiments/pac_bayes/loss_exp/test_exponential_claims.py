"""The claims of Table 3 as pure functions of records."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from gpsuite.config.files import conf_dir
from gpsuite.experiments.pac_bayes.loss_exp import exponential_claims, mse_changes
from gpsuite.reporting.comparison import Statistic, read_paper_values

CHANGES = {"pol": -25.0, "kin40k": 12.0, "sarcos": 1.0}
MODELS = (("kl_pac_sgp", "band01"), ("kl_pac_sgp", "exp"), ("vfe", "likelihood"), ("fitc", "likelihood"))
BOUNDS = {"kl_pac_sgp": 0.3, "vfe": 0.5, "fitc": 0.6}


def frame(datasets: tuple[str, ...] = tuple(CHANGES), numbers: tuple[int, ...] = (500,)) -> pd.DataFrame:
    """Return records in which every claim of the paper holds."""
    rng = np.random.default_rng(3)
    rows = []
    for dataset, inducing, (method, trained_on), split in itertools.product(
        datasets, numbers, MODELS, range(10)
    ):
        band = 0.2 + 0.05 * split / inducing  # the splits differ more than the losses
        better = 1.0 + CHANGES.get(dataset, 0.0) / 100 if trained_on == "exp" else 1.0
        rows.append(
            {
                "dataset": dataset,
                "inducing": inducing,
                "method": method,
                "trained_on": trained_on,
                "kernel": "se_ard",
                "split": split,
                "mse_test": band * better,
                "bound_kl_exp": BOUNDS[method] + 0.01 * rng.standard_normal(),
            }
        )
    return pd.DataFrame(rows)


def claims(table: pd.DataFrame) -> dict[str, Statistic]:
    return {statistic.name: statistic for statistic in exponential_claims(table)}


def test_all_claims_hold_where_they_were_put_in() -> None:
    found = claims(frame())
    for dataset, change in CHANGES.items():
        assert found[f"mse_change_percent[dataset={dataset}]"].value == pytest.approx(change)
    assert (found["share_mse_changes_as_claimed"].value, found["share_mse_changes_as_claimed"].n) == (1.0, 3)
    assert (found["share_bound_lowest"].value, found["share_bound_lowest"].n) == (1.0, 6)
    assert (
        "pol vfe 1.6" in found["share_bound_lowest"].note or "pol vfe 1.7" in found["share_bound_lowest"].note
    )


def test_without_a_baseline_the_change_is_decided_and_the_lowest_bound_is_not() -> None:
    table = frame()
    for left in (["kl_pac_sgp"], ["kl_pac_sgp", "vfe"]):
        found = claims(table[table["method"].isin(left)])
        assert found["mse_change_percent[dataset=pol]"].value == pytest.approx(-25.0)
        assert not any(name.startswith("share_bound_lowest") for name in found)


def test_the_published_entries_find_their_statistics() -> None:
    entries = read_paper_values(conf_dir(), "pac_bayes/loss_exp")
    assert len(entries) >= 5
    assert {entry.statistic for entry in entries} <= set(claims(frame()))


def test_the_change_is_the_mean_of_paired_changes_with_their_interval() -> None:
    table = frame(("pol",))
    trained = table["trained_on"] == "exp"
    table.loc[trained, "mse_test"] *= np.linspace(0.9, 1.1, 10)
    band = table.loc[(table["method"] == "kl_pac_sgp") & ~trained, "mse_test"].to_numpy()
    percent = 100 * (table.loc[trained, "mse_test"].to_numpy() / band - 1)
    [change] = mse_changes(table).values()
    assert change.value == pytest.approx(percent.mean())
    assert change.standard_error == pytest.approx(
        percent.std(ddof=1) * (0.1 + 0.25) ** 0.5
    )  # splits share rows
    assert change.interval_low is not None and change.interval_low < change.value
    assert change.unit == "percent"


@pytest.mark.parametrize(("dataset", "change"), [("pol", 3.0), ("kin40k", -3.0), ("sarcos", 11.0)])
def test_a_change_the_other_way_refutes(dataset: str, change: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHANGES, dataset, change)
    assert claims(frame())["share_mse_changes_as_claimed"].value == pytest.approx(2 / 3)


def test_a_baseline_with_the_better_bound_refutes() -> None:
    table = frame()
    table.loc[(table["method"] == "vfe") & (table["dataset"] == "pol"), "bound_kl_exp"] = 0.2
    assert claims(table)["share_bound_lowest"].value == pytest.approx(5 / 6)


def test_the_bound_of_the_model_trained_on_the_exponential_loss_counts() -> None:
    table = frame()
    table.loc[table["trained_on"] == "band01", "bound_kl_exp"] = 0.99
    assert claims(table)["share_bound_lowest"].value == 1.0
    table.loc[table["trained_on"] == "exp", "bound_kl_exp"] = 0.99
    assert claims(table)["share_bound_lowest"].value == 0.0


def test_shares_over_other_datasets_are_no_answer_to_the_papers() -> None:
    found = claims(frame(("pol", "kin40k", "sarcos_test")))
    assert "mse_change_percent[dataset=sarcos_test]" in found
    assert not {"share_mse_changes_as_claimed", "share_bound_lowest"} & set(found)
    assert "mse_change_percent[dataset=sarcos]" not in found
    assert found["share_mse_changes_as_claimed[datasets=kin40k+pol]"].n == 2
    assert found["share_bound_lowest[datasets=kin40k+pol+sarcos_test]"].n == 6


def test_the_printed_changes_are_told_at_one_number_of_inducing_inputs_only() -> None:
    """A large M on pol and a small one on kin40k would be a choice of the better M for each."""
    for alone in ("pol", "kin40k"):
        found = claims(frame((alone, "sarcos")))
        assert f"mse_change_percent[dataset={alone}]" not in found
        assert "mse_change_percent[dataset=sarcos]" in found
    table = frame(numbers=(100, 500))
    table = table[(table["inducing"] == 100) | (table["dataset"] == "pol")]
    assert not {f"mse_change_percent[dataset={name}]" for name in ("pol", "kin40k")} & set(claims(table))


def test_the_largest_number_of_inducing_inputs_decides() -> None:
    table = frame(numbers=(100, 500))
    small = (table["inducing"] == 100) & (table["trained_on"] == "exp")
    table.loc[small, "mse_test"] *= 2
    found = claims(table)
    assert found["mse_change_percent[dataset=pol]"].value == pytest.approx(-25.0)
    assert found["mse_change_percent[dataset=pol]"].note == "M=500"
    assert mse_changes(table)["pol", 100].value == pytest.approx(50.0)


def test_missing_methods_and_one_split_leave_claims_out() -> None:
    table = frame()
    assert set(claims(table[table["method"] == "vfe"])) == set()
    assert "share_bound_lowest" not in claims(table[table["method"] != "fitc"])
    alone = claims(table[table["split"] == 0])
    assert alone["mse_change_percent[dataset=pol]"].interval == ""
    assert alone["share_bound_lowest"].value == 0.0


def test_a_failed_run_drops_its_pair_only() -> None:
    table = frame()
    lost = table.drop(table.index[(table["trained_on"] == "exp") & (table["split"] == 3)])
    found = claims(lost)
    assert found["mse_change_percent[dataset=pol]"].n == 9
    assert found["share_bound_lowest"].value == 1.0
