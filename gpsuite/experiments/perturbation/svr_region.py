"""perturbation/svr_region: bands of support vector regression, and the coverage of all four families."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.base import EXPERIMENTS, Experiment, Record, Report, Request, Task, every_array
from gpsuite.experiments.perturbation.kernel_models import (
    FAMILIES,
    CoverageTask,
    KernelModel,
    KernelSettings,
    coverage_not_rejected,
    coverage_tasks,
    report_coverage,
    run_coverage,
)
from gpsuite.experiments.perturbation.member_bands import BandTask, band_tasks, report_bands, run_band
from gpsuite.experiments.settings import Positive, filled, not_negative, one_of, unique
from gpsuite.reporting.comparison import Statistic
from gpsuite.statistics.estimates import share

OTHERS = (KernelModel("lssvm", C=2.0), KernelModel("krr", penalty=0.05), KernelModel("klasso", penalty=0.15))
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

    C: Positive
    epsilon: Annotated[float, not_negative]
    metrics: Annotated[list[Annotated[str, one_of(SVR_METRICS)]], filled, unique]


def plan(request: Request[SvrSettings]) -> list[Task[object]]:
    """Return one task per band, and one per family on the coverage."""
    model = KernelModel("svr", C=request.settings.C, epsilon=request.settings.epsilon)
    return [*band_tasks(request, model), *coverage_tasks(request, [model, *OTHERS])]


def summarise(report: Report[SvrSettings]) -> list[Statistic]:
    """Write the tables of bands and coverage and the figure. Return the share of families with exact coverage."""
    settings = report.settings
    about = f"Laplace noise, sign changes, m = {settings.m}"
    report_bands(report, "svr_region", f"SVR, {about}")
    report_coverage(report, about)
    return statements(report.records(part="coverage"), settings.q_values, settings.m)


def statements(records: Sequence[Record], q_values: Sequence[int], m: int) -> list[Statistic]:
    """Return the share of families whose coverage the binomial tests do not reject. The rejected in the note."""
    passed = [coverage_not_rejected(record, q_values, m) for record in records]
    failed = [FAMILIES[str(record.axes["model"])].title for record, ok in zip(records, passed, strict=True) if not ok]
    text = f"rejected: {', '.join(failed)}" if failed else "none rejected"
    return [Statistic.of("share_families_with_exact_coverage", share(passed), note=text)]


# other matrix kernels move bands along directions of the rkhs norm, by 1.7e-7 at most of what was met
AGREEMENT = 1e-6

EXPERIMENTS.register("perturbation/svr_region")(
    Experiment(
        SvrSettings,
        plan,
        {BandTask: run_band, CoverageTask: run_coverage},
        summarise,
        parts=("metrics", "q_values", "rays", "repetitions"),
        agreement=AGREEMENT,
        model_keys=("kernel",),
        published=every_array,
    )
)
