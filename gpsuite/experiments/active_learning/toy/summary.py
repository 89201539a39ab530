"""What a run of active_learning/toy shows of its records."""

from __future__ import annotations

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
    request, records = report.request, report.records()
    settings: ToySettings = request.settings
    parts = Parts.from_records(records, tuple(request.methods), settings.inference)
    draw_priors(report, "toy_priors")
    write_part_tables(report, parts)
    kinds = {**parts.inferences, **({"hmc": parts.hmc} if parts.hmc.methods else {})}
    sets = {KINDS[kind]: curves for kind, curves in kinds.items()}
    write_unsafe_tables(report, sets, "toy_unsafe_queries")
    if not parts.main.methods:
        return toy_statistics(parts, settings)
    points = settings.points(max(parts.main.final(m) for m in parts.main.methods))
    write_curve_tables(report, parts.main, "toy", "Sine and sigmoid", points, settings.thresholds)
    heading = "sine and sigmoid: safe test points, noise-free targets"
    draw_curves(report, parts.main, "toy_curves", heading, "output units", settings.thresholds)
    draw_safety(report, parts.main, "toy_safety", "sine and sigmoid: safety")
    _draw_state(report, parts.main)
    return toy_statistics(parts, settings)


def _draw_state(report: Report[ToySettings], curves: Curves) -> None:
    """Draw the state of every pipeline's models in the first repetition that all of them have."""
    kept = {
        method: [r for r in runs.values() if "state_x" in r.arrays] for method, runs in curves.runs.items()
    }
    shared = set.intersection(*({int(r.axes["repetition"]) for r in found} for found in kept.values()))
    if shared:
        chosen = {method: curves.runs[method][min(shared)] for method in curves.methods}
        draw_state(report, chosen, "toy_state")
