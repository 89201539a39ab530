"""What a run of perturbation/lssvm_parameter_space shows of its records."""

from __future__ import annotations

from gpsuite.experiments.base import Report
from gpsuite.experiments.perturbation.lssvm_parameter_space.claims import statements
from gpsuite.experiments.perturbation.lssvm_parameter_space.figures import draw
from gpsuite.experiments.perturbation.lssvm_parameter_space.settings import ParameterSpaceSettings
from gpsuite.experiments.perturbation.lssvm_parameter_space.tables import area_table, check_table
from gpsuite.experiments.perturbation.shared.linear import LABELS_NOTE
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import write_table


def summarise(report: Report) -> list[Statistic]:
    """Write the tables of areas, of rays and star-convexity, the figure, and the statements on the claims."""
    request, records, folder, note = report.request, report.records(), report.folder, report.note
    settings: ParameterSpaceSettings = request.settings
    ours = [record for record in records if record.axes["model"] == "lssvm"]
    where = f"linear LS-SVM, sign changes, m = {settings.m}; {LABELS_NOTE}{f' ({note})' if note else ''}"
    tables = folder / "tables"
    labels = {"region_area": "region's area", "ellipsoid_over_region": "outer ellipsoid / region"}
    labels |= {"asymptotic_over_region": "asymptotic χ² ellipse / region", "draws": "sets of perturbations"}
    means = "Mean areas in the (w1, w2) plane, smallest and largest ratio over the sets of perturbations"
    write_table(area_table(ours, settings.m), tables, "areas", f"{means}; {where}", labels)
    rays = f"{settings.rays} rays equally spaced in angle (lssvm), isotropic in the values at the data (krr)"
    checks = f"Rays, star-convexity, members outside the ellipsoid; sampler: {rays}, uniform share of each"
    write_table(check_table(records, settings.m), tables, "checks", f"{checks}; {where}")
    shown = [record for record in ours if record.axes["draw"] == 0]
    draw(shown, settings, folder / "figures", note)
    return statements(records)
