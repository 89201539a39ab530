"""Records of the image experiments as frames: scores by method, differences to GWI, detection, shifts, noise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.base import Record, frame_of
from gpsuite.reporting.tables import mean_and_error
from gpsuite.statistics.estimates import corrected_mean

if TYPE_CHECKING:
    import pandas as pd

SCORES = ("accuracy", "nll", "brier", "ece", "confidence_excess", "aurc")
UNCERTAINTY = ("total_uncertainty", "data_uncertainty", "knowledge_uncertainty")
DETECTION = ("auroc", "auroc_knowledge", "aupr", "fpr95")
COMPARED = ("accuracy", "nll", "ece")
OURS = "gwi"


def scored_frame(records: Sequence[Record]) -> pd.DataFrame:
    """Return one row per record of a classifier: its axes and metrics.

    A record has no place for infinity: an NLL that is missing beside its accuracy is that of a label that was given
    probability 0, and a mean over it is infinite.
    """
    frame = frame_of(records)
    for name in [name for name in frame.columns if name.startswith("nll")]:
        judged = frame[name.replace("nll", "accuracy", 1)].notna()
        frame[name] = frame[name].astype(float).mask(judged & frame[name].isna(), np.inf)
    return frame


def outside_names(frame: pd.DataFrame) -> list[str]:
    """Return the names of what was shown beside the test images."""
    return [name.split(" ", 1)[1] for name in frame.columns if name.startswith("auroc ")]


def shift_levels(frame: pd.DataFrame) -> list[float]:
    """Return the deviations of the noise added to test images, in increasing order."""
    return sorted(float(name.rsplit(" ", 1)[1]) for name in frame.columns if name.startswith("nll shift "))


def wide(tidy: pd.DataFrame, titles: dict[str, str], metrics: Iterable[str]) -> pd.DataFrame:
    """Return one row per method, `mean ± standard error` per metric."""
    import pandas as pd

    lines = []
    for name, title in titles.items():
        own = tidy[tidy["method"] == name].set_index("metric")
        cells = {
            metric: mean_and_error(float(own["mean"][metric]), float(own["standard_error"][metric]))
            for metric in metrics
            if metric in own.index
        }
        if cells:
            lines.append({"method": title, **cells})
    return pd.DataFrame(lines)


def detection_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per record and outside set, with the columns of `DETECTION`."""
    import pandas as pd

    lines = []
    for _, row in frame.iterrows():
        for name in outside_names(frame):
            found = {metric: row[f"{metric} {name}"] for metric in DETECTION}
            lines.append({"method": row["method"], "repetition": row["repetition"], "outside": name, **found})
    return pd.DataFrame(lines)


def shift_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per record and shift, with accuracy, NLL and ECE."""
    import pandas as pd

    lines = []
    for _, row in frame.iterrows():
        for level in shift_levels(frame):
            found = {name: row[f"{name} shift {level:g}"] for name in COMPARED}
            lines.append({"method": row["method"], "repetition": row["repetition"], "shift": level, **found})
    return pd.DataFrame(lines)


def differences(frame: pd.DataFrame, titles: dict[str, str], test_over_training: float) -> pd.DataFrame:
    """Return GWI minus each other method over shared repetitions, with 95 % t intervals.

    Args:
        frame: records of clean labels.
        titles: of the methods.
        test_over_training: test rows over training rows of a split; 0 where repetitions do not split the same rows.
    """
    import pandas as pd

    names = [*COMPARED, *(f"auroc {name}" for name in outside_names(frame))]
    lines = []
    for other in [name for name in titles if name != OURS]:
        for metric in names:
            pivot = frame.pivot(index="repetition", columns="method", values=metric)
            if not {OURS, other} <= set(pivot.columns):
                continue
            gains = (pivot[OURS] - pivot[other]).dropna().to_numpy(dtype=np.float64)
            found = corrected_mean(gains, test_over_training)
            lines.append(
                {
                    "baseline": titles[other],
                    "metric": metric,
                    "difference": found.value,
                    "low": found.low,
                    "high": found.high,
                    "n": found.n,
                }
            )
    return pd.DataFrame(lines, columns=["baseline", "metric", "difference", "low", "high", "n"])
