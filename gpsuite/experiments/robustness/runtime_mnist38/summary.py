"""What a run of robustness/runtime_mnist38 shows of its records."""

from __future__ import annotations

from gpsuite.data.loading import load
from gpsuite.experiments.base import Report, frame_of
from gpsuite.experiments.robustness.runtime_mnist38.claims import runtime_statistics
from gpsuite.experiments.robustness.runtime_mnist38.figures import draw_runtime
from gpsuite.experiments.robustness.runtime_mnist38.run import MEASURED
from gpsuite.experiments.robustness.runtime_mnist38.settings import OURS, RuntimeSettings
from gpsuite.experiments.robustness.runtime_mnist38.tables import (
    boxes_table,
    ratio_table,
    seconds_table,
)
from gpsuite.experiments.robustness.safety_curves.claims import dataset_statistics
from gpsuite.reporting.comparison import Statistic


def summarise(report: Report[RuntimeSettings]) -> list[Statistic]:
    """Write seconds, boxes and ratios per cell, draw Fig. 7, and return the statistics."""
    settings, dataset = report.settings, report.request.require_dataset()
    frame = frame_of(report.records())
    rules = ", ".join(sorted(set(frame["chosen_by"])))
    caption = (
        f"{dataset.name}: π max over L-infinity balls of radius γ, d free pixels "
        f"(chosen by {rules}); {MEASURED}"
    )
    report.table(boxes_table(frame[frame["bound"] == OURS]), "runtime_mnist38", caption)
    report.table(seconds_table(frame), "runtime_mnist38_timing", caption)
    ratios = (
        f"{caption}; seconds of bound {settings.reference} over ours, paired points; ≥: a lower bound, since "
        "not all of its searches closed"
    )
    report.table(ratio_table(frame, OURS, settings.reference), "runtime_mnist38_ratio_timing", ratios)
    draw_runtime(report, frame)
    statistics = dataset_statistics(load(dataset))
    return statistics + runtime_statistics(frame, settings.tolerances[-1], OURS, settings.reference)
