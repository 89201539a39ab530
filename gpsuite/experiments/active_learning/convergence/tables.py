"""Tables of active_learning/convergence: Lemma 1, and rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpsuite.experiments.active_learning.convergence.claims import ProcessRuns
from gpsuite.experiments.active_learning.convergence.settings import TITLES
from gpsuite.reporting.tables import estimate_text

if TYPE_CHECKING:
    import pandas as pd


LABELS = {"n": "checked n", "inputs": "D"}


def _place(cell: ProcessRuns) -> dict[str, str | int]:
    return {
        "process": TITLES[cell.kernel],
        "inputs": cell.inputs,
        "region": cell.region,
        "outputs": cell.outputs,
        "runs": len(cell.records),
    }


def lemma_table(cells: Sequence[ProcessRuns]) -> pd.DataFrame:
    """Return one row per cell: checks of the bound, and the information by both routes and against its maximum."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                **_place(cell),
                "n": int(cell.values("queries").sum()),
                "violations": int(cell.values("violations").sum()),
                "largest_ratio": float(cell.values("largest_ratio").max()),
                "information (nats)": float(cell.values("information").mean()),
                "greedy sum of maximum gains (nats)": float(cell.values("information_gain").mean()),
                "log det minus chain rule, largest": float(cell.values("information_error").max()),
                "allowed share of the pool, first": float(cell.values("allowed_first").mean()),
                "allowed share of the pool, last": float(cell.values("allowed_last").mean()),
            }
            for cell in cells
        ]
    )


def rate_table(cells: Sequence[ProcessRuns]) -> pd.DataFrame:
    """Return one row per cell: slopes of the mean and mean maximal variance, of the rate, and whether it is kept."""
    import pandas as pd

    def text(cell: ProcessRuns, metric: str) -> str:
        return estimate_text(cell.mean(metric))

    return pd.DataFrame(
        [
            {
                **_place(cell),
                "slope": text(cell, "slope"),
                "slope of the maximal": text(cell, "slope_maximal"),
                "slope of the rate": float(cell.values("rate_slope").mean()),
                "excess": text(cell, "excess"),
                "excess of the maximal": text(cell, "excess_maximal"),
                "rate kept": "yes" if cell.excess <= 0.0 else "no",
            }
            for cell in cells
        ]
    )
