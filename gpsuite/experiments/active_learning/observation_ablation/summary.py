"""What a run of active_learning/observation_ablation shows of its records."""

from __future__ import annotations

from gpsuite.experiments.active_learning.methods import pipeline_params
from gpsuite.experiments.active_learning.observation_ablation.claims import ablation_statistics
from gpsuite.experiments.active_learning.observation_ablation.settings import (
    GP_SAMPLES,
    TOY,
    AblationSettings,
)
from gpsuite.experiments.active_learning.observation_ablation.tables import area_table, share_table
from gpsuite.experiments.active_learning.shared.claims import AL
from gpsuite.experiments.active_learning.shared.curves import Curves
from gpsuite.experiments.active_learning.shared.figures import draw_curves, errors
from gpsuite.experiments.active_learning.shared.generated_data import EQUAL
from gpsuite.experiments.base import Report
from gpsuite.reporting.comparison import Statistic

HEADINGS = {TOY: "sine and sigmoid", GP_SAMPLES: "draws from a multi-output GP"}


def summarise(report: Report[AblationSettings]) -> list[Statistic]:
    """Write errors and areas under the curves per dataset, and which output is queried where they are unequal."""
    settings, names = report.settings, report.titles
    sets = {source: _curves(report, source, EQUAL) for source in settings.sources}
    sets = {source: curves for source, curves in sets.items() if curves.methods}
    methods = report.request.methods
    partial = {name: pipeline_params(options).queries == "partial" for name, options in methods.items()}
    dashed = {name: {"ls": "--"} for name, one_output in partial.items() if not one_output}
    for source, curves in sets.items():
        heading = f"{HEADINGS[source]}: one output per query, or all of them"
        draw_curves(report, curves, f"observation_{source}", heading, errors("output units"), styles=dashed)
        caption = f"{HEADINGS[source]}: mean RMSE over the common range of N_sum, mean ± standard error"
        report.table(area_table(curves, names), f"observation_{source}", caption)
    chosen = (EQUAL, *settings.unequal) if TOY in settings.sources else ()
    unequal = {which: _curves(report, TOY, which) for which in chosen}
    unequal = {which: curves for which, curves in unequal.items() if AL in curves.methods}
    if unequal:
        caption = f"{names[AL]} on sine and sigmoid: share of the queries that go to each output"
        report.table(share_table(unequal), "observation_unequal", caption)
    return ablation_statistics(sets, partial, {k: v for k, v in unequal.items() if k != EQUAL})


def _curves(report: Report[AblationSettings], source: str, unequal: str) -> Curves:
    return Curves.from_records(report.records(source=source, unequal=unequal), tuple(report.titles))
