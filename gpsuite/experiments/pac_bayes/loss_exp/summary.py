"""What a run of pac_bayes/loss_exp shows of its records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpsuite.experiments.base import Report
from gpsuite.experiments.pac_bayes.inducing.summary import COST
from gpsuite.experiments.pac_bayes.loss_exp.claims import BAND, EXP, KL, exponential_claims, mse_changes
from gpsuite.experiments.pac_bayes.loss_exp.figures import TRAINED_ON, draw, draw_shapes
from gpsuite.experiments.pac_bayes.loss_exp.settings import ExponentialSettings
from gpsuite.experiments.pac_bayes.shared.tables import (
    records_frame,
    summarise_splits,
    timing_table,
    wide_table,
)
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import mean_and_error, metric_statistics

if TYPE_CHECKING:
    import pandas as pd


BY = ["dataset", "inducing", "method", "trained_on"]


METRICS = (
    "mse_test", "bound_kl", "gibbs_risk_train", "gibbs_risk_test", "bound_kl_exp", "gibbs_risk_test_exp",
    "kl_over_n", "noise_variance",
)  # fmt: skip


CHANGE = "test MSE of kl-PAC-SGP, exponential against 0-1 band loss: mean over n splits of the change on each"


def summarise(report: Report[ExponentialSettings]) -> list[Statistic]:
    """Write the tables, draw changes, bounds and the losses; return means, changes and the paper's claims."""
    records, titles, settings = report.records(), report.titles, report.settings
    frame = records_frame(records)
    tidy, changes = summarise_splits(frame, BY, METRICS), mse_changes(frame)
    caption = (
        f"ε = {settings.epsilon:g}, mean ± standard error over at least {frame.groupby(BY).size().min()} random "
        "splits; bound and Gibbs risks under the loss trained on (the 0-1 band for VFE and FITC), then under the "
        f"exponential loss; each bound holds with probability {1 - settings.delta:g}"
    )
    wide, timing = wide_table(tidy, BY, titles), timing_table(records, BY, titles)
    for table in (wide, timing):
        table["trained_on"] = table["trained_on"].map(TRAINED_ON)
    heads = {"trained_on": "trained on", "inducing": "M"}
    report.table(wide, "loss_exp", caption, heads)
    report.table(tidy, "loss_exp_tidy", caption)
    report.table(timing, "loss_exp_timing", COST, heads)
    if changes:
        report.table(_change_table(tidy, changes), "loss_exp_mse", CHANGE)
    draw(report, tidy, changes)
    draw_shapes(report)
    return [*metric_statistics(tidy, BY), *changes.values(), *exponential_claims(frame)]


def _change_table(tidy: pd.DataFrame, changes: Mapping[tuple[str, int], Statistic]) -> pd.DataFrame:
    import pandas as pd

    mse = tidy[(tidy["method"] == KL) & (tidy["metric"] == "mse_test")]
    names = zip(mse["dataset"], mse["inducing"], mse["trained_on"], strict=True)
    texts = [mean_and_error(*pair) for pair in zip(mse["mean"], mse["standard_error"], strict=True)]
    cells = dict(zip(names, texts, strict=True))
    rows = []
    for (dataset, inducing), change in changes.items():
        rows.append(
            {
                "dataset": dataset,
                "M": inducing,
                "MSE, 0-1 band loss": cells[dataset, inducing, BAND],
                "MSE, exponential loss": cells[dataset, inducing, EXP],
                "change (%)": change.value,
                "from (%)": change.interval_low,
                "to (%)": change.interval_high,
                "interval": change.interval,
                "n": change.n,
            }
        )
    return pd.DataFrame(rows)
