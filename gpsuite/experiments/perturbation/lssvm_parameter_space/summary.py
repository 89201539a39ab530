"""What a run of perturbation/lssvm_parameter_space shows of its records."""

from __future__ import annotations

from gpsuite.experiments.base import Report
from gpsuite.experiments.perturbation.lssvm_parameter_space.claims import statements
from gpsuite.experiments.perturbation.lssvm_parameter_space.figures import draw
from gpsuite.experiments.perturbation.lssvm_parameter_space.settings import ParameterSpaceSettings
from gpsuite.experiments.perturbation.lssvm_parameter_space.tables import area_table, check_table
from gpsuite.experiments.perturbation.shared.linear import LABELS_NOTE
from gpsuite.reporting.comparison import Statistic

LABELS = {"draws": "sets of perturbations"}


def summarise(report: Report[ParameterSpaceSettings]) -> list[Statistic]:
    """Write the tables of areas, of rays and star-convexity, the figure, and the statements on the claims."""
    settings, records = report.settings, report.records()
    where = f"linear LS-SVM, sign changes, m = {settings.m}; {LABELS_NOTE}"
    means = "Mean areas in the (w1, w2) plane, smallest and largest ratio over the sets of perturbations"
    report.table(area_table(report.records(model="lssvm"), settings.m), "areas", f"{means}; {where}", LABELS)
    rays = f"{settings.rays} rays equally spaced in angle (lssvm), isotropic in the values at the data (krr)"
    checks = f"Rays, star-convexity, members outside the ellipsoid; sampler: {rays}, uniform share of each"
    report.table(check_table(records, settings.m), "checks", f"{checks}; {where}")
    shown = report.records(model="lssvm", draw=0)
    if shown:
        draw(report, shown)
    return statements(records)
