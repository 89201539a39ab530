"""What a run of pac_bayes/predictive_snelson shows of its records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.pac_bayes.predictive_snelson.claims import CHOSEN, claims, where_inputs_move_least
from gpsuite.experiments.pac_bayes.predictive_snelson.figures import LABELS, draw
from gpsuite.experiments.pac_bayes.predictive_snelson.settings import PAC, PredictiveSettings
from gpsuite.experiments.pac_bayes.predictive_snelson.tables import TABLE_LABELS, plots_table, scan_table
from gpsuite.experiments.pac_bayes.shared.tables import dataset_statistics
from gpsuite.reporting.comparison import Statistic, statistic_name


def summarise(report: Report[PredictiveSettings]) -> list[Statistic]:
    """Write the table of the plots, the scan's table and the figure; return what the paper prints and says."""
    records, settings, titles = report.records(), report.settings, report.titles
    plots = plotted_records(records, settings)
    why = (
        "ε and M of the printed figure are lost in the text: these were chosen by a scan, as those whose KL/n come "
        "closest to the three printed values. ε is in units of y; nothing is standardised, all rows train. Bounds "
        f"hold with probability {1 - settings.delta:g} for an ε and M fixed in advance."
    )
    table = plots_table(plots, settings)
    shown = table.assign(method=table["method"].map(titles))
    report.table(shown, "predictive_snelson", why, TABLE_LABELS)
    scan = scan_table(records, settings)
    if len(scan):
        printed = ", ".join(f"{value:g}" for value in asdict(settings.published_kl_over_n).values())
        heading = (
            f"kl-PAC-SGP: KL/n (nats) at every ε and M of the scan, and the rising ε closest to {printed}"
        )
        report.table(scan, "predictive_snelson_scan", heading)
    draw(report, plots)
    numbers = [
        Statistic(
            statistic_name(metric, method=name, epsilon=goal),
            record.number(metric),
            n=1,
            note=CHOSEN if (metric, name) == ("kl_over_n", PAC) else "",
        )
        for (name, goal), record in plots.items()
        for metric in ("kl_over_n", "bound_kl", "gibbs_risk_train", "noise_std")
        if math.isfinite(record.number(metric))
    ]
    pac = {goal: record for (name, goal), record in plots.items() if name == PAC}
    labels = "; ".join(LABELS[name] for name in titles if name in LABELS)
    return [
        *dataset_statistics(report.request),
        *numbers,
        *claims(pac, where_inputs_move_least(scan)),
        Statistic("figure_labels", float("nan"), note=labels),
    ]


def plotted_records(records: Sequence[Record], settings: PredictiveSettings) -> dict[tuple[str, str], Record]:
    """Return the records of the figure's panels by (method, goal)."""
    goals = {value: goal for goal, value in asdict(settings.epsilons).items()}
    return {
        (str(record.axes["method"]), goals[float(record.axes["epsilon"])]): record
        for record in records
        if record.axes["inducing"] in (0, settings.inducing) and float(record.axes["epsilon"]) in goals
    }
