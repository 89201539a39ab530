"""What a run of pac_bayes/inducing_* shows of its records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpsuite.experiments.base import Report
from gpsuite.experiments.pac_bayes.inducing.claims import inducing_claims
from gpsuite.experiments.pac_bayes.inducing.figures import KERNEL_TITLES, draw
from gpsuite.experiments.pac_bayes.inducing.settings import InducingSettings
from gpsuite.experiments.pac_bayes.shared.plan import KERNELS
from gpsuite.experiments.pac_bayes.shared.splits import shown_over
from gpsuite.experiments.pac_bayes.shared.tables import (
    CERTIFICATES,
    METRICS,
    dataset_statistics,
    records_frame,
    summarise_splits,
    timing_table,
    wide_table,
)
from gpsuite.methods.pac_bayes.bounds.certificates import Terms, certify
from gpsuite.methods.pac_bayes.posteriors import RiskAndKL
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import metric_statistics

if TYPE_CHECKING:
    import pandas as pd


COST = "CPU seconds and evaluations per training, mean over the splits; trainings shared by two rows are in the first"


CHOICE = "M chosen per split by the smallest bound; ln(number of M tried) is paid for the choice"


SELECTED = ("bound_of_choice", "bound_kl", "chosen_m", "gibbs_risk_test", "mse_test")


def summarise(report: Report[InducingSettings]) -> list[Statistic]:
    """Write the tables and the five panels against M; return means and the paper's claims as statistics."""
    request, settings, titles, records = report.request, report.settings, report.titles, report.records()
    frame, name = records_frame(records), request.experiment.split("/")[1]
    metrics = [*METRICS, *CERTIFICATES]
    tidy = summarise_splits(frame, ["inducing", "kernel", "method"], metrics)
    shown = shown_over(frame.groupby(["inducing", "kernel", "method"]).size())
    caption = (
        f"{request.require_dataset().name}, ε = {settings.epsilon:g}: {shown}; "
        f"bounds hold with probability {1 - settings.delta:g}"
    )
    by, further = ["inducing", "kernel", "method"], tidy["metric"].isin(CERTIFICATES)
    report.table(wide_table(tidy[~further], by, titles), name, caption)
    report.table(wide_table(tidy[further], by, titles), f"{name}_certificates", caption)
    report.table(tidy, f"{name}_tidy", caption)
    report.table(timing_table(records, by, titles), f"{name}_timing", COST)
    kernel = KERNELS[request.model.ard]
    chosen = summarise_splits(
        selected(frame[frame["kernel"] == kernel], settings.delta), ["method"], list(SELECTED)
    )
    report.table(wide_table(chosen, ["method"], titles), f"{name}_selected", f"{caption}; {CHOICE}")
    heading = f"{request.require_dataset().name}, {KERNEL_TITLES[kernel]}: {shown}"
    draw(report, tidy[tidy["kernel"] == kernel], name, heading)
    means = metric_statistics(tidy, ["method", "kernel", "inducing"])
    return [*dataset_statistics(request), *means, *inducing_claims(frame, kernel)]


def selected(frame: pd.DataFrame, delta: float) -> pd.DataFrame:
    """Return, per method and split, the M whose bound is smallest, with the bound that pays for choosing it.

    A union bound over the numbers tried: ln(how many) enters the penalty, so that the bound of the M chosen on the
    training data holds with probability 1 - delta.
    """
    tried = frame["inducing"].nunique()
    best = frame.loc[frame.groupby(["method", "split"])["bound_kl"].idxmin()].copy()
    columns = ["gibbs_risk_train", "kl", "n_train", "n_hyperparameters"]
    best["bound_of_choice"] = [
        certify(RiskAndKL(risk, kl), Terms(int(n), int(t), delta, n_settings=tried)).bound_kl
        for risk, kl, n, t in best[columns].astype(float).to_numpy()
    ]
    return best.assign(chosen_m=best["inducing"].astype(float))
