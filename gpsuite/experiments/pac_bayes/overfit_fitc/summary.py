"""What a run of pac_bayes/overfit_fitc shows of its records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpsuite.experiments.base import Report, Request
from gpsuite.experiments.pac_bayes.overfit_fitc.claims import claims
from gpsuite.experiments.pac_bayes.overfit_fitc.figures import draw
from gpsuite.experiments.pac_bayes.overfit_fitc.plan import task_params
from gpsuite.experiments.pac_bayes.overfit_fitc.run import METRICS, draw_split
from gpsuite.experiments.pac_bayes.overfit_fitc.settings import OverfitSettings
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.metrics import headings
from gpsuite.reporting.tables import mean_and_error, metric_statistics, summarise_groups

if TYPE_CHECKING:
    import pandas as pd


HEADINGS = headings(METRICS, "pac_bayes")


def summarise(report: Report[OverfitSettings]) -> list[Statistic]:
    """Write the table of fits and the figure; return the means and the share in which only FITC overfits."""
    request, settings, records = report.request, report.settings, report.records()
    import pandas as pd

    frame = pd.DataFrame(
        [{**record.axes, **{name: record.number(name) for name in METRICS}} for record in records]
    )
    tidy = summarise_groups(frame, ["method"], METRICS)
    count = frame.groupby("method").size().min()
    caption = (
        f"{_data_title(request)}: {settings.rows} training rows, M = {settings.inducing}, ε = {settings.epsilon:g} "
        f"standard deviations of the target; mean ± standard error over {count} data sets"
    )
    report.table(_wide(tidy, report.titles), "overfit_fitc", caption)
    report.table(tidy, "overfit_fitc_tidy", caption)
    options = next(iter(request.methods.values()))
    draw(report, frame, draw_split(task_params(request, options, 0), request.dataset))
    return [*metric_statistics(tidy, ["method"]), *claims(frame)]


def _data_title(request: Request[OverfitSettings]) -> str:
    if request.dataset is not None:
        return f"random rows of {request.dataset.name}"
    return f"draws of a GP with noise σ = {request.settings.noise_std:g}"


def _wide(tidy: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    import pandas as pd

    rows: dict[str, dict[str, Any]] = {name: {"method": title} for name, title in titles.items()}
    for line in tidy.to_dict("records"):
        rows[line["method"]][HEADINGS[line["metric"]]] = mean_and_error(line["mean"], line["standard_error"])
    return pd.DataFrame([row for row in rows.values() if len(row) > 1])
