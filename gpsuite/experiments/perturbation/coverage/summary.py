"""What a run of perturbation/coverage shows of its records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.perturbation.coverage.claims import RankCounts, statistics
from gpsuite.experiments.perturbation.coverage.figures import draw
from gpsuite.experiments.perturbation.coverage.plan import BROKEN, EXACT, REFUSALS
from gpsuite.experiments.perturbation.coverage.settings import CoverageSettings
from gpsuite.experiments.perturbation.shared.coverage_models import BREAKS, MODEL_TITLES
from gpsuite.reporting.comparison import Statistic
from gpsuite.statistics.estimates import proportion

if TYPE_CHECKING:
    import pandas as pd


LABELS = {
    "broken": "what is broken",
    "low": "95 % interval from",
    "high": "to",
    "n": "repetitions",
    "p_value": "p value",
}


def summarise(report: Report[CoverageSettings]) -> list[Statistic]:
    """Write coverage of every exact and every broken cell, with intervals; draw both against 1 - q/m."""
    compared = report.settings.compared
    refusals = report.records(part=REFUSALS)
    tested = [*report.records(part=EXACT), *report.records(part=BROKEN)]
    cells = [cell for record in tested for cell in _cells(record, compared)]
    accepted = int(sum(record.number("accepted") for record in refusals))
    needed = {name: case.assumption for name, case in BREAKS.items() if case.needed}
    found = statistics(cells, needed, accepted, 4 * len(compared) * len(refusals))
    if cells:
        _write(report, coverage_table(cells))
    return found


def _cells(record: Record, compared: dict[int, list[int]]) -> list[RankCounts]:
    model, noise, group, broken = (str(record.axes[axis]) for axis in ("model", "noise", "group", "break"))
    return [
        RankCounts(model, noise, group, broken, record.arrays[f"ranks_{m}"], excluded)
        for m, excluded in compared.items()
    ]


def coverage_table(cells: Sequence[RankCounts]) -> pd.DataFrame:
    """Return one row per cell and level: nominal and measured coverage with its exact 95 % interval."""
    import pandas as pd

    rows = []
    for cell in cells:
        for q in cell.excluded:
            found = proportion(cell.inside(q), cell.total)
            rows.append(
                {
                    "broken": cell.broken,
                    "model": MODEL_TITLES[cell.model],
                    "noise": cell.noise,
                    "group": cell.group,
                    "q": q,
                    "m": cell.m,
                    "nominal": 1.0 - q / cell.m,
                    "coverage": found.value,
                    "low": found.low,
                    "high": found.high,
                    "n": cell.total,
                    "p_value": cell.p_value(q),
                }
            )
    return pd.DataFrame(rows)


def _write(report: Report[CoverageSettings], frame: pd.DataFrame) -> None:
    exact, broken = frame[frame["broken"] == ""], frame[frame["broken"] != ""]
    data = f"{report.settings.rows} data, {report.settings.repetitions} repetitions a cell"
    interval = "exact binomial 95 % intervals"
    if len(exact):
        caption = f"Coverage of the true coefficients where the assumptions hold; {data}; {interval}"
        report.table(exact.drop(columns="broken"), "coverage", caption, LABELS)
    if len(broken):
        broken = broken.copy()
        broken.insert(1, "assumption", [BREAKS[name].assumption for name in broken["broken"]])
        caption = f"Coverage where something exactness rests on is missing; {data}; {interval}"
        report.table(broken, "coverage_broken", caption, LABELS)
    draw(report, exact, broken)
