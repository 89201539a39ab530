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
from gpsuite.reporting.tables import mean_and_error, metric_statistics, summarise_groups, write_table

if TYPE_CHECKING:
    import pandas as pd


def summarise(report: Report) -> list[Statistic]:
    """Write the table of fits and the figure; return the means and the share in which only FITC overfits."""
    request, records, folder, note = report.request, report.records(), report.folder, report.note
    import pandas as pd

    settings: OverfitSettings = request.settings
    frame = pd.DataFrame(
        [{**record.axes, **{name: record.number(name) for name in METRICS}} for record in records]
    )
    tidy = summarise_groups(frame, ["method"], list(METRICS))
    titles = {name: options.title for name, options in request.methods.items()}
    count = frame.groupby("method").size().min()
    caption = (
        f"{_data_title(request)}: {settings.rows} training rows, M = {settings.inducing}, ε = {settings.epsilon:g} "
        f"standard deviations of the target; mean ± standard error over {count} data sets"
        f"{f' ({note})' if note else ''}"
    )
    write_table(_wide(tidy, titles), folder / "tables", "overfit_fitc", caption)
    write_table(tidy, folder / "tables", "overfit_fitc_tidy", caption)
    example = {str(record.axes["method"]): record for record in records if record.axes["repetition"] == 0}
    options = next(iter(request.methods.values()))
    split = draw_split(task_params(request, settings, options, 0), request.dataset)
    draw(request, frame, example, split, folder / "figures", note)
    return [*metric_statistics(tidy, ["method"]), *claims(frame)]


def _data_title(request: Request) -> str:
    settings: OverfitSettings = request.settings
    if request.dataset is not None:
        return f"random rows of {request.dataset.name}"
    return f"draws of a GP with noise σ = {settings.noise_std:g}"


def _wide(tidy: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    import pandas as pd

    rows: dict[str, dict[str, Any]] = {name: {"method": title} for name, title in titles.items()}
    for line in tidy.to_dict("records"):
        rows[line["method"]][METRICS[line["metric"]]] = mean_and_error(line["mean"], line["standard_error"])
    return pd.DataFrame([row for row in rows.values() if len(row) > 1])
