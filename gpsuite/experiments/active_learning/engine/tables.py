"""Tables of the engine data, and of how far a sparse GP gets with many random rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpsuite.experiments.active_learning.engine.claims import DATA_FACTS
from gpsuite.experiments.active_learning.engine.plan import DATA, SATURATION
from gpsuite.experiments.active_learning.engine.settings import EngineSettings
from gpsuite.experiments.base import Record, Report
from gpsuite.reporting.palette import LIMIT
from gpsuite.reporting.panels import PAPER
from gpsuite.reporting.tables import mean_and_error
from gpsuite.statistics.estimates import mean

if TYPE_CHECKING:
    import pandas as pd


FITS = {
    "least_squares_rmse": "least squares on all training rows: RMSE, safe test rows",
    "least_squares_rmse_all": "least squares on all training rows: RMSE, all test rows",
    "least_squares_rmse_pooled": "the same, outputs pooled",
}


def report_data(report: Report[EngineSettings]) -> None:
    """Write the facts about the data, and the sparse GP's error against its number of rows with a figure."""
    import pandas as pd

    for record in report.records(part=DATA):
        facts = [{"quantity": name, "value": record.number(name)} for name in DATA_FACTS]
        facts += [{"quantity": label, "value": record.number(name)} for name, label in FITS.items()]
        report.table(pd.DataFrame(facts), "engine_data", "The engine data")
    sparse = saturation_table(report.records(part=SATURATION))
    if len(sparse):
        caption = "Sparse multi-output GP on random training rows, safe or not; mean ± standard error"
        shown = sparse.assign(
            **{
                label: [
                    mean_and_error(m, e) for m, e in zip(sparse[name], sparse[f"{name}_error"], strict=True)
                ]
                for name, label in (("rmse", "RMSE, safe test rows"), ("rmse_all", "RMSE, all test rows"))
            }
        )
        kept = ["rows", "RMSE, safe test rows", "RMSE, all test rows", "repetitions"]
        report.table(shown[kept], "engine_saturation", caption)
        _draw(report, sparse)


def saturation_table(sparse: Sequence[Record]) -> pd.DataFrame:
    """Return means and standard errors of the sparse GP's RMSE, one row per number of training rows."""
    import pandas as pd

    rows = []
    for count in sorted({int(record.axes["rows"]) for record in sparse}):
        line: dict[str, float | int] = {"rows": count}
        same = [record for record in sparse if record.axes["rows"] == count]
        for name in ("rmse", "rmse_all"):
            found = mean([record.number(name) for record in same])
            line |= {name: found.value, f"{name}_error": found.error}
        rows.append({**line, "repetitions": len(same)})
    return pd.DataFrame(rows)


def _draw(report: Report[EngineSettings], frame: pd.DataFrame) -> None:
    with report.figure("engine_saturation") as drawing:
        ax = drawing.ax
        for name, label in (("rmse", "safe test rows"), ("rmse_all", "all test rows")):
            ax.errorbar(frame["rows"], frame[name], frame[f"{name}_error"].fillna(0.0), fmt="o-", label=label)
        saturated = report.printed.get("saturated_rmse")
        if saturated is not None:
            ax.plot(
                frame["rows"].iloc[[-1]],
                [saturated],
                "o",
                ms=11,
                mfc="none",
                color=LIMIT,
                mew=1.8,
                label=PAPER,
            )
        ax.set_xscale("log")
        ax.minorticks_off()
        ax.set_xticks(frame["rows"], [str(rows) for rows in frame["rows"]])
        drawing.name_axes("random training rows, both outputs measured", "RMSE (standardised units)")
        ax.set_title("sparse multi-output GP without a safety constraint")
        ax.legend(title=f"mean ± standard error over {frame['repetitions'].max()} sets of rows")
        drawing.data = frame
