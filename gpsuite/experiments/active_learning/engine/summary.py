"""What a run of active_learning/engine shows of its records."""

from __future__ import annotations

from gpsuite.experiments.active_learning.engine.claims import engine_statistics
from gpsuite.experiments.active_learning.engine.settings import EngineSettings
from gpsuite.experiments.active_learning.engine.tables import write_data_tables
from gpsuite.experiments.active_learning.methods import titles
from gpsuite.experiments.active_learning.shared.curves import Curves
from gpsuite.experiments.active_learning.shared.figures import draw_curves, draw_safety
from gpsuite.experiments.active_learning.shared.tables import write_curve_tables
from gpsuite.experiments.base import Report
from gpsuite.reporting.comparison import Statistic

WHAT = "Engine, HC and O2"


def summarise(report: Report) -> list[Statistic]:
    """Write curves, safety, and what is known of the data; return what the paper states."""
    request, records, folder, note = report.request, report.records(), report.folder, report.note
    settings: EngineSettings = request.settings
    names = titles(request.methods)
    others = [record for record in records if record.axes["method"] == ""]
    curves = Curves.from_records(records, tuple(names))
    write_data_tables(others, folder, note)
    if curves.methods:
        points = settings.points(max(curves.final(method) for method in curves.methods))
        write_curve_tables(
            curves, names, folder / "tables", "engine", WHAT, points, settings.thresholds, note
        )
        figures, units = folder / "figures", "standardised units"
        heading = "engine, HC and O2: safe test rows"
        draw_curves(curves, names, figures, "engine_curves", heading, units, settings.thresholds, note)
        draw_safety(curves, names, figures, "engine_safety", "engine: safety", note)
    return engine_statistics(curves, others, settings)
