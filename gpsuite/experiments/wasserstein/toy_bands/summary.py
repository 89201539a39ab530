"""Tables, figures and claims of wasserstein/toy_bands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpsuite.experiments.base import Record, Report, frame_of
from gpsuite.experiments.wasserstein.images.tables import wide
from gpsuite.experiments.wasserstein.toy_bands.plan import BANDS, DISTANCE, WIDTH
from gpsuite.experiments.wasserstein.toy_bands.run import GAP, GRID, truth
from gpsuite.experiments.wasserstein.toy_bands.settings import ToySettings
from gpsuite.methods.wasserstein.scoring.regression import interval_half_widths
from gpsuite.reporting.claims import claim
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.palette import LIMIT, method_style
from gpsuite.reporting.tables import metric_statistics, summarise_groups
from gpsuite.statistics.estimates import Estimate, mean

SHOWN = ("nll_own", "crps", "interval_coverage", "interval_width", "gap_over_data_deviation", "tempering")


def summarise(report: Report[ToySettings]) -> list[Statistic]:
    """Write and draw the bands, what the distance's estimates are off by, and the error of finite networks."""
    bands, distance, width = (report.records(part=part) for part in (BANDS, DISTANCE, WIDTH))
    found: list[Statistic] = []
    if bands:
        tidy = summarise_groups(frame_of(bands), ["method"], SHOWN)
        caption = (
            f"mean ± standard error over {report.settings.repetitions} data sets of {report.settings.rows} rows; "
            "band in the gap without data over that at the data"
        )
        report.table(wide(tidy, report.titles, SHOWN), "bands", caption)
        _draw_bands(report, bands)
        found += metric_statistics(tidy, ["method"])
    if distance:
        found += _distances(report, distance[0])
    return found + _widths(report, width) if width else found


def _draw_bands(report: Report[ToySettings], records: Sequence[Record]) -> None:
    import pandas as pd

    first = [record for record in records if record.axes["repetition"] == 0]
    x, lines = GRID[:, 0], []
    with report.figure("bands", columns=len(first), size=(3.6 * len(first), 4.4), sharey=True) as drawing:
        for ax, record in zip(drawing.axes, first, strict=True):
            name = str(record.axes["method"])
            centre = record.arrays["mean"]
            half = interval_half_widths(np.square(record.arrays["deviation"]), 0.95)
            colour = method_style(name)["color"]
            ax.fill_between(x, centre - half, centre + half, color=colour, alpha=0.2, label="95 % interval")
            ax.plot(x, centre, color=colour, label="mean")
            ax.plot(x, truth(x), color=LIMIT, linestyle="--", label="function")
            ax.plot(record.arrays["x"], record.arrays["y"], "k.", ms=3, label="data")
            ax.axvspan(*GAP, color="0.9", zorder=0, label="no data are drawn there")
            ax.set_title(report.titles[name])
            ax.set_ylim(-4.0, 4.0)
            lines += [
                {"method": name, "x": a, "mean": m, "half_width": h}
                for a, m, h in zip(x, centre, half, strict=True)
            ]
        drawing.name_axes("x", "y")
        drawing.legend("below", columns=4)
        drawing.data = pd.DataFrame(lines)


def _distances(report: Report[ToySettings], record: Record) -> list[Statistic]:
    import pandas as pd

    lines = []
    for name, values in record.arrays.items():
        rule, size = name.rsplit(" ", 1)
        own = mean(values)
        lines.append({"rule": rule, "chosen": int(size), "bias": own.value, "low": own.low, "high": own.high})
    frame = pd.DataFrame(lines).sort_values(["rule", "chosen"])
    rows, draws = report.settings.distance_rows, report.settings.distance_draws
    report.table(
        frame,
        "distance",
        f"relative bias of the squared distance from N_S of {rows} points, {draws} pairs of kernels, 95 % t intervals",
        {
            "rule": "estimate",
            "chosen": "N_S",
            "bias": "mean relative error",
            "low": "from",
            "high": "to",
        },
    )
    with report.figure("distance", size=(6.0, 4.4)) as drawing:
        for named, part in frame.groupby("rule"):
            ends = [part["bias"] - part["low"], part["high"] - part["bias"]]
            drawing.ax.errorbar(part["chosen"], part["bias"], ends, marker="o", capsize=3, label=str(named))
        drawing.ax.axhline(0.0, color=LIMIT, linestyle="--")
        drawing.name_axes("points N_S", "mean relative error of the squared distance")
        drawing.legend("below", title=f"mean and 95 % t interval over {draws} pairs of kernels")
        drawing.data = frame
    names = {
        "max_relative_error_at_data": "largest_error_at_data",
        "max_relative_spectrum_error": "largest_spectrum_error",
    }
    return [Statistic.of(name, Estimate(record.number(own), n=draws)) for name, own in names.items()]


def _widths(report: Report[ToySettings], records: Sequence[Record]) -> list[Statistic]:
    import pandas as pd

    lines, cells, notes = [], [], []
    with report.figure("network_width", size=(6.0, 4.4)) as drawing:
        for record in records:
            name, widths = str(record.axes["activation"]), record.arrays["widths"]
            errors = record.arrays["errors"]
            # every network has its own slope over the widths: as many independent ones as networks
            own = mean(np.polyfit(np.log(widths), np.log(errors), 1)[0])
            cells.append(own.contains(-0.5))
            notes.append(f"{name}: {own.value:.3f} [{own.low:.3f}, {own.high:.3f}]")
            drawing.ax.loglog(widths, errors.mean(axis=1), marker="o", label=f"{name}, slope {own.value:.2f}")
            lines += [
                {"activation": name, "width": w, "error": e}
                for w, e in zip(widths, errors.mean(axis=1), strict=True)
            ]
        drawing.name_axes("width of the hidden layer", "relative error of the covariance")
        drawing.legend("below")
        drawing.data = pd.DataFrame(lines)
    return [claim("share_width_slopes_near_half", cells, note="; ".join(notes))]
