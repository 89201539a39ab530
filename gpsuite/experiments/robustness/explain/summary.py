"""What a run of robustness/explain shows of its records."""

from __future__ import annotations

from collections.abc import Sequence

from gpsuite.data.loading import load
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.robustness.explain.categories import category_sentences, category_table
from gpsuite.experiments.robustness.explain.figures import (
    PREDICTED,
    draw_bars,
    draw_maps,
    draw_means,
    is_image,
)
from gpsuite.experiments.robustness.explain.plan import classes_of
from gpsuite.experiments.robustness.explain.settings import ExplainSettings
from gpsuite.experiments.robustness.explain.tables import (
    mean_table,
    point_table,
    strongest_sentences,
    unproved,
)
from gpsuite.experiments.robustness.shared.records import timing_table
from gpsuite.reporting.comparison import Statistic
from gpsuite.rounding import rounded

SCALED = {"none": "", "pixels": " (pixels from 0 to 1)"}


def summarise(report: Report[ExplainSettings]) -> list[Statistic]:
    """Write the effects of every input, at each point and on average; draw both; return the check of the gradient."""
    settings, dataset = report.settings, report.request.require_dataset()
    points, checks = report.records(part="point"), report.records(part="gradient")
    slopes = [
        record.number("smallest_slope") for record in checks if record.metrics["smallest_slope"] is not None
    ]
    note = f"points with a difference above rounding; radii {settings.check_radii}"
    value = min(slopes, default=float("nan"))
    statistics = [Statistic("min_gradient_error_slope", value, n=len(slopes), note=note)]
    if not points:
        return statistics
    data = load(dataset)
    named = classes_of(dataset, settings) or list(data.label_names or ("0", "1"))
    second = named[-1] if len(named) == 2 else None
    name = dataset.shown_name
    unit = SCALED.get(settings.scaling, " standard deviations")
    radius = rounded(settings.radius, 6, -1)
    caption = (
        f"{name}: probability of {second or PREDICTED} as each input alone moves by up to {radius}{unit} "
        f"within its domain; tolerance {settings.tolerance:g}"
    )
    stated = unproved(points)
    caption += f"; {stated}" if stated else ""
    own = f"{caption}; how far each input moves is in its own units"
    names = [each for each in data.input_names if each not in data.level_inputs]
    table, means = point_table(points, report.titles, names), mean_table(points, report.titles, names)
    report.answer.extend(strongest_sentences(means, second or PREDICTED))
    if data.categories:
        _tell_categories(report, points, second or PREDICTED)
    report.table(table, "explain_points", own)
    effect = "effect Δ: change of highest plus change of lowest probability between raising and lowering"
    report.table(means, "explain", f"{caption}; mean over the points of the {effect}")
    report.table(timing_table(points, ["method"], report.titles), "explain_timing", "CPU seconds per point")
    first = [record for record in points if record.axes["method"] == points[0].axes["method"]]
    if is_image(data):
        draw_maps(report, first, data, f"images: {data.name}, {data.citation}" if data.citation else "")
    else:
        draw_bars(report, first, (names, data.units), second, table)
    draw_means(report, means, stated)
    return statistics


def _tell_categories(report: Report[ExplainSettings], points: Sequence[Record], shown: str) -> None:
    dataset = report.request.require_dataset()
    changes = category_table(points, report.titles, load(dataset))
    report.answer.extend(category_sentences(changes, shown))
    told = f"{dataset.shown_name}: change of the probability of {shown} when a category takes another level"
    report.table(changes, "explain_categories", told)
