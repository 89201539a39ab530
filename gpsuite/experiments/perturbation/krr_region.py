"""perturbation/krr_region: kernel ridge with a coefficient for each datum, bands and the rank far from the estimate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from gpsuite.experiments.base import (
    EXPERIMENTS,
    Experiment,
    Outcome,
    Record,
    Report,
    Request,
    SharedWork,
    Task,
    every_array,
)
from gpsuite.experiments.perturbation.kernel_models import (
    CoverageTask,
    KernelModel,
    KernelProblem,
    KernelSettings,
    coverage_tasks,
    kernel_problem,
    regression_data,
    report_coverage,
    run_coverage,
)
from gpsuite.experiments.perturbation.member_bands import BandTask, band_tasks, report_bands, run_band
from gpsuite.experiments.settings import Positive
from gpsuite.experiments.tasks import INLINE
from gpsuite.methods.perturbation.rays import KernelMetric, kernel_directions, single_point_directions
from gpsuite.reporting.comparison import Statistic, claim
from gpsuite.seeds import stream

if TYPE_CHECKING:
    import pandas as pd

SINGLE: Final = "single point"
RayKind = KernelMetric | Literal["single point"]
STEPS = np.geomspace(0.01, 1e4, 61)  # norms of the change of the values at the data, in the output's unit
RAYS_VERSION = 2  # equal values join by steps


@dataclass
class KrrSettings(KernelSettings):
    """Settings of kernel ridge.

    Attributes:
        penalty: lambda of the ridge.
    """

    penalty: Positive


@dataclass(frozen=True)
class RaysTask:
    """The ranks along rays, which are isotropic in a metric or one for each datum (`SINGLE`)."""

    problem: KernelProblem = field(metadata=INLINE)
    metric: RayKind
    rays: int
    kind: str = "krr_rays"


def plan(request: Request[KrrSettings]) -> list[Task[object]]:
    """Return one task per band, one per kind of rays, and one on the coverage."""
    model = KernelModel("krr", penalty=request.settings.penalty)
    return [*band_tasks(request, model), *_ray_tasks(request, model), *coverage_tasks(request, [model])]


def _ray_tasks(request: Request[KrrSettings], model: KernelModel) -> Iterator[Task[RaysTask]]:
    settings = request.settings
    kinds: list[RayKind] = [*settings.kernel_metrics, SINGLE]
    for metric in kinds:
        yield request.task(
            RaysTask(kernel_problem(request, model), metric, settings.rays),
            label=f"kernel ridge  ranks along rays  {metric}",
            axes={"part": "rays", "model": "krr", "metric": metric},
            version=RAYS_VERSION,
            cost=2e-3 * settings.rays,
        )


def run_rays(task: Task[RaysTask], shared: SharedWork) -> Outcome:
    """Return the ranks along rays scaled to one unit of the values at the data, and which rays leave every region.

    A ray leaves every region if it leaves the largest, q = 1: then Z_0 exceeds every Z_i far away.
    """
    problem, metric = task.params.problem, task.params.metric
    X, y = regression_data(task.require_dataset())
    region, gram = problem.region(X, y, 1), problem.covariance(X, X)
    if metric == SINGLE:
        rays = single_point_directions(gram)
    else:
        rays = kernel_directions(task.params.rays, gram, metric, stream(problem.seed, "rays", metric))
    rays = rays / np.linalg.norm(rays @ gram, axis=1)[:, None]
    leaves = ~region.boundary(rays).unbounded
    ranks = np.array([region.ranks(region.estimate + step * rays) for step in STEPS])
    above = 1.0 - (ranks - 1.0) / (region.m - 1.0)
    metrics = {"rays": len(rays), "leave": int(leaves.sum()), "far_share_above": float(above[-1].mean())}
    arrays = {"leaves": leaves.astype(np.float64), "steps": STEPS, "above": above.mean(axis=1)}
    return Outcome(metrics, arrays=arrays, headline=f"{leaves.sum()} of {len(rays)} rays leave")


def summarise(report: Report[KrrSettings]) -> list[Statistic]:
    """Write the tables of bands, rays and coverage and both figures. Return the share of rays that leave."""
    rays = report.records(part="rays")
    about = f"kernel ridge, a coefficient for each datum, sign changes, m = {report.settings.m}"
    report_bands(report, "krr_region", about, endless_text(rays))
    far = f"Z_i not below Z_0 at distance {STEPS[-1]:g} in the values at the data. Rays that leave every region"
    report.table(ray_table(rays), "rays", f"{far}: {about}")
    report_coverage(report, about)
    if rays:
        _draw_ranks(report, rays)
    return statements(rays)


def endless_text(records: Sequence[Record]) -> str:
    """Return how many of the single-point rays never end. Empty without their record."""
    counts = [(r.number("rays") - r.number("leave"), r.number("rays")) for r in records if _is_single(r)]
    return "".join(f"{endless:.0f} of {rays:.0f} rays along K⁻¹e_j have no end" for endless, rays in counts)


def _is_single(record: Record) -> bool:
    return record.axes["metric"] == SINGLE


def ray_table(records: Sequence[Record]) -> pd.DataFrame:
    """Return by kind of rays how many leave and what share of the Z_i is not below Z_0 far away."""
    import pandas as pd

    rows = [
        {
            "directions": _title(record),
            "rays": int(record.number("rays")),
            "rays that leave": int(record.number("leave")),
            "share of Z_i not below Z_0, far away": record.number("far_share_above"),
        }
        for record in records
    ]
    return pd.DataFrame(rows)


def _title(record: Record) -> str:
    return "K⁻¹e_j, one datum each" if _is_single(record) else f"isotropic in {record.axes['metric']}"


def statements(records: Sequence[Record]) -> list[Statistic]:
    """Return the share of kinds of rays that all leave: Z_0 exceeds every Z_i far away. Counts in the note.

    How many rays of a kind there are is a setting, which must not decide.
    """
    counts = [f"{_title(r)}: {r.number('leave'):.0f} of {r.number('rays'):.0f}" for r in records]
    all_leave = [record.number("leave") == record.number("rays") for record in records]
    return [claim("share_kinds_of_rays_leave_region", all_leave, note="; ".join(counts))]


def _draw_ranks(report: Report[KrrSettings], records: Sequence[Record]) -> None:
    """Draw the share of the Z_i that are not below Z_0 against the distance from the estimate."""
    import pandas as pd

    text = "mean over the rays. A region at q ends where the share falls below q/(m-1)"
    with report.figure("ranks_far_away", remark=text, size=(6.4, 4.2)) as drawing:
        ax = drawing.ax
        for record, style in zip(records, ("-", "--", "-.", ":")[-len(records) :], strict=True):
            ax.semilogx(record.arrays["steps"], record.arrays["above"], style, label=_title(record))
        drawing.name_axes(
            "distance from the estimate: |change of the values at the data| (unit of y)", "share of Z_i not below Z_0"
        )
        ax.set_ylim(-0.02, 1.02)
        ax.legend(title="directions")
        drawing.data = pd.concat(
            pd.DataFrame({name: r.arrays[name] for name in ("steps", "above")}).assign(metric=r.axes["metric"])
            for r in records
        )


# rays isotropic in values go through the inverse of an ill-conditioned kernel matrix, which magnifies last bits
AGREEMENT = 1e-5

EXPERIMENTS.register("perturbation/krr_region")(
    Experiment(
        KrrSettings,
        plan,
        {BandTask: run_band, RaysTask: run_rays, CoverageTask: run_coverage},
        summarise,
        parts=("metrics", "q_values", "rays", "repetitions"),
        agreement=AGREEMENT,
        model_keys=("kernel",),
        published=every_array,
    )
)
