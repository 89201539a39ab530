"""What a run of pac_bayes/coverage shows of its records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.pac_bayes.coverage.figures import draw
from gpsuite.experiments.pac_bayes.coverage.power import power_statistic, power_table, write_power
from gpsuite.experiments.pac_bayes.coverage.settings import CoverageSettings
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.statistics.estimates import CLOPPER_PEARSON, proportion

if TYPE_CHECKING:
    import pandas as pd


POWER = "what a wrong bound would do is in the table coverage_power"


def summarise(report: Report[CoverageSettings]) -> list[Statistic]:
    """Write the table of shares with their intervals and the figure of bounds against true risks."""
    import pandas as pd

    settings, titles = report.settings, report.titles
    power = power_table(report.records(part="power"))
    records = [record for record in report.records() if "part" not in record.axes]
    table = pd.DataFrame([row for name in titles for row in _shares(name, records, settings.deltas)])
    labels = {
        "delta": "δ",
        "share": "share of data sets in which the bound holds",
        "held": "held",
        "count": "data sets",
    }
    data = f"y = sin(2x) + N(0, {settings.noise_scale:g}²), {settings.rows} rows"
    caption = (
        f"{data}, ε = {settings.epsilon:g}; {CLOPPER_PEARSON}. Bounds this loose hold even without their KL: "
        f"{POWER}"
    )
    shown = table.assign(method=table["method"].map(titles))
    report.table(shown, "coverage", caption, labels)
    points = pd.DataFrame(
        [
            {"method": record.axes["method"], "risk": risk, "bound": bounds[0]}
            for record in records
            for risk, bounds in zip(record.arrays["risks"], record.arrays["bounds"], strict=True)
        ]
    )
    draw(report, points)
    write_power(report, power)
    return [*_statistics(table), power_statistic(power)]


def _shares(name: str, records: Sequence[Record], deltas: Sequence[float]) -> Iterator[dict[str, Any]]:
    mine = [record for record in records if record.axes["method"] == name]
    count = sum(int(record.number("count")) for record in mine)
    for delta in deltas if count else ():
        held = sum(int(record.number(f"held_{delta:g}")) for record in mine)
        share = proportion(held, count)
        yield {
            **{"method": name, "delta": delta, "promised": 1 - delta, "share": share.value},
            **{"interval_low": share.low, "interval_high": share.high, "held": held, "count": count},
        }


def _statistics(table: pd.DataFrame) -> list[Statistic]:
    return [
        Statistic.of(
            statistic_name("coverage", method=row["method"], delta=row["delta"]),
            proportion(row["held"], row["count"]),
            note=f"{row['held']} of {row['count']} held",
        )
        for row in table.to_dict("records")
    ]
