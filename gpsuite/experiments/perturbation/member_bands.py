"""Bands of members sampled along rays, by sampler, with and without a norm ball: what unboundedness does to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gpsuite.data.generators import FUNCTIONS
from gpsuite.experiments.base import INFEASIBLE, Outcome, Record, Report, Request, SharedWork, Task
from gpsuite.experiments.perturbation.kernel_models import (
    TRUTH,
    KernelModel,
    KernelProblem,
    KernelSettings,
    kernel_problem,
    regression_data,
)
from gpsuite.experiments.perturbation.linear_models import confidence_text
from gpsuite.experiments.tasks import INLINE
from gpsuite.methods.perturbation.bands import NormBall
from gpsuite.methods.perturbation.rays import KernelMetric, kernel_directions, sample_members
from gpsuite.reporting import metrics
from gpsuite.reporting.palette import BLUE, GREEN, PURPLE, SKY, VERMILION
from gpsuite.seeds import stream

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


MARGIN = 0.1  # of the grid beyond the data, in the data's range
UNBOUNDED = (
    "A ray is unbounded if the region has no end along it. It happens with as many coefficients as data. Far along "
    "some directions the perturbed gradients stay as large as the unperturbed one, so that nothing excludes the "
    "point. A bound on the norm, or fewer coefficients, closes the region."
)


"""Remark of the tables of sampled members on their unbounded rays."""


@dataclass(frozen=True)
class BandTask:
    """The range of a region's members sampled along rays.

    Attributes:
        problem: model, data and perturbations.
        q: the region's.
        metric: in which the rays are isotropic, of `METRICS`.
        norm_bound: B of the norm ball |f|_H <= B, 0: none.
        rays: directions from the estimate.
        grid_points: inputs at which the band is computed.
        kind: of task.
    """

    problem: KernelProblem = field(metadata=INLINE)
    q: int
    metric: KernelMetric
    norm_bound: float
    rays: int
    grid_points: int
    kind: str = "member_band"


def band_tasks(request: Request[KernelSettings], model: KernelModel) -> Iterator[Task[BandTask]]:
    """Yield one task per q, metric of the directions, and with or without the norm ball."""
    settings = request.settings
    problem = kernel_problem(request, model)
    for q in settings.q_values:
        for metric in settings.kernel_metrics:
            for bound in (0.0, settings.norm_bound):
                ball = f"norm at most {bound:g}" if bound else "no norm bound"
                yield request.task(
                    BandTask(problem, q, metric, bound, settings.rays, settings.grid_points),
                    label=f"{model.title}  q {q} of {settings.m}  {metric}  {ball}",
                    axes={"part": "band", "model": model.family, "q": q, "metric": metric, "norm_bound": bound},
                    cost=2e-3 * settings.rays,
                )


def run_band(task: Task[BandTask], shared: SharedWork) -> Outcome:
    """Sample members along rays. Return the range of their functions on a grid and at the data."""
    params, problem = task.params, task.params.problem
    X, y = regression_data(task.require_dataset())
    region = problem.region(X, y, params.q)
    gram, free = problem.covariance(X, X), len(region.estimate) - len(y)
    ball = NormBall(gram, params.norm_bound, free) if params.norm_bound else None
    if ball is not None and not ball.contains(region.estimate[None])[0]:
        norm = float(ball.norms(region.estimate[None])[0])
        return Outcome({}, INFEASIBLE, f"the estimate's norm {norm:g} exceeds the bound {ball.bound:g}")
    rng = stream(problem.seed, "rays", params.metric)
    rays = kernel_directions(params.rays, gram, params.metric, rng, free)
    boundary = region.boundary(rays, ball)
    members = sample_members(boundary, region.contains, params.metric, rng)
    reach = MARGIN * np.ptp(X)
    x = np.linspace(X.min() - reach, X.max() + reach, params.grid_points)
    grid, data = region.band(x, members), region.band(X, members)
    truth = FUNCTIONS[TRUTH](X[:, 0])
    at_ball = np.zeros(len(rays), dtype=np.bool_)
    if ball is not None:
        at_ball = boundary.inside >= (1.0 - 1e-9) * ball.steps(region.estimate, rays)
    metrics: dict[str, float | int | str | bool | None] = {
        "members": len(members.alphas),
        "unbounded_share": boundary.unbounded_share,
        "returning_share": boundary.returning,
        "at_ball_share": float(np.mean(at_ball)),
        "refused": members.refused,
        "sampler": members.sampler,
        "mean_width": float(np.mean(data.upper - data.lower)),
        "truth_inside_share": float(np.mean((data.lower <= truth) & (truth <= data.upper))),
        "converged": region.fitted.converged,
    }
    arrays = {"x": x, "centre": grid.centre, "lower": grid.lower, "upper": grid.upper, "X": X[:, 0], "y": y}
    text = f"{boundary.unbounded_share:.1%} of the rays unbounded, mean width {np.mean(data.upper - data.lower):.3g}"
    return Outcome(metrics, arrays=arrays, headline=text)


WORDS = {"coefficients": "coefficients", "rkhs": "norm", "values": "values"}  # in which metric rays are drawn


def report_bands(report: Report[KernelSettings], name: str, about: str, remark: str = "") -> None:
    """Write the table of the bands and draw them as figure `name`. `about` names their model."""
    bands, settings = report.records(part="band"), report.settings
    caption = f"Bands of sampled members (inner bands, {settings.rays} rays, unbounded rays left out): {about}"
    report.table(band_table(bands, settings.m), "bands", f"{caption}. {UNBOUNDED}")
    if bands:
        _draw(report, bands, name, remark)


def band_table(records: Sequence[Record], m: int) -> pd.DataFrame:
    """Return widths, members and shares of rays by q, sampler and norm bound."""
    import pandas as pd

    names = (
        "members",
        "unbounded_share",
        "returning_share",
        "at_ball_share",
        "refused",
        "mean_width",
        "truth_inside_share",
    )
    rows = [
        {
            "p": confidence_text(int(record.axes["q"]), m),
            "sampler": str(record.metrics["sampler"]),
            "norm bound": ball_text(record),
            **{metrics.metric(name).heading: record.number(name) for name in names},
        }
        for record in records
    ]
    return pd.DataFrame(rows)


def ball_text(record: Record) -> str:
    """Return the norm bound in words."""
    bound = float(record.axes["norm_bound"])
    return f"|f| ≤ {bound:g}" if bound else "none"


def _draw(report: Report[KernelSettings], records: Sequence[Record], name: str, remark: str) -> None:
    """Draw one row per q, without and with the norm ball, a band for each metric of the directions."""
    import pandas as pd

    levels = list(dict.fromkeys(int(record.axes["q"]) for record in records))
    bounds = sorted({float(record.axes["norm_bound"]) for record in records})
    below = [f"range of the members found along {report.settings.rays} rays, if in view"]
    below += [remark] if remark else []
    size = (4.0 * len(bounds) + 0.6, 2.8 * len(levels) + 1.4)
    with report.figure(
        name, remark="; ".join(below), rows=len(levels), columns=len(bounds), size=size, sharex=True
    ) as drawing:
        for (row, q), (column, bound) in ((a, b) for a in enumerate(levels) for b in enumerate(bounds)):
            own = [r for r in records if (r.axes["q"], r.axes["norm_bound"]) == (q, bound)]
            if own:
                _panel(drawing.grid[row, column], own, report.settings.m)
        drawing.name_axes("x", "y, f(x)")
        drawing.legend()
        drawing.data = pd.concat(map(_frame, records))


def _panel(ax: Axes, records: Sequence[Record], m: int) -> None:
    """Draw the range of all members found, each sampler's ends, the data, the truth and the estimate.

    The view is that of the data. The range and a sampler's ends are drawn inside the view. The range is of
    sampled members and an inner band of the region: a sampler that finds few of them does not show the region's width.
    """
    styles = {"coefficients": ("-", VERMILION), "rkhs": ("--", GREEN), "values": ("-.", PURPLE)}
    arrays = records[0].arrays
    span = np.ptp(arrays["y"])
    bottom, top = arrays["y"].min() - span, arrays["y"].max() + span
    lowest = np.min([record.arrays["lower"] for record in records], axis=0)
    highest = np.max([record.arrays["upper"] for record in records], axis=0)
    inside = (lowest > bottom) & (highest < top)
    band: dict[str, Any] = {"color": SKY, "alpha": 0.3, "lw": 0, "label": "range of all members found"}
    ax.fill_between(arrays["x"], lowest, highest, where=inside, **band)
    for record in records:
        style, colour = styles[str(record.axes["metric"])]
        for end in ("lower", "upper"):
            label = f"range along rays in {WORDS[str(record.axes['metric'])]}" if end == "lower" else None
            seen = np.where((record.arrays[end] > bottom) & (record.arrays[end] < top), record.arrays[end], np.nan)
            ax.plot(arrays["x"], seen, style, color=colour, linewidth=1.0, alpha=0.8, label=label)
    ax.plot(arrays["x"], FUNCTIONS[TRUTH](arrays["x"]), color="black", linewidth=1.1, label="true f*")
    ax.plot(arrays["x"], arrays["centre"], color=BLUE, label="estimate")
    ax.plot(arrays["X"], arrays["y"], "o", color="black", markersize=3.5, label="data")
    shares = ", ".join(
        f"{WORDS[str(record.axes['metric'])]} {100 * record.number('unbounded_share'):.0f} %" for record in records
    )
    ball = ball_text(records[0])
    where = f"rays without end: {shares}" if ball == "none" else f"only members with {ball}: not the region's band"
    ax.set_title(f"{confidence_text(int(records[0].axes['q']), m)}\n{where}", fontsize=9)
    ax.set_ylim(bottom, top)


def _frame(record: Record) -> pd.DataFrame:
    import pandas as pd

    columns = {name: record.arrays[name] for name in ("x", "centre", "lower", "upper")}
    axes = {name: record.axes[name] for name in ("q", "metric", "norm_bound")}
    return pd.DataFrame(columns).assign(**axes)
