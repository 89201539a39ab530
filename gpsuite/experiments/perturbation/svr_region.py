"""perturbation/svr_region: bands of support vector regression, and the coverage of all four families."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gpsuite.experiments.base import (
    EXPERIMENTS,
    Experiment,
    Outcome,
    Record,
    Report,
    Request,
    SharedWork,
    Task,
    require,
)
from gpsuite.experiments.perturbation.shared.kernel_models import (
    TITLES,
    KernelSettings,
    coverage_not_rejected,
    coverage_table,
    coverage_tasks,
    run_coverage,
)
from gpsuite.experiments.perturbation.shared.linear import check_positive
from gpsuite.experiments.perturbation.shared.member_bands import (
    UNBOUNDED,
    band_table,
    band_tasks,
    draw_bands,
    run_band,
)
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import write_table
from gpsuite.statistics.estimates import share

OTHERS: tuple[dict[str, Any], ...] = (
    {"family": "lssvm", "C": 2.0},
    {"family": "krr", "penalty": 0.05},
    {"family": "klasso", "penalty": 0.15},
)
"""The other families, whose coverage is measured on the same data."""
# Only the sign of a residual moves Z_i: along directions isotropic in the values K^-1 makes alpha'K alpha so large
# that all Z_i tie with Z_0 by rounding.
SVR_METRICS = ("coefficients", "rkhs")


@dataclass
class SvrSettings(KernelSettings):
    """Settings of support vector regression.

    Attributes:
        C: weight of the residuals beyond the tube.
        epsilon: half width of the tube, in the unit of the outputs.
        metrics: coefficients, rkhs.
    """

    C: float = 12.0
    epsilon: float = 0.2
    metrics: list[str] = field(default_factory=lambda: list(SVR_METRICS))

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        for metric in self.metrics:
            require(metric in SVR_METRICS, "metrics", metric, f"valid for SVR: {', '.join(SVR_METRICS)}")
        check_positive("C", self.C)
        require(0 <= self.epsilon < float("inf"), "epsilon", self.epsilon, "must be 0 or more, and finite")


def plan(request: Request) -> list[Task]:
    """Return one task per band, and one per family on the coverage."""
    model = {"family": "svr", "C": request.settings.C, "epsilon": request.settings.epsilon}
    return [*band_tasks(request, model), *coverage_tasks(request, [model, *OTHERS])]


def run(task: Task, shared: SharedWork) -> Outcome:
    """Sample one band, or measure one family's coverage."""
    return run_band(task) if task.axes["part"] == "band" else run_coverage(task)


def summarise(report: Report) -> list[Statistic]:
    """Write the tables of bands and coverage and the figure; return the share of families with exact coverage."""
    request, records, folder, note = report.request, report.records(), report.folder, report.note
    settings: SvrSettings = request.settings
    bands = [record for record in records if record.axes["part"] == "band"]
    covered = [record for record in records if record.axes["part"] == "coverage"]
    ending = f"Laplace noise, sign changes, m = {settings.m}{f' ({note})' if note else ''}"
    caption = f"Bands of sampled members (inner bands, {settings.rays} rays, unbounded rays left out): SVR, {ending}"
    write_table(band_table(bands, settings.m), folder / "tables", "bands", f"{caption}. {UNBOUNDED}")
    table = coverage_table(covered, settings.q_values, settings.m)
    write_table(table, folder / "tables", "coverage", f"Coverage of the ideal coefficients: {ending}")
    draw_bands(bands, settings.m, settings.rays, folder / "figures", "svr_region", note)
    return statements(covered, settings.q_values, settings.m)


def statements(records: Sequence[Record], q_values: Sequence[int], m: int) -> list[Statistic]:
    """Return the share of families whose coverage the binomial tests do not reject; the rejected in the note."""
    passed = [coverage_not_rejected(record, q_values, m) for record in records]
    failed = [TITLES[str(record.axes["model"])] for record, ok in zip(records, passed, strict=True) if not ok]
    text = f"rejected: {', '.join(failed)}" if failed else "none rejected"
    return [Statistic.of("share_families_with_exact_coverage", share(passed), note=text)]


EXPERIMENTS.register("perturbation/svr_region")(
    Experiment(SvrSettings, plan, run, summarise, parts=("metrics", "q_values", "rays", "repetitions"))
)
