"""The figure of perturbation/lssvm_parameter_space: region, outer ellipsoid and asymptotic ellipse, one panel a q."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.perturbation.shared.linear import LinearSettings, confidence_panels, confidence_text
from gpsuite.reporting.palette import BLACK, BLUE, VERMILION

if TYPE_CHECKING:
    from matplotlib.axes import Axes


CURVES = {
    "region": ("exact region", "-", BLUE),
    "ellipsoid": ("ellipsoidal outer approximation", "--", VERMILION),
    "asymptotic": ("asymptotic χ² ellipse", ":", BLACK),
}


def draw(report: Report[LinearSettings], records: Sequence[Record]) -> None:
    """Draw one panel a q on common axes, smallest confidence first."""
    with confidence_panels(report, "parameter_space", records, (3.0, 3.2)) as drawing:
        for ax, record in zip(drawing.axes, records, strict=False):
            _panel(ax, record, report.settings.m)
        drawing.name_axes("w1 (weight of x1)", "w2 (weight of x2)")
        drawing.data = _frame(records)


def _panel(ax: Axes, record: Record, m: int) -> None:
    for name, (label, style, colour) in CURVES.items():
        points = record.arrays[name]
        if np.all(np.isfinite(points)):
            closed = np.vstack([points, points[:1]])
            ax.plot(closed[:, 0], closed[:, 1], style, color=colour, label=label)
    ax.plot(*record.arrays["estimate"], "+", color="black", markersize=8, label="estimate")
    ratio = record.number("ellipsoid_area") / record.number("region_area")
    ax.set_title(
        f"{confidence_text(int(record.axes['q']), m)}\nellipsoid / region area {ratio:.2f}", fontsize=10
    )
    ax.set_aspect("equal", adjustable="box")


def _frame(records: Sequence[Record]) -> pd.DataFrame:
    return pd.concat(
        [
            pd.DataFrame(record.arrays[name], columns=["w1", "w2"]).assign(q=record.axes["q"], curve=name)
            for record in records
            for name in CURVES
        ],
        ignore_index=True,
    )
