"""What every answer of guarantee leaves behind: sentences, assumptions, page, predictions and the model."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import load
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.guarantee.checks import VIOLATED, Check
from gpsuite.experiments.guarantee.saved import FOLDER, unpacked, write_model
from gpsuite.experiments.guarantee.settings import GuaranteeSettings
from gpsuite.reporting.answer import write_answer
from gpsuite.reporting.atomic import cannot, write_text
from gpsuite.reporting.comparison import Statistic

if TYPE_CHECKING:
    import pandas as pd

APART = "Each of these holds on its own with the probability it names, not all of them together."


def tell(report: Report[GuaranteeSettings], said: Sequence[str], checks: Sequence[Check]) -> list[Statistic]:
    """Tell and write the answer, and the assumptions beside it; return how many are violated."""
    report.answer.extend(said)
    report.answer.append(f"predictions.csv, answer.md, page.html and the model are in {report.folder};")
    report.answer.append(f"gpsuite predict {shlex.quote(str(report.folder))} NEW.csv predicts further rows")
    if checks:
        report.table(
            assumption_table(checks), "assumptions", "What the guarantees assume, and what the data say"
        )
    write_answer(report.folder, f"{report.request.require_dataset().shown_name}, answered", report.answer)
    violated = sum(check.verdict == VIOLATED for check in checks)
    return [Statistic("violated", violated, n=len(checks) or None)]


def assumption_table(checks: Sequence[Check]) -> pd.DataFrame:
    """Return one row per assumption."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "assumption": check.assumption,
                "needed by": check.needed_by,
                "finding": check.finding,
                "verdict": check.verdict,
            }
            for check in checks
        ]
    )


def row_numbers(record: Record, data: Dataset) -> dict[str, IntArray]:
    """Return what names the predicted rows, [B]: `row` of their file, from 1, or `line` of the table they are from.

    Args:
        record: of the rows to predict.
        data: the table that was learned from.
    """
    examples = record.arrays["examples"]
    if len(examples) and data.lines is not None:
        return {"line": data.lines[examples]}
    return {"row": np.asarray(1 + (examples if len(examples) else np.arange(len(record.arrays["outside"]))))}


def add_ranges(frame: pd.DataFrame, ranges: FloatArray, tolerances: Sequence[float]) -> None:
    """Add the columns of the proved ranges [B', K, 2] of the first rows, empty for the others."""
    for place, tolerance in enumerate(tolerances):
        for end, word in enumerate(("low", "high")):
            values = np.full(len(frame), np.nan)
            values[: len(ranges)] = ranges[:, place, end]
            frame[f"proved_{word}_{tolerance:g}"] = values


def keep(report: Report[GuaranteeSettings], record: Record, frame: pd.DataFrame, said: Sequence[str]) -> None:
    """Write predictions.csv and the model with what was proved of it, whichever rows it predicts."""
    write_text(report.folder / "predictions.csv", frame.to_csv(index=False, lineterminator="\n"))
    try:
        write_model(unpacked(record.arrays, tuple(filter(None, said))), report.folder / FOLDER)
    except OSError as error:
        raise cannot("write", report.folder / FOLDER, error) from error
    target = load(report.request.require_dataset()).target_names[0]
    report.table(frame, "predictions", f"{report.request.require_dataset().shown_name}: {target}")
