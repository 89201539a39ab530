"""perturbation/klasso_band: the kernelised LASSO's band from 20 data with Laplace noise (Csáji and Kis, Fig. 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpsuite.experiments.base import (
    EXPERIMENTS,
    Experiment,
    Outcome,
    Record,
    Report,
    Request,
    SharedWork,
    Task,
)
from gpsuite.experiments.perturbation.shared.kernel_models import (
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
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.reporting.tables import write_table


@dataclass
class KlassoSettings(KernelSettings):
    """Settings of the band.

    Attributes:
        penalty: lambda of the LASSO.
    """

    penalty: float = 0.15

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        check_positive("penalty", self.penalty)


def plan(request: Request) -> list[Task]:
    """Return one task per band, and one on the coverage."""
    model = {"family": "klasso", "penalty": request.settings.penalty}
    return [*band_tasks(request, model), *coverage_tasks(request, [model])]


def run(task: Task, shared: SharedWork) -> Outcome:
    """Sample one band, or measure the coverage."""
    return run_band(task) if task.axes["part"] == "band" else run_coverage(task)


def summarise(report: Report) -> list[Statistic]:
    """Write the tables of bands and coverage and the figure; return whether the coverage is as stated."""
    request, records, folder, note = report.request, report.records(), report.folder, report.note
    settings: KlassoSettings = request.settings
    bands = [record for record in records if record.axes["part"] == "band"]
    covered = [record for record in records if record.axes["part"] == "coverage"]
    ending = f" ({note})" if note else ""
    what = f"kernelised LASSO, Laplace noise, sign changes, m = {settings.m}{ending}"
    caption = f"Bands of sampled members (inner bands, {settings.rays} rays, unbounded rays left out): {what}"
    write_table(band_table(bands, settings.m), folder / "tables", "bands", f"{caption}. {UNBOUNDED}")
    table = coverage_table(covered, settings.q_values, settings.m)
    write_table(table, folder / "tables", "coverage", f"Coverage of the ideal coefficients: {what}")
    draw_bands(bands, settings.m, settings.rays, folder / "figures", "klasso_band", note)
    return statements(covered, bands, settings.q_values, settings.m)


def statements(
    covered: Sequence[Record], bands: Sequence[Record], q_values: Sequence[int], m: int
) -> list[Statistic]:
    """Return 1 if the binomial tests do not reject the stated coverage, else 0; the unbounded rays in the note."""
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


EXPERIMENTS.register("perturbation/klasso_band")(
    Experiment(KlassoSettings, plan, run, summarise, parts=("metrics", "q_values", "rays", "repetitions"))
)
