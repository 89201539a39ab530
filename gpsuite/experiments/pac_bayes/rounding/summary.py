"""What a run of pac_bayes/rounding shows of its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.pac_bayes.rounding.claims import claims
from gpsuite.experiments.pac_bayes.rounding.figures import draw
from gpsuite.experiments.pac_bayes.rounding.run import AGAINST_PAPER, RECORDED
from gpsuite.experiments.pac_bayes.rounding.settings import PAC, PAPER_DECIMALS, RoundingSettings
from gpsuite.experiments.pac_bayes.shared.splits import shown_over
from gpsuite.experiments.pac_bayes.shared.tables import dataset_statistics, summarise_splits
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.metrics import headings
from gpsuite.reporting.tables import mean_and_error, metric_statistics

if TYPE_CHECKING:
    import pandas as pd


METRICS = (*RECORDED, AGAINST_PAPER)


MILLIONTHS = 1e6


HEADINGS = headings(METRICS) | {"bound_kl": "upper bound B_kl"}


def summarise(report: Report[RoundingSettings]) -> list[Statistic]:
    """Write the tables and the figure of the bound against the decimals; return what decides App. F's claims."""
    frame = records_frame(report.records())
    by = ["method", "epsilon", "decimals"]
    tidy = summarise_splits(frame, by, list(METRICS))
    shown = shown_over(frame.groupby(by).size())
    caption = (
        f"{report.request.require_dataset().name}: ln of variance and lengthscales rounded to d decimals in [-6, 6] "
        f"after training, {shown}; bounds hold with probability {1 - report.settings.delta:g}"
    )
    report.table(_wide(tidy, report.titles), "rounding", caption)
    report.table(tidy, "rounding_tidy", caption)
    draw(report, frame)
    means = metric_statistics(tidy[tidy["mean"].notna() & (tidy["metric"] != "log_theta_over_n")], by)
    return [*dataset_statistics(report.request), *means, *claims(frame[frame["method"] == PAC])]


def records_frame(records: Sequence[Record]) -> pd.DataFrame:
    """Return one row per record: axes, recorded metrics and the bound against that at two decimals (or NaN)."""
    import pandas as pd

    rows = [{**record.axes, **{name: record.number(name) for name in RECORDED}} for record in records]
    frame = pd.DataFrame(rows)
    cell = ["method", "epsilon", "split"]
    paper = frame.loc[frame["decimals"] == PAPER_DECIMALS].set_index(cell)["bound_kl"].to_dict()
    places = frame[cell].itertuples(index=False, name=None)
    frame[AGAINST_PAPER] = frame["bound_kl"] - [paper.get(place, float("nan")) for place in places]
    return frame


def _wide(tidy: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    import pandas as pd

    rows: dict[tuple[str, float, int], dict[str, Any]] = {}
    for line in tidy.to_dict("records"):
        place = (str(line["method"]), float(line["epsilon"]), int(line["decimals"]))
        start = {"method": titles[place[0]], "ε": place[1], "decimals d": place[2]}
        unit = MILLIONTHS if line["metric"] == "bound_change" else 1.0
        cell = mean_and_error(unit * line["mean"], unit * line["standard_error"])
        rows.setdefault(place, start)[HEADINGS[line["metric"]]] = cell
    return pd.DataFrame(list(rows.values()))
