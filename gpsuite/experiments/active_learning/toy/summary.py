"""What a run of active_learning/toy shows of its records."""

from __future__ import annotations

from gpsuite.experiments.active_learning.shared.curves import Curves
from gpsuite.experiments.active_learning.shared.figures import draw_curves, draw_safety, errors
from gpsuite.experiments.active_learning.shared.tables import report_curves
from gpsuite.experiments.active_learning.toy.checks import draw_priors
from gpsuite.experiments.active_learning.toy.claims import toy_statistics
from gpsuite.experiments.active_learning.toy.parts import Parts
from gpsuite.experiments.active_learning.toy.settings import ToySettings
from gpsuite.experiments.active_learning.toy.state_figure import draw_state
from gpsuite.experiments.active_learning.toy.tables import KINDS, report_parts
from gpsuite.experiments.active_learning.toy.unsafe_queries import report_unsafe
from gpsuite.experiments.base import Report
from gpsuite.reporting.comparison import Statistic


def summarise(report: Report[ToySettings]) -> list[Statistic]:
    """Write curves, safety, the state at one iteration, and the comparisons; return what the paper states."""
    settings = report.settings
    parts = Parts.from_records(report.records(), tuple(report.titles), settings.inference)
    draw_priors(report)
    report_parts(report, parts)
    kinds = {**parts.inferences, **({"hmc": parts.hmc} if parts.hmc.methods else {})}
    report_unsafe(report, {KINDS[kind]: curves for kind, curves in kinds.items()}, "toy_unsafe_queries")
    if parts.main.methods:
        report_curves(report, parts.main, "toy", "Sine and sigmoid")
        heading = "sine and sigmoid: safe test points, noise-free targets"
        labels = errors("output units")
        draw_curves(report, parts.main, "toy_curves", heading, labels, thresholds=settings.thresholds)
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
        draw_state(report, {method: curves.runs[method][min(shared)] for method in curves.methods})
