"""Claims about pol, kin40k and sarcos together on made-up records in which the answer is known."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from gpsuite.experiments.pac_bayes.large_sets import SETS, claims_over_sets
from gpsuite.reporting.comparison import Statistic
from tests.experiments.pac_bayes.test_inducing import frame

Change = Callable[[str, str, int, dict[str, float]], None]


def table(datasets: tuple[str, ...] = SETS, **changes: Change) -> pd.DataFrame:
    """Return records in which every claim holds but for a dataset's change."""
    parts = [frame(changes.get(name)).assign(dataset=name) for name in datasets]
    every = pd.concat(parts, ignore_index=True)
    return every[(every["kernel"] == "se_ard") & (every["method"] != "sqrt_pac_sgp")]


def found(rows: pd.DataFrame) -> dict[str, Statistic]:
    return {statistic.name: statistic for statistic in claims_over_sets(rows)}


def test_all_claims_hold_where_they_were_put_in() -> None:
    one = found(table())
    shares = {name: (each.value, each.n) for name, each in one.items() if name.startswith("share_")}
    assert shares == {
        "share_best_guarantee": (1.0, 18),
        "share_gap_factor_above_3": (1.0, 36),
        "share_noise_variance_4_to_28_times_vfe": (1.0, 9),
        "share_test_errors_slightly_above_baselines": (1.0, 36),
        "share_vfe_better_than_fitc": (1.0, 9),
        "share_bound_slopes_as_claimed": (1.0, 9),
        "share_mse_falls_with_m": (1.0, 9),
        "share_complexity_and_bound_grow": (1.0, 8),  # of pol and sarcos
    }
    assert one["max_bound_kl"].value == pytest.approx(0.155, rel=1e-3)
    assert one["max_abs_risk_gap"].value == pytest.approx(0.005, abs=1e-4)
    assert (one["max_bound_kl"].n, one["max_abs_risk_gap"].n) == (9, 27)


@pytest.mark.parametrize(
    ("name", "change", "lost"),
    [
        ("share_best_guarantee", lambda m, k, n, v: v.update(bound_kl=0.1) if (m, n) == ("vfe", 300) else None, 1),
        ("share_gap_factor_above_3", lambda m, k, n, v: v.update(
            bound_kl=0.06 + 2.5 * (0.06 - 5e-5 * n)) if m == "vfe" else None, 6),
        ("share_noise_variance_4_to_28_times_vfe", lambda m, k, n, v: v.update(
            noise_variance={100: 0.3, 300: 0.03}.get(n, 0.1)) if m == "vfe" else None, 2),
        ("share_test_errors_slightly_above_baselines", lambda m, k, n, v: v.update(
            gibbs_risk_test={100: 0.04, 300: 0.11}.get(n, 0.06)) if m == "vfe" else None, 2),
        ("share_vfe_better_than_fitc", lambda m, k, n, v: v.update(kl_over_n=0.1) if m == "vfe" else None, 3),
        ("share_bound_slopes_as_claimed", lambda m, k, n, v: v.update(
            bound_kl=0.4 - 1e-4 * n) if m == "fitc" else None, 1),
        ("share_mse_falls_with_m", lambda m, k, n, v: v.update(mse_test=0.3) if m == "fitc" else None, 1),
        ("share_complexity_and_bound_grow", lambda m, k, n, v: v.update(kl_over_n=0.1) if m == "fitc" else None, 1),
    ],
)  # fmt: skip
def test_a_claim_that_fails_in_a_cell_loses_that_cell(name: str, change: Change, lost: int) -> None:
    whole, one = found(table())[name], found(table(pol=change))[name]
    assert one.n == whole.n
    assert one.value == pytest.approx(1 - lost / (whole.n or 0))
    assert "sarcos" in one.note


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("max_bound_kl", lambda m, k, n, v: v.update(bound_kl=0.4) if (m, n) == ("kl_pac_sgp", 500) else None, 0.4),
        ("max_abs_risk_gap", lambda m, k, n, v: v.update(gibbs_risk_train=0.2) if m == "fitc" else None, 0.13),
    ],
)
def test_the_worst_dataset_decides(name: str, change: Change, expected: float) -> None:
    assert found(table(kin40k=change))[name].value == pytest.approx(expected, rel=1e-3)


def test_what_grows_on_kin40k_is_not_asked() -> None:
    def flat(method: str, kernel: str, m: int, values: dict[str, float]) -> None:
        values.update(kl_over_n=0.1)

    assert found(table(kin40k=flat))["share_complexity_and_bound_grow"].value == 1.0


def test_an_answer_holds_pol_and_kin40k_and_no_other_dataset() -> None:
    assert found(table(("pol", "kin40k"))).keys() == found(table()).keys()
    assert all(name.endswith("[datasets=pol]") for name in found(table(("pol",))))
    assert all(name.endswith("[datasets=kin40k+pol+sarcos_test]") for name in found(table((*SETS[:2], "sarcos_test"))))


def test_few_numbers_decide_no_trend_and_a_single_split_proves_nothing() -> None:
    rows = table()
    one = found(rows[(rows["inducing"] == 100) & (rows["split"] == 0)])
    assert not {"share_bound_slopes_as_claimed", "share_mse_falls_with_m", "share_complexity_and_bound_grow"} & set(one)
    assert one["share_best_guarantee"].value == 0.0
    assert found(rows[rows["method"] != "fitc"]) == {}
