"""What a run of active_learning/convergence shows of its records."""

from __future__ import annotations

from gpsuite.experiments.active_learning.convergence.claims import group_runs, statistics
from gpsuite.experiments.active_learning.convergence.figures import draw
from gpsuite.experiments.active_learning.convergence.settings import ConvergenceSettings
from gpsuite.experiments.active_learning.convergence.tables import LABELS, lemma_table, rate_table
from gpsuite.experiments.base import Report
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import write_table


def summarise(report: Report) -> list[Statistic]:
    """Write the checks of Lemma 1 and the slopes beside the rates, draw both; return what conf/paper names."""
    request, records, folder, note = report.request, report.records(), report.folder, report.note
    settings: ConvergenceSettings = request.settings
    cells = group_runs(records)
    if cells:
        ending = f" ({note})" if note else ""
        drawn = (
            f"{settings.runs} drawn processes of {settings.n_outputs} outputs, pool of {settings.pool} inputs"
        )
        caption = f"Lemma 1: mean maximal variance (full: determinant) against (2 C / n) I; {drawn}{ending}"
        write_table(lemma_table(cells), folder / "tables", "lemma_1", caption, LABELS)
        caption = (
            f"Log-log slopes against n, mean ± standard error over {drawn}; from {settings.fit_from} to "
            f"{settings.queries} observed values; excess: slope of the mean over the rate{ending}"
        )
        write_table(rate_table(cells), folder / "tables", "rates", caption, LABELS)
        draw(cells, folder / "figures", note)
    return statistics(cells)
