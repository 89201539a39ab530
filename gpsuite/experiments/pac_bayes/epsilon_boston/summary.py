"""What a run of pac_bayes/epsilon_boston shows of its records."""

from __future__ import annotations

from gpsuite.experiments.base import Report
from gpsuite.experiments.pac_bayes.epsilon_boston.claims import boston_claims
from gpsuite.experiments.pac_bayes.epsilon_boston.figures import draw
from gpsuite.experiments.pac_bayes.epsilon_boston.settings import EpsilonSettings
from gpsuite.experiments.pac_bayes.shared.splits import shown_over
from gpsuite.experiments.pac_bayes.shared.tables import (
    METRICS,
    dataset_statistics,
    records_frame,
    summarise_fits,
    wide_table,
)
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import metric_statistics


def summarise(report: Report[EpsilonSettings]) -> list[Statistic]:
    """Write the table and the five-panel figure; return means and the paper's claims as statistics."""
    frame = records_frame(report.records())
    tidy = summarise_fits(frame, ["method", "epsilon"], METRICS)
    counts = frame.groupby(["method", "epsilon"]).size()
    caption = (
        f"Boston housing, {shown_over(counts)}; bounds hold with probability {1 - report.settings.delta:g}"
    )
    report.table(wide_table(tidy, ["epsilon", "method"], report.titles), "epsilon_boston", caption)
    report.table(tidy, "epsilon_boston_tidy", caption)
    several = f"bars: mean over {counts.min()} splits; ticks: standard error"
    draw(report, tidy, several if counts.min() > 1 else "bars: one random split")
    means = metric_statistics(tidy, ["method", "epsilon"], frame.sort_values("split"))
    return [*dataset_statistics(report.request), *means, *boston_claims(frame, report.settings.delta)]
