"""What a run of active_learning/engine shows of its records."""

from __future__ import annotations

from gpsuite.experiments.active_learning.engine.claims import engine_statistics
from gpsuite.experiments.active_learning.engine.settings import EngineSettings
from gpsuite.experiments.active_learning.engine.tables import report_data
from gpsuite.experiments.active_learning.shared.curves import Curves
from gpsuite.experiments.active_learning.shared.figures import draw_curves, draw_safety, errors
from gpsuite.experiments.active_learning.shared.tables import report_curves
from gpsuite.experiments.base import Report
from gpsuite.reporting.comparison import Statistic

WHAT = "Engine, HC and O2"


def summarise(report: Report[EngineSettings]) -> list[Statistic]:
    """Write curves, safety, and what is known of the data; return what the paper states."""
    settings, others = report.settings, report.records(method="")
    curves = Curves.from_records(report.records(), tuple(report.titles))
    report_data(report)
    if curves.methods:
        report_curves(report, curves, "engine", WHAT)
        heading, labels = "engine, HC and O2: safe test rows", errors("standardised units")
        draw_curves(report, curves, "engine_curves", heading, labels, thresholds=settings.thresholds)
        draw_safety(report, curves, "engine_safety", "engine: safety")
    return engine_statistics(curves, others, settings)
