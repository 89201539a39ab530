"""Table, figure and statistics of robustness/regression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.data.loading import load
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.robustness.regression.settings import RegressionSettings
from gpsuite.experiments.robustness.shared.held_out import told_few_learnt
from gpsuite.experiments.robustness.shared.records import timing_table
from gpsuite.experiments.robustness.shared.stored_certificates import told_uncertified, write_certificates
from gpsuite.experiments.sentences import at_most
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.reporting.palette import BLACK, BLUE, SKY
from gpsuite.rounding import rounded
from gpsuite.statistics.estimates import mean
from gpsuite.text import counted

if TYPE_CHECKING:
    import pandas as pd

ENDS = ("at the point", "lowest proved", "lowest", "highest", "highest proved")
CERTIFIED = ("lowest certified", "highest certified")


def summarise(report: Report[RegressionSettings]) -> list[Statistic]:
    """Write and draw the ranges; return the mean relative change per method and the count of values outside."""
    settings, dataset, records = report.settings, report.request.require_dataset(), report.records()
    if not records:
        return []
    write_certificates(records, report.folder / "certificates")
    report.warnings.extend(told_uncertified(records))
    data = load(dataset)
    report.warnings.extend(told_few_learnt(len(data.X), settings.test_rows))
    name = dataset.shown_name
    moved = records[0].arrays["moved"]
    known = ", ".join(
        f"{each} ± {rounded(float(f'{amount:.12g}'), 3, -1)}"  # 12 digits: scaled and back
        for each, amount in zip(data.input_names, moved, strict=True)
        if amount > 0.0
    )
    caption = (
        f"{name}: {data.target_names[0]} predicted where inputs are known within so much only ({known}); "
    )
    caption += f"proved up to {settings.tolerance:g} deviations of the target"
    table = range_table(records, report.titles, settings.quantiles)
    report.table(table, "regression", caption)
    report.table(
        timing_table(records, ["method"], report.titles), "regression_timing", "CPU seconds per point"
    )
    draw(report, records, data.target_names[0], table)
    report.answer.extend(moved_sentences(records, report.titles, data.target_names[0]))
    found = []
    for method in report.titles:
        own = [record for record in records if record.axes["method"] == method]
        changes = mean([record.number("relative_change") for record in own])
        note = "largest proved change of the mean, in deviations of the target; given the model"
        found.append(Statistic.of(statistic_name("relative_change", method=method), changes, note=note))
    outside = float(sum(record.number("outside") for record in records))
    asked = settings.samples * len(records) * (1 + len(settings.quantiles))
    return [*found, Statistic("points_outside_range", outside, n=asked, note="values of the model itself")]


def moved_sentences(records: Sequence[Record], titles: Mapping[str, str], target: str) -> Iterator[str]:
    """Yield for each method how far the predictions of the test rows provably move at most."""
    for method, title in titles.items():
        ranges = np.array([each.arrays["ranges"][0] for each in records if each.axes["method"] == method])
        of = f"the predictions of {title} for"
        proved = ranges[np.isfinite(ranges[:, [1, 4]]).all(axis=1)] if len(ranges) else ranges
        inputs = "inputs that are off by as much as stated"
        if len(proved):
            moved = float(np.max(np.abs(proved[:, [1, 4]] - proved[:, [0]])))
            rest = "" if len(proved) == len(ranges) else f"; not proved for {len(ranges) - len(proved)} more"
            most = f"{counted(len(proved), 'row')} by at most {at_most(moved)} ({target})"
            yield f"Proved: {inputs} move {of} {most}{rest}."
        elif len(ranges):
            yield f"Not proved: how far {inputs} move {of} any of {counted(len(ranges), 'row')}."


def range_table(
    records: Sequence[Record], titles: Mapping[str, str], quantiles: Sequence[float]
) -> pd.DataFrame:
    """Return one row per method, point and predicted quantity, in the target's own units."""
    import pandas as pd

    unknown = np.full((1 + len(quantiles), 2), np.nan)
    names = ["mean", *(f"{100 * level:g} % quantile" for level in quantiles)]
    rows = [
        {
            "method": titles[str(record.axes["method"])],
            "point": record.axes["point"],
            "row": record.metrics["row"],
            "quantity": name,
            **dict(zip(ENDS, values.tolist(), strict=True)),
            **dict(zip(CERTIFIED, claimed.tolist(), strict=True)),
            "status": record.status,
        }
        for record in records
        for name, values, claimed in zip(
            names, record.arrays["ranges"], record.arrays.get("certified", unknown), strict=True
        )
    ]
    made = any("certified" in record.arrays for record in records)
    return pd.DataFrame(rows).drop(columns=[] if made else [*CERTIFIED])


def draw(
    report: Report[RegressionSettings], records: Sequence[Record], target: str, table: pd.DataFrame
) -> None:
    """Draw, per method, every point's proved range of the mean and, wide, from the lowest to the highest quantile."""
    present = [method for method in report.titles if any(each.axes["method"] == method for each in records)]
    with report.figure("regression", rows=len(present), size=(7.5, 0.6 + 3.4 * len(present))) as drawing:
        for ax, method in zip(drawing.axes, present, strict=True):
            own = sorted(
                (each for each in records if each.axes["method"] == method),
                key=lambda each: each.number("prediction"),
            )
            ranges, places = np.array([each.arrays["ranges"] for each in own]), np.arange(len(own))
            low, high = ranges[:, 1:, 1].min(axis=1), ranges[:, 1:, 4].max(axis=1)
            ax.vlines(places, low, high, color=SKY, lw=5, alpha=0.6, label="quantiles, proved")
            ax.vlines(places, ranges[:, 0, 1], ranges[:, 0, 4], color=BLUE, lw=5, label="mean, proved")
            ax.plot(places, ranges[:, 0, 0], "_", color=BLACK, ms=8, label="mean at the point")
            names = [str(each.axes["point"]) for each in own]
            ax.set_xticks(places, names, fontsize=7, rotation=90 if len(places) > 25 else 0)
            ax.set_title(report.titles[method])
        drawing.name_axes("test point, by prediction", target)
        drawing.legend("below")
        drawing.data = table
