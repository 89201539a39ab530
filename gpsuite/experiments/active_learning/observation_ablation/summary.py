"""What a run of active_learning/observation_ablation shows of its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpsuite.experiments.active_learning.methods import pipeline_params, titles
from gpsuite.experiments.active_learning.observation_ablation.claims import ablation_statistics
from gpsuite.experiments.active_learning.observation_ablation.settings import (
    GP_SAMPLES,
    TOY,
    AblationSettings,
)
from gpsuite.experiments.active_learning.observation_ablation.tables import area_table, share_table
from gpsuite.experiments.active_learning.shared.claims import AL
from gpsuite.experiments.active_learning.shared.curves import Curves
from gpsuite.experiments.active_learning.shared.figures import draw_curves
from gpsuite.experiments.active_learning.shared.generated_data import EQUAL
from gpsuite.experiments.base import Record, Report
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import write_table

HEADINGS = {TOY: "sine and sigmoid", GP_SAMPLES: "draws from a multi-output GP"}


def summarise(report: Report) -> list[Statistic]:
    """Write errors and areas under the curves per dataset, and which output is queried where they are unequal."""
    request, records, folder, note = report.request, report.records(), report.folder, report.note
    settings: AblationSettings = request.settings
    names, ending = titles(request.methods), f" ({note})" if note else ""
    sets = {source: _curves(records, source, EQUAL, names) for source in settings.sources}
    sets = {source: curves for source, curves in sets.items() if curves.methods}
    partial = {
        name: pipeline_params(options)["queries"] == "partial" for name, options in request.methods.items()
    }
    full = [name for name, one_output in partial.items() if not one_output]
    for source, curves in sets.items():
        heading = f"{HEADINGS[source]}: one output per query, or all of them"
        name, units = f"observation_{source}", "output units"
        draw_curves(curves, names, folder / "figures", name, heading, units, (), note, dashed=full)
        caption = (
            f"{HEADINGS[source]}: mean RMSE over the common range of N_sum, mean ± standard error{ending}"
        )
        write_table(area_table(curves, names), folder / "tables", f"observation_{source}", caption)
    unequal = {
        which: _curves(records, TOY, which, names)
        for which in (EQUAL, *settings.unequal)
        if TOY in settings.sources
    }
    unequal = {which: curves for which, curves in unequal.items() if AL in curves.methods}
    if unequal:
        caption = f"{names[AL]} on sine and sigmoid: share of the queries that go to each output{ending}"
        write_table(share_table(unequal), folder / "tables", "observation_unequal", caption)
    return ablation_statistics(sets, partial, {k: v for k, v in unequal.items() if k != EQUAL})


def _curves(records: Sequence[Record], source: str, unequal: str, names: Mapping[str, str]) -> Curves:
    chosen = [r for r in records if r.axes["source"] == source and r.axes["unequal"] == unequal]
    return Curves.from_records(chosen, tuple(names))
