"""perturbation/krr_region: kernel ridge with a coefficient for each datum, bands and the rank far from the estimate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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
)
from gpsuite.experiments.perturbation.shared.kernel_models import (
    KernelSettings,
    covariance,
    coverage_table,
    coverage_tasks,
    kernel_region,
    regression_data,
    run_coverage,
    shared_params,
)
from gpsuite.experiments.perturbation.shared.linear import check_positive
from gpsuite.experiments.perturbation.shared.member_bands import (
    UNBOUNDED,
    band_table,
    band_tasks,
    draw_bands,
    run_band,
)
from gpsuite.methods.perturbation.geometry.sampling import kernel_directions, single_point_directions
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.figures import figure_style, save_figure
from gpsuite.reporting.tables import write_table
from gpsuite.seeds import stream
from gpsuite.statistics.estimates import share

if TYPE_CHECKING:
    import pandas as pd

SINGLE = "single point"
STEPS = np.geomspace(0.01, 1e4, 61)  # norms of the change of the values at the data, in the output's unit


@dataclass
class KrrSettings(KernelSettings):
    """Settings of kernel ridge.

    Attributes:
        penalty: lambda of the ridge.
    """

    penalty: float = 0.05

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        check_positive("penalty", self.penalty)


def plan(request: Request) -> list[Task]:
    """Return one task per band, one per kind of rays, and one on the coverage."""
    model = {"family": "krr", "penalty": request.settings.penalty}
    return [*band_tasks(request, model), *_ray_tasks(request, model), *coverage_tasks(request, [model])]


def _ray_tasks(request: Request, model: dict[str, object]) -> Iterator[Task]:
    settings: KrrSettings = request.settings
    for metric in [*settings.metrics, SINGLE]:
        yield Task(
            experiment=request.experiment,
            label=f"kernel ridge  ranks along rays  {metric}",
            axes={"part": "rays", "model": "krr", "metric": metric},
            params={**shared_params(request, "krr_rays", model), "metric": metric, "rays": settings.rays},
            dataset=request.dataset,
            cost=2e-3 * settings.rays,
        )


def run(task: Task, shared: SharedWork) -> Outcome:
    """Sample one band, follow ranks along rays, or measure the coverage."""
    parts = {"band": run_band, "rays": run_rays, "coverage": run_coverage}
    return parts[str(task.axes["part"])](task)


def run_rays(task: Task) -> Outcome:
    """Return the ranks along rays scaled to one unit of the values at the data, and which rays leave every region.

    A ray leaves every region if it leaves the largest, q = 1: then Z_0 exceeds every Z_i far away.
    """
    params = task.params
    region = kernel_region(task, 1)
    X, _ = regression_data(task.dataset)
    gram, metric = covariance(params, X, X), params["metric"]
    if metric == SINGLE:
        rays = single_point_directions(gram)
    else:
        rng = stream(int(params["seed"]), "rays", metric)
        rays = kernel_directions(int(params["rays"]), gram, metric, rng)
    rays = rays / np.linalg.norm(rays @ gram, axis=1)[:, None]
    leaves = ~region.boundary(rays).unbounded
    ranks = np.array([region.ranks(region.estimate + step * rays) for step in STEPS])
    above = 1.0 - (ranks - 1.0) / (region.m - 1.0)
    metrics = {"rays": len(rays), "leave": int(leaves.sum()), "far_share_above": float(above[-1].mean())}
    arrays = {"leaves": leaves.astype(np.float64), "steps": STEPS, "above": above.mean(axis=1)}
    return Outcome(metrics, arrays=arrays, headline=f"{leaves.sum()} of {len(rays)} rays leave")


def summarise(report: Report) -> list[Statistic]:
    """Write the tables of bands, rays and coverage and both figures; return the share of rays that leave."""
    request, records, folder, note = report.request, report.records(), report.folder, report.note
    settings: KrrSettings = request.settings
    parts = {part: [r for r in records if r.axes["part"] == part] for part in ("band", "rays", "coverage")}
    what = f"kernel ridge, a coefficient for each datum, sign changes, m = {settings.m}"
    what += f" ({note})" if note else ""
    tables, m = folder / "tables", settings.m
    caption = f"Bands of sampled members (inner bands, {settings.rays} rays, unbounded rays left out): {what}"
    write_table(band_table(parts["band"], m), tables, "bands", f"{caption}. {UNBOUNDED}")
    far = (
        f"Z_i not below Z_0 at distance {STEPS[-1]:g} in the values at the data; rays that leave every region"
    )
    write_table(ray_table(parts["rays"]), tables, "rays", f"{far}: {what}")
    covered = coverage_table(parts["coverage"], settings.q_values, m)
    write_table(covered, tables, "coverage", f"Coverage of the ideal coefficients: {what}")
    seen = "; ".join(filter(None, (endless_text(parts["rays"]), note)))
    draw_bands(parts["band"], m, settings.rays, folder / "figures", "krr_region", seen)
    _draw_ranks(parts["rays"], folder / "figures", note)
    return statements(parts["rays"])


def endless_text(records: Sequence[Record]) -> str:
    """Return how many of the single-point rays never end; empty without their record."""
    counts = [(r.number("rays") - r.number("leave"), r.number("rays")) for r in records if _is_single(r)]
    return "".join(f"along K⁻¹e_j: {endless:.0f} of {rays:.0f}" for endless, rays in counts)


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
    """Return the share of rays, of all kinds, along which Z_0 exceeds every Z_i far away; counts in the note."""
    rays = [bool(leaves) for record in records for leaves in record.arrays["leaves"]]
    counts = [f"{_title(r)}: {r.number('leave'):.0f} of {r.number('rays'):.0f}" for r in records]
    return [Statistic.of("share_rays_leave_region", share(rays), note="; ".join(counts))]


def _draw_ranks(records: Sequence[Record], folder: Path, note: str | None) -> None:
    """Draw the share of the Z_i that are not below Z_0 against the distance from the estimate."""
    import matplotlib.pyplot as plt
    import pandas as pd

    if not records:
        return
    with figure_style():
        fig, ax = plt.subplots(figsize=(6.4, 4.2))
        for record, style in zip(records, ("-", "--", "-.", ":")[-len(records) :], strict=True):
            ax.semilogx(record.arrays["steps"], record.arrays["above"], style, label=_title(record))
        ax.set_xlabel("distance from the estimate: |change of the values at the data| (unit of y)")
        ax.set_ylabel("share of Z_i not below Z_0")
        ax.set_ylim(-0.02, 1.02)
        ax.legend(title="directions")
        data = [
            pd.DataFrame({name: r.arrays[name] for name in ("steps", "above")}).assign(
                metric=r.axes["metric"]
            )
            for r in records
        ]
        text = "mean over the rays; a region at q ends where the share falls below q/(m-1)"
        save_figure(fig, pd.concat(data), folder, "ranks_far_away", "; ".join(filter(None, (text, note))))


EXPERIMENTS.register("perturbation/krr_region")(
    Experiment(KrrSettings, plan, run, summarise, parts=("metrics", "q_values", "rays", "repetitions"))
)
