"""What a run of robustness/distribution_* shows of its records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpsuite.experiments.base import Report, Request
from gpsuite.experiments.robustness.distribution.figures import draw
from gpsuite.experiments.robustness.distribution.settings import DistributionSettings
from gpsuite.experiments.robustness.distribution.tables import (
    BY,
    METRICS,
    delta_table,
    model_table,
    ratio_table,
    training_table,
)
from gpsuite.experiments.robustness.shared.free_inputs import split_word
from gpsuite.experiments.robustness.shared.probability_change_claims import delta_claims
from gpsuite.experiments.robustness.shared.records import dataset_statistics, records_frame, timing_table
from gpsuite.experiments.robustness.shared.settings import request_dataset
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import metric_statistics, summarise_groups, write_table
from gpsuite.statistics.estimates import mean

if TYPE_CHECKING:
    import pandas as pd


def summarise(report: Report) -> list[Statistic]:
    """Write tables of delta, ratios and trainings and the box plots; return means and the paper's claims."""
    request, records, folder, note = report.request, report.records(), report.folder, report.note
    settings: DistributionSettings = request.settings
    name, tables = request.experiment.split("/")[1], folder / "tables"
    titles = {method: options.title for method, options in request.methods.items()}
    everything = records_frame(records)
    frame = everything[everything["training"] == settings.trainings[0]]
    # its rows are points of shared classifiers
    tidy = summarise_groups(frame, BY, METRICS, lambda values: mean(values).without_interval())
    heading = _heading(request, frame)
    caption = _caption(heading, settings, note)
    write_table(delta_table(frame, titles), tables, name, caption)
    write_table(tidy, tables, f"{name}_tidy", caption)
    if {"laplace", "ep"} <= set(request.methods):
        write_table(
            ratio_table(frame, shared_rows(settings)),
            tables,
            f"{name}_ratio",
            f"Median δ of Laplace over EP; {caption}",
        )
    write_table(model_table(frame, titles), tables, f"{name}_models", f"Trained classifiers; {caption}")
    first = everything[(everything["draw"] == 0) & (everything["radius"] == settings.radii[0])]
    if len(settings.trainings) > 1:
        owed = f"Start and search box changed, first draw, γ = {settings.radii[0]:g}; {caption}"
        write_table(training_table(first, titles), tables, f"{name}_trainings", owed)
    timing = timing_table(records, ["training", *BY], titles)
    write_table(timing, tables, f"{name}_timing", "CPU seconds per point; the first of a model trains it")
    draw(frame, titles, settings.radii, heading, folder / "figures", name, note)
    main = frame[frame["radius"] == settings.radii[0]]
    data = dataset_statistics(request_dataset(request))
    return [*data, *metric_statistics(tidy, BY), *delta_claims(main, shared_rows(settings))]


def _heading(request: Request, frame: pd.DataFrame) -> str:
    """Say what moved: SIFT falls back to the gradient without OpenCV, and in images without key points."""
    settings: DistributionSettings = request.settings
    draws = "1 draw" if settings.draws == 1 else f"{settings.draws} draws"
    rule, count = split_word(settings.features)
    used = sorted(set(frame["chosen_by"].dropna()))
    moved = "all inputs" if rule == "all" else f"{count} inputs by {' and '.join(used)}"
    return f"{request_dataset(request).name}, {moved} perturbed, {settings.points} test points of {draws}"


def _caption(heading: str, settings: DistributionSettings, note: str | None) -> str:
    return (
        f"{heading}, {settings.train_rows} training rows at most; δ = π_max − π_min over the box of half-width γ, "
        f"attained values, proved within {settings.tolerance:g} at each end; Definition 1 is "
        f"max |π(x) − π(x*)|{f' ({note})' if note else ''}"
    )


def shared_rows(settings: DistributionSettings) -> float:
    """Return test points over training rows of a draw, which decides how alike draws of the same rows are."""
    return settings.points / settings.train_rows
