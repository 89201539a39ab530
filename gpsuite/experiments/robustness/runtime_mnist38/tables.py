"""Seconds and boxes by dimension, radius and tolerance."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


CELL = ["bound", "gamma", "d", "eps"]


def boxes_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Return boxes per cell, mean, median and largest, and how many searches closed."""
    grouped = frame.groupby(CELL, sort=False)
    table = grouped.agg(
        points=("boxes", "size"),
        mean_boxes=("boxes", "mean"),
        median_boxes=("boxes", "median"),
        largest_boxes=("boxes", "max"),
        closed=("closed", "sum"),
        largest_gap=("gap", "max"),
    )
    return table.reset_index()


def seconds_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Return wall-clock seconds and boxes per cell, and how many searches closed."""
    grouped = frame.groupby(CELL, sort=False)
    table = grouped.agg(
        points=("boxes", "size"),
        mean_seconds=("search_seconds", "mean"),
        median_seconds=("search_seconds", "median"),
        largest_seconds=("search_seconds", "max"),
        mean_cpu_seconds=("search_cpu_seconds", "mean"),
        mean_boxes=("boxes", "mean"),
        closed=("closed", "sum"),
    )
    return table.reset_index()


def ratio_table(frame: pd.DataFrame, ours: str, reference: str) -> pd.DataFrame:
    """Return per cell the mean seconds of both bounds over the points that have both, and their ratio."""
    import pandas as pd

    keys = ["method", "gamma", "d", "eps", "point"]
    pairs = frame[frame["bound"] == ours].merge(
        frame[frame["bound"] == reference], on=keys, suffixes=("_ours", "_reference")
    )
    rows = []
    for (gamma, d, eps), cell in pairs.groupby(["gamma", "d", "eps"], sort=False):
        mine, theirs = cell["search_seconds_ours"].mean(), cell["search_seconds_reference"].mean()
        closed = int(cell["closed_reference"].sum())
        open_sign = "≥ " if closed < len(cell) else ""
        rows.append(
            {
                "gamma": gamma,
                "d": d,
                "eps": eps,
                "points": len(cell),
                "seconds ours": mine,
                f"seconds {reference}": theirs,
                "ratio": f"{open_sign}{theirs / mine:.3g}",
                f"closed by {reference}": closed,
                "boxes ours": cell["boxes_ours"].mean(),
                f"boxes {reference}": cell["boxes_reference"].mean(),
            }
        )
    return pd.DataFrame(rows)
