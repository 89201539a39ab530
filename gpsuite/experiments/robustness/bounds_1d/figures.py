"""Bounding functions over an interval, before and after one split, as Fig. 1 of Blaas et al. 2020."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpsuite.experiments.base import Record
from gpsuite.reporting.figures import figure_style, math_label, save_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


OUTPUT, LOWER, UPPER, POINT = "#0072B2", "#D55E00", "#009E73", "#000000"


PARTS = {"whole": "whole region T", "halves": "after one split"}


def draw(
    records: Sequence[Record],
    titles: Mapping[str, str],
    bounds: Mapping[str, str],
    folder: Path,
    note: str | None,
) -> None:
    """Draw one row per record: the region as a whole, and split once.

    Args:
        records: with the arrays of `bounds_1d.run`.
        titles: method -> title.
        bounds: name of a bound -> title.
        folder: the run's figures folder.
        note: drawn small at the bottom.
    """
    import matplotlib.pyplot as plt
    import pandas as pd

    with figure_style():
        size = (11, 1.2 + 2.9 * len(records))
        fig, axes = plt.subplots(len(records), 2, figsize=size, sharex=True, sharey=True, squeeze=False)
        for row, record in zip(axes, records, strict=True):
            who = f"{titles[str(record.axes['method'])]}, {bounds[str(record.axes['bound'])]}"
            for level, (ax, (part, words)) in enumerate(zip(row, PARTS.items(), strict=True)):
                _draw_panel(ax, record, part, level)
                ax.set_title(f"{who}: {words}")
            row[0].set_ylabel("class probability π(x)")
        for ax in axes[-1]:
            ax.set_xlabel("input x")
        handles, labels = axes[0, 1].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper center", ncols=3)
        save_figure(fig, pd.concat([_frame(record) for record in records]), folder, "bounds_1d", note)


def _draw_panel(ax: Axes, record: Record, part: str, level: int) -> None:
    arrays, x = record.arrays, record.arrays["x"]
    _, attained, proved = arrays["levels"][level]
    ax.plot(x, arrays["probability"], color=OUTPUT, label="output π(x)")
    ax.plot(x, arrays[f"{part}_low"], color=LOWER, linestyle="--", label="lower bound function")
    ax.plot(x, arrays[f"{part}_high"], color=UPPER, linestyle=":", label="upper bound function")
    ax.axhline(proved, color=LOWER, linewidth=1, label=math_label(r"$\pi_{\min}^L(T)$: proved"))
    ax.axhline(
        attained, color=POINT, linewidth=1, linestyle="-.", label=math_label(r"$\pi_{\min}^U(T)$: attained")
    )
    if level:
        ax.axvline(0.5 * (x[0] + x[-1]), color="0.5", linewidth=1, label="split")
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlim(x[0], x[-1])


def _frame(record: Record) -> pd.DataFrame:
    import pandas as pd

    curves = {name: values for name, values in record.arrays.items() if name != "levels"}
    return pd.DataFrame({**dict(record.axes), **curves})
