"""The figures of active_learning/convergence: mean variance, the bound of Lemma 1, and the rate, against n."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.experiments.active_learning.convergence.claims import ProcessRuns
from gpsuite.experiments.active_learning.convergence.settings import FULL, SAFE, TITLES, UNCONSTRAINED
from gpsuite.experiments.base import Report
from gpsuite.methods.active_learning.convergence import Kernel, rate
from gpsuite.reporting.palette import BLACK, BLUE, GREEN, LIMIT, VERMILION
from gpsuite.reporting.panels import panel

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


KERNELS: tuple[Kernel, ...] = ("se", "matern52", "convolution")


RATE = "rate"

CURVES = (  # array, region, label, colour, line
    ("bound", UNCONSTRAINED, "bound of Lemma 1: (2 C / n) I", BLACK, "--"),
    ("mean_maximal", UNCONSTRAINED, "mean maximal {what}", VERMILION, "-"),
    ("mean_average", UNCONSTRAINED, "mean {what}", BLUE, "-"),
    ("mean_average", SAFE, "mean {what} in the safe region", GREEN, "-"),
    (RATE, "", "rate of the theorem, scaled", LIMIT, ":"),
)


def draw(report: Report[object], cells: Sequence[ProcessRuns]) -> None:
    """Draw one figure per kind of outputs: D by kernel."""
    for outputs in dict.fromkeys(cell.outputs for cell in cells):
        _draw_one(report, [cell for cell in cells if cell.outputs == outputs], outputs)


def _draw_one(report: Report[object], cells: Sequence[ProcessRuns], outputs: str) -> None:
    import pandas as pd

    kernels = [kernel for kernel in KERNELS if any(cell.kernel == kernel for cell in cells)]
    dimensions = sorted({cell.inputs for cell in cells})
    what = "determinant" if outputs == FULL else "variance"
    runs = max(len(cell.records) for cell in cells)
    told = f"medians of {runs} runs; shaded: quartiles" if runs > 1 else "one run"
    with report.figure(
        f"convergence_{outputs}",
        remark=f"{told}; the rate starts where slopes are fitted",
        rows=len(dimensions),
        columns=len(kernels),
        size=(3.2 * len(kernels) + 0.6, 2.8 * len(dimensions) + 1.0),
        sharex=True,
        sharey="row",
    ) as drawing:
        shown = []
        for row, inputs in zip(drawing.grid, dimensions, strict=True):
            for ax, kernel in zip(row, kernels, strict=True):
                own = [cell for cell in cells if (cell.kernel, cell.inputs) == (kernel, inputs)]
                if own:
                    shown.append(_panel(ax, own, kernel, what))
                ax.set_title(f"{TITLES[kernel]}, D = {inputs}", fontsize=10)
        drawing.name_axes("queries n", f"mean predictive {what}")
        drawing.legend()
        drawing.data = pd.concat(shown, ignore_index=True)


def _panel(ax: Axes, cells: Sequence[ProcessRuns], kernel: Kernel, what: str) -> pd.DataFrame:
    """Draw one kernel and D, with the rate from where slopes are fitted; return the plotted numbers."""
    import pandas as pd

    shown = pd.concat(_frames(cells, kernel), ignore_index=True)
    series = shown["curve"] + " " + shown["region"].fillna("")
    drawn = shown.rename(columns={"median": "mean", "low": "interval_low", "high": "interval_high"})
    titles, styles = {}, {}
    for name, region, label, colour, line in CURVES:
        titles[f"{name} {region}"] = label.format(what=what)
        styles[f"{name} {region}"] = {"color": colour, "linestyle": line, "marker": ""}
    panel(
        ax,
        drawn.assign(series=series),
        "n",
        titles,
        by="series",
        kind="band",
        error="interval",
        styles=styles,
    )
    ax.set_xscale("log")
    ax.set_yscale("log")
    return shown


def _frames(cells: Sequence[ProcessRuns], kernel: Kernel) -> list[pd.DataFrame]:
    """Return the numbers of each curve of one kernel and D, the rate last."""
    import pandas as pd

    frames = []
    for name, region, *_ in CURVES:
        for cell in (cell for cell in cells if cell.region == region):
            low, median, high = _quartiles(cell, name)
            where = {"kernel": kernel, "inputs": cell.inputs, "region": region, "curve": name}
            ends = {"low": low, "high": high, "runs": len(cell.records)}
            frames.append(pd.DataFrame({**where, "n": cell.records[0].arrays["n"], "median": median, **ends}))
    first = cells[0]
    n = first.records[0].arrays["n"].astype(np.float64)
    start = _quartiles(first, "mean_average")[1]
    n, scaled = _scaled_rate(kernel, first.inputs, n, start, first.records[0].number("fit_from"))
    where = {"kernel": kernel, "inputs": first.inputs, "curve": RATE}
    return [*frames, pd.DataFrame({**where, "n": n, "median": scaled})]


def _quartiles(cell: ProcessRuns, name: str) -> FloatArray:
    """Return the quartiles of a curve over the runs, [3, k]."""
    quartiles: FloatArray = np.quantile(
        [record.arrays[name] for record in cell.records], [0.25, 0.5, 0.75], axis=0
    )
    return quartiles


def _scaled_rate(
    kernel: Kernel, inputs: int, n: FloatArray, values: FloatArray, first: float
) -> tuple[FloatArray, FloatArray]:
    """Return the counts from the first on, and the rate there, times the factor that lets it start at the values."""
    later = n >= first
    bounding = rate(kernel, inputs, n[later])
    return n[later], bounding * (values[later][0] / bounding[0])
