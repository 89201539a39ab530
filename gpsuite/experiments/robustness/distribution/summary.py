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
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import metric_statistics, summarise_groups
from gpsuite.statistics.estimates import mean

if TYPE_CHECKING:
    import pandas as pd


def summarise(report: Report[DistributionSettings]) -> list[Statistic]:
    """Write tables of delta, ratios and trainings and the box plots; return means and the paper's claims."""
    request, records, settings = report.request, report.records(), report.settings
    name = request.experiment.split("/")[1]
    titles = report.titles
    everything = records_frame(records)
    frame = everything[everything["training"] == settings.trainings[0]]
    # its rows are points of shared classifiers
    tidy = summarise_groups(frame, BY, METRICS, lambda values: mean(values).without_interval())
    heading = _heading(request, frame)
    caption = _caption(heading, settings)
    report.table(delta_table(frame, titles), name, caption)
    report.table(tidy, f"{name}_tidy", caption)
    if {"laplace", "ep"} <= set(request.methods):
        report.table(
            ratio_table(frame, shared_rows(settings)),
            f"{name}_ratio",
            f"Median δ of Laplace over EP; {caption}",
        )
    report.table(model_table(frame, titles), f"{name}_models", f"Trained classifiers; {caption}")
    first = everything[(everything["draw"] == 0) & (everything["radius"] == settings.radii[0])]
    if len(settings.trainings) > 1:
        owed = f"Start and search box changed, first draw, γ = {settings.radii[0]:g}; {caption}"
        report.table(training_table(first, titles), f"{name}_trainings", owed)
    timing = timing_table(records, ["training", *BY], titles)
    report.table(timing, f"{name}_timing", "CPU seconds per point; the first of a model trains it")
    draw(report, frame, heading, name)
    by_radius = [frame[frame["radius"] == radius] for radius in settings.radii]
    data = dataset_statistics(request.require_dataset())
    return [*data, *metric_statistics(tidy, BY), *delta_claims(by_radius, shared_rows(settings))]


def _heading(request: Request[DistributionSettings], frame: pd.DataFrame) -> str:
    """Say what moved: in images without key points the gradient chooses in place of SIFT."""
    settings = request.settings
    draws = "1 draw" if settings.draws == 1 else f"{settings.draws} draws"
    rule, count = split_word(settings.features)
    used = sorted(set(frame["chosen_by"].dropna()))
    moved = "all inputs" if rule == "all" else f"{count} inputs by {' and '.join(used)}"
    return f"{request.require_dataset().name}, {moved} perturbed, {settings.points} test points of {draws}"


def _caption(heading: str, settings: DistributionSettings) -> str:
    return (
        f"{heading}, {settings.train_rows} training rows at most; δ = π_max − π_min over the box of half-width γ, "
        f"attained values, proved within {settings.tolerance:g} at each end; Definition 1 is "
        f"max |π(x) − π(x*)|"
    )


def shared_rows(settings: DistributionSettings) -> float:
    """Return test rows over training rows of a draw, which decides how alike draws of the same rows are."""
    return settings.test_rows / settings.train_rows
