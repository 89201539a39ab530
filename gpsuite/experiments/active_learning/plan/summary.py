"""What a run of active_learning/plan shows of its record."""

from __future__ import annotations

from gpsuite.data.loading import load
from gpsuite.experiments.active_learning.plan.figures import draw_plan
from gpsuite.experiments.active_learning.plan.settings import PlanSettings
from gpsuite.experiments.active_learning.plan.tables import (
    UNITS,
    inference_table,
    proposal_table,
    safe_text,
    started_anew,
)
from gpsuite.experiments.base import Report
from gpsuite.reporting.comparison import Statistic

PROMISE = (
    "probability_safe is the model's estimate, tried on made-up functions, no guarantee: a cliff that no measurement "
    "hints at is not foreseen"
)


def summarise(report: Report[PlanSettings]) -> list[Statistic]:
    """Tell and write the proposals in the user's units, and how the posteriors came about; draw the state."""
    data, (record,) = load(report.request.require_dataset()), report.records()
    proposals = proposal_table(record, data)
    safe, begun = safe_text(record, data, report.settings), f"{record.label}{started_anew(record)}"
    report.table(proposals, "plan", f"Next measurements: {safe}; {UNITS}")
    report.table(inference_table(record), "plan_inference", f"Inference; {begun}")
    shown = proposals.to_string(index=False, float_format="{:.6g}".format) if len(proposals) else ""
    note = str(record.metrics["note"])
    report.answer.extend(filter(None, (f"{begun}; {safe}", shown, note, UNITS, PROMISE)))
    report.warnings.extend(record.warnings)
    draw_plan(report, record, data)
    n = int(record.number("candidates"))
    return [Statistic("safe_candidates", record.number("safe_candidates"), n=n)]
