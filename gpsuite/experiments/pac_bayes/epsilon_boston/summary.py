"""What a run of pac_bayes/epsilon_boston shows of its records."""

from __future__ import annotations

from gpsuite.experiments.base import Report
from gpsuite.experiments.pac_bayes.epsilon_boston.claims import boston_claims
from gpsuite.experiments.pac_bayes.epsilon_boston.figures import draw
from gpsuite.experiments.pac_bayes.shared.tables import (
    METRICS,
    dataset_statistics,
    records_frame,
    summarise_fits,
    wide_table,
)
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import metric_statistics, write_table


def summarise(report: Report) -> list[Statistic]:
    """Write the table and the five-panel figure; return means and the paper's claims as statistics."""
    request, records, folder, note = report.request, report.records(), report.folder, report.note
    frame = records_frame(records)
    tidy = summarise_fits(frame, ["method", "epsilon"], METRICS)
    titles = {name: options.title for name, options in request.methods.items()}
    count = frame.groupby(["method", "epsilon"]).size().min()
    caption = (
        f"Boston housing, mean ± standard error over {count} random splits; "
        f"bounds hold with probability {1 - request.settings.delta:g}"
    )
    if note:
        caption += f" ({note})"
    write_table(wide_table(tidy, ["epsilon", "method"], titles), folder / "tables", "epsilon_boston", caption)
    write_table(tidy, folder / "tables", "epsilon_boston_tidy", caption)
    draw(tidy, titles, f"bars: mean over {count} splits; ticks: standard error", folder / "figures", note)
    means = metric_statistics(tidy, ["method", "epsilon"])
    return [*dataset_statistics(request), *means, *boston_claims(frame, request.settings.delta)]
