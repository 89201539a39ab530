"""What a run of active_learning/engine shows of its records."""

from __future__ import annotations

from gpsuite.experiments.active_learning.engine.claims import engine_statistics
from gpsuite.experiments.active_learning.engine.settings import EngineSettings
from gpsuite.experiments.active_learning.engine.tables import write_data_tables
from gpsuite.experiments.active_learning.shared.curves import Curves
from gpsuite.experiments.active_learning.shared.figures import draw_curves, draw_safety
from gpsuite.experiments.active_learning.shared.tables import write_curve_tables
from gpsuite.experiments.base import Report
from gpsuite.reporting.comparison import Statistic

WHAT = "Engine, HC and O2"


def summarise(report: Report) -> list[Statistic]:
    """Write curves, safety, and what is known of the data; return what the paper states."""
    request, records = report.request, report.records()
    settings: EngineSettings = request.settings
    others = [record for record in records if record.axes["method"] == ""]
    curves = Curves.from_records(records, tuple(report.titles))
    write_data_tables(report, others)
    if curves.methods:
        points = settings.points(max(curves.final(method) for method in curves.methods))
        write_curve_tables(report, curves, "engine", WHAT, points, settings.thresholds)
        heading = "engine, HC and O2: safe test rows"
        draw_curves(report, curves, "engine_curves", heading, "standardised units", settings.thresholds)
        draw_safety(report, curves, "engine_safety", "engine: safety")
    return engine_statistics(curves, others, settings)
