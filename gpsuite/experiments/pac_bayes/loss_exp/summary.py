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
from gpsuite.reporting.tables import mean_and_error, metric_statistics, write_table

if TYPE_CHECKING:
    import pandas as pd


BY = ["dataset", "inducing", "method", "trained_on"]


METRICS = (
    "mse_test", "bound_kl", "gibbs_risk_train", "gibbs_risk_test", "bound_kl_exp", "gibbs_risk_test_exp",
    "kl_over_n", "noise_variance",
)  # fmt: skip


CHANGE = "test MSE of kl-PAC-SGP, exponential against 0-1 band loss: mean over n splits of the change on each"


def summarise(report: Report) -> list[Statistic]:
    """Write the tables, draw changes, bounds and the losses; return means, changes and the paper's claims."""
    request, records, folder, note = report.request, report.records(), report.folder, report.note
    frame, tables = records_frame(records), folder / "tables"
    tidy, changes = summarise_splits(frame, BY, METRICS), mse_changes(frame)
    titles = {name: options.title for name, options in request.methods.items()}
    settings: ExponentialSettings = request.settings
    shown = f" ({note})" if note else ""
    caption = (
        f"ε = {settings.epsilon:g}, mean ± standard error over at least {frame.groupby(BY).size().min()} random "
        "splits; bound and Gibbs risks under the loss trained on (the 0-1 band for VFE and FITC), then under the "
        f"exponential loss; each bound holds with probability {1 - settings.delta:g}{shown}"
    )
    wide, timing = wide_table(tidy, BY, titles), timing_table(records, BY, titles)
    for table in (wide, timing):
        table["trained_on"] = table["trained_on"].map(TRAINED_ON)
    heads = {"trained_on": "trained on", "inducing": "M"}
    write_table(wide, tables, "loss_exp", caption, heads)
    write_table(tidy, tables, "loss_exp_tidy", caption)
    write_table(timing, tables, "loss_exp_timing", COST, heads)
    if changes:
        write_table(_change_table(tidy, changes), tables, "loss_exp_mse", f"{CHANGE}{shown}")
    draw(tidy, changes, titles, f"ε = {settings.epsilon:g}", folder / "figures", note)
    draw_shapes(settings.epsilon, folder / "figures")
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
