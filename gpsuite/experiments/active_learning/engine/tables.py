"""Tables of the engine data, and of how far a sparse GP gets with many random rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpsuite.experiments.active_learning.engine.checks import DATA, SATURATION
from gpsuite.experiments.active_learning.engine.claims import DATA_FACTS
from gpsuite.experiments.base import Record
from gpsuite.reporting.figures import figure_style, save_figure
from gpsuite.reporting.tables import mean_and_error, write_table
from gpsuite.statistics.estimates import mean

if TYPE_CHECKING:
    import pandas as pd


FITS = {
    "least_squares_rmse": "least squares on all training rows: RMSE, safe test rows",
    "least_squares_rmse_all": "least squares on all training rows: RMSE, all test rows",
    "least_squares_rmse_pooled": "the same, outputs pooled",
}


def write_data_tables(others: Sequence[Record], folder: Path, note: str | None) -> None:
    """Write the facts about the data, and the sparse GP's error against its number of rows with a figure."""
    import pandas as pd

    ending, tables = f" ({note})" if note else "", folder / "tables"
    for record in (each for each in others if each.axes["part"] == DATA):
        facts = [{"quantity": name, "value": record.number(name)} for name in DATA_FACTS]
        facts += [{"quantity": label, "value": record.number(name)} for name, label in FITS.items()]
        write_table(pd.DataFrame(facts), tables, "engine_data", f"The engine data{ending}")
    sparse = saturation_table(others)
    if len(sparse):
        caption = (
            f"Sparse multi-output GP on random training rows, safe or not; mean ± standard error{ending}"
        )
        shown = sparse.assign(
            **{
                label: [
                    mean_and_error(m, e) for m, e in zip(sparse[name], sparse[f"{name}_error"], strict=True)
                ]
                for name, label in (("rmse", "RMSE, safe test rows"), ("rmse_all", "RMSE, all test rows"))
            }
        )
        kept = ["rows", "RMSE, safe test rows", "RMSE, all test rows", "repetitions"]
        write_table(shown[kept], tables, "engine_saturation", caption)
        _draw(sparse, folder / "figures", note)


def saturation_table(others: Sequence[Record]) -> pd.DataFrame:
    """Return means and standard errors of the sparse GP's RMSE, one row per number of training rows."""
    import pandas as pd

    sparse = [record for record in others if record.axes["part"] == SATURATION and record.usable]
    rows = []
    for count in sorted({int(record.axes["rows"]) for record in sparse}):
        line: dict[str, float | int] = {"rows": count}
        same = [record for record in sparse if record.axes["rows"] == count]
        for name in ("rmse", "rmse_all"):
            found = mean([record.number(name) for record in same])
            line |= {name: found.value, f"{name}_error": found.error}
        rows.append({**line, "repetitions": len(same)})
    return pd.DataFrame(rows)


def _draw(frame: pd.DataFrame, folder: Path, note: str | None) -> None:
    import matplotlib.pyplot as plt

    with figure_style():
        fig, ax = plt.subplots()
        for name, label in (("rmse", "safe test rows"), ("rmse_all", "all test rows")):
            ax.errorbar(frame["rows"], frame[name], frame[f"{name}_error"].fillna(0.0), fmt="o-", label=label)
        ax.set_xscale("log")
        ax.minorticks_off()
        ax.set_xticks(frame["rows"], [str(rows) for rows in frame["rows"]])
        ax.set_xlabel("random training rows, both outputs measured")
        ax.set_ylabel("RMSE (standardised units)")
        ax.set_title("sparse multi-output GP without a safety constraint")
        ax.legend(title=f"mean ± standard error over {frame['repetitions'].max()} sets of rows")
        save_figure(fig, frame, folder, "engine_saturation", note)
