"""Records of the family as data frames, and what is said about its datasets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.base import Record, frame_of
from gpsuite.reporting.comparison import Statistic, statistic_name

if TYPE_CHECKING:
    import pandas as pd


def records_frame(records: Sequence[Record]) -> pd.DataFrame:
    """Return one row per record: axes and metrics, numbers as floats (NaN where a number is missing)."""
    frame = frame_of(records)
    axes = {name for record in records for name in record.axes}
    numeric = {
        name
        for record in records
        for name, value in record.metrics.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    for name in numeric - axes:
        frame[name] = frame[name].astype(float)
    return frame


def dataset_statistics(dataset: PreparedDataset) -> list[Statistic]:
    """Return rows, inputs and class shares of a classification dataset, and the side of its square images."""
    data = load(dataset)
    names = data.label_names or tuple(f"{number}" for number in range(data.n_classes))
    counts = np.bincount(data.y[:, 0].astype(np.int64), minlength=len(names))
    shares = [
        Statistic(
            statistic_name("class_percent", label=name), 100.0 * float(count) / len(data.X), n=len(data.X)
        )
        for name, count in zip(names, counts, strict=True)
    ]
    sizes = [Statistic("dataset_rows", len(data.X)), Statistic("dataset_inputs", data.X.shape[1])]
    side = math.isqrt(data.X.shape[1])
    images = all(name.startswith("pixel_") for name in data.input_names) and side**2 == data.X.shape[1]
    return [*sizes, *shares, *([Statistic("image_side", side)] if images else [])]


def timing_table(records: Sequence[Record], by: Sequence[str], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return mean CPU seconds and the largest memory of each group; the first task of a model trains it."""
    import pandas as pd

    rows = [
        {
            **{axis: record.axes[axis] for axis in by},
            "CPU seconds": record.timing.get("cpu_seconds", math.nan),
            "peak memory (MB)": record.timing.get("peak_memory_mb", math.nan),
        }
        for record in records
    ]
    groups = pd.DataFrame(rows).groupby(list(by), sort=False)
    table = groups["CPU seconds"].agg(["count", "median", "mean", "max"]).reset_index()
    table = table.rename(columns={"count": "tasks", "median": "median CPU seconds", "mean": "mean CPU seconds",
                                  "max": "largest CPU seconds"})  # fmt: skip
    table["peak memory (MB)"] = groups["peak memory (MB)"].max().to_numpy()
    if "method" in table:
        table["method"] = table["method"].map(dict(titles))
    return table.round(4)
