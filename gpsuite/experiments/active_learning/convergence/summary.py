"""What a run of active_learning/convergence shows of its records."""

from __future__ import annotations

from gpsuite.experiments.active_learning.convergence.claims import group_runs, statistics
from gpsuite.experiments.active_learning.convergence.figures import draw
from gpsuite.experiments.active_learning.convergence.settings import ConvergenceSettings
from gpsuite.experiments.active_learning.convergence.tables import LABELS, lemma_table, rate_table
from gpsuite.experiments.base import Report
from gpsuite.reporting.comparison import Statistic


def summarise(report: Report[ConvergenceSettings]) -> list[Statistic]:
    """Write the checks of Lemma 1 and the slopes beside the rates, draw both; return what conf/paper names."""
    settings, cells = report.settings, group_runs(report.records())
    drawn = f"{settings.runs} drawn processes of {settings.n_outputs} outputs, pool of {settings.pool} inputs"
    caption = f"Lemma 1: mean maximal variance (full: determinant) against (2 C / n) I; {drawn}"
    report.table(lemma_table(cells), "lemma_1", caption, LABELS)
    caption = (
        f"Log-log slopes against n, mean ± standard error over {drawn}; from {settings.fit_from} to "
        f"{settings.queries} observed values; excess: slope of the mean over the rate"
    )
    report.table(rate_table(cells), "rates", caption, LABELS)
    draw(report, cells)
    return statistics(cells)
