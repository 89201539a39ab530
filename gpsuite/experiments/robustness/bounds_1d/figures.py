"""Bounding functions over an interval, before and after one split, as Fig. 1 of Blaas et al. 2020."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.robustness.bounds_1d.settings import BOUNDS
from gpsuite.reporting.figures import math_label
from gpsuite.reporting.palette import BLACK, BLUE, GREEN, VERMILION

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


PARTS = {"whole": "whole region T", "halves": "after one split"}


def draw(report: Report[object], records: Sequence[Record]) -> None:
    """Draw one row per record, which holds the arrays of `bounds_1d.run`: the whole region, and split once."""
    import pandas as pd

    size = (11, 1.2 + 2.9 * len(records))
    with report.figure(
        "bounds_1d", rows=len(records), columns=2, size=size, sharex=True, sharey=True
    ) as drawing:
        for row, record in zip(drawing.grid, records, strict=True):
            who = f"{report.titles[str(record.axes['method'])]}, {BOUNDS[str(record.axes['bound'])]}"
            for level, (ax, (part, words)) in enumerate(zip(row, PARTS.items(), strict=True)):
                _draw_panel(ax, record, part, level)
                ax.set_title(f"{who}: {words}")
        drawing.name_axes("input x", "class probability π(x)")
        drawing.legend()
        drawing.data = pd.concat([_frame(record) for record in records])


def _draw_panel(ax: Axes, record: Record, part: str, level: int) -> None:
    arrays, x = record.arrays, record.arrays["x"]
    _, attained, proved = arrays["levels"][level]
    ax.plot(x, arrays["probability"], color=BLUE, label="output π(x)")
    ax.plot(x, arrays[f"{part}_low"], color=VERMILION, linestyle="--", label="lower bound function")
    ax.plot(x, arrays[f"{part}_high"], color=GREEN, linestyle=":", label="upper bound function")
    ax.axhline(proved, color=VERMILION, linewidth=1, label=math_label(r"$\pi_{\min}^L(T)$: proved"))
    ax.axhline(
        attained, color=BLACK, linewidth=1, linestyle="-.", label=math_label(r"$\pi_{\min}^U(T)$: attained")
    )
    if level:
        ax.axvline(0.5 * (x[0] + x[-1]), color="0.5", linewidth=1, label="split")
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlim(x[0], x[-1])


def _frame(record: Record) -> pd.DataFrame:
    import pandas as pd

    curves = {name: values for name, values in record.arrays.items() if name != "levels"}
    return pd.DataFrame({**dict(record.axes), **curves})
