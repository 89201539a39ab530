"""What a run of active_learning/plan shows of its record."""

from __future__ import annotations

import sys

from gpsuite.data.loading import load
from gpsuite.experiments.active_learning.plan.figures import draw_plan
from gpsuite.experiments.active_learning.plan.plan import dataset_of
from gpsuite.experiments.active_learning.plan.settings import PlanSettings
from gpsuite.experiments.active_learning.plan.tables import UNITS, inference_table, proposal_table, safe_text
from gpsuite.experiments.base import Report
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import write_table

WARNINGS_APART = " | "


PROMISE = (
    "probability_safe is the model's estimate, tried on made-up functions, no guarantee: a cliff that no measurement "
    "hints at is not foreseen"
)


def summarise(report: Report) -> list[Statistic]:
    """Print and write the proposals in the user's units, and how the posteriors came about; draw the state."""
    request, records, folder, note = report.request, report.records(), report.folder, report.note
    data, record = load(dataset_of(request)), records[0]
    settings: PlanSettings = request.settings
    proposals = proposal_table(record, data)
    safe = safe_text(record, data, settings)
    caption = f"Next measurements: {safe}; {UNITS}{f' ({note})' if note else ''}"
    write_table(proposals, folder / "tables", "plan", caption)
    write_table(inference_table(record), folder / "tables", "plan_inference", f"Inference; {record.label}")
    print(f"{record.label}; {safe}\n{proposals.to_string(index=False, float_format='{:.6g}'.format)}")
    if record.metrics["note"]:
        print(record.metrics["note"])
    print(f"{UNITS}\n{PROMISE}")
    for warning in str(record.metrics["warnings"]).split(WARNINGS_APART):
        if warning:
            print(f"warning: {warning}", file=sys.stderr)
    draw_plan(record, data, settings.delta, folder / "figures", note)
    n = int(record.number("candidates"))
    return [Statistic("safe_candidates", record.number("safe_candidates"), n=n)]
