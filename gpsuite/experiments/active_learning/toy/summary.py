"""What a run of active_learning/toy shows of its records."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from gpsuite.data.generators.sin_sigmoid import Form
from gpsuite.experiments.active_learning.methods import titles
from gpsuite.experiments.active_learning.shared.curves import Curves
from gpsuite.experiments.active_learning.shared.figures import draw_curves, draw_safety
from gpsuite.experiments.active_learning.shared.tables import write_curve_tables
from gpsuite.experiments.active_learning.toy.checks import draw_priors
from gpsuite.experiments.active_learning.toy.claims import Parts, toy_statistics
from gpsuite.experiments.active_learning.toy.settings import ToySettings
from gpsuite.experiments.active_learning.toy.state_figure import draw_state
from gpsuite.experiments.active_learning.toy.tables import KINDS, write_part_tables
from gpsuite.experiments.active_learning.toy.unsafe_queries import write_unsafe_tables
from gpsuite.experiments.base import Report
from gpsuite.reporting.comparison import Statistic


def summarise(report: Report) -> list[Statistic]:
    """Write curves, safety, the state at one iteration, and the comparisons; return what the paper states."""
    request, records, folder, note = report.request, report.records(), report.folder, report.note
    settings: ToySettings = request.settings
    names, parts = (
        titles(request.methods),
        Parts.from_records(records, tuple(request.methods), settings.inference),
    )
    draw_priors(folder / "figures", "toy_priors", None)
    write_part_tables(parts, names, folder, note)
    kinds = {**parts.inferences, **({"hmc": parts.hmc} if parts.hmc.methods else {})}
    sets = {KINDS[kind]: curves for kind, curves in kinds.items()}
    write_unsafe_tables(sets, names, settings.delta, folder / "tables", "toy_unsafe_queries", note)
    if not parts.main.methods:
        return toy_statistics(parts, settings)
    figures, points = (
        folder / "figures",
        settings.points(max(parts.main.final(m) for m in parts.main.methods)),
    )
    write_curve_tables(
        parts.main, names, folder / "tables", "toy", "Sine and sigmoid", points, settings.thresholds, note
    )
    heading, units = "sine and sigmoid: safe test points, noise-free targets", "output units"
    draw_curves(parts.main, names, figures, "toy_curves", heading, units, settings.thresholds, note)
    draw_safety(parts.main, names, figures, "toy_safety", "sine and sigmoid: safety", note)
    _draw_state(parts.main, settings, names, figures, note)
    return toy_statistics(parts, settings)


def _draw_state(
    curves: Curves, settings: ToySettings, names: dict[str, str], folder: Path, note: str | None
) -> None:
    """Draw the state of every pipeline's models in the first repetition that all of them have."""
    kept = {
        method: [r for r in runs.values() if "state_x" in r.arrays] for method, runs in curves.runs.items()
    }
    shared = set.intersection(*({int(r.axes["repetition"]) for r in found} for found in kept.values()))
    if shared:
        chosen = {method: curves.runs[method][min(shared)] for method in curves.methods}
        form = cast("Form", settings.form)
        draw_state(chosen, names, form, settings.delta, folder, "toy_state", note)
