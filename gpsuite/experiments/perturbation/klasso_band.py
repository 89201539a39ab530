"""perturbation/klasso_band: the kernelised LASSO's band from 20 data with Laplace noise (Csáji and Kis, Fig. 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpsuite.experiments.base import EXPERIMENTS, Experiment, Record, Report, Request, Task, every_array
from gpsuite.experiments.perturbation.kernel_models import (
    CoverageTask,
    KernelModel,
    KernelSettings,
    coverage_not_rejected,
    coverage_tasks,
    report_coverage,
    run_coverage,
)
from gpsuite.experiments.perturbation.member_bands import BandTask, band_tasks, report_bands, run_band
from gpsuite.experiments.settings import Positive
from gpsuite.reporting.comparison import Statistic, statistic_name


@dataclass
class KlassoSettings(KernelSettings):
    """Settings of the band.

    Attributes:
        penalty: lambda of the LASSO.
    """

    penalty: Positive


def plan(request: Request[KlassoSettings]) -> list[Task[object]]:
    """Return one task per band, and one on the coverage."""
    model = KernelModel("klasso", penalty=request.settings.penalty)
    return [*band_tasks(request, model), *coverage_tasks(request, [model])]


def summarise(report: Report[KlassoSettings]) -> list[Statistic]:
    """Write the tables of bands and coverage and the figure. Return whether the coverage is as stated."""
    settings = report.settings
    about = f"kernelised LASSO, Laplace noise, sign changes, m = {settings.m}"
    report_bands(report, "klasso_band", about)
    report_coverage(report, about)
    bands, covered = report.records(part="band"), report.records(part="coverage")
    return statements(covered, bands, settings.q_values, settings.m)


def statements(covered: Sequence[Record], bands: Sequence[Record], q_values: Sequence[int], m: int) -> list[Statistic]:
    """Return 1 if the binomial tests do not reject the stated coverage, otherwise 0. The unbounded rays in the note."""
    shares = [record.number("unbounded_share") for record in bands if not record.axes["norm_bound"]]
    text = f"unbounded rays {min(shares):.1%} to {max(shares):.1%} by sampler and q" if shares else ""
    return [
        Statistic(
            statistic_name("coverage_not_rejected", method=record.axes["model"]),
            float(coverage_not_rejected(record, q_values, m)),
            n=1,
            note=text,
        )
        for record in covered
    ]


def _has_ends_far_out(task: Task[BandTask | CoverageTask]) -> bool:
    """Return whether rays may end at 1e7, or nowhere: last bits decide if nothing bounds the norm."""
    params = task.params
    return isinstance(params, BandTask) and params.metric == "values" and not params.norm_bound


# last bits decide between regions whose ranks nearly tie: 25 of 20,000 data sets on another processor
AGREEMENT = 5e-3

EXPERIMENTS.register("perturbation/klasso_band")(
    Experiment(
        KlassoSettings,
        plan,
        {BandTask: run_band, CoverageTask: run_coverage},
        summarise,
        parts=("metrics", "q_values", "rays", "repetitions"),
        agreement=AGREEMENT,
        chaotic=_has_ends_far_out,
        model_keys=("kernel",),
        published=every_array,
    )
)
